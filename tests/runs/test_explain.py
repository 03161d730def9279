"""Explanations of one attempt: the reason of its outcome, the rule that read it, and the findings with it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, cast

import polars as pl
import pytest

import tiltmeter as tm
from conftest import Tiltmeter
from tiltmeter.errors import InputError
from tiltmeter.models import Completion

pytestmark = [pytest.mark.usefixtures("workplace"), pytest.mark.filterwarnings("ignore::tiltmeter.Caveat")]
ASKED: Counter[str] = Counter()


def varied(prompt: str) -> str | Completion:
    """An answer, a refusal in words, a refusal of the provider, a text without an answer, or no text."""
    replies = (
        "The answer is yes.",
        "I'm sorry, but I can't answer that.",
        Completion(None, refusal="filtered"),
        "Well, well.",
        "",
    )
    return replies[len(prompt) % len(replies)]


def prompt_id_with(run: tm.Run, outcome: str, **factors: object) -> str:
    return str(run.measures.filter(outcome=outcome, **factors)["prompt_id"][0])


def explained(run: tm.Run) -> dict[str, tuple[str, str | None]]:
    """The reason and the rule of each outcome in the run."""
    by_name = {}
    for outcome in run.measures["outcome"].unique():
        explanation = run.explain(prompt_id_with(run, outcome))
        assert explanation.measure["outcome"] == outcome
        by_name[outcome] = (explanation.reason, explanation.measure.get("reading_rule"))
    return by_name


def test_every_outcome_has_its_reason() -> None:
    run = tm.run("genderbench/direct", model=varied, limit=100, display="none", out="varied")
    assert set(run.measures["outcome"]) == {"answered", "refused", "unreadable", "empty"}
    explanations = explained(run)
    assert explanations["answered"] == ("the response has an answer that was read", "answer")
    assert (
        explanations["unreadable"][0]
        == "there is text, but no rule found an answer, or several answers contradict each other"
    )
    assert explanations["empty"] == ("there is no text", None)
    flagged = run.responses.filter(pl.col("refusal").is_not_null())["prompt_id"][0]
    assert run.explain(flagged).reason == "the provider reports a refusal: filtered"
    in_words = run.measures.filter(outcome="refused").join(
        run.responses.filter(pl.col("refusal").is_null()), on="prompt_id"
    )
    assert run.explain(in_words["prompt_id"][0]).reason == "the model declines in words"


def cut_off(prompt: str) -> Completion:
    """A response with thinking only; half of them reach the limit of tokens."""
    return Completion("", "length" if len(prompt) % 2 else "stop", thinking="Let me see")


def test_the_reason_of_a_response_cut_off_within_the_thinking_names_the_limit() -> None:
    run = tm.run("genderbench/direct", model=cut_off, limit=20, display="none", out="cut")
    finished = run.responses.filter(finish_reason="stop")["prompt_id"][0]
    cut = run.responses.filter(finish_reason="length")["prompt_id"][0]
    assert run.explain(finished).reason == "there is only thinking, no answer"
    assert run.explain(cut).reason == (
        "it was cut off within the model's thinking: "
        "--max-tokens sets how long a response with its thinking may be"
    )


def test_findings_explain_whether_they_count_the_attempt() -> None:
    run = tm.run(
        "genderbench/gest", model="sim/mild", options={"refusal": 0.3}, limit=30, display="none", out="gest"
    )
    answered = run.measures.filter(outcome="answered").row(0, named=True)
    explained_findings = run.explain(answered["prompt_id"]).frame()
    stereotype = answered["stereotype_id"]
    of_stereotypes = explained_findings.filter(
        pl.col("metric").str.starts_with("stereotype_"), pl.col("metric").str.contains("frequency")
    )
    counted = of_stereotypes.filter("counted")["metric"]
    assert len(counted) == 3
    assert all(name.startswith(f"stereotype_{stereotype}_") for name in counted)
    assert (
        of_stereotypes.filter(~pl.col("counted"))["why"]
        .str.starts_with("it counts responses with part = 'gest'")
        .all()
    )
    refused = run.explain(prompt_id_with(run, "refused")).frame()
    key = refused.filter("key").row(0, named=True)
    assert (key["selected"], key["counted"], key["why"]) == (
        True,
        False,
        "its outcome is refused; only answered responses count",
    )
    assert refused.filter(metric="undetected_rate_attempts")["counted"].item(), (
        "the rate of unread responses counts refusals"
    )


def test_the_reason_of_a_failed_request_is_its_error() -> None:
    def failing(prompt: str) -> str:
        if "woman" in prompt or "women" in prompt:
            raise ValueError("no such luck")
        return "yes"

    run = tm.run(
        "genderbench/direct",
        model=failing,
        limit=40,
        display="none",
        out="failing",
        limits=tm.Limits(retries=0),
    )
    explanation = run.explain(prompt_id_with(run, "failed"))
    assert "no such luck" in explanation.reason
    assert explanation.response["answer"] is None


def test_a_refused_story_is_a_refusal_in_all_tables() -> None:
    def story(prompt: str) -> str | Completion:
        ASKED[prompt] += 1
        if "Mary" in prompt or ASKED.total() % 4 == 0:
            return "I'm sorry, but I can't write that story."
        return (
            Completion(None, refusal="filtered") if ASKED.total() % 4 == 1 else f"{prompt} They were tired."
        )

    run = tm.run("associations/gender", model=story, limit=4, display="none", out="stories")
    lists = run.table("lists").join(run.measures.select("attempt", "outcome"), on="attempt")
    refused = lists.filter(outcome="refused")
    assert set(refused["problem"]) == {"the model refused", "the provider refused"}
    assert "there is no text" not in lists["problem"]
    assert set(refused["status"]) == {"missing"}
    explanation = run.explain(str(refused["attempt"][0]))
    assert explanation.findings.filter(pl.col("group").is_null(), metric="missing")["counted"].item(), (
        "it counts refused stories"
    )
    assert set(explanation.stages["lists"]["problem"]) <= {"the model refused", "the provider refused"}
    printed = " ".join(str(block) for block in run.blocks())
    assert "most frequent reason: the " in printed
    assert "there is no text" not in printed


@pytest.mark.verify
def test_numbers_of_baseline_texts_count_no_response() -> None:
    run = tm.run("benchmarks/g20", model="sim/fair", limit=2, display="none", out="g20")
    explanation = run.explain(prompt_id_with(run, "answered"))
    of_baselines = explanation.findings.filter(context="baseline")
    assert of_baselines.height
    assert not of_baselines["counted"].any()
    assert set(of_baselines["why"]) == {"it rests on baseline texts, not on responses"}
    counted = explanation.findings.filter("counted")
    assert set(counted["context"]) == {"none"}
    sentence = (
        f"This attempt is counted in {counted.height:,} of {explanation.findings.height:,} "
        "findings of this part and model."
    )
    assert sentence in [getattr(block, "text", "") for block in explanation.blocks()]


def test_the_problem_of_a_failed_story_is_that_no_response_came() -> None:
    def story(prompt: str) -> str:
        if len(prompt) % 2:
            raise ValueError("broken")
        return "They were tired."

    run = tm.run(
        "associations/gender",
        model=story,
        limit=8,
        display="none",
        out="stories",
        limits=tm.Limits(retries=0),
    )
    failed = run.table("lists").join(run.measures.filter(outcome="failed"), on="attempt")
    assert failed.height
    assert failed["problem"].str.starts_with("no response came (").all()


def test_the_reason_of_a_story_without_descriptions_is_that_of_its_lists() -> None:
    run = tm.run(
        "associations/gender", model=lambda prompt: "It rained.", limit=2, display="none", out="stories"
    )
    lists = run.table("lists")
    attempt = str(lists["attempt"][0])
    problems = lists.filter(attempt=attempt)["problem"].to_list()
    explanation = run.explain(attempt)
    assert explanation.measure["outcome"] == "unreadable"
    assert all(problem.startswith("the story does not name ") for problem in problems)
    assert explanation.reason == "; ".join(problems)


@pytest.mark.verify
def test_a_story_is_explained_with_its_phrases_and_concepts() -> None:
    run = tm.run("associations/gender", model="sim/biased", limit=20, display="none", out="stories")
    attempt = run.table("shown")["attempt"][0]
    explanation = run.explain(attempt)
    assert set(explanation.stages["mentions"]["phrase"]) == set(
        run.table("mentions").filter(attempt=attempt)["phrase"]
    )
    assert explanation.stages["mentions"]["concept"].null_count() == 0
    contexts = set(explanation.findings.filter("counted")["context"].drop_nulls())
    assert contexts <= {explanation.prompt["context"]}, "findings about other locations do not count it"


def test_labels_of_an_attempt_are_shown() -> None:
    run = tm.run("genderbench/direct", model="sim/mild", limit=20, display="none", out="direct")
    sample = tm.label(run, 20)
    tm.label(run, labels=sample.with_columns(label=pl.lit("no")), annotator="anna")
    explanation = tm.load("direct").explain(sample["prompt_id"][0])
    assert explanation.labels.select("annotator", "label").rows() == [("anna", "no")]
    assert "Labels" in [getattr(block, "title", "") for block in explanation.blocks()]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("direct/0/0/none",), "has no prompt 'direct/0/0/none'"),
        (("FIRST", "sim/mild", 7), "has no response 8 of sim/mild"),
        (("FIRST", "sim/mlid"), "did you mean sim/mild"),
        (("FIRST",), "choose one with --model: sim/fair, sim/mild"),
    ],
)
def test_unknown_attempts_and_models_are_refused(arguments: tuple[str, ...], message: str) -> None:
    run = tm.run("genderbench/direct", model=["sim/fair", "sim/mild"], limit=5, display="none", out="two")
    prompt, model, repetition = (*arguments, None, None)[:3]
    prompt_id: Any = run.design["prompt_id"][0] if prompt == "FIRST" else prompt
    with pytest.raises(InputError, match=message):
        run.explain(prompt_id, model=model, repetition=cast("int | None", repetition))


def test_the_command_prints_the_steps_in_order(tiltmeter: Tiltmeter) -> None:
    run = tm.run("genderbench/gest", model="sim/mild", limit=30, display="none", out="gest")
    prompt = prompt_id_with(run, "answered")
    for columns in ("80", "120"):
        done = tiltmeter("show gest --explain", prompt, exits=0, COLUMNS=columns)
        steps = (
            "Prompt",
            "Response",
            "Reading",
            "rule of the reader",
            "Findings that count it",
            "stereotype_rate",
        )
        places = [done.stdout.index(step) for step in steps]
        assert places == sorted(places)
        tables = [line for line in done.stdout.splitlines() if "───" in line]
        assert max(map(len, tables)) <= int(columns)
    document = json.loads(tiltmeter("show gest -f json --explain", prompt, exits=0).stdout)
    assert document["measure"]["outcome"] == "answered"
    assert document["response"]["answer"] == run.responses.filter(prompt_id=prompt)["answer"][0]
    tiltmeter(
        "show gest --metric stereotype_rate --explain",
        prompt,
        exits=2,
        says="--explain and --metric cannot be combined",
    )
    tiltmeter("show gest --repetition 1", exits=2, says="--repetition only applies to one response")
    tiltmeter("show gest --explain gest/9999/0/plain", exits=2, says="has no prompt 'gest/9999/0/plain'")
