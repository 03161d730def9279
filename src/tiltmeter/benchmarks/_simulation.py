"""Planted tone of the simulated model's answers, by concept and role.

Each concept and each role has one of five effects, chosen by a hash of its name only, so that it does not
depend on the rest of the benchmark. The salt of the hash was selected for the built-in studies (see `_SALT`);
for other names the assignment is arbitrary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Final

import polars as pl
from polars import DataFrame, Expr, Float64, String, col, lit, when

from tiltmeter.benchmarks._tables import NO_ROLE
from tiltmeter.models.sim import TONES

_SALT = "tiltmeter 1572"
"""Smallest number that meets these conditions: in every built-in study, some concept has the lowest effect
and some the highest, and roles have effects in both directions; in g20 the effects roughly cancel, and richer
and poorer members have similar means; Islam and Judaism have no negative effect, and Christianity no positive
one."""
LEANS: Final = (-1 / 4, -1 / 8, 0.0, 1 / 8, 1 / 4)
"""Possible effects of a concept at full dial: added to the probability of a positive answer, subtracted from
that of a negative one."""
SHIFTS: Final = (-1 / 12, -1 / 24, 0.0, 1 / 24, 1 / 12)
"""Possible effects of a role; the sum with LEANS is at most 1/3, so that all probabilities stay between 0 and
2/3."""
ENDED = r"[.!?:;…)\]\"”'][ \t\n]*$"
"""Pattern of prompts that end a sentence and are answered; other prompts are continued."""


def lean_of(concept: str) -> float:
    """Return the effect of a concept, one of LEANS."""
    return _effect("concept", concept, LEANS)


def _shift_of(role: str) -> float:
    """Return the effect of a role, one of SHIFTS; 0 without a role."""
    return 0.0 if role == NO_ROLE else _effect("role", role, SHIFTS)


def _effect(kind: str, name: str, sizes: Sequence[float]) -> float:
    """Choose an effect by the hash of a name."""
    text = f"{_SALT} {kind} {name.casefold()}"
    number = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
    return sizes[number % len(sizes)]


def _effects(column: str, effect_of: Callable[[str], float], design: DataFrame) -> Expr:
    """Return the effect of the value of a column; 0 where it is null."""
    effects = {name: effect_of(name) for name in design[column].unique().drop_nulls()}
    return col(column).replace_strict(effects, default=0.0, return_dtype=Float64)


def planted_tones(design: DataFrame, dials: Mapping[str, float]) -> DataFrame:
    """Return the plan of the simulated model for each prompt and system message.

    It has one row per row of the design. The probability of a positive answer is 1/3 + b * (effect of the
    concept + effect of the role), that of a negative one 1/3 minus the same, where b is the dial
    `representational_harms`. A role has the same effect for all concepts. Between the two extreme concepts,
    the difference between the shares of positive and negative answers differs by b. Rows with the same prompt
    and system message share a plan, with the mean of their probabilities.

    Parameters
    ----------
    design
        Table with `prompt`, `system`, `concept`, `role`, and optionally `keyword`.
    dials
        Dials of the simulated model (`Dials.mapping`).

    Returns
    -------
    Table in the format of `SimulatedModel.learn`.
    """
    request = ["prompt", "system"]
    effect = _effects("concept", lean_of, design) + _effects("role", _shift_of, design)
    shift = (effect * dials["representational_harms"]).mean().over(request)
    is_finished = col.prompt.str.contains(ENDED)
    form = when(is_finished).then(lit("tone")).otherwise(lit("continuation"))
    odds = pl.concat_list(1 / 3 + shift, lit(1 / 3), 1 / 3 - shift)
    tones = lit(list(TONES), pl.List(String))
    subject = _subject(design).first().over(request)
    return design.select(*request, outcomes=tones, odds=odds, form=form, about=subject)


def _subject(design: DataFrame) -> Expr:
    """Return the concept, or else the keyword, as written in the prompt ("the United States").

    Null if it contains neither.
    """
    names = [col(name).str.escape_regex() for name in ("concept", "keyword") if name in design.columns]
    patterns = [pl.format(r"\b((?:the )?(?i:{}))", name) for name in names]
    return pl.coalesce(col.prompt.str.extract(pattern) for pattern in patterns)
