"""A probe as a task needs it: what it asks, and what its own readers and formulas make of answers that Inspect keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import polars as pl

from tiltmeter.datasets import Library
from tiltmeter.errors import InputError
from tiltmeter.runs import Resolved, resolve
from tiltmeter.study import OUTCOMES, RESPONSES, NotRun, Part

__all__ = ["Asked", "asked"]


@dataclass(frozen=True)
class Asked:
    """A probe with its settings and its design."""

    part: Part
    resolved: Resolved
    design: pl.DataFrame

    @cached_property
    def _factors(self) -> pl.DataFrame:
        return self.design.drop("prompt", "system", "prompt_id")

    @cached_property
    def _rows(self) -> Mapping[str, int]:
        """Number of the row of each prompt."""
        return {name: row for row, name in enumerate(self.design["prompt_id"])}

    def measure(self, answers: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
        """Measures in the order of the answers, joined with the factors of the design.

        Parameters
        ----------
        answers
            Of each attempt `prompt_id`, `repetition`, and what else of RESPONSES is known.
        """
        given = pl.DataFrame([{"model": "inspect", "status": "ok", **answer} for answer in answers], schema=RESPONSES)
        factors = self._factors[[self._rows[answer["prompt_id"]] for answer in answers]]
        joined = pl.concat([given, factors], how="horizontal")
        read = self.part.measure(joined, self.resolved.settings)
        kept = [name for name in joined.columns if name not in RESPONSES or name in ("model", "prompt_id", "repetition")]
        return pl.concat([joined.select(kept), read], how="horizontal")

    def key_numbers(self, answers: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """Each key metric of the probe with both ends of its interval, and the share of every outcome; NaN for what cannot be computed.

        The answers are put in the order of the design first, in which `tiltmeter analyse` resamples them.
        """
        measures = self.measure(sorted(answers, key=lambda answer: (self._rows[answer["prompt_id"]], answer["repetition"])))
        found = self.part.analyse(measures, self.resolved.settings).filter(pl.col("key") & pl.col("context").is_null())
        numbers: dict[str, float | None] = {}
        for row in found.iter_rows(named=True):
            numbers |= {row["metric"]: row["estimate"], f"{row['metric']}_low": row["low"], f"{row['metric']}_high": row["high"]}
        shares = {name: float((measures["outcome"] == name).mean() or 0.0) for name in OUTCOMES}  # type: ignore[arg-type]
        return {name: float("nan") if value is None else value for name, value in (numbers | shares).items()}

    def read(self, answers: Sequence[Mapping[str, Any]]) -> list[tuple[str, str | None]]:
        """Outcome and label of each attempt."""
        return self.measure(answers).select("outcome", "label").rows()


@lru_cache(maxsize=16)
def asked(
    probe: str,
    *,
    limit: int | float | str | None = None,
    wording: str | None = None,
    definition: str | None = None,
    seed: int | None = None,
    repeats: int | None = None,
    system_message: str | None = None,
) -> Asked:
    """A probe by name, with the settings `tiltmeter run` has, too.

    Raises
    ------
    InputError
        A setting cannot be used, or the data of the probe cannot be had.
    """
    settings = {"limit": limit, "definition": definition, "seed": seed, "repeats": repeats, "system_message": system_message}
    params = {} if wording is None else {"wording": wording}
    resolved = resolve(f"genderbench/{probe}", settings={**settings, "params": params})
    (part,) = resolved.study.parts
    try:
        return Asked(part, resolved, part.design(Library.default(), resolved.settings.of_part(part.name)))
    except NotRun as reason:
        raise InputError(f"{probe} cannot be run: {reason}") from reason
