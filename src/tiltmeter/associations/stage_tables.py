"""The tables between the stages: what one stage gives and the next takes. Each is kept in the run folder and can be edited."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from polars import Boolean, DataFrame, Float64, Int32, Int64, Series, String

from tiltmeter.study import FINDINGS, Schema, conform

STORIES: Schema = {
    "attempt": String,  # "prompt_id#repetition": one story
    "character": pl.Int8,  # 0, or 1 for the second one; one row per story and character
    "identity": String,  # "female", "Muslim"
    "descriptor": String,  # as in the prompt: "Zhang, an Asian (male)"; null where a text was written by others and does not say
    "name": String,  # "Zhang"; null where it is not known
    "context": String,  # location category; null where there is none
    "location": String,
    "stratum": String,  # lists of one stratum can be compared: category and type of the pair ("male"), or "all"
    "repetition": Int32,
    "text": String,  # null: there is no story (refused, failed, empty)
}
"""What extraction takes: one row per story and character, both characters of a story one after the other."""

LISTS: Schema = {
    **{name: kind for name, kind in STORIES.items() if name != "text"},
    "status": String,  # "listed"; "empty": made, and holds no phrase; "missing": could not be made (see its `problem`)
    "problem": String,  # why a list is missing, or what had to be repaired; null otherwise
}
"""One row per story and character, in the order of STORIES: the units that are counted (`n` lists of an identity)."""

MENTIONS: Schema = {
    "attempt": String,
    "character": pl.Int8,
    "phrase": String,  # as extracted
    "sentence": String,  # of the story, where it is shown; null where none is known
}
"""One row per phrase of a list; (attempt, character) is the list. A list holds a phrase once."""

FoundPhrases = Sequence[tuple[str, str | None]] | None
"""The phrases of a list, each with its sentence; None where the list is missing."""


def list_tables(stories: DataFrame, found: Sequence[tuple[str | None, FoundPhrases]]) -> tuple[DataFrame, DataFrame]:
    """LISTS in the order of STORIES and MENTIONS in the order of the lists, from the problem and the phrases of each list."""
    lists = stories.with_columns(
        status=Series(["missing" if phrases is None else "listed" if phrases else "empty" for _, phrases in found], dtype=String),
        problem=Series([problem for problem, _ in found], dtype=String),
    )
    owners = stories.select("attempt", "character").iter_rows()
    mentions = [(*owner, *one) for owner, (_, phrases) in zip(owners, found, strict=True) for one in phrases or ()]
    return conform(lists, LISTS), DataFrame(mentions, schema=dict(MENTIONS), orient="row")


PLACED: Schema = {**MENTIONS, **{name: STORIES[name] for name in ("identity", "descriptor", "context", "location")}}
"""Each mention with the identity, descriptor and place of its list."""

IDENTITIES: Schema = {"identity": String, "lists": Int64, "missing": Int64}
"""The identities of the study: their lists, and how many of these could not be made."""

CONCEPTS: Schema = {
    "phrase": String,
    "mentions": Int64,
    "concept": String,  # the phrase that names its cluster
    "similarity": Float64,  # cosine to the phrase that names the cluster; 1 for that one
}
"""The map of unifying: one row per unique phrase. Editing `concept` moves a phrase to another concept."""

EXCLUSIVE: Schema = {
    "concept": String,
    "identity": String,  # the one it belongs to by definition or universal fact; null: to none
    "by": String,  # "terms", "judge" or "user"
    "reason": String,
    "status": String,  # "ok", or "unreadable": the judge gave no usable answer (the concept is kept)
}

JUDGEMENTS: Schema = {
    "attempt": String,  # null where a stage is not about a story
    "stage": String,
    "turn": pl.Int8,  # 0, or 1 for the question asked again with the error
    "key": String,  # of the journal
    "status": String,  # "ok", "failed" or "missing" (not asked yet)
    "prompt": String,
    "answer": String,
    "problem": String,  # what was wrong with the answer; null: it could be read whole
}
"""Every question to the judge with its answer and how it was read."""

ASSOCIATIONS: Schema = {
    "context": String,  # null: over all location categories
    "concept": String,
    "identity": String,
    "count": Int64,  # a: lists of the identity with the concept
    "lists": Int64,  # n: lists of the identity
    "mentions": Int64,  # T: mentions of any concept in them
    "others_count": Int64,  # lists of all other identities with the concept
    "others_lists": Int64,
    "rate": Float64,  # count / lists
    "others_rate": Float64,
    "effect": Float64,  # rate - others_rate
    "low": Float64,
    "high": Float64,
    "runner_up": String,  # the other identity with the highest rate
    "runner_up_rate": Float64,
    "runner_up_effect": Float64,
    "runner_up_low": Float64,
    "runner_up_high": Float64,
    "name_spread": Float64,  # standard deviation of the identity's rate between its first names; null where there are few names
    "log_odds": Float64,
    "z": Float64,
    "score": Float64,  # distinctiveness, by the definition asked for
    "p": Float64,  # null: not tested (below the minimum support)
    "q": Float64,
    "reported": Boolean,  # an association by the definition asked for
    "effect_first": Float64,  # in the first half of the repetitions
    "p_first": Float64,
    "effect_second": Float64,
    "p_second": Float64,
    "confirmed": Boolean,  # discovered in one half and shown in the other; null where a half lacks lists
    "descriptors": pl.List(pl.Struct({"descriptor": String, "count": Int64, "lists": Int64})),  # who carries it, most first
    "rests_on": String,  # the one descriptor without which nothing is left; null: on several
}
"""One row per context, concept and identity that was counted; reports show those that are `reported`."""

FOUND: Schema = {
    **ASSOCIATIONS,  # those held back as definitional are no longer `reported`
    "permutation_p": Float64,  # with identities dealt to whole descriptors; null unless asked for and reported
    "label": String,  # what the concept is called in findings: the most frequent phrase of this identity
    "examples": pl.List(String),  # the first sentences that show it
}
"""The table `associations`: joined with findings by `identity` (their group), `label` (their concept) and `context`."""

DEFINITIONAL: Schema = {**FINDINGS, "reason": String}
"""Findings of associations that are held back because the concept belongs to the group by definition, with who says so and why."""

SHOWN: Schema = dict.fromkeys(("attempt", "identity", "descriptor", "context", "concept", "phrase", "sentence"), String)
"""One row per mention, each concept under the name it has for the identity."""
