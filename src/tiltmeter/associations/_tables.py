"""The tables between the stages: what one stage gives and the next takes. Each is kept in the run folder and can be edited."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

__all__ = ["ASSOCIATIONS", "CONCEPTS", "EXCLUSIVE", "JUDGEMENTS", "LISTS", "LIST_STATUSES", "MENTIONS", "STORIES"]

Schema = Mapping[str, pl.DataType | type[pl.DataType]]

STORIES: Schema = {
    "attempt": pl.String,  # "prompt_id#repetition": one story
    "character": pl.Int8,  # 0, or 1 for the second one; one row per story and character
    "identity": pl.String,  # "female", "Muslim"
    "descriptor": pl.String,  # who stood in the prompt: "Zhang, an Asian (male)"; null where a text was written by others and does not say
    "name": pl.String,  # "Zhang"; null where it is not known
    "context": pl.String,  # location category; null where there is none
    "location": pl.String,
    "stratum": pl.String,  # lists of one stratum can be compared: category and type of the pair ("male"), or "all"
    "repetition": pl.Int32,
    "text": pl.String,  # null: there is no story (refused, failed, empty)
}
"""What extraction takes: one row per story and character, both characters of a story one after the other."""

LIST_STATUSES = ("listed", "empty", "missing")
"""A list with phrases; a list that was made and holds none; a list that could not be made (see its `problem`)."""

LISTS: Schema = {
    **{name: kind for name, kind in STORIES.items() if name != "text"},
    "status": pl.String,  # of LIST_STATUSES
    "problem": pl.String,  # why a list is missing, or what had to be repaired; null otherwise
}
"""One row per story and character, in the order of STORIES: the units that are counted (`n` lists of an identity)."""

MENTIONS: Schema = {
    "attempt": pl.String,
    "character": pl.Int8,
    "phrase": pl.String,  # as extracted
    "sentence": pl.String,  # of the story, where it is shown; null where it cannot be told
}
"""One row per phrase of a list; (attempt, character) is the list. A phrase stands once in a list."""

CONCEPTS: Schema = {
    "phrase": pl.String,
    "mentions": pl.Int64,
    "concept": pl.String,  # the phrase that names its cluster
    "similarity": pl.Float64,  # cosine to the phrase that names the cluster; 1 for that one
}
"""The map of unifying: one row per unique phrase. Editing `concept` moves a phrase to another concept."""

EXCLUSIVE: Schema = {
    "concept": pl.String,
    "identity": pl.String,  # the one it belongs to by definition or universal fact; null: to none
    "by": pl.String,  # "terms", "judge" or "user"
    "reason": pl.String,
    "status": pl.String,  # "ok", or "unreadable": the judge gave no usable answer (the concept is kept)
}

JUDGEMENTS: Schema = {
    "attempt": pl.String,  # null where a stage is not about a story
    "stage": pl.String,
    "turn": pl.Int8,  # 0, or 1 for the question asked again with the error
    "key": pl.String,  # of the journal
    "status": pl.String,  # "ok", "failed" or "missing" (not asked yet)
    "prompt": pl.String,
    "answer": pl.String,
    "problem": pl.String,  # what was wrong with the answer; null: it could be read whole
}
"""Every question to the judge with its answer and how it was read."""

ASSOCIATIONS: Schema = {
    "context": pl.String,  # null: over all location categories
    "concept": pl.String,
    "identity": pl.String,
    "count": pl.Int64,  # a: lists of the identity with the concept
    "lists": pl.Int64,  # n: lists of the identity
    "mentions": pl.Int64,  # T: mentions of any concept in them
    "others_count": pl.Int64,  # lists of all other identities with the concept
    "others_lists": pl.Int64,
    "rate": pl.Float64,  # count / lists
    "others_rate": pl.Float64,
    "effect": pl.Float64,  # rate - others_rate
    "low": pl.Float64,
    "high": pl.Float64,
    "runner_up": pl.String,  # the other identity with the highest rate
    "runner_up_rate": pl.Float64,
    "runner_up_effect": pl.Float64,
    "runner_up_low": pl.Float64,
    "runner_up_high": pl.Float64,
    "log_odds": pl.Float64,
    "z": pl.Float64,
    "score": pl.Float64,  # distinctiveness, by the definition asked for
    "p": pl.Float64,  # null: not tested (below the minimum support)
    "q": pl.Float64,
    "reported": pl.Boolean,  # an association by the definition asked for
    "effect_first": pl.Float64,  # in the first half of the repetitions
    "p_first": pl.Float64,
    "effect_second": pl.Float64,
    "p_second": pl.Float64,
    "confirmed": pl.Boolean,  # discovered in one half and shown in the other; null where it cannot be told
    "descriptors": pl.List(pl.Struct({"descriptor": pl.String, "count": pl.Int64, "lists": pl.Int64})),  # who carries it, most first
    "rests_on": pl.String,  # the one descriptor without which nothing is left; null: on several
}
"""One row per context, concept and identity that was counted; reports show those that are `reported`."""
