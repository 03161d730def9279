"""Constrained answers: what a prompt allows, how answers are read, and what does not change."""

from __future__ import annotations

import json

import polars as pl
import pytest

from probes.conftest import dials
from tiltmeter.datasets import Library
from tiltmeter.designs.limits import ItemLimit
from tiltmeter.errors import InputError
from tiltmeter.models._base import ALLOWED
from tiltmeter.probes._constrained import ALLOWED_RULE, FORMERLY, REFUSALS, allow, refusal_beside
from tiltmeter.probes._definitions import GENDERBENCH
from tiltmeter.probes._listing import PROBES
from tiltmeter.probes._suite import SUITE
from tiltmeter.readers.outcomes import READING_RULE
from tiltmeter.schema import WITH_CONSTRAINED
from tiltmeter.study import Settings

FREE_TEXT = ("business_vocabulary", "gest_creative", "hiring_an", "inventories", "jobs_lum")
LABELLED = tuple(name for name in SUITE if name not in FREE_TEXT)
CONSTRAINED = {"answers": "constrained"}
LIMIT = 150


def settings(**params: str) -> Settings:
    return Settings(limit=ItemLimit(LIMIT), params=params)


def measured(name: str, design: pl.DataFrame, value: pl.Series) -> pl.DataFrame:
    answers = design.with_columns(value.alias("answer"), status=pl.lit("ok"), refusal=pl.lit(None, pl.String))
    read: pl.DataFrame = PROBES.load(name).measure(answers, settings())
    return read


def by_rules(name: str, design: pl.DataFrame, value: pl.Series) -> pl.DataFrame:
    return measured(name, design.drop(ALLOWED), value)


@pytest.mark.verify
@pytest.mark.parametrize("name", LABELLED)
def test_every_allowed_answer_has_the_label_that_the_rules_read(name: str, library: Library) -> None:
    full_design: pl.DataFrame = PROBES.load(name).design(library, settings(**CONSTRAINED))
    design = full_design.gather_every(max(1, full_design.height // 60))
    lists = pl.Series([json.loads(text) for text in design[ALLOWED]])
    for place in range(min(map(len, lists)) - 1):
        plain = lists.list.get(place)
        expected = by_rules(name, design, plain)
        assert (expected["outcome"] == "answered").all()
        objects = pl.Series([json.dumps({"answer": answer}) for answer in plain])
        for answers, inside in ((objects, True), (plain, False), ("  " + plain + "\n", False)):
            read = measured(name, design, answers)
            assert read.drop("constrained", READING_RULE).equals(expected.drop(READING_RULE))
            assert set(read[READING_RULE]) == {ALLOWED_RULE}
            assert read["constrained"].to_list() == [inside] * design.height


@pytest.mark.verify
@pytest.mark.parametrize("name", LABELLED)
def test_allowed_answers_contain_every_label_and_a_refusal(name: str, library: Library) -> None:
    probe = PROBES.load(name)
    design = probe.design(library, settings(**CONSTRAINED))
    labels = set()
    *first, refusal = json.loads(design[ALLOWED][0])
    for answer in first:
        labels |= set(measured(name, design, pl.repeat(answer, design.height, eager=True))["label"])
    assert labels - {None} == set(probe.labels)
    for text in design[ALLOWED]:
        *allowed, last = json.loads(text)
        assert last == refusal == ("(refuse)" if allowed[0].startswith("(") else "refuse")
        assert allowed == sorted(set(allowed))
        assert refusal not in allowed
    for answer in (refusal, json.dumps({"answer": refusal}), FORMERLY, json.dumps({"answer": FORMERLY})):
        read = measured(name, design, pl.repeat(answer, design.height, eager=True))
        assert set(read["outcome"]) == {"refused"}
        assert read["label"].null_count() == design.height


@pytest.mark.parametrize(
    ("answers", "refusal"),
    [
        (["(a)", "(b)"], "(refuse)"),
        (["no", "yes"], "refuse"),
        (["[1]", "[2]"], "[refuse]"),
        (["(a)", "b"], "refuse"),
        (["yes!", "no!"], "refuse!"),
        (["की", "की नहीं"], "refuse"),
        (["(की)", "(नहीं)"], "(refuse)"),
        (["refuse", "approve"], "decline"),
        (["(Refuse)", "(decline)"], "(no answer)"),
    ],
)
def test_a_refusal_has_the_form_of_the_other_answers(answers: list[str], refusal: str) -> None:
    assert refusal_beside(answers) == refusal


class Loan(type(PROBES.load("direct"))):  # type: ignore[misc]  # its class is not public
    """A probe whose allowed answers are words of a refusal."""

    labels = ("grant", "refuse", "decline")
    wordings = {"plain": {"prompt": "{statement}"}}  # noqa: RUF012
    allowed_answers = allow(labels)


def test_an_allowed_answer_is_no_refusal(library: Library) -> None:
    probe = Loan()
    design = probe.design(library, settings(**CONSTRAINED)).head(4)
    assert json.loads(design[ALLOWED][0]) == ["decline", "grant", "refuse", "no answer"]
    texts = pl.Series(
        [json.dumps({"answer": answer}) for answer in ("grant", "refuse", "decline", "no answer")]
    )
    answers = design.with_columns(answer=texts, status=pl.lit("ok"), refusal=pl.lit(None, pl.String))
    read = probe.measure(answers, settings())
    assert read["label"].to_list() == ["grant", "refuse", "decline", None]
    assert read["outcome"].to_list() == ["answered", "answered", "answered", "refused"]


def test_answers_that_leave_no_word_for_a_refusal_are_an_error() -> None:
    with pytest.raises(InputError, match="leave no word for a refusal: rename one of refuse, decline"):
        refusal_beside(REFUSALS)


@pytest.mark.verify
@pytest.mark.parametrize("name", LABELLED)
def test_any_other_answer_is_read_by_the_rules(name: str, library: Library) -> None:
    probe = PROBES.load(name)
    design = probe.design(library, settings(**CONSTRAINED))
    texts = [
        "",
        "Yes.",
        "I would choose (b).",
        '{"answer": "maybe"}',
        '{"answer": 3}',
        "[" * 5000,
        "I cannot answer that.",
        "anger, of course",
    ]
    answers = pl.Series([*texts, None] * design.height).head(design.height)
    read = measured(name, design, answers)
    assert read.drop("constrained").equals(by_rules(name, design, answers))
    assert not read["constrained"].any()


def test_failed_and_flagged_answers_are_not_counted(library: Library) -> None:
    probe = PROBES.load("direct")
    design = probe.design(library, settings(**CONSTRAINED)).head(3)
    answers = design.with_columns(
        answer=pl.lit('{"answer": "yes"}'),
        status=pl.Series(["ok", "failed", "ok"]),
        refusal=pl.Series([None, None, "filter"]),
    )
    read = probe.measure(answers, settings(**CONSTRAINED))
    assert read["outcome"].to_list() == ["answered", "failed", "refused"]
    assert read["constrained"].to_list() == [True, None, None]


@pytest.mark.parametrize("name", SUITE)
def test_the_prompts_are_those_of_free_answers(name: str, library: Library) -> None:
    probe = PROBES.load(name)
    free = probe.design(library, settings())
    constrained = probe.design(library, settings(**CONSTRAINED))
    assert ALLOWED not in free.columns
    assert (ALLOWED in constrained.columns) == (name in LABELLED)
    assert constrained.drop(ALLOWED, strict=False).equals(free)
    assert probe.design(library, settings(answers="free")).equals(free)


@pytest.mark.parametrize("name", ["direct", "gest_creative"])
def test_findings_from_constrained_answers_have_a_definition_of_their_own(
    name: str, library: Library
) -> None:
    probe = PROBES.load(name)

    def simulated_findings(settings_of_run: Settings) -> pl.DataFrame:
        measures = probe.simulate_measures(probe.design(library, settings_of_run), dials(0.1), 1)
        findings: pl.DataFrame = probe.analyse(measures, settings_of_run)["findings"]
        return findings

    free = simulated_findings(settings())
    constrained = simulated_findings(settings(**CONSTRAINED))
    suffix = WITH_CONSTRAINED if name == "direct" else ""
    assert constrained["definition"].to_list() == [
        f"{definition}{suffix}" for definition in free["definition"]
    ]
    assert constrained.drop("definition").equals(free.drop("definition"))


@pytest.mark.parametrize(
    ("settings_of_run", "message"),
    [
        (
            settings(answers="forced"),
            "-P answers=forced: answers of the definition default can only be free or constrained",
        ),
        (
            Settings(definition=GENDERBENCH, params=CONSTRAINED),
            "-P answers=constrained: answers of the definition genderbench can only be free",
        ),
    ],
)
@pytest.mark.parametrize("name", ["direct", "hiring_an"])
def test_ways_to_answer_that_a_definition_does_not_have_are_refused(
    name: str, settings_of_run: Settings, message: str, library: Library
) -> None:
    with pytest.raises(InputError, match=message):
        PROBES.load(name).design(library, settings_of_run)
