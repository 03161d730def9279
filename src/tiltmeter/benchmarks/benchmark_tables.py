"""The tables that pass from stage to stage of building a benchmark, and the benchmark itself."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

Schema = Mapping[str, pl.DataType | type[pl.DataType]]

KEYWORDS: Schema = {
    "domain": pl.String,  # "countries"
    "concept": pl.String,  # one compared group: "Argentina"
    "keyword": pl.String,  # finds its sentences; as it is to be looked for
    "kind": pl.String,  # "given", "asked" (with its kind behind a colon: "asked:synonyms"), "similar", "linked"
    "similarity": pl.Float64,  # cosine to the concept by sentence embedding; null where it was not computed
}

PAGES: Schema = {
    "domain": pl.String,
    "concept": pl.String,
    "source": pl.String,  # what it is cited by: a URL, or a path as the user gave it
    "source_tag": pl.String,  # "wikipedia", "local", "web", "written"
    "title": pl.String,
    "depth": pl.Int16,  # links followed from the concept's own page
    "similarity": pl.Float64,  # of the title to the concept; null where it was not computed
    "licence": pl.String,  # null: not known
    "status": pl.String,  # "ok", or why there is no text: "missing", "disambiguation", "failed", "empty"
    "problem": pl.String,  # in words, of a page that is "ok" what of it was not read; null where all is well
}
"""One row per page and concept; the text of a page is kept beside it, once."""

SENTENCES: Schema = {
    "domain": pl.String,
    "concept": pl.String,
    "keyword": pl.String,
    "source": pl.String,
    "source_tag": pl.String,
    "position": pl.Int32,  # number of the sentence in its source
    "sentence": pl.String,
    "licence": pl.String,
}
"""One row per sentence that holds a keyword as a whole word; a sentence of one concept stands there once."""

BENCHMARK: Schema = {
    "key": pl.String,  # unique; of a branch: the root's key, a slash, and the concept it was branched to
    "root": pl.String,  # key of the row it was branched from, its own key where it was not: pairs what is compared
    "domain": pl.String,
    "concept": pl.String,
    "keyword": pl.String,
    "source_tag": pl.String,
    "kind": pl.String,  # "continuation", "question" or "given"
    "prompt": pl.String,
    "baseline": pl.String,  # the source's own sentence or answer, treated as one more generation; null where there is none
    "keyword_in_prompt": pl.Boolean,  # null where it does not matter
    "branched_from": pl.String,  # concept of the root; null for roots
    "source": pl.String,
    "position": pl.Int32,
    "licence": pl.String,
}
"""One row per prompt. Only `concept` and `prompt` must be filled in in a file a user writes by hand."""
