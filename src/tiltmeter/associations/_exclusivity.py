"""Detect concepts that belong to one identity by definition or universal fact ("male", "observes Ramadan").

They are not associations.

Each concept is decided once, by a list of terms or by a judge. The decisions and reasons form the table
EXCLUSIVE; the definition of the study determines which associations they exclude.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl
from polars import DataFrame, Expr, Series, col, lit, when

from tiltmeter.associations._definitions import AssociationDefinition
from tiltmeter.associations._exclusive_terms import (
    APART,
    ORIGIN,
    names_in,
    names_of_groups,
    parts_of_terms,
)
from tiltmeter.schema import beside

ECHO: Final = "prompt"
"""Source of the decision that a concept is an echo of the prompt, and so an association of no identity."""
PROPER: Final = "names"
"""Source of the decision that a concept is a name of a person or place, and so one of no identity."""
AGREEMENT: Final = "agreement"
"""Source of the decision that forms of a word may differ only by the grammatical gender of a person."""
OF_NO_IDENTITY: Final = (ECHO, PROPER, AGREEMENT)
"""Sources of decisions that exclude a concept that belongs to no identity."""
_KINDS: Final = {ECHO: "echo", PROPER: "names", AGREEMENT: "agreement"}
_LONGEST_ENDING: Final = 3
"""Largest number of letters of an ending that agrees with a person."""
_SHORTEST_BEGINNING: Final = 4
"""Smallest number of letters before it."""


def is_exclusive(rows: DataFrame, exclusive: DataFrame, rules: AssociationDefinition) -> Series:
    """Return whether each row is excluded because its concept belongs to an identity.

    See `own_exclusive_only`.

    Parameters
    ----------
    rows
        `concept` and `identity`.
    exclusive
        The table EXCLUSIVE. Concepts that are absent, or whose answer could not be parsed, belong to no
        identity.
    """
    decided = exclusive.filter(col.identity.is_not_null() | col.by.is_in(OF_NO_IDENTITY))
    owners = decided.unique("concept", keep="first").select(
        "concept", owner=col.identity.fill_null(""), own_only=col.by.eq(ORIGIN) | rules.own_exclusive_only
    )
    # A composite identity also owns the concepts of its parts.
    owner = pl.concat_str(lit(APART), "owner", lit(APART))
    identity = pl.concat_str(lit(APART), "identity", lit(APART))
    is_own = identity.str.contains(owner, literal=True).fill_null(False)
    is_owned = when("own_only").then(is_own).otherwise(col.owner.is_not_null())
    return beside(rows.select("concept", "identity"), owners, "concept").select(is_owned).to_series()


def drop_exclusive(associations: DataFrame, exclusive: DataFrame, rules: AssociationDefinition) -> DataFrame:
    """Set `reported` to False for associations with an exclusive concept; no row is removed."""
    return associations.with_columns(reported=col.reported & ~is_exclusive(associations, exclusive, rules))


def kind_of() -> Expr:
    """Return the kind of each excluded concept: "definitional", "echo", "names" or "agreement"."""
    return col.by.replace_strict(_KINDS, default="definitional")


def is_undecided() -> Expr:
    """Return whether a concept belongs to no identity so far, and is not excluded for another reason."""
    return col.identity.is_null() & ~col.by.is_in(OF_NO_IDENTITY)


def marked(exclusive: DataFrame, concepts: Series, by: str, reason: str) -> DataFrame:
    """Mark those of the concepts that belong to no identity as excluded for a reason."""
    is_marked = is_undecided() & col.concept.is_in(concepts.implode())
    return exclusive.with_columns(
        by=when(is_marked).then(lit(by)).otherwise("by"),
        reason=when(is_marked).then(lit(reason)).otherwise("reason"),
    )


def kept_out(exclusive: DataFrame, keep: Sequence[str]) -> DataFrame:
    """Return the rows of EXCLUSIVE without those that the user keeps, see `kind_of`."""
    return exclusive.filter(~kind_of().is_in(keep))


def with_parts_of_terms(
    exclusive: DataFrame, mentions: DataFrame, identities: Sequence[str], terms: str | None
) -> DataFrame:
    """Exclude concepts that are mostly a part of a definitional phrase, see `parts_of_terms`."""
    parts = parts_of_terms(mentions, identities, terms)
    decided = parts.select(
        "concept",
        owner="identity",
        source=lit("terms"),
        why=pl.format("it is mostly a part of “{}”", "whole"),
    )
    return _decided(exclusive, decided)


def with_names(
    exclusive: DataFrame, mentions: DataFrame, identities: Sequence[str], terms: str | None
) -> DataFrame:
    """Exclude concepts that mostly have the name of a group, a person or a place with a capital letter."""
    of_groups = names_of_groups(mentions, identities, terms)
    why = lit("it has the name of the group")
    decided = of_groups.select("concept", owner="identity", source=lit(ORIGIN), why=why)
    exclusive = _decided(exclusive, decided)
    reason = "it is a name, with a capital letter within sentences"
    return marked(exclusive, names_in(mentions, terms), PROPER, reason)


def _decided(exclusive: DataFrame, decided: DataFrame) -> DataFrame:
    """Decide concepts that are not decided yet.

    Parameters
    ----------
    exclusive
        EXCLUSIVE.
    decided
        `concept` (unique), the identity that it belongs to (`owner`), the `source` of the decision, and the
        reason (`why`).
    """
    rows = beside(exclusive, decided, "concept")
    is_decided = is_undecided() & col.owner.is_not_null()
    rows = rows.with_columns(
        identity=when(is_decided).then("owner").otherwise("identity"),
        by=when(is_decided).then("source").otherwise("by"),
        reason=when(is_decided).then("why").otherwise("reason"),
    )
    return rows.select(exclusive.columns)


def with_agreement(exclusive: DataFrame, tests: DataFrame, language: str) -> DataFrame:
    """Exclude concepts of different identities that may be forms of one word.

    In a language with grammatical gender, "lista" and "listo" may be one adjective that agrees with the
    person. Two reported concepts are taken for such forms if their words have the same beginning.

    Parameters
    ----------
    tests
        ASSOCIATIONS.
    language
        The language of the texts.
    """
    if language == "en":
        return exclusive
    reported = tests.filter("reported").select("concept", "identity").unique()
    beginnings = reported["concept"].str.split(" ").list.eval(_beginning(pl.element())).list.join(" ")
    reported = reported.with_columns(beginning=beginnings)
    has_other_form = col.concept.n_unique().over("beginning") > 1
    is_of_others = col.identity.n_unique().over("beginning") > 1
    forms = reported.filter(has_other_form & is_of_others)["concept"]
    reason = "it may be a form of a word that agrees with the gender of the person"
    return marked(exclusive, forms, AGREEMENT, reason)


def _beginning(word: Expr) -> Expr:
    """Return a word without the letters that may be an ending."""
    length = word.str.len_chars().cast(pl.Int64)
    return word.str.head(pl.max_horizontal(length - _LONGEST_ENDING, pl.lit(_SHORTEST_BEGINNING)))
