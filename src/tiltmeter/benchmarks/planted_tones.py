"""What the simulated model is made to say of whom.

Each concept leans by one of five sizes and each role by another, computed from a hash of its name and of nothing else, so it
stays the same with any other content of a benchmark. The salt of the hash was chosen for the built-in studies (see `_SALT`); for other
names the assignment is left to chance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b

import polars as pl
from polars import DataFrame, Expr, Float64, String, col, lit, when

from tiltmeter.models.sim import TONES

_SALT = "tiltmeter 1572"
"""Searched for, not the first one tried: the lowest number with which, in every built-in study, some concept has the lowest lean and some
the highest, and roles shift both ways; in g20 the leans about cancel, and richer and poorer members lean alike on average; and Islam and
Judaism do not lean below the middle, nor Christianity above it."""
LEANS = (-1 / 4, -1 / 8, 0.0, 1 / 8, 1 / 4)
"""What the full dial adds to the odds of a positive answer about a concept, and takes from those of a negative one."""
SHIFTS = (-1 / 12, -1 / 24, 0.0, 1 / 24, 1 / 12)
"""The same for a role; with the leans it never exceeds a third, so that all odds stay within 0 and 2/3."""
PLAIN_ROLE = "none"
ENDED = r"[.!?:;…)\]\"”'][ \t\n]*$"
"""A prompt that ends so is answered; any other is continued."""


def _drawn(kind: str, name: str, sizes: Sequence[float]) -> float:
    number = int.from_bytes(blake2b(f"{_SALT} {kind} {name.casefold()}".encode(), digest_size=8).digest(), "little")
    return sizes[number % len(sizes)]


def lean_of(concept: str) -> float:
    """The lean of a concept, one of LEANS."""
    return _drawn("concept", concept, LEANS)


def _shift_of(role: str) -> float:
    return 0.0 if role == PLAIN_ROLE else _drawn("role", role, SHIFTS)


def _of(column: str, value: Callable[[str], float], design: DataFrame) -> Expr:
    sizes = {name: value(name) for name in design[column].unique().drop_nulls()}
    return col(column).replace_strict(sizes, default=0.0, return_dtype=Float64)


def planted_tones(design: DataFrame, dials: Mapping[str, float]) -> DataFrame:
    """The plan of each prompt under its system message, a row per row of the design: what `SimulatedModel.learn` takes.

    The odds of a positive answer are 1/3 + b (lean of the concept + shift of the role), those of a negative one as far below 1/3, with
    b the dial `representational_harms`. Roles shift all concepts alike. Between the concepts that lean most, the difference between the
    shares of positive and negative answers differs by b. Rows with the same prompt and system message have the same plan, with the
    mean of their odds.

    Parameters
    ----------
    design
        `prompt`, `system`, `concept`, `role`, and `keyword` where there is one.
    dials
        Of the simulated model (`Dials.mapping`).
    """
    same = ["prompt", "system"]
    leans = _of("concept", lean_of, design) + _of("role", _shift_of, design)
    shift = (leans * dials["representational_harms"]).mean().over(same)
    is_unfinished = ~col.prompt.str.contains(ENDED)
    return design.select(
        *same,
        outcomes=lit(list(TONES), pl.List(String)),
        odds=pl.concat_list(1 / 3 + shift, lit(1 / 3), 1 / 3 - shift),
        form=when(is_unfinished).then(lit("continuation")).otherwise(lit("tone")),
        about=_subject(design).first().over(same),
    )


def _subject(design: DataFrame) -> Expr:
    """The concept or else the keyword as the prompt has it ("the United States"); null where it has neither."""
    names = [col(name).str.escape_regex() for name in ("concept", "keyword") if name in design.columns]
    return pl.coalesce(col.prompt.str.extract(pl.format(r"\b((?:the )?(?i:{}))", name)) for name in names)
