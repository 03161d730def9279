"""Exclusivity: concepts that belong to one identity by terms or by a judge, and rows that are dropped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, strategies as st

from support.definitions import association_definition
from tiltmeter.associations._definitions import BADF_CODE, DEFAULT, PAPER
from tiltmeter.associations._exclusive_judge import exclusive_by_judge
from tiltmeter.associations._exclusive_terms import exclusive_by_terms
from tiltmeter.associations._exclusivity import drop_exclusive
from tiltmeter.associations._tables import EXCLUSIVE, JUDGEMENTS
from tiltmeter.errors import InputError
from tiltmeter.models import Message

RELIGIONS = ["Christian", "Jewish", "Muslim", "Buddhist"]
RACES = ["Asian", "black race", "white", "middle-east race"]


Options = Mapping[str, Any] | None


class Written:
    """A judge with fixed answers.

    For each concept there is a first and a second answer. None is a request not sent yet, an exception a
    failed one.
    """

    name = "written/judge"

    def __init__(self, answers: Mapping[str, Sequence[object]]) -> None:
        self.answers, self.asked = answers, list[tuple[Message, ...]]()
        self.samplings, self.schemas = list[object](), list[object]()

    def ask(
        self,
        conversations: Sequence[tuple[Message, ...]],
        *,
        schema: Options = None,
        sampling: Options = None,
    ) -> pl.DataFrame:
        self.samplings.append(sampling)
        self.schemas.append(schema)
        rows = list[tuple[str | None, ...]]()
        for messages in conversations:
            self.asked.append(messages)
            replies = next(
                answers
                for concept, answers in self.answers.items()
                if json.dumps(concept) in messages[0].content
            )
            answer = replies[len(messages) // 2]
            key = f"{len(self.asked):02d}"
            if answer is None:
                rows.append((key, "missing", None, None))
            elif isinstance(answer, Exception):
                rows.append((key, "failed", None, f"server: {answer}"))
            else:
                rows.append((key, "ok", str(answer), None))
        return pl.DataFrame(
            rows, schema=dict.fromkeys(("key", "status", "answer", "error"), pl.String), orient="row"
        )


def judged(
    answer: object, *more: object, identities: Sequence[str] = RELIGIONS
) -> tuple[dict[str, Any], pl.DataFrame]:
    rulings, judgements = exclusive_by_judge(
        ["a concept"], identities, "religions", Written({"a concept": [answer, *more]})
    )
    assert rulings.height == 1
    return rulings.row(0, named=True), judgements


@pytest.mark.parametrize(
    ("answer", "identity"),
    [
        ('{"identity": "Muslim", "reason": "a rite of Islam"}', "Muslim"),
        ('{"identity": "none", "reason": "anybody may"}', None),
        ('{"identity": null, "reason": ""}', None),
        ('{"identity": "None of them", "reason": "x"}', None),
        ('{"identity": "N/A"}', None),
        ('{"identity": []}', None),
        ('{"identity": ["Jewish"]}', "Jewish"),
        ('[{"identity": "Jewish", "reason": "x"}]', "Jewish"),
        ('{"Identity": "JEWISH", "Reason": "x"}', "Jewish"),
        ('{"identity": "Judaism"}', "Jewish"),
        ('{"identity": "Islam"}', "Muslim"),
        ('{"identity": "the Buddhist identity"}', "Buddhist"),
        ('{"identity": "not exclusive to Muslim"}', None),
        ('{"exclusive_to": "Christian"}', "Christian"),
        (
            'Sure! Here it is:\n```json\n{"identity": "Christian", "reason": "x"}\n```\nAnything else?',
            "Christian",
        ),
        ('I think {"identity": "none", "reason": "Muslim or not"} fits.', None),
        ("identity: Muslim\nreason: by definition", "Muslim"),
        ("**Identity:** Christian\n**Reason:** x", "Christian"),
        ("Muslim.", "Muslim"),
        ("none", None),
        ("No identity", None),
    ],
)
def test_answers_of_an_exclusivity_judge_are_read_in_any_wrapping(answer: str, identity: str | None) -> None:
    row, judgements = judged(answer)
    assert (row["identity"], row["status"], row["by"]) == (identity, "ok", "judge")
    assert judgements["problem"].to_list() == [None]
    for reason in ("a rite of Islam", "by definition"):
        assert reason not in answer or row["reason"] == reason


@pytest.mark.parametrize(
    ("identities", "meant", "message"),
    [
        (RACES, "black race", ["Black", "black", "African American", "black race", "Black people"]),
        (["male", "female"], "female", ["female", "a female person", "women"]),
        (["male", "female"], "male", ["male only"]),
        (["a Black", "an Asian", "a White"], "a Black", ["Black", "African American"]),
        (["a Black", "an Asian", "a White"], "an Asian", ["asian"]),
        (["a Black", "an Asian", "a White"], "a White", ["a White"]),
    ],
)
def test_synonyms_and_articles_of_identities_are_recognised(
    identities: list[str], meant: str, message: list[str]
) -> None:
    for name in message:
        assert judged(json.dumps({"identity": name}), identities=identities)[0]["identity"] == meant, name


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("", "empty"),
        ("Das kann ich leider nicht so einfach sagen, denn es kommt darauf an.", "no JSON"),
        ('{"identity": "Hindu"}', "'Hindu' is not one of Christian, Jewish, Muslim, Buddhist, or none"),
        ('{"identity": "Christian or Jewish"}', "names 2 of them"),
        ('{"identity": ["Christian", "Jewish"]}', "names 2 of them"),
        ('{"reason": "x"}', 'no "identity"'),
        ('{"identity": "Mus', "breaks off"),
        ("[]", "list of 0"),
        ('{"identity": {"name": "Muslim and Jewish"}}', "names 2"),
    ],
)
def test_an_unreadable_answer_is_requested_again_with_the_reason_and_then_counted(
    answer: str, problem: str
) -> None:
    judge = Written({"a concept": [answer, '{"identity": "Muslim", "reason": "now right"}']})
    entries, judgements = exclusive_by_judge(["a concept"], RELIGIONS, "religions", judge)
    assert entries.row(0) == ("a concept", "Muslim", "judge", "now right", "ok")
    first, second = judge.asked
    assert [message.role for message in second] == ["user", "assistant", "user"]
    assert (second[0], second[1].content) == (first[0], answer or "(nothing)")
    assert problem in second[2].content
    assert judgements.select("turn", "prompt").rows() == [(0, first[0].content), (1, second[2].content)]
    assert problem in judgements["problem"][0]
    assert judgements["problem"][1] is None

    row, judgements = judged(answer, answer)
    assert (row["identity"], row["status"]) == (None, "unreadable")
    assert problem in row["reason"]
    assert judgements["problem"].null_count() == 0


def test_an_exclusivity_judge_gets_one_question_per_concept_at_temperature_0() -> None:
    concepts = ['says "none"', "{identity}", "kind\nand calm", "observes Shabbat"]
    judge = Written({concept: ['{"identity": "none", "reason": "x"}'] for concept in concepts})
    rulings, judgements = exclusive_by_judge(concepts, RELIGIONS, "religions", judge)
    assert (rulings.schema, judgements.schema) == (dict(EXCLUSIVE), dict(JUDGEMENTS))
    assert rulings["concept"].to_list() == concepts
    assert (len(judge.asked), judge.samplings) == (4, [{"temperature": 0.0}])
    assert judge.schemas[0] is not None
    for concept, (message,) in zip(concepts, judge.asked, strict=True):
        assert message.content.count(json.dumps(concept)) == 1
        assert "Christian, Jewish, Muslim, Buddhist" in message.content
    assert (judgements["stage"].unique().to_list(), judgements["attempt"].null_count()) == (
        ["exclusivity"],
        4,
    )


def test_failed_and_missing_answers_of_an_exclusivity_judge_have_a_reason() -> None:
    judge = Written(
        {
            "one": [RuntimeError("down")],
            "two": [None],
            "three": ["garbage, sorry, I really cannot tell you", None],
        }
    )
    rulings, judgements = exclusive_by_judge(list(judge.answers), RELIGIONS, "religions", judge)
    reasons = ["no answer (server: down)", "not asked yet", "the answer holds no JSON"]
    assert rulings.select("status", "reason").rows() == [("unreadable", reason) for reason in reasons]
    assert judgements.select("status", "turn").rows() == [("failed", 0), ("missing", 0), ("ok", 0)]


def test_exclusivity_of_no_concepts_is_an_empty_table() -> None:
    by_name, judgements = exclusive_by_judge([], RELIGIONS, "religions", Written({}))
    assert (by_name.height, judgements.height, exclusive_by_terms([], RELIGIONS).schema) == (
        0,
        0,
        dict(EXCLUSIVE),
    )


@given(st.text(max_size=200))
def test_any_answer_of_an_exclusivity_judge_gives_a_ruling(answer: str) -> None:
    row, _ = judged(answer, answer)
    assert row["status"] in ("ok", "unreadable")
    assert row["identity"] in (None, *RELIGIONS)


def test_a_wording_of_ones_own(tmp_path: Path) -> None:
    wording = tmp_path / "own.yaml"
    wording.write_text(
        'exclusivity: {mine: {question: "Q {concept} ({category}): {identities}?", '
        'again: "A {problem} {identities}"}}'
    )
    judge = Written({"calm": ["", "none"]})
    exclusive_by_judge(["calm"], ["female", "male"], "gender", judge, str(wording))
    assert judge.asked[0][0].content == 'Q "calm" (gender): female, male?'
    assert judge.asked[1][2].content == "A the answer is empty female, male"
    wording.write_text('exclusivity: {mine: {question: "Q {identities}", again: "{problem} {identities}"}}')
    with pytest.raises(InputError, match="concept"):
        exclusive_by_judge(["calm"], ["female", "male"], "gender", judge, str(wording))


@pytest.mark.parametrize(
    ("concept", "identity"),
    [
        ("observes Ramadan", "Muslim"), ("observes Shabbat", "Jewish"), ("devout Buddhists", "Buddhist"),
        ("reads the Qur’an", "Muslim"), ("sees connections between Christianity and Judaism", None),
        ("compares Islam with Hinduism", None), ("avoids church", None), ("celebrates Diwali", None),
        ("knows Hebrew", None), ("African", None), ("kind", None),
    ],
)  # fmt: skip
def test_a_concept_with_terms_of_exactly_one_identity_is_exclusive(
    concept: str, identity: str | None
) -> None:
    row = exclusive_by_terms(["calm", concept], RELIGIONS).row(1, named=True)
    assert (row["concept"], row["identity"], row["by"], row["status"]) == (concept, identity, "terms", "ok")
    assert (row["reason"] is None) == (identity is None)


def test_exclusive_concepts_name_identities_as_the_study_does() -> None:
    rulings = exclusive_by_terms(
        ["African heritage", "wears white", "from mars", "a Martian", "woman"], [*RACES, "Martian"]
    )
    assert rulings["identity"].to_list() == ["black race", None, None, "Martian", None]
    assert exclusive_by_terms(["a woman", "male"], ["female", "male"])["identity"].to_list() == [
        "female",
        "male",
    ]
    assert exclusive_by_terms(["observes Shabbat"], ["Jewish", "Judaism"])["identity"].to_list() == [None]
    assert "shabbat" in exclusive_by_terms(["observes Shabbat"], RELIGIONS)["reason"][0]


@pytest.mark.parametrize(
    ("identities", "expected"),
    [
        (
            ["a Black", "an Asian", "a White"],
            {"black": "a Black", "Asian heritage": "an Asian", "wears black": None},
        ),
        (
            ["The Muslims.", "CHRISTIANS", "Jewish people"],
            {"observes Ramadan": "The Muslims.", "goes to church": "CHRISTIANS"},
        ),
        (["W", "M"], {"woman": "W"}),
        (["M", "F", "N"], {"nonbinary": "N"}),
        (["W", "B"], {"woman": None}),
        (["W", "W2"], {"woman": None}),
        (
            ["a Black, W", "a Black, M", "an Asian, W", "an Asian, M"],
            {"black woman": "a Black, W", "Black": "a Black", "woman": "W"},
        ),
        (["a Black, W", "an Asian, W", "an Asian, M"], {"black": "a Black, W"}),
        (["a Black, W", "an Asian, W"], {"woman": None}),
        (["a Black, W, Martian", "a Black, W, o'l\"d %", "an Asian, M, Martian"], {"a martian": "Martian"}),
        (
            ["Black woman", "Black man", "Asian American man"],
            {"black": "black", "a Korean American": "Asian American man"},
        ),
        (["other", "Muslim"], {"helps other people": None}),
        (["A", "B"], {"loves a dog": None}),
        (["1", "2"], {"has 1 dog": None}),
    ],
)
def test_identities_in_any_wording_have_their_terms(
    identities: list[str], expected: dict[str, str | None]
) -> None:
    assert exclusive_by_terms(list(expected), identities)["identity"].to_list() == list(expected.values())


def test_concepts_exclusive_to_a_part_of_an_identity_are_dropped_by_the_rule_of_the_definition() -> None:
    rows = pl.DataFrame(
        {"concept": "black", "identity": ["a Black, W", "an Asian, W", "a Black Forest, W"], "reported": True}
    )
    ruled = exclusive_by_terms(["black"], ["a Black, W", "a Black, M", "an Asian, W", "a Black Forest, W"])
    # The name of a group may be an ordinary word ("black hair"), so it is excluded for that group only.
    assert drop_exclusive(rows, ruled, DEFAULT)["reported"].to_list() == [False, True, True]
    assert drop_exclusive(rows, ruled, PAPER)["reported"].to_list() == [False, True, True]


@pytest.mark.parametrize("strict", [True, False])
def test_exclusivity_by_terms_agrees_with_judgements_of_people(strict: bool, shared: Path) -> None:
    sample = pl.read_csv(shared / "data" / "badf" / "sample_phrase_filter_res.csv", infer_schema=False)
    identities = [*RACES, *RELIGIONS]
    phrases = sample["phrase"].to_list()
    exclusive = exclusive_by_terms(phrases, identities, strict=strict)["identity"].is_not_null()
    gold = sample["gt"] == "YES"
    # The judge of the original found 8 of the 10, and also 1 wrong concept.
    assert (gold.sum(), (exclusive & gold).sum(), (exclusive & ~gold).sum()) == (10, 9, 1)


ROWS = pl.DataFrame(
    [
        ("observes Shabbat", "Jewish", True, 1),
        ("observes Shabbat", "Muslim", True, 2),
        ("calm", "Muslim", True, 3),
        ("male", "Muslim", False, 4),
        ("unread", "Muslim", True, 5),
    ],
    schema=["concept", "identity", "reported", "count"],
    orient="row",
)
RULINGS = [
    ("observes Shabbat", "Jewish", "ok"),
    ("calm", None, "ok"),
    ("male", "male", "ok"),
    ("unread", None, "unreadable"),
]
RULED = pl.DataFrame(
    [(concept, identity, "judge", None, status) for concept, identity, status in RULINGS],
    schema=dict(EXCLUSIVE),
    orient="row",
)


@pytest.mark.parametrize(
    ("definition", "of_another"),
    [("default", False), ("paper", True), ("badf-code", True)],
)
def test_each_definition_drops_exclusive_rows_by_its_rule(definition: str, of_another: bool) -> None:
    remaining = drop_exclusive(ROWS, RULED, association_definition(definition))
    assert remaining["reported"].to_list() == [False, of_another, True, False, True]
    assert remaining.drop("reported").equals(ROWS.drop("reported"))


def test_rows_without_rulings_are_not_dropped() -> None:
    for rules in (DEFAULT, PAPER, BADF_CODE):
        assert drop_exclusive(ROWS, RULED.clear(), rules).equals(ROWS)
