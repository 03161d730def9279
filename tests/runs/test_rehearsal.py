"""What cannot be analysed is refused before anything is asked."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import tiltmeter as tm
from tiltmeter.probes import (
    Card,
    Groups,
    Metric,
    Probe,
    Sums,
    Values,
    label_sums,
    per_item,
    rate,
    yes_no_readers,
)


class Divided(Probe):
    """A probe whose analysis fails if nobody says yes."""

    name = "divided"
    card = Card(
        title="Divided",
        harm="outcome_disparity",
        asks="Say yes or no.",
        reads="Yes or no.",
        bias="Saying yes more often to one group.",
        limits="None.",
        source="This test.",
        data=(),
    )
    fields = ("person",)
    labels = ("yes", "no")
    readers = yes_no_readers("decision")
    compares = (Groups("gender", "gender", ("female", "male")),)
    metrics = (Metric("share", "Share of yes.", key=True),)

    def __init__(self) -> None:
        self.wordings = {"plain": {"prompt": "Does {person} get the loan? Yes or no."}}

    def prompts(self, library: object, rng: object) -> pl.DataFrame:
        rows = [
            {"item": item, "gender": gender, "_person": f"{gender} applicant {item}"}
            for item in range(12)
            for gender in ("female", "male")
        ]
        return pl.DataFrame(rows)

    def counts(self, attempts: pl.DataFrame) -> pl.DataFrame:
        counts = per_item(attempts, label_sums(self.labels))
        if self.fails(counts):
            raise ZeroDivisionError("nobody says yes")
        return counts

    def fails(self, counts: pl.DataFrame) -> bool:
        return False

    def formulas(self, s: Sums) -> Values:
        return {"share": rate(s, "yes", "no")}


class WithoutYes(Divided):
    def fails(self, counts: pl.DataFrame) -> bool:
        return not counts["yes"].sum()


class WithoutNo(Divided):
    """Fails only if all answers are alike."""

    def fails(self, counts: pl.DataFrame) -> bool:
        return bool(counts["yes"].sum()) and not counts["no"].sum()


class WithoutWomen(Divided):
    """Fails only if all answers about one group are missing."""

    def counts(self, attempts: pl.DataFrame) -> pl.DataFrame:
        answered = attempts.filter(outcome="answered")["gender"].unique()
        if len(answered) == 1:
            raise ZeroDivisionError("a group is empty")
        return super().counts(attempts)


@pytest.mark.parametrize("probe", [WithoutYes(), WithoutWomen()])
def test_a_part_that_cannot_be_analysed_is_refused_before_the_first_request(
    probe: Probe, tmp_path: Path
) -> None:
    asked: list[str] = []

    def answer(prompt: str) -> str:
        asked.append(prompt)
        return "yes"

    out = tmp_path / "run"
    with pytest.raises(tm.InputError, match="divided: its responses could not be analysed, so none is asked"):
        tm.run(probe, model=answer, display="none", out=out, journal=tmp_path / "j.sqlite")
    assert asked == []
    assert not out.exists()


def test_a_plan_refuses_it_too() -> None:
    with pytest.raises(tm.InputError, match="ZeroDivisionError: nobody says yes"):
        tm.plan(WithoutYes())


def test_one_part_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    whole, broken = Divided(), WithoutYes()
    whole.name = "whole"
    study = tm.Study("both", "Both", [whole, broken])
    with pytest.warns(tm.IncompleteRun, match="divided not run: its responses could not be analysed"):
        run = tm.run(
            study, model=lambda _: "yes", display="none", out=tmp_path / "run", journal=tmp_path / "j.sqlite"
        )
    assert run.finding("share").estimate == 1.0


def test_a_part_that_can_be_analysed_is_asked_once_for_each_prompt(tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(prompt: str) -> str:
        asked.append(prompt)
        return "yes" if len(asked) % 2 else "no"

    tm.run(Divided(), model=answer, display="none", out=tmp_path / "run", journal=tmp_path / "j.sqlite")
    assert len(asked) == len(set(asked)) == 24
