"""The tables that pass from stage to stage of building a benchmark, and the benchmark itself."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from polars import Boolean, Float64, Int32, String

Schema = Mapping[str, pl.DataType | type[pl.DataType]]

KEYWORDS: Schema = {
    "domain": String,  # "countries"
    "concept": String,  # one compared group: "Argentina"
    "keyword": String,  # finds its sentences; as it is to be looked for
    "kind": String,  # "given", "asked" (with its kind behind a colon: "asked:synonyms"), "similar", "linked"
    "similarity": Float64,  # cosine to the concept by sentence embedding; null where it was not computed
}

PAGES: Schema = {
    "domain": String,
    "concept": String,
    "source": String,  # what it is cited by: a URL, or a path as the user gave it
    "source_tag": String,  # "wikipedia", "local", "web", "written"
    "title": String,
    "depth": pl.Int16,  # links followed from the concept's own page
    "similarity": Float64,  # of the title to the concept; null where it was not computed
    "licence": String,  # null: not known
    "status": String,  # "ok", or why there is no text: "missing", "disambiguation", "failed", "empty"
    "problem": String,  # in words, of a page that is "ok" what of it was not read; null where all is well
}
"""One row per page and concept; the text of a page is kept beside it, once."""

SENTENCES: Schema = {
    "domain": String,
    "concept": String,
    "keyword": String,
    "source": String,
    "source_tag": String,
    "position": Int32,  # number of the sentence in its source
    "sentence": String,
    "licence": String,
}
"""One row per sentence that holds a keyword as a whole word; a sentence of one concept is there once."""

BENCHMARK: Schema = {
    "key": String,  # unique; of a branch: the root's key, a slash, and the concept it was branched to
    "root": String,  # key of the row it was branched from, its own key where it was not: pairs what is compared
    "domain": String,
    "concept": String,
    "keyword": String,
    "source_tag": String,
    "kind": String,  # "continuation", "question" or "given"
    "prompt": String,
    "baseline": String,  # the source's own sentence or answer, treated as one more generation; null where there is none
    "keyword_in_prompt": Boolean,  # null where it does not matter
    "branched_from": String,  # concept of the root; null for roots
    "source": String,
    "position": Int32,
    "licence": String,
}
"""One row per prompt. Only `concept` and `prompt` must be filled in in a file a user writes by hand."""
