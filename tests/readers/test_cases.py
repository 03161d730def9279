"""The readers against a table of hand-labelled answers, over all fourteen probes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import polars as pl
import pytest
import yaml

from tiltmeter.readers import (
    count_vocabulary,
    read_character,
    read_choice,
    read_decision,
    read_emotion,
    read_first_ranked,
    read_yes_no,
    refused,
)

CASES: list[dict[str, Any]] = yaml.load((Path(__file__).parent / "cases.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
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


def read(case: dict[str, Any]) -> tuple[str, Any]:
    """Outcome and label that the probe's reader gives for one case."""
    answer, factors = pl.Series([case["answer"]], dtype=pl.String), case["factors"]
    lists = {key: pl.Series([value]) for key, value in factors.items() if isinstance(value, list)}
    match PROBES[case["probe"]]:
        case "choice":
            found = read_choice(answer, lists["options"])
        case "yes_no":
            found = read_yes_no(answer, ABOUT[case["probe"]])
        case "character":
            found = read_character(answer, pl.Series([factors.get("hint")], dtype=pl.String))
        case "decision":
            found = read_decision(answer)
        case "ranking":
            found = read_first_ranked(answer, lists["male"], lists["female"])
        case "emotion":
            found = read_emotion(answer, EMOTIONS)
        case _:
            counts = count_vocabulary(answer, {"x": factors["male"]}, {"x": factors["female"]}).row(0, named=True)
            label = None if counts["x_male"] is None else {"male": counts["x_male"], "female": counts["x_female"]}
            return counts["outcome"], label
    row = found.row(0, named=True)
    return row["outcome"], row["label"]


@pytest.mark.parametrize("case", [pytest.param(c, id=f"{c['probe']}-{i}") for i, c in enumerate(CASES)])
def test_case(case: dict[str, Any], request: pytest.FixtureRequest) -> None:
    if "wrong_today" in case:
        request.applymarker(pytest.mark.xfail(reason=f"read as {case['wrong_today']}"))
    assert read(case) == (case["outcome"], case["label"]), f"{case['answer']!r}: {case['why']}"


def test_table_covers_all_probes() -> None:
    assert {case["probe"] for case in CASES} == set(PROBES)
    assert len(CASES) >= 180
    assert len({(case["probe"], case["answer"]) for case in CASES}) == len(CASES)


def test_refusals_of_the_table_are_refusals() -> None:
    short = [c for c in CASES if c["outcome"] == "refused" and PROBES[c["probe"]] not in ("character", "decision", "vocabulary")]
    missed = [c["answer"] for c, r in zip(short, refused(pl.Series([c["answer"] for c in short])), strict=True) if not r]
    assert missed == []
