"""Differences in missing responses as sentences."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

from polars import DataFrame, col

from tiltmeter.blocks import Block, Headline, named_model
from tiltmeter.comparisons._missing import is_missing_test
from tiltmeter.schema import SHOWN_BELOW

IN_RESPONSES: Final = {"no bias shown": "no other bias shown"}
"""What a headline says of the responses that could be read, if others are missing more often for a group."""


def shown_differences(findings: DataFrame) -> DataFrame:
    """Return the findings of missing responses that differ between groups, the largest first.

    A difference is stated as a fact if q < SHOWN_BELOW. `note` says it in words.
    """
    shown = findings.filter(is_missing_test(), col.q < SHOWN_BELOW)
    return shown.sort(col.estimate.abs(), descending=True, maintain_order=True)


def missing_sentences(findings: DataFrame, titles: Mapping[str, str]) -> dict[str, list[str]]:
    """Return by model what is missing more often for one group than for another, as ends of a headline.

    Parameters
    ----------
    findings
        FINDINGS of one or more models.
    titles
        Titles of the parts, named if there are several.
    """
    has_several_parts = findings["part"].n_unique() > 1
    sentences: dict[str, list[str]] = {}
    for row in shown_differences(findings).iter_rows(named=True):
        place = f" (“{titles.get(row['part'], row['part'])}”)" if has_several_parts else ""
        sentences.setdefault(row["model"], []).append(f"{row['note']}{place}")
    return sentences


def with_missing_responses(
    blocks: Sequence[Block], findings: DataFrame, titles: Mapping[str, str]
) -> list[Block]:
    """Return the blocks with what is missing more often for one group at the beginning of each headline.

    Parameters
    ----------
    blocks
        Blocks of a report.
    findings
        FINDINGS of the models of the report.
    titles
        Titles of the parts by name.
    """
    sentences = missing_sentences(findings, titles)
    return [
        _with_sentences(block, sentences[block.model])
        if isinstance(block, Headline) and block.model in sentences
        else block
        for block in blocks
    ]


def _with_sentences(headline: Headline, sentences: Sequence[str]) -> Headline:
    """Return a headline that begins with the first sentence; the others are in its detail."""
    name = f"{named_model(headline.model)}: "
    text = headline.text.removeprefix(name)
    for words, other_words in IN_RESPONSES.items():
        text = text.replace(words, other_words)
    further = [f"It {sentence}." for sentence in sentences[1:]]
    detail = " ".join(filter(None, [*further, headline.detail]))
    return dataclasses.replace(headline, text=f"{name}{sentences[0]}; {text}", detail=detail)
