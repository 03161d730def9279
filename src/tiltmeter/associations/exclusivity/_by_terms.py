"""Exclusive concepts without a judge: by the demographic terms they hold."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import polars as pl

from tiltmeter.associations._tables import EXCLUSIVE
from tiltmeter.associations.exclusivity._labels import APART, Piece, entry_of, pieces_of
from tiltmeter.associations.unifying._guards import forms_of, found_forms, negated
from tiltmeter.associations.unifying._terms import Term, Terms, load_terms, plain_words

__all__ = ["exclusive_by_terms"]

_NO_NAMES = frozenset({"other", "others", "unknown", "none", "no", "any", "all", "na", "n a"})
"""Labels whose words anybody's list may hold."""


def exclusive_by_terms(concepts: Sequence[str], identities: Sequence[str], terms: str | None = None) -> pl.DataFrame:
    """Exclusive concepts by the terms they hold: those of exactly one identity of its category, which is compared here.

    A concept that negates its term ("avoids church") is exclusive to nobody; one that is but a name of an identity ("black") is
    exclusive to it. This is coarser than a judge: "attends an event with a Muslim friend" holds a term as well. An identity the terms
    do not know has its own name as its only term.

    Parameters
    ----------
    identities
        Those being compared, as the study calls them: with or without an article, in any case, by letters ("W", "M"), or several
        identities together ("an Asian, M").
    terms
        A YAML file of the user's in the shape of `terms.yaml`.

    Returns
    -------
    EXCLUSIVE, one row per concept in order; `identity` is null where it is exclusive to none. Where a concept belongs to an identity that
    several labels share ("black" to "a Black, M" and "a Black, W"), it is what they share ("a Black").

    Raises
    ------
    InputError
        The file of terms cannot be used.
    """
    words = load_terms(terms)
    pieces = pieces_of(identities, words)
    compared = {piece.entry for found in pieces.values() for piece in found}
    table = pl.DataFrame({"concept": pl.Series(concepts, dtype=pl.String)}).with_row_index("row")
    told = pl.concat([_holding(table, _with_unknown(words, compared)), _named(table, words)])
    # Terms of identities that are not compared here count too: what holds a Muslim and a Hindu term belongs to neither.
    categories = {category for category, _ in compared}
    told = told.filter(pl.col("category").is_in(categories)).group_by("row").agg(pl.col("form").first(), entries="owner")
    told = told.with_columns(pl.col("entries").list.unique().list.sort())
    owned = [_owner(entries, pieces) for entries in told["entries"].to_list()]
    told = told.with_columns(identity=pl.Series(owned, dtype=pl.String)).drop_nulls("identity")
    made = table.join(told, on="row", how="left", maintain_order="left")
    made = made.with_columns(by=pl.lit("terms"), reason=pl.format("it holds the term “{}”", "form"), status=pl.lit("ok"))
    return made.select(pl.col(name).cast(kind) for name, kind in EXCLUSIVE.items())


_TOLD = {"row": pl.UInt32, "form": pl.String, "category": pl.String, "owner": pl.String}


def _key(entry: tuple[str, str]) -> str:
    return "/".join(entry)


def _holding(table: pl.DataFrame, terms: Terms) -> pl.DataFrame:
    """The exclusive terms in each concept, with whose they are; without those in a concept that negates them."""
    plain = table.select(plain_words(pl.col("concept"))).to_series()
    forms = forms_of(terms)
    rows = [(place, term.category, _key((term.category, term.identity))) for place, term in enumerate(terms.terms) if term.exclusive]
    owners = pl.DataFrame(rows, schema={"place": pl.Int64, "category": pl.String, "owner": pl.String}, orient="row")
    held = table.select("row", form=found_forms(plain, forms), negated=negated(plain, terms)).filter(~pl.col("negated"))
    held = held.explode("form").drop_nulls("form").with_columns(place=pl.col("form").replace_strict(forms, return_dtype=pl.Int64))
    return held.join(owners, on="place", maintain_order="left").select(pl.col(name).cast(kind) for name, kind in _TOLD.items())


def _named(table: pl.DataFrame, terms: Terms) -> pl.DataFrame:
    """Concepts that are a name of an identity and nothing else; the colour of a coat is never said so."""
    there = table.drop_nulls("concept").iter_rows()
    found = [(row, concept.lower(), entry[0], _key(entry)) for row, concept in there if (entry := entry_of(concept, terms))]
    return pl.DataFrame(found, schema=_TOLD, orient="row")


def _with_unknown(terms: Terms, entries: Collection[tuple[str, str]]) -> Terms:
    """The terms, and for each identity they do not know its own name, if it is one."""
    names = [name for category, name in entries if not category and len(name) > 1 and not name.isnumeric() and name not in _NO_NAMES]
    return replace(terms, terms=(*terms.terms, *(Term("", name, (name,), True) for name in sorted(names))))


def _owner(entries: Sequence[str], pieces: Mapping[str, Sequence[Piece]]) -> str | None:
    """The one label that holds all these identities, or what is the same in several; None where there is none, or all of them do."""
    wanted = set(entries)
    holders = [label for label, found in pieces.items() if wanted <= {_key(piece.entry) for piece in found}]
    if not holders or len(holders) == len(pieces):
        return None
    if len(holders) == 1:
        return holders[0]
    shared = {APART.join(piece.text for piece in pieces[label] if _key(piece.entry) in wanted) for label in holders}
    return shared.pop() if len(shared) == 1 else None
