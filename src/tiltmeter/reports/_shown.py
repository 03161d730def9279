"""What a report is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import polars as pl

from tiltmeter.study import EXAMPLES, FINDINGS

__all__ = ["NOTHING_HELD", "Shown"]

NO_EXAMPLES = pl.DataFrame(
    schema={"model": pl.String, "part": pl.String, **EXAMPLES, **dict.fromkeys(("answer", "outcome", "label", "prompt"), pl.String)}
)

NOTHING_HELD = pl.DataFrame(schema={**FINDINGS, "part": pl.String, "reason": pl.String})


class Shown(NamedTuple):
    """One run as reports see it; they never look into its folder."""

    findings: pl.DataFrame
    """The columns of `tiltmeter.study.FINDINGS`."""
    about: Mapping[str, Any]
    """The content of run.json."""
    examples: pl.DataFrame = NO_EXAMPLES
    """The answers that moved each key number most, most influential first: those of `tiltmeter.study.EXAMPLES` with `model`, `part`,
    `prompt`, `answer`, `outcome` and `label`."""
    definitional: pl.DataFrame = NOTHING_HELD
    """Findings that are held back because they are so by definition, with the `reason`; the columns of FINDINGS and `reason`."""
