"""Keywords a model is asked for: five kinds, round after round until nothing new comes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import polars as pl

from tiltmeter._wording import Wording, fill, wordings
from tiltmeter.benchmarks._tables import Schema
from tiltmeter.benchmarks.keywords._replies import Words, read_words
from tiltmeter.benchmarks.keywords._tables import join_keywords, nearest, non_containing, rows
from tiltmeter.benchmarks.sources._written import WORDINGS
from tiltmeter.errors import InputError
from tiltmeter.models import Message
from tiltmeter.registry import did_you_mean
from tiltmeter.study import Encoder, Judge

__all__ = ["KINDS", "REPLIES", "Asked", "ask_keywords"]

KINDS = ("characteristics", "subcategories", "synonyms", "same_root", "people")
"""Necessary characteristics, sub-categories, synonyms, words of the same root, famous people in long and short form."""

REPLIES: Schema = {
    "domain": pl.String,
    "concept": pl.String,
    "kind": pl.String,  # of KINDS
    "round": pl.Int16,  # from 0
    "status": pl.String,  # "ok", "failed" or "missing" (not asked yet: the run was interrupted)
    "new": pl.Int32,  # keywords that came with it and were not known
    "answer": pl.String,
    "problem": pl.String,  # null where the whole answer could be used
}


class Asked(NamedTuple):
    """What came of asking."""

    keywords: pl.DataFrame
    """KEYWORDS, of kind "asked:KIND"."""
    replies: pl.DataFrame
    """REPLIES: one row per question."""


class _List:
    """The words of one concept and kind so far."""

    def __init__(self, concept: str, kind: str) -> None:
        self.concept, self.kind = concept, kind
        self.words: dict[str, str] = {}
        self.finished = False

    def add(self, read: Words) -> int:
        """Take in what is new; how much that is."""
        before = len(self.words)
        for word in read.words:
            self.words.setdefault(word.casefold(), word)
        return len(self.words) - before


def ask_keywords(
    judge: Judge,
    concepts: Sequence[str],
    *,
    domain: str,
    rounds: int = 5,
    n: int | None = None,
    encoder: Encoder | None = None,
    kinds: Sequence[str] = KINDS,
    wording: str | None = None,
    definition: str = "default",
) -> Asked:
    """Ask a model for keywords of each concept, in each kind.

    Each round shows the model what is on the list and asks for more; a list that got nothing new is finished. All lists of a round are
    asked at once. What comes is reduced to a set in which no keyword contains another (see `non_containing`).

    Parameters
    ----------
    rounds
        At most so many for each kind.
    n, encoder
        Keep the n keywords nearest to their concept, by this encoder; None: all of them.

    Raises
    ------
    InputError
        No concept, an unknown kind, wording or definition, n without an encoder, or no usable answer at all.
    """
    if not concepts or not all(concept.strip() for concept in concepts):
        raise InputError("there is no concept to ask keywords for, or one without a name")
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise InputError(f"unknown kind of keywords {unknown[0]!r}: {did_you_mean(unknown[0], KINDS)}")
    if rounds < 1 or not kinds:
        raise InputError("keywords must be asked for in at least one round and one kind")
    if n is not None and encoder is None:
        raise InputError(f"to keep the {n} nearest keywords an encoder is needed: name one, or keep all")
    chosen = next(iter(wordings("keywords", wording, WORDINGS).values()))
    lists = [_List(concept, kind) for concept in dict.fromkeys(concepts) for kind in kinds]
    kept: list[dict[str, Any]] = []
    for number in range(rounds):
        if not (going := [one for one in lists if not one.finished]):
            break
        kept += _round(judge, going, chosen, domain, number)
    replies = pl.DataFrame(kept, schema=dict(REPLIES), orient="row")
    found = join_keywords(*(rows(domain, {one.concept: list(one.words.values())}, f"asked:{one.kind}") for one in lists))
    if found.is_empty() and not (replies["status"] == "missing").any():
        told: list[str] = replies.drop_nulls("problem")["problem"].to_list()
        raise InputError(f"{judge.name} named no keyword for any concept: {told[0] if told else 'its lists are empty'}")
    order = pl.DataFrame({"concept": list(dict.fromkeys(concepts))}).with_row_index("order")
    found = found.join(order, on="concept", maintain_order="left").sort("order", maintain_order=True).drop("order")
    found = non_containing(found, definition)
    if n is not None and encoder is not None:
        found = nearest(found, n, encoder)
    return Asked(found, replies)


def _round(judge: Judge, lists: Sequence[_List], wording: Wording, domain: str, number: int) -> list[dict[str, Any]]:
    asked = judge.ask([(Message("user", prompt),) for prompt in _prompts(lists, wording, domain)])
    kept: list[dict[str, Any]] = []
    for one, (status, answer, error) in zip(lists, asked.select("status", "answer", "error").iter_rows(), strict=True):
        read = read_words(answer or "") if status == "ok" else Words((), error if status == "failed" else "not asked yet")
        new = one.add(read)
        one.finished = new == 0
        about = {"domain": domain, "concept": one.concept, "kind": one.kind, "round": number}
        kept.append({**about, "status": status, "new": new, "answer": answer, "problem": read.problem})
    return kept


def _prompts(lists: Sequence[_List], wording: Wording, domain: str) -> list[str]:
    known = [json.dumps(list(one.words.values()), ensure_ascii=False) for one in lists]
    table = pl.DataFrame({"concept": [one.concept for one in lists], "domain": [domain] * len(lists), "known": known})
    filled = {kind: table.select(fill(wording[kind])).to_series() for kind in dict.fromkeys(one.kind for one in lists)}
    return [filled[one.kind][place] for place, one in enumerate(lists)]
