"""One response and those it can be held against."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from tiltmeter.app._data import ATTEMPT, Attempt, one
from tiltmeter.runs import RunFolder
from tiltmeter.runs._folder import reading
from tiltmeter.study import DESIGN

__all__ = ["Counterpart", "Detail", "counterparts", "detail", "sentences"]

_NOT_FACTORS = {*DESIGN, "prompt_key", "stratum", "source_tag", "branched_from", "baseline"} - {"wording"}
"""Columns of a design that number or describe a prompt instead of saying what was varied in it."""
_HOW_PUT = {"wording", "template", "template_id", "role"}
"""Factors that say how a question is put; what is put in it is what makes a counterfactual."""


class Detail(NamedTuple):
    """Everything a run holds about one response."""

    system: str | None
    prompt: str | None
    answer: str | None
    thinking: str | None
    status: str
    error: str | None
    measured: dict[str, str]
    """What was read from it, and the factors of its prompt, by column; nulls are left out."""
    attempt: str | None
    """Its name in the method's own tables, where there are any."""


class Counterpart(NamedTuple):
    """A prompt of the same item (or root) in which something else was put."""

    prompt_id: str
    differs: tuple[tuple[str, str, str], ...]
    """Factor, its value here, its value there."""
    repetitions: int

    @property
    def distance(self) -> tuple[bool, int]:
        """Whether it is put otherwise as well, and in how many factors it differs."""
        return any(name in _HOW_PUT for name, _, _ in self.differs), len(self.differs)

    @property
    def title(self) -> str:
        """What differs, in a few words."""
        return ", ".join(f"{name}: {here} → {there}" for name, here, there in self.differs) or "the same factors in other words"


def detail(path: Path, attempt: Attempt) -> Detail:
    """One response with its prompt and measures.

    Raises
    ------
    InputError
        A table is missing or damaged, or the run no longer has it.
    """
    folder = RunFolder(path)
    mine = [pl.col(name) == value for name, value in zip(ATTEMPT, attempt, strict=True)]
    with reading(path):
        said = folder.scan("responses").filter(mine).select("answer", "thinking", "status", "error").collect()
        asked = folder.scan("design").filter(pl.col("prompt_id") == attempt.prompt_id).select("system", "prompt").collect()
        read = folder.scan("measures").filter(mine).collect()
    answer, prompt = one(said, f"the response to {attempt.prompt_id}"), one(asked, f"the prompt {attempt.prompt_id}")
    measured = read.row(0, named=True) if read.height else {}
    shown = {name: _said(value) for name, value in measured.items() if value is not None and name not in (*ATTEMPT, "attempt")}
    first = [name for name in ("outcome", "label") if name in shown]
    ordered = {name: shown[name] for name in [*first, *(name for name in shown if name not in first)]}
    return Detail(**prompt, **answer, measured=ordered, attempt=measured.get("attempt"))


def counterparts(path: Path, prompt_id: str, limit: int = 200) -> list[Counterpart]:
    """Prompts of the same root (or else of the same item) of the same part; first those put in the same words and role, and of
    them those that differ in the fewest factors.

    Raises
    ------
    InputError
        The design is missing or damaged, or the run no longer has the prompt.
    """
    design = RunFolder(path).scan("design")
    with reading(path):
        names = design.collect_schema().names()
        mine = one(design.filter(pl.col("prompt_id") == prompt_id).collect(), f"the prompt {prompt_id}")
        unit = "root" if mine.get("root") is not None else "item"
        factors = [name for name in names if name not in _NOT_FACTORS and name != unit]
        same = design.filter(pl.col("part") == mine["part"], pl.col(unit) == mine[unit], pl.col("prompt_id") != prompt_id)
        others = same.select("prompt_id", "repetitions", *factors).collect()
    found = [
        Counterpart(
            row["prompt_id"],
            tuple((name, _said(mine[name]), _said(row[name])) for name in factors if row[name] != mine[name]),
            row["repetitions"],
        )
        for row in others.iter_rows(named=True)
    ]
    return sorted(found, key=lambda other: other.distance)[:limit]


def sentences(path: Path, attempt: str | None, finding: dict[str, Any]) -> list[str]:
    """The sentences of a response that show the concept a finding is about; none where the method keeps no such table.

    Raises
    ------
    InputError
        The table is damaged.
    """
    stages = RunFolder(path).stages()
    if attempt is None or finding["concept"] is None or "shown" not in stages:
        return []
    wanted = {"attempt": attempt, "model": finding["model"], "concept": finding["concept"], "identity": finding["subject"]}
    conditions = [pl.col(name) == value for name, value in wanted.items() if value is not None]
    with reading(path):
        found = stages["shown"].filter(conditions).select(pl.col("sentence").drop_nulls().unique(maintain_order=True)).collect()
    return found["sentence"].to_list()


def _said(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return " | ".join(map(_said, value))
    return str(value)
