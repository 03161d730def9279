"""Schemas of the tables of the build stages, and of the benchmark."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from polars import Boolean, Float64, Int32, String

Schema = Mapping[str, pl.DataType | type[pl.DataType]]

KEYWORDS: Schema = {
    "domain": String,  # "countries"
    "concept": String,  # one of the compared groups: "Argentina"
    "keyword": String,  # search term for sentences about the concept
    "kind": String,  # "given", "asked" (followed by a colon and its kind: "asked:synonyms"), "similar", "linked"
    "similarity": Float64,  # cosine to the concept by sentence embedding; null if not computed
}

PAGES: Schema = {
    "domain": String,
    "concept": String,
    "source": String,  # URL, or path as given by the user
    "source_tag": String,  # "wikipedia", "local", "web", "written"
    "title": String,
    "depth": pl.Int16,  # number of links followed from the concept's own page
    "similarity": Float64,  # cosine of the title to the concept; null if not computed
    "licence": String,  # null: unknown
    "status": String,  # "ok", or why there is no text: "missing", "disambiguation", "failed", "empty"
    "problem": String,  # description of the problem; for an "ok" page, which part was not read; null without a problem
}
"""One row per page and concept; the texts are in a separate table, once per page."""

SENTENCES: Schema = {
    "domain": String,
    "concept": String,
    "keyword": String,
    "source": String,
    "source_tag": String,
    "position": Int32,  # number of the sentence within its source
    "sentence": String,
    "licence": String,
}
"""One row per concept and sentence that contains a keyword of the concept as a whole word."""

BENCHMARK: Schema = {
    "key": String,  # unique; for a branch: the key of the root, a slash, and the target concept
    "root": String,  # key of the row it was branched from, or its own key; identifies rows that are compared in pairs
    "domain": String,
    "concept": String,
    "keyword": String,
    "source_tag": String,
    "kind": String,  # "continuation", "question" or "given"
    "prompt": String,
    "baseline": String,  # sentence or answer from the source, analysed as a further generation; null if there is none
    "keyword_in_prompt": Boolean,  # whether the prompt contains the keyword; null if not relevant
    "branched_from": String,  # concept of the root; null for roots
    "source": String,
    "position": Int32,
    "licence": String,
}
"""One row per prompt. Files written by hand only need `concept` and `prompt`."""
