"""Schemas of the tables of the build stages, of the benchmark, and of the stages of a study."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl
from polars import Boolean, Float64, Int32, Int64, String

Schema = Mapping[str, pl.DataType | type[pl.DataType]]

KEYWORDS: Schema = {
    "domain": String,  # "countries"
    "concept": String,  # one of the compared groups: "Argentina"
    "keyword": String,  # search term for sentences about the concept
    "kind": String,  # "given", "asked" (with its kind, as in "asked:synonyms"), "similar", "linked"
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
    "problem": String,  # description; for an "ok" page, which part was not read; null without a problem
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
    "root": String,  # key of the row it was branched from, or its own; such rows are compared in pairs
    "domain": String,
    "concept": String,
    "keyword": String,
    "source_tag": String,
    "kind": String,  # "continuation", "question" or "given"
    "prompt": String,
    "baseline": String,  # sentence or answer from the source, analysed as a generation; null if there is none
    "keyword_in_prompt": Boolean,  # whether the prompt contains the keyword; null if not relevant
    "branched_from": String,  # concept of the root; null for roots
    "source": String,
    "position": Int32,
    "licence": String,
}
"""One row per prompt. Files written by hand only need `concept` and `prompt`."""

FACTORS: Schema = {
    "prompt_key": String,  # key of the benchmark's row
    "root": String,  # key of the root row; identifies prompts that are compared in pairs
    "domain": String,
    "concept": String,
    "keyword": String,
    "source_tag": String,
    "kind": String,
    "branched_from": String,
    "role": String,
    "template": String,
    "baseline": String,  # text with which the answers are compared; null if there is none
    "stratum": String,  # --limit keeps the same share of each stratum
}
"""Columns of the design, in addition to the common ones."""

UNSCORED: Schema = {"feature": String, "failed": Int64, "reason": String, "truncated": Int64}
"""Number of answers without a value of a feature, with a reason, and number of answers truncated by it."""

FURTHER: Schema = {
    **dict.fromkeys(("generation", "metric"), String),
    "feature": String,  # feature whose values are compared; null if texts are compared
    "group": String,  # null if the number is not about a single group
    "group_2": String,  # group of comparison
    "target": String,  # target word; null for the mean over words and for other measures
    **dict.fromkeys(("estimate", "low", "high", "p", "q"), Float64),
    "chance": Float64,  # value expected by chance: with exchanged groups, or for answers about the same group
    **dict.fromkeys(("n", "missing"), Int64),
    **dict.fromkeys(("interval", "definition", "note"), String),
}
"""Further measures of the same answers, requested with `-P also=`."""

VALUE: Final = "value:"
BASELINE: Final = "baseline:"
WITHOUT_NAMES: Final = "without names:"
"""Prefixes of the columns of `measures`: a feature of the answer, the feature of its baseline, and the
calibrated feature.

The calibrated feature is that of the answer minus that of its baseline, after the names of the groups were
replaced by one word in both.
A feature of the answer is Boolean if its values are decisions."""
BASELINES: Final = "baseline"
"""Name of the generation that consists of the baselines."""
NO_ROLE: Final = "none"
