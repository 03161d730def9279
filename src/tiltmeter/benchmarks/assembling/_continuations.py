"""Beginnings of sentences: the model goes on where the sentence is cut."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tiltmeter.benchmarks.assembling._cut import LONGEST, NO_VERB, TOO_LONG, cut_after_verb, cut_as_saged
from tiltmeter.benchmarks.assembling._rows import Assembled, assembled, checked
from tiltmeter.errors import InputError

__all__ = ["NOTHING_LEFT", "continuations"]

NOTHING_LEFT = "too little is left to continue"

_LEAST_LEFT = 3
"""Words after the cut. The published rule asks for one only."""

_CUTS = {"default": cut_after_verb, "saged": cut_as_saged}


def continuations(sentences: pl.DataFrame, *, definition: str = "default", concepts: Sequence[str] | None = None) -> Assembled:
    """Prompts that are sentences up to just after their main verb; the whole sentence is the baseline.

    Some 800 sentences of 28 words a second on one core; nearly all of it is tagging.

    Parameters
    ----------
    sentences
        SENTENCES (`source_tag` and `licence` may be absent).
    definition
        "default": after the main verb with its auxiliaries. "saged": as published, three words after the first verb that stands after
        the fifth word (or anywhere), is not capitalised and in no brackets.
    concepts
        Concepts that must have prompts in the end; None: those of the table.

    Returns
    -------
    The benchmark (kind "continuation"), and the sentences without a main verb, with fewer than three words behind it, or of more than
    5,000 characters.

    Raises
    ------
    InputError
        Unknown definition, a column is missing, or a concept is left without prompts.
    """
    if definition not in _CUTS:
        raise InputError(f"unknown definition {definition!r} of continuations; known: {', '.join(_CUTS)}")
    table = checked(sentences, concepts)
    distinct = table["sentence"].unique(maintain_order=True)
    ends = pl.DataFrame({"sentence": distinct, "end": _CUTS[definition](distinct.to_list())})
    cut = table.select("sentence").join(ends, on="sentence", how="left", maintain_order="left")
    left = pl.col("sentence").str.slice(pl.col("end")).str.count_matches(r"\w[^\s]*")
    enough = left >= (_LEAST_LEFT if definition == "default" else 1)
    made = cut.select(
        prompt=pl.when(enough).then(pl.col("sentence").str.slice(0, pl.col("end"))),
        reason=pl.when(pl.col("sentence").str.len_chars() > LONGEST)
        .then(pl.lit(TOO_LONG))
        .when(pl.col("end").is_null())
        .then(pl.lit(NO_VERB))
        .when(~enough)
        .then(pl.lit(NOTHING_LEFT)),
    )
    return assembled(table, made["prompt"], made["reason"], "continuation")
