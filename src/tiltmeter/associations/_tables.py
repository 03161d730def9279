"""Tables passed from stage to stage. Each is stored in the run folder and can be edited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl
from polars import Boolean, DataFrame, Float64, Int32, Int64, Series, String

from tiltmeter.schema import FINDINGS, Schema, conform

STORIES: Schema = {
    "attempt": String,  # "prompt_id#repetition": one story
    "character": pl.Int8,  # 0, or 1 for the second one; one row per story and character
    "identity": String,  # "female", "Muslim"
    "descriptor": String,  # as in the prompt: "Zhang, an Asian (male)"; null if unknown (existing texts)
    "name": String,  # "Zhang"; null if unknown
    "context": String,  # location category; null if there is none
    "location": String,
    # Lists of the same stratum can be compared: category and type of the pair ("male"), or "all".
    "stratum": String,
    "repetition": Int32,
    "pair": String,  # texts of the same pair are compared with each other; null if there are no pairs
    "cluster": String,  # author or prompt, say: texts of the same cluster are not independent; null: the name
    "text": String,  # null if there is no story (refused, failed, empty)
}
"""Input of the extraction: one row per story and character; both characters of a story are in consecutive
rows."""
OWNER = ("attempt", "character")
"""Columns that identify a list."""

LISTS: Schema = {
    **{name: kind for name, kind in STORIES.items() if name != "text"},
    # "listed"; "empty": contains no phrase; "missing": could not be extracted (see `problem`).
    "status": String,
    "problem": String,  # why a list is missing or incomplete; null otherwise
    # Share of the content words of the text that are about none of its characters; null with a judge.
    "unattributed": Float64,
    "words": Int64,  # number of words of the text that are about the character; null with a judge
}
"""One row per story and character, in the order of STORIES. Lists are the units that are counted (`n` lists
of an identity)."""

MENTIONS: Schema = {
    "attempt": String,
    "character": pl.Int8,
    "phrase": String,  # as extracted
    "sentence": String,  # sentence of the story that shows the phrase; null if unknown
    "echo": Boolean,  # whether the prompt contains a word of the phrase; null if it was not looked for
    # Whether the phrase is a name, or has the name of a person; null if it was not looked for.
    "proper": Boolean,
    "times": Int64,  # how often the list contains the phrase; null if it was not counted
}
"""One row per phrase of a list (see OWNER). A list contains each phrase once."""

Phrases = Sequence[tuple[str, str | None]] | None
"""The phrases of a list, each with its sentence; None if the list is missing."""


def list_tables(
    stories: DataFrame, results: Sequence[tuple[str | None, Phrases]]
) -> tuple[DataFrame, DataFrame]:
    """Create LISTS, in the order of STORIES, and MENTIONS, in the order of the lists.

    Parameters
    ----------
    results
        The problem (or None) and the phrases of each list.
    """
    statuses = [_status(phrases) for _, phrases in results]
    problems = [problem for problem, _ in results]
    lists = stories.with_columns(
        status=Series(statuses, dtype=String), problem=Series(problems, dtype=String)
    )
    mentions = []
    for owner, (_, phrases) in zip(stories.select(OWNER).iter_rows(), results, strict=True):
        mentions += [(*owner, phrase, sentence) for phrase, sentence in phrases or ()]
    columns = [*OWNER, "phrase", "sentence"]
    return conform(lists, LISTS), conform(DataFrame(mentions, schema=columns, orient="row"), MENTIONS)


def _status(phrases: Phrases) -> str:
    """Return the status of a list."""
    if phrases is None:
        return "missing"
    return "listed" if phrases else "empty"


PLACED: Schema = {
    **MENTIONS,
    **{name: STORIES[name] for name in ("identity", "descriptor", "context", "location")},
}
"""MENTIONS with the identity, descriptor and location of their list."""

IDENTITIES: Schema = {"identity": String, "lists": Int64, "missing": Int64}
"""The identities of the study, with their numbers of lists and of missing lists."""

CONCEPTS: Schema = {
    "phrase": String,
    "mentions": Int64,
    "concept": String,  # the phrase that names its cluster
    "similarity": Float64,  # cosine similarity to the phrase that names the cluster; 1 for that phrase
}
"""Map from phrases to concepts: one row per unique phrase. Edit `concept` to move a phrase to another
concept."""

EXCLUSIVE: Schema = {
    "concept": String,
    "identity": String,  # identity to which the concept belongs by definition or universal fact; null: none
    "by": String,  # "terms", "judge" or "user"
    "reason": String,
    "status": String,  # "ok", or "unreadable": no usable answer of the judge (the concept is kept)
}

JUDGEMENTS: Schema = {
    "attempt": String,  # null if the stage is not about a story
    "stage": String,
    "turn": pl.Int8,  # 0, or 1 for the question repeated with the error
    "key": String,  # of the answer in the journal
    "status": String,  # "ok", "failed" or "missing" (not asked yet)
    "prompt": String,
    "answer": String,
    "problem": String,  # error in the answer; null if it could be parsed completely
}
"""All questions to the judge, with the answers and parsing errors."""

OWN_TEXTS: Final = "texts"
"""Name of the part of the texts of a user."""
NET_TONE: Final = "positive minus negative tone"
"""Name of the share of words of positive tone minus that of words of negative tone."""
TONES: Final = {"positive tone": 1, "negative tone": -1}
"""Names of the shares of words of positive and negative tone, with their sign."""
NAMES_LIKE_THESE: Final = "names like these"
"""Estimand of an association with at least 20 first names of each identity."""
THESE_NAMES: Final = "these names"
"""Estimand of an association with fewer first names."""
TEXTS_LIKE_THESE: Final = "texts like these"
"""Estimand of an association without names."""

ASSOCIATIONS: Schema = {
    "context": String,  # null: all location categories
    "concept": String,
    "identity": String,
    "against": String,  # the identity it is compared with; null: all others
    "count": Int64,  # a: lists of the identity with the concept
    "lists": Int64,  # n: lists of the identity
    "mentions": Int64,  # T: mentions of any concept in them
    "others_count": Int64,  # lists of `against` with the concept
    "others_lists": Int64,
    "rate": Float64,  # count / lists
    "others_rate": Float64,
    "effect": Float64,  # rate - others_rate
    "low": Float64,
    "high": Float64,
    # Confidence level of `low` to `high`; for reported rows of the default definition adjusted for selection.
    "level": Float64,
    "runner_up": String,  # the other identity with the highest rate
    "runner_up_rate": Float64,
    "runner_up_effect": Float64,
    "runner_up_low": Float64,
    "runner_up_high": Float64,
    # Standard deviation of the rate between first names of the identity; null if there are few names.
    "name_spread": Float64,
    "log_odds": Float64,
    "z": Float64,
    "score": Float64,  # distinctiveness by the definition of the study
    "p": Float64,  # null if not tested (below the minimum support)
    # Smallest false discovery rate at which the test would be selected; Benjamini-Hochberg in the published
    # definitions.
    "q": Float64,
    "reported": Boolean,  # whether it is an association by the definition of the study
    "effect_first": Float64,  # in the first half of the repetitions
    "p_first": Float64,
    "effect_second": Float64,
    "p_second": Float64,
    "confirmed": Boolean,  # whether significant in both halves; null if a half lacks lists
    # Descriptors with the concept, the most frequent first.
    "descriptors": pl.List(pl.Struct({"descriptor": String, "count": Int64, "lists": Int64})),
    # The only descriptor without which the association disappears; null if several or none.
    "rests_on": String,
}
"""One row per counted context, concept and identity. Reports show the rows that are `reported`."""

FOUND: Schema = {
    **ASSOCIATIONS,  # those excluded as definitional are not `reported`
    # p-value with identities permuted over descriptors; null unless requested and reported.
    "permutation_p": Float64,
    # Name of the concept in findings: the phrase that most lists of the identity with the concept contain.
    "label": String,
    "variant_of": String,  # label of the stronger association of the identity with which it is shown
    "examples": pl.List(String),  # the first sentences that show the concept
}
"""The table `associations`. Join it with findings by `identity` (group), `label` (concept) and `context`."""

DEFINITIONAL: Schema = {**FINDINGS, "reason": String}
"""Findings excluded because the concept belongs to the group by definition, with the source and the reason.
"""

SHOWN: Schema = dict.fromkeys(
    ("attempt", "identity", "descriptor", "context", "concept", "phrase", "sentence"), String
)
"""One row per mention, with the name of the concept for the identity."""
