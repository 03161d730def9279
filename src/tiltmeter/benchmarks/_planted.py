"""What the simulated model is made to say of whom, and what a perfect measurement of it would find.

Each concept leans by one of five sizes and each role by another, computed from a hash of its name and of nothing else, so it
stays the same whatever else a benchmark holds. The salt of the hash was chosen for the built-in studies (see `_SALT`); for other names
the assignment is left to chance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl

from tiltmeter.models.sim import TONES, tone_texts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["lean_of", "simulate", "truth"]

Values: TypeAlias = "NDArray[np.float64]"
Score = Callable[[Sequence[str]], Values]

_SALT = "tiltmeter 1572"
"""Searched for, not the first one tried: the lowest number with which, in every built-in study, some concept has the lowest lean and some
the highest, and roles shift both ways; in g20 the leans about cancel, and richer and poorer members lean alike on average; and Islam and
Judaism do not lean below the middle, nor Christianity above it."""
LEANS = (-1 / 4, -1 / 8, 0.0, 1 / 8, 1 / 4)
"""What the full dial adds to the odds of a positive answer about a concept, and takes from those of a negative one."""
SHIFTS = (-1 / 12, -1 / 24, 0.0, 1 / 24, 1 / 12)
"""The same for a role; with the leans it never exceeds a third, so that all odds stay within 0 and 2/3."""
PLAIN_ROLE = "none"


def _drawn(kind: str, name: str, sizes: Sequence[float]) -> float:
    number = int.from_bytes(blake2b(f"{_SALT} {kind} {name.casefold()}".encode(), digest_size=8).digest(), "little")
    return sizes[number % len(sizes)]


def lean_of(concept: str) -> float:
    """The lean of a concept, one of LEANS."""
    return _drawn("concept", concept, LEANS)


def _shift_of(role: str) -> float:
    return 0.0 if role == PLAIN_ROLE else _drawn("role", role, SHIFTS)


def _of(column: str, value: Callable[[str], float], design: pl.DataFrame) -> pl.Expr:
    sizes = {name: value(name) for name in design[column].unique().drop_nulls()}
    return pl.col(column).replace_strict(sizes, default=0.0, return_dtype=pl.Float64)


def _with_odds(design: pl.DataFrame, dials: Mapping[str, float]) -> pl.DataFrame:
    """The design with the odds of each tone; rows that ask the very same have the same odds, the mean of what would be planted."""
    leans = _of("concept", lean_of, design) + _of("role", _shift_of, design)
    shift = (leans * dials["representational_harms"]).mean().over("prompt", "system")
    return design.with_columns(positive=1 / 3 + shift, neutral=pl.lit(1 / 3), negative=1 / 3 - shift)


def simulate(design: pl.DataFrame, dials: Mapping[str, float]) -> pl.DataFrame:
    """Odds of each tone for each prompt under its system message.

    The odds of a positive answer are 1/3 + b (lean of the concept + shift of the role), those of a negative one as far below 1/3, with
    b the dial `representational_harms`. Roles shift all concepts alike. Between the concepts that lean most, the difference between the
    shares of positive and negative answers differs by b.

    Parameters
    ----------
    design
        `prompt`, `system`, `concept`, `role`.
    dials
        Of the simulated model (`Dials.mapping`).

    Returns
    -------
    pl.DataFrame
        One row per row of the design: `prompt`, `system`, `outcomes` (TONES), `odds`; what `SimulatedModel.learn` takes.
    """
    return _with_odds(design, dials).select(
        "prompt", "system", outcomes=pl.lit(list(TONES), pl.List(pl.String)), odds=pl.concat_list(TONES)
    )


def truth(
    design: pl.DataFrame,
    dials: Mapping[str, float],
    *,
    by: Sequence[str] = ("concept",),
    score: Score | None = None,
    standard: float | None = None,
) -> pl.DataFrame:
    """What the readable answers of the simulated model to a design have on average, exactly: all its answers are enumerated.

    Parameters
    ----------
    design
        `prompt`, `system`, `concept`, `role`, `repetitions` (weights) and the columns of `by`.
    dials
        Of the simulated model.
    by
        Columns that make the groups.
    score
        Texts to numbers, one each. By default the compound sentiment of VADER, in [-1, 1].
    standard
        What an answer must reach to be selected. By default the mean over all groups.

    Returns
    -------
    pl.DataFrame
        One row per group, in the order of the design: the columns of `by`, `answers` (asked for), `mean`, `deviation` (standard
        deviation of a single answer), `selection_rate`, `standard`. Range and impact ratio follow from the columns.
    """
    import numpy as np

    kept = list(dict.fromkeys(by))
    prompts = design.select("prompt").unique(maintain_order=True)["prompt"].to_list()
    scored = _scored(prompts, int(dials["verbosity"]), score or _compound)
    weighted = (
        _with_odds(design, dials)
        .select(pl.struct(kept).alias("group"), "prompt", "repetitions", *TONES)
        .unpivot(TONES, index=["group", "prompt", "repetitions"], variable_name="tone", value_name="odds")
        .with_columns(weight=pl.col("odds") * pl.col("repetitions"))
    )
    moments = _per_tone(scored, score=np.mean, square=lambda values: np.mean(values**2))
    weighted = weighted.join(moments, on=["prompt", "tone"], maintain_order="left")
    bar = float(weighted.select(_mean("score")).item()) if standard is None else standard
    selected = _per_tone(scored, selected=lambda values: np.mean(values >= bar))
    groups = weighted.join(selected, on=["prompt", "tone"], maintain_order="left").group_by("group", maintain_order=True)
    return (
        groups.agg(
            answers=pl.col("weight").sum().round().cast(pl.Int64),
            mean=_mean("score"),
            square=_mean("square"),
            selection_rate=_mean("selected"),
        )
        .unnest("group")
        .with_columns(deviation=(pl.col("square") - pl.col("mean") ** 2).clip(0).sqrt(), standard=pl.lit(bar))
        .select(*kept, "answers", "mean", "deviation", "selection_rate", "standard")
    )


def _mean(column: str) -> pl.Expr:
    return (pl.col(column) * pl.col("weight")).sum() / pl.col("weight").sum()


def _scored(prompts: Sequence[str], verbosity: int, score: Score) -> list[tuple[str, str, Values]]:
    """Prompt, tone and the scores of all answers in that tone, each distinct set of answers scored once."""
    known: dict[tuple[str, ...], Values] = {}
    found: list[tuple[str, str, Values]] = []
    for prompt in prompts:
        for tone in TONES:
            texts = tone_texts(prompt, tone, verbosity=verbosity)
            if texts not in known:
                known[texts] = score(texts)
            found.append((prompt, tone, known[texts]))
    return found


def _per_tone(scored: Sequence[tuple[str, str, Values]], **values: Callable[[Values], Any]) -> pl.DataFrame:
    """One row per prompt and tone with a number computed from the scores for each name."""
    columns = {name: [float(of(scores)) for _, _, scores in scored] for name, of in values.items()}
    return pl.DataFrame({"prompt": [row[0] for row in scored], "tone": [row[1] for row in scored], **columns})


def _compound(texts: Sequence[str]) -> NDArray[np.float64]:
    import numpy as np
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    analyser = SentimentIntensityAnalyzer()
    return np.array([analyser.polarity_scores(text)["compound"] for text in texts])
