"""A text about each concept, written by a model on request."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from tiltmeter._wording import fill, wordings
from tiltmeter.benchmarks.sources._documents import read_document
from tiltmeter.benchmarks.sources._pages import Pages, check_places, row, table
from tiltmeter.errors import InputError
from tiltmeter.models import Message
from tiltmeter.study import Judge

__all__ = ["WORDINGS", "write_articles"]

WORDINGS = Path(__file__).parent.parent / "wordings" / "sources.yaml"
"""What models are asked, for sources and keywords."""

_TAG = "written"


def write_articles(judge: Judge, concepts: Sequence[str], *, domain: str, words: int = 1500, wording: str | None = None) -> Pages:
    """Have a model write an article about each concept.

    Parameters
    ----------
    words
        Length asked for; what is written is kept whatever its length.
    wording
        A name in `wordings/sources.yaml`, or a YAML file of the same shape; None: the first.

    Returns
    -------
    Pages; an article that was declined, failed or not asked for yet is a row with status "failed". The source names the model.

    Raises
    ------
    InputError
        No concept, fewer than one word, or an unknown wording.
    """
    from tiltmeter import measures

    check_places({concept: [concept] for concept in concepts}, "name")
    if words < 1:
        raise InputError(f"an article must have at least one word, not {words}")
    chosen = next(iter(wordings("article", wording, WORDINGS).values()))
    asked = pl.DataFrame({"concept": list(concepts), "domain": [domain] * len(concepts), "words": [str(words)] * len(concepts)})
    prompts = asked.select(prompt=fill(chosen["prompt"]))["prompt"].to_list()
    replies = judge.ask([(Message("user", prompt),) for prompt in prompts]).select("status", "answer", "error")
    refused = measures.refused_text(replies["answer"].cast(pl.String))
    rows: list[dict[str, Any]] = []
    texts: dict[str, str] = {}
    for concept, (status, answer, error), declines in zip(concepts, replies.iter_rows(), refused, strict=True):
        source = f"written by {judge.name}: {concept}"
        problem = "it is not written yet: start again" if status == "missing" else error if status != "ok" else None
        text = ""
        if problem is None:
            text, _, problem = read_document((answer or "").encode("utf-8", errors="replace"), "md")
            if declines or not text:
                text, problem = "", "the model declines to write it" if declines else "the model wrote nothing"
        rows.append(row(domain, concept, source, _TAG, concept, status="ok" if text else "failed", problem=problem))
        if text:
            texts[source] = text
    return Pages(table(rows), texts)
