"""The definitions of BBQ against implementations written from the formulas, on the same answers."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

import tiltmeter as tm
from support.bbq import (
    IN_LINE,
    OPPOSED,
    OWN_FORMULAS,
    UNKNOWN,
    chosen,
    design_of,
    responses,
    rows_of,
    tallies,
)

pytestmark = [
    pytest.mark.usefixtures("workplace"),
    pytest.mark.filterwarnings("ignore::tiltmeter.Ungraded", "ignore::tiltmeter.Underpowered"),
]
FILES = {"age": "Age", "religion": "Religion"}
CONTEXTS = ("ambiguous", "disambiguated")
METRICS = {"euroeval": "bias_adjusted_accuracy", "accuracy": "accuracy"}
"""Beginnings of the names of metrics; those of the others begin with "bias"."""


def by_hand(
    part: str, design: pl.DataFrame, letters: list[str | None], shared: Path
) -> dict[str, tuple[float, float]]:
    """The values of all formulas for answers, counted on the rows of the file."""
    rows = rows_of(shared, FILES[part])
    answered = []
    for prompt, letter in zip(design.iter_rows(named=True), letters, strict=True):
        row = rows[prompt["example_id"]]
        option = None
        if letter is not None:
            text = prompt["options"]["abc".index(letter)]
            option = [row[f"ans{place}"] for place in range(3)].index(text)
        answered.append((row, option))
    counts = tallies(answered)
    return {name: formula(counts) for name, formula in OWN_FORMULAS.items()}


def same(ours: float | None, theirs: float) -> bool:
    if ours is None or math.isnan(theirs):
        return ours is None and math.isnan(theirs)
    return abs(ours - theirs) < 1e-9


def random_answers(part: str, shared: Path) -> tuple[pl.DataFrame, dict[str, tuple[float, float]]]:
    """Random answers to all questions, some of them unreadable, and the values of all formulas by hand."""
    design = design_of(part)
    letters: list[str | None] = Random(3).choices(["a", "b", "c", None], [5, 3, 2, 1], k=design.height)
    texts = [f"({letter})" if letter else "It is late." for letter in letters]
    return design.select("prompt_id", answer=pl.Series(texts)), by_hand(part, design, letters, shared)


@pytest.mark.parametrize("part", [pytest.param("age", marks=pytest.mark.verify), "religion"])
def test_the_table_equals_formulas_by_hand_on_random_answers(part: str, shared: Path) -> None:
    answers, expected = random_answers(part, shared)
    run = tm.analyse(answers, f"bbq/{part}", limit="full", settings={"resamples": 50}, display="none")
    table = run.table("formulas")
    assert table["context"].to_list() == [*CONTEXTS]
    assert table["answers"].sum() == answers.filter(pl.col("answer").str.starts_with("(")).height
    for name, values in expected.items():
        assert all(map(same, table[name], values))


@pytest.mark.verify
@pytest.mark.parametrize("part", FILES)
def test_each_definition_gives_the_numbers_of_its_formula(part: str, shared: Path) -> None:
    answers, expected = random_answers(part, shared)
    run = tm.analyse(answers, f"bbq/{part}", limit="full", settings={"resamples": 50}, display="none")
    for name, values in expected.items():
        again = tm.analyse(run, definition=name, display="none")
        findings = again.table("findings").filter(pl.col("wording").is_null(), key=True)
        estimates = dict(findings.select("metric", "estimate").iter_rows())
        begin = METRICS.get(name, "bias")
        by_context = zip(CONTEXTS, values, strict=True)
        wanted = {f"{begin}_{context}": value for context, value in by_context if not math.isnan(value)}
        assert estimates.keys() == wanted.keys()
        assert all(same(estimates[metric], value) for metric, value in wanted.items())
        assert findings["definition"].unique().to_list() == [f"{name}@1"]
        assert again.table("formulas").drop("model").equals(run.table("formulas").drop("model"))


def formulas_of(**models: pl.Expr) -> dict[tuple[str, str], dict[str, Any]]:
    """The values of all formulas by model and context, for questions about religion."""
    design = design_of("religion")
    answers = pl.concat([responses(design, name, letter) for name, letter in models.items()])
    run = tm.analyse(answers, "bbq/religion", limit="full", settings={"resamples": 50}, display="none")
    return {(row["model"], row["context"]): row for row in run.table("formulas").iter_rows(named=True)}


def test_formulas_differ_for_extreme_models() -> None:
    values = formulas_of(opposed=OPPOSED, cautious=UNKNOWN, right=chosen(), in_line=IN_LINE)
    names = list(OWN_FORMULAS)

    def listed(model: str, context: str) -> list[float | None]:
        return [values[model, context][name] for name in names]

    assert listed("opposed", "ambiguous") == [-1.0, -0.75, 0.0, -1.0, 0.0, 0.0]
    assert listed("opposed", "disambiguated") == [-1.0, -1.0, 0.0, -1.0, None, 0.5]
    # No answer names a person: the R script divides by 0, two projects say 0.
    assert listed("cautious", "ambiguous") == [None, 0.0, 0.0, 0.0, 1.0, 1.0]
    assert listed("cautious", "disambiguated") == [None, 0.0, 0.0, 0.0, None, 0.0]
    assert listed("right", "ambiguous") == [None, 0.0, 0.0, 0.0, 1.0, 1.0]
    assert listed("right", "disambiguated") == [0.0, 0.0, 0.0, 0.0, None, 1.0]
    assert listed("in_line", "ambiguous") == [1.0, 0.75, 1.0, 1.0, 0.0, 0.0]
    assert listed("in_line", "disambiguated") == [1.0, 1.0, 1.0, 1.0, None, 0.5]


RELEASED = {
    ("age", "race"): (0.2978, 0.0116),
    ("age", "arc"): (0.4894, 0.0332),
    ("religion", "race"): (0.1433, 0.0018),
    ("religion", "arc"): (0.2450, 0.0353),
}
"""Bias scores of UnifiedQA by the formula of the R script: ambiguous and disambiguated texts."""


@pytest.mark.parametrize("part", [pytest.param("age", marks=pytest.mark.verify), "religion"])
def test_scores_of_the_released_answers_equal_those_of_the_r_script(part: str, shared: Path) -> None:
    path = shared / "data" / "bbq" / f"preds_{FILES[part]}.jsonl.gz"
    run = tm.analyse(path, settings={"resamples": 50}, display="none")
    rows = rows_of(shared, f"preds_{FILES[part]}")
    table = run.table("formulas")
    assert table["model"].n_unique() == 3
    for (model,), of_model in table.group_by("model"):
        answered = []
        for row in rows:
            options = [row[f"ans{place}"].lower() for place in range(3)]
            prediction = row[str(model)]
            answered.append((row, options.index(prediction) if prediction in options else None))
        counts = tallies(answered)
        for name, formula in OWN_FORMULAS.items():
            assert all(map(same, of_model[name], formula(counts)))
        format_ = str(model).rpartition("_")[2]
        if (part, format_) in RELEASED:
            assert of_model["bbq-r"].to_list() == pytest.approx(RELEASED[part, format_], abs=5e-5)
