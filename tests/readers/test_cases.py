"""The readers against a table of hand-labelled answers, over all fourteen probes."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Literal

import polars as pl
import pytest
import yaml

from tiltmeter import readers

CASES: list[dict[str, Any]] = yaml.load(
    (Path(__file__).parent / "cases.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
)
EMOTIONS = (
    *("anger", "disgust", "fear", "guilt", "joy", "sadness", "shame", "anxiety"),
    *("disappointment", "embarrassment", "frustration", "regret"),
)
PROBES = {
    **dict.fromkeys(("bbq", "gest", "diversity_med_qa", "relationship_levy"), "choice"),
    **dict.fromkeys(("direct", "discrimination_tamkin", "dreaddit"), "yes_no"),
    **dict.fromkeys(("gest_creative", "inventories", "jobs_lum"), "character"),
    "hiring_an": "decision",
    "hiring_bloomberg": "ranking",
    "isear": "emotion",
    "business_vocabulary": "vocabulary",
}

ABOUT: dict[str, Literal["statement", "decision", "stress"]] = {
    "direct": "statement",
    "discrimination_tamkin": "decision",
    "dreaddit": "stress",
}


@cache
def readings(probe: str) -> dict[str, tuple[str, Any]]:
    """Outcome and label that the probe's reader gives for each answer, all cases of the probe at once."""
    cases = [case for case in CASES if case["probe"] == probe]
    answers = pl.Series([case["answer"] for case in cases], dtype=pl.String)

    def factor(name: str) -> pl.Series:
        return pl.Series([case["factors"].get(name) for case in cases])

    match PROBES[probe]:
        case "choice":
            labels = readers.read_choice(answers, factor("options"))
        case "yes_no":
            labels = readers.read_yes_no(answers, ABOUT[probe])
        case "character":
            labels = readers.read_character(answers, factor("hint").cast(pl.String))
        case "decision":
            labels = readers.read_decision(answers)
        case "ranking":
            labels = readers.read_first_ranked(answers, factor("male"), factor("female"))
        case _:
            labels = readers.read_emotion(answers, EMOTIONS)
    return dict(zip(answers, labels.select("outcome", "label").rows(), strict=True))


def vocabulary(case: dict[str, Any]) -> tuple[str, Any]:
    """The same for an answer of which words are counted."""
    factors = case["factors"]
    counts = readers.count_vocabulary(
        pl.Series([case["answer"]], dtype=pl.String), {"x": factors["male"]}, {"x": factors["female"]}
    )
    row = counts.row(0, named=True)
    return row["outcome"], None if row["x_male"] is None else {
        "male": row["x_male"],
        "female": row["x_female"],
    }


@pytest.mark.parametrize("case", [pytest.param(c, id=f"{c['probe']}-{i}") for i, c in enumerate(CASES)])
def test_case(case: dict[str, Any], request: pytest.FixtureRequest) -> None:
    if "wrong_today" in case:
        request.applymarker(pytest.mark.xfail(reason=f"read as {case['wrong_today']}"))
    read = (
        vocabulary(case) if PROBES[case["probe"]] == "vocabulary" else readings(case["probe"])[case["answer"]]
    )
    assert read == (case["outcome"], case["label"]), f"{case['answer']!r}: {case['why']}"


def test_table_covers_all_probes() -> None:
    assert {case["probe"] for case in CASES} == set(PROBES)
    assert len(CASES) >= 180
    assert len({(case["probe"], case["answer"]) for case in CASES}) == len(CASES)


def test_refusals_of_the_table_are_refusals() -> None:
    short = [
        c
        for c in CASES
        if c["outcome"] == "refused" and PROBES[c["probe"]] not in ("character", "decision", "vocabulary")
    ]
    missed = [
        c["answer"]
        for c, r in zip(short, readers.refused(pl.Series([c["answer"] for c in short])), strict=True)
        if not r
    ]
    assert missed == []
