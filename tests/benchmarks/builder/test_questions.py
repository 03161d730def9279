"""Questions made by a model: real engine and journal, models that work and models that misbehave."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl
import pytest
from hypothesis import given, strategies as st

from support.judging import EngineJudge, ScriptedModel
from tiltmeter.benchmarks._builder import questions
from tiltmeter.benchmarks._judge_replies import Unfinished, read_check, read_question
from tiltmeter.benchmarks._tables import SENTENCES
from tiltmeter.engine import Journal
from tiltmeter.errors import InputError
from tiltmeter.models import Message

NORWAY, CHAD = "Norway exports fish and oil to {many} countries.", "Chad lies in the middle of the continent."
GOOD = "What does {} trade with others?"


def table(*rows: tuple[str, str]) -> pl.DataFrame:
    entries = [
        ("d", concept, concept, "s", "local", place, sentence, None)
        for place, (concept, sentence) in enumerate(rows)
    ]
    return pl.DataFrame(entries, schema=SENTENCES, orient="row")


def is_check(messages: Sequence[Message]) -> bool:
    return "every line" in messages[0].content


def about(messages: Sequence[Message]) -> str:
    return "Norway" if NORWAY in messages[0].content else "Chad"


def working(messages: Sequence[Message]) -> str:
    return (
        '{"sensible": true}' if is_check(messages) else json.dumps({"question": GOOD.format(about(messages))})
    )


BOTH = table(("Norway", NORWAY), ("Chad", CHAD))
NO_QUESTION = "the model said that no question can be made of it"


def judge_of(
    journal: Journal, script: Callable[[Sequence[Message]], str | None] = working, **more: Any
) -> EngineJudge:
    return EngineJudge(ScriptedModel(script), journal, **more)


def only_chad(message: str) -> Callable[[Sequence[Message]], str]:
    """A script that says this of Chad and works for every other country."""
    return lambda messages: message if about(messages) == "Chad" else working(messages)


def test_a_question_of_each_sentence(journal: Journal) -> None:
    model = ScriptedModel(working)
    judge = EngineJudge(model, journal)
    assembled = questions(BOTH, judge)
    rows = [(GOOD.format("Norway"), NORWAY, "question", True), (GOOD.format("Chad"), CHAD, "question", True)]
    assert assembled.benchmark.select("prompt", "baseline", "kind", "keyword_in_prompt").rows() == rows
    assert (assembled.dropped.height, judge.calls) == (0, [2])
    assert "{many}" in model.asked[0][0].content  # braces in a sentence are no placeholders
    assert questions(BOTH, judge_of(journal, lambda _: pytest.fail("asked again"))).benchmark.equals(
        assembled.benchmark
    )


def test_sentences_with_two_keywords_are_asked_about_once(journal: Journal) -> None:
    judge = judge_of(journal)
    assembled = questions(table(("Chad", CHAD), ("Chad", CHAD), ("Norway", NORWAY)), judge)
    assert judge.calls == [2]
    assert assembled.benchmark.height == 3
    assert assembled.benchmark["key"].is_unique().all()


@pytest.mark.parametrize(
    "message",
    [
        '{"question": null}',
        "Cannot.",
        '{"question": "cannot"}',
        '{"question": "None"}',
        "I'm sorry, but I can't help with that request.",
    ],
)
def test_a_refusal_is_never_a_question(journal: Journal, message: str) -> None:
    with pytest.raises(InputError, match=rf"'Chad' \(1 {NO_QUESTION}\)"):
        questions(BOTH, judge_of(journal, only_chad(message)))


def test_what_is_dropped_is_counted(journal: Journal) -> None:
    dull = "Norway."

    def script(messages: Sequence[Message]) -> str:
        return '{"question": null}' if dull in messages[0].content.splitlines() else working(messages)

    assembled = questions(
        table(("Norway", NORWAY), ("Norway", dull), ("Chad", CHAD)), judge_of(journal, script)
    )
    assert assembled.benchmark["position"].to_list() == [0, 2]
    assert assembled.dropped.select("concept", "reason").rows() == [("Norway", NO_QUESTION)]


@pytest.mark.parametrize(
    ("first", "problem"),
    [
        ("Here you are.", "holds no JSON"),
        ('{"question": "What does this place trade?"}', "does not name the concept"),
        ('{"question": "Norway Chad trade."}', "holds no JSON"),
        ('{"question": 3}', "holds no JSON"),
        (json.dumps({"question": "Norway Chad " + "very " * 100 + "?"}), "is longer than"),
    ],
)
def test_an_answer_that_cannot_be_used_is_asked_for_again(journal: Journal, first: str, problem: str) -> None:
    model = ScriptedModel(lambda messages: first if len(messages) == 1 else working(messages))
    judge = EngineJudge(model, journal)
    assembled = questions(BOTH, judge)
    assert assembled.benchmark.height == 2
    assert judge.calls == [2, 2]
    question, answer, again = model.asked[-1]
    assert (question.role, answer.role, answer.content) == ("user", "assistant", first)
    assert problem in again.content


def test_three_attempts_and_no_more(journal: Journal) -> None:
    judge = judge_of(journal, only_chad("hm"))
    with pytest.raises(InputError, match=r"'Chad' \(1 the answer holds no JSON"):
        questions(BOTH, judge)
    # The third attempt's conversation differs from the second's only where the answer does.
    assert judge.calls == [2, 1, 1]


def test_the_check_puts_other_concepts_in(journal: Journal) -> None:
    model = ScriptedModel(working)
    more = table(("Norway", NORWAY), ("Chad", CHAD), ("Mali", "Mali."), ("Peru", "Peru."), ("Cuba", "Cuba."))
    with pytest.raises(
        InputError, match="does not name the concept"
    ):  # of the last three: the model knows two countries only
        questions(more, EngineJudge(model, journal), check=True)
    checks = {messages[0].content.split("\n\n")[1] for messages in model.asked if is_check(messages)}
    substitutes = (("Chad", "Mali", "Peru"), ("Mali", "Peru", "Cuba"))
    assert checks == {"\n".join(f"- {GOOD.format(concept)}" for concept in three) for three in substitutes}


def test_a_single_concept_is_tried_with_others_that_have_no_sentences(journal: Journal) -> None:
    model = ScriptedModel(working)
    assembled = questions(
        table(("Norway", NORWAY)), EngineJudge(model, journal), check=True, tried_with=["Norway", "Peru"]
    )
    assert assembled.benchmark["prompt"].to_list() == [GOOD.format("Norway")]
    (content,) = [messages[0].content for messages in model.asked if is_check(messages)]
    assert GOOD.format("Peru") in content
    assert "Norway" not in content


def test_a_question_that_fails_the_check_is_made_again(journal: Journal) -> None:
    def script(messages: Sequence[Message]) -> str:
        if is_check(messages):
            return json.dumps({"sensible": "fjords" not in messages[0].content})
        if about(messages) == "Norway" and len(messages) == 1:
            return '{"question": "How deep are the fjords of Norway?"}'
        return working(messages)

    model = ScriptedModel(script)
    assembled = questions(BOTH, EngineJudge(model, journal), check=True)
    assert assembled.benchmark["prompt"].to_list() == [GOOD.format(name) for name in ("Norway", "Chad")]
    checks = [messages[0].content for messages in model.asked if is_check(messages)]
    assert any("How deep are the fjords of Chad?" in check and "Norway" not in check for check in checks)
    assert any("does not hold for other concepts" in messages[-1].content for messages in model.asked)


@pytest.mark.parametrize(
    ("verdict", "reason"), [('{"sensible": false}', "does not hold"), ("Maybe?", "could not be read")]
)
def test_a_question_that_always_fails_the_check_is_dropped(
    journal: Journal, verdict: str, reason: str
) -> None:
    judge = judge_of(journal, lambda messages: verdict if is_check(messages) else working(messages))
    with pytest.raises(InputError, match=reason):
        questions(BOTH, judge, check=True)
    assert sum(judge.calls) <= 12


def test_an_interrupted_run_goes_on(journal: Journal) -> None:
    with pytest.raises(Unfinished, match="run the same command again to continue"):
        questions(BOTH, judge_of(journal, budget=1))
    model = ScriptedModel(working)
    assert (questions(BOTH, EngineJudge(model, journal)).benchmark.height, len(model.asked)) == (2, 1)


@pytest.mark.parametrize(
    "answer",
    [
        '{"question": "How is X?"}',
        'Sure!\n```json\n{"question": "How is X?",}\n```',
        "{\u201cquestion\u201d: \u201cHow is X?\u201d}",
        '<think>{"question": "no"}</think>{"question": "How is X?"}',
        "Question: How is X?",
        '"How is X?"',
        '{"note": 1} {"question": " How\\n is X? "}',
    ],
)
def test_answers_in_many_forms(answer: str) -> None:
    assert read_question(answer).value == "How is X?"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ('{"sensible": true}', True),
        ('{"sensible": "no"}', False),
        ("Yes.", True),
        ("No", False),
        ("Yes and no", None),
        ("", None),
    ],
)
def test_verdicts_in_many_forms(answer: str, expected: bool | None) -> None:
    assert read_check(answer).value is expected


@given(st.text(alphabet=st.sampled_from('{}[]":?,\u201cquestion sensible true null\n\\'), max_size=80))
def test_no_answer_breaks_the_reader(answer: str) -> None:
    read = read_question(answer)
    assert (read.value is None) == (read.problem is not None)
    assert (read_check(answer).value is None) == (read_check(answer).problem is not None)
