"""Concepts that belong to an identity by definition, by a list of terms."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

import polars as pl
from polars import DataFrame, Series, String, col, lit, when

from tiltmeter.associations._tables import EXCLUSIVE, OWNER
from tiltmeter.associations._terms import (
    Entry,
    IdentityTerms,
    Terms,
    any_of,
    found_forms,
    load_terms,
    nations,
    negated,
    plain_words,
    plain_words_of,
    with_further_terms,
)
from tiltmeter.readers._word_forms import word_form, word_forms
from tiltmeter.schema import beside

ORIGIN: Final = "origin"
"""Source of the decision that a concept names an identity or a nation. The name may be an ordinary word
("black"), so the concept is excluded for this identity only."""
APART: Final = ", "
"""The separator in a label made from several columns."""
MOSTLY: Final = 0.8
"""A concept is a part of terms, or a name, if it is one in at least this share of its lists."""


# -- identities named in the labels of a study -----------------------------------------------------

_SEPARATORS: Final = re.compile(r"\s*[,;/|+&]\s*")
AROUND: Final = " .,;:!?\"'*`()[]"
_ARTICLE: Final = re.compile(r"^(?:an?|the) ")
_PEOPLE: Final = re.compile(r" (?:people|persons?|individuals?|characters?)$")


class Piece(NamedTuple):
    """One identity in a label ("a Black", "Muslims", "W").

    A label may contain several ("an Asian, M", "Black woman").
    """

    text: str
    """The text as written in the label."""
    entry: Entry


def bare_name(text: str) -> str:
    """Return a name in plain words, without article, "people" or surrounding punctuation."""
    return _PEOPLE.sub("", _ARTICLE.sub("", plain_words_of(text).strip(AROUND))).strip(AROUND)


def _entry_of(text: str, terms: Terms) -> Entry | None:
    """Return the identity if the text is a name of it and nothing else; plurals in -s are recognised."""
    bare = bare_name(text)
    for name in (plain_words_of(text), bare, bare.removesuffix("s")):
        if name in terms.called:
            return terms.called[name]
    return None


def pieces_of(labels: Sequence[str], terms: Terms) -> dict[str, tuple[Piece, ...]]:
    """Return the identities named in each label, at least one.

    Letters are read as identities only if every one-letter name in the study is such a letter: "W" together
    with "M", but not with "B".
    """
    names = {bare_name(text) for label in labels for text in (label, *_SEPARATORS.split(label))}
    one_letter_names = {name for name in names if len(name) == 1}
    letters: Mapping[str, Entry] = {}
    if one_letter_names <= terms.letters.keys():
        identities = {terms.letters[name] for name in one_letter_names}
        if len(identities) > 1:
            letters = terms.letters
    return {label: _pieces_in(label, terms, letters) for label in labels}


def _pieces_in(label: str, terms: Terms, letters: Mapping[str, Entry]) -> tuple[Piece, ...]:
    entry = letters.get(bare_name(label)) or _entry_of(label, terms)
    if entry:
        return (Piece(label, entry),)
    texts = [text for text in _SEPARATORS.split(label) if text]
    if len(texts) > 1:
        return tuple(piece for text in texts for piece in _pieces_in(text, terms, letters))
    return _named_pieces(bare_name(label), terms) or (Piece(label, ("", bare_name(label))),)


def _named_pieces(name: str, terms: Terms) -> tuple[Piece, ...]:
    """Return the identities of a name that consists only of names ("black woman").

    Empty if it contains any other word.
    """
    names = found_forms(Series([name]), terms.called)[0]
    if " ".join(names) != name:
        return ()
    return tuple(Piece(text, terms.called[text]) for text in names)


# -- by terms --------------------------------------------------------------------------------------

_NO_NAMES: Final = frozenset({"other", "others", "unknown", "none", "no", "any", "all", "na", "n a"})
"""Labels that may occur in any list."""


def exclusive_by_terms(
    concepts: Sequence[str], identities: Sequence[str], terms: str | None = None, *, strict: bool = True
) -> DataFrame:
    """Find exclusive concepts by their terms.

    A concept is exclusive if all its terms of a category compared here belong to one identity. A concept that
    negates its term ("avoids church") is exclusive to no identity; the bare name of an identity ("black") is
    exclusive to it. Terms are coarser than a judge: "attends an event with a Muslim friend" contains a term
    as well. The only term of an identity that the list of terms does not contain is its own name, unless that
    is an ordinary adjective in lower case ("bad").

    Parameters
    ----------
    concepts
        The concepts to decide.
    identities
        The identities compared, as named in the study: with or without an article, in any case, as letters
        ("W", "M"), or several identities together ("an Asian, M").
    terms
        A YAML file in the format of `terms.yaml`; None: the built-in terms.
    strict
        Whether nations and words for women and men in other languages are terms as well. The published
        definitions do not use them.

    Returns
    -------
    pl.DataFrame
        EXCLUSIVE, one row per concept, in order; `identity` is null if the concept is exclusive to no
        identity. If several labels share the identity ("black": "a Black, M" and "a Black, W"), it is their
        common part ("a Black").

    Raises
    ------
    InputError
        The file of terms is invalid.
    """
    stated = load_terms(terms)
    words = with_further_terms(stated) if strict else stated
    pieces = pieces_of(identities, words)
    compared = _entries_of(pieces)
    words = _with_names_of_unknown(words, pieces)
    # Terms of identities not compared here count as well: a concept with a Muslim and a Hindu term belongs to
    # neither.
    categories = {category for category, _ in compared}
    origins = _origins() - stated.owners().keys()
    named_persons = _named_persons(concepts, words, compared) if strict else {}
    rows = []
    for concept, terms_of_concept in zip(
        concepts, _exclusive_terms(concepts, words, categories, compared), strict=True
    ):
        text = concept or ""  # released tables have rows without a concept
        owner = _common_owner({entry for _, entry in terms_of_concept}, pieces)
        name = _entry_of(text, words)  # the bare name of an identity, not the colour of a coat
        reason = None
        by = "terms"
        if owner is None and text in named_persons:
            owner = _common_owner({named_persons[text]}, pieces)
            reason = "it names a person of the group" if owner else None
        elif owner is not None:
            reason = f"it contains the term “{terms_of_concept[0][0]}”"
            by = ORIGIN if all(form in origins for form, _ in terms_of_concept) else by
        elif name is not None and name in compared and not terms_of_concept:
            owner = _common_owner({name}, pieces)
            reason, by = ("it is the name of the group", ORIGIN) if owner else (None, by)
        rows.append((concept, owner, by, reason, "ok"))
    return DataFrame(rows, schema=dict(EXCLUSIVE), orient="row")


def _origins() -> set[str]:
    """Return the names and adjectives of all nations, also as plurals."""
    names = {
        name
        for people_by_nation in nations().values()
        for forms in people_by_nation.values()
        for name in forms
    }
    return names | {f"{name}s" for name in names}


def _entries_of(pieces: Mapping[str, Sequence[Piece]]) -> set[Entry]:
    """Return the identities that the labels of a study name."""
    return {piece.entry for pieces_of_label in pieces.values() for piece in pieces_of_label}


def _names_of_compared(terms: Terms, compared: Collection[Entry]) -> dict[str, Entry]:
    """Return the identity of each name of an identity that is compared."""
    return {name: entry for name, entry in terms.called.items() if entry in compared}


def _with_names_of_unknown(terms: Terms, pieces: Mapping[str, Sequence[Piece]]) -> Terms:
    """Add the names of identities that the terms do not contain as their only terms.

    An adjective in lower case is an ordinary word, and no term.
    """
    names = set()
    for pieces_of_label in pieces.values():
        for text, (category, name) in pieces_of_label:
            is_ordinary = text.islower() and word_form(name).best == "adjective"
            if not category and not is_ordinary:
                names.add(name)
    words = sorted(name for name in names - _NO_NAMES if len(name) > 1 and not name.isnumeric())
    unknown = {name: IdentityTerms.model_validate({"terms": [name]}) for name in words}
    return terms.replaced(identities=terms.identities | {"": unknown})


def _exclusive_terms(
    concepts: Sequence[str], terms: Terms, categories: Collection[str], compared: Collection[Entry]
) -> list[list[tuple[str, Entry]]]:
    """Return the exclusive terms in each concept with their identities, of all categories.

    Empty for a concept that negates them. Each category has its own terms: "black woman" is one of a race and
    contains one of a gender. A term of an identity that is not compared does not hide one of an identity that
    is: "trans woman" has "woman" where women and men are compared.
    """
    plain = pl.select(plain_words(lit(Series(concepts, dtype=String).fill_null("")))).to_series()
    exclusive: list[list[tuple[str, Entry]]] = [[] for _ in concepts]
    is_negated = negated(plain, terms).to_list()
    for category in sorted(categories):
        of_category = terms.replaced(identities={category: terms.identities.get(category, {})})
        owners = of_category.owners()
        of_compared = any_of(form for form, owner in owners.items() if owner in compared)
        hides = re.compile(of_compared).search
        forms = [form for form in of_category.forms() if owners.get(form) in compared or not hides(form)]
        for number, forms_of_concept in enumerate(found_forms(plain, forms)):
            if not is_negated[number]:
                exclusive[number] += [(form, owners[form]) for form in forms_of_concept if form in owners]
    return exclusive


_OF_GROUP: Final = frozenset(
    {
        "person",
        "people",
        "individual",
        "individuals",
        "character",
        "community",
        "communities",
        "heritage",
        "ancestry",
        "descent",
        "origin",
        "origins",
        "background",
        "roots",
        "culture",
        "identity",
        "history",
    }
)
"""Words after the name of a group that make it a statement about the group ("Black heritage")."""


def _named_persons(concepts: Sequence[str], terms: Terms, compared: Collection[Entry]) -> dict[str, Entry]:
    """Return the concepts in which the name of a group stands before a word for a person, with the group.

    The name alone may be an ordinary word ("black hair").
    """
    entry_of_name = _names_of_compared(terms, compared)
    of_gender = [form for members in terms.identities.get("gender", {}).values() for form in members.terms]
    persons = {form for forms in of_gender for form in plain_words_of(forms).replace(",", " ").split()}
    pattern = rf"({any_of(entry_of_name)}) {any_of(persons | _OF_GROUP)}"
    plain = pl.select(concept=lit(Series(list(concepts), dtype=String))).with_columns(
        name=plain_words(col.concept).str.extract(pattern)
    )
    named = plain.drop_nulls("name")
    return {concept: entry_of_name[name] for concept, name in named.iter_rows()}


def _common_owner(identities: set[Entry], pieces: Mapping[str, Sequence[Piece]]) -> str | None:
    """Return the only label that contains all these identities, or the common part of several labels.

    None if no label or every label contains them, or if there are no identities.
    """
    holders = [
        label
        for label, pieces_of_label in pieces.items()
        if identities and identities <= {piece.entry for piece in pieces_of_label}
    ]
    if not holders or len(holders) == len(pieces):
        return None
    if len(holders) == 1:
        return holders[0]
    texts = {
        APART.join(piece.text for piece in pieces[label] if piece.entry in identities) for label in holders
    }
    return texts.pop() if len(texts) == 1 else None


def parts_of_terms(mentions: DataFrame, identities: Sequence[str], terms: str | None = None) -> DataFrame:
    """Return the concepts that are mostly a part of a definitional phrase: `concept`, `identity`, `whole`.

    A phrase such as "dedicated family man" ends with a term. Its parts are the words before the term
    ("dedicated family"), if they are several, and the noun before it ("family"). A phrase such as "Latino
    heritage" begins with a term; its part is the noun after it.

    Parameters
    ----------
    mentions
        MENTIONS with `concept`.
    identities
        The identities compared.
    terms
        A YAML file in the format of `terms.yaml`.
    """
    words = with_further_terms(load_terms(terms))
    categories = {category for category, _ in _entries_of(pieces_of(identities, words))}
    of_categories = {name: words.identities[name] for name in sorted(categories) if name in words.identities}
    forms = words.replaced(identities=of_categories).owners()
    phrases = mentions.select(col.phrase.unique(maintain_order=True)).filter(col.phrase.str.contains(" "))
    words_of_terms = {word for form in forms for word in (form.split(" ")[0], form.split(" ")[-1])}
    ends = pl.concat_list(col.phrase.str.extract(r"^([^ -]+)"), col.phrase.str.extract(r"[ -]([^ -]+)$"))
    phrases = phrases.filter(ends.list.eval(pl.element().is_in(words_of_terms)).list.any())
    term = any_of(forms)
    before_term = col.phrase.str.extract(rf"^(.+) {term}$")
    noun_before = before_term.str.extract(r"([^ ]+)$")
    noun_after = col.phrase.str.extract(rf"^{term} ([^ ]+)$")
    several = when(before_term.str.contains(" ")).then(before_term)
    phrases = phrases.with_columns(several=several, before=noun_before, after=noun_after)
    parts = phrases.unpivot(["several", "before", "after"], index="phrase", value_name="part")
    parts = parts.drop_nulls("part")
    kinds = word_forms(parts["part"].unique()).select(part="form", is_noun=col.best == "noun")
    parts = parts.join(kinds, on="part").filter((col.variable == "several") | col.is_noun)
    concepts = mentions.select(part="phrase", part_concept="concept").unique()
    parts = parts.join(concepts, on="part").select("phrase", "part_concept").unique()
    ruled = exclusive_by_terms(parts["phrase"].unique().sort().to_list(), identities, terms)
    owners = ruled.select(phrase="concept", identity="identity").drop_nulls("identity")
    parts = parts.join(owners, on="phrase")
    in_wholes = mentions.select(*OWNER, "phrase").join(parts, on="phrase")
    in_wholes = in_wholes.group_by(concept="part_concept", identity="identity").agg(
        in_wholes=pl.struct(OWNER).n_unique(), whole=col.phrase.mode().sort().first()
    )
    lists = mentions.group_by("concept").agg(lists=pl.struct(OWNER).n_unique())
    return (
        beside(in_wholes, lists, "concept")
        .filter(col.in_wholes >= MOSTLY * col.lists)
        .sort("concept", "in_wholes", descending=[False, True])
        .unique("concept", keep="first", maintain_order=True)
        .select("concept", "identity", "whole")
    )


def names_of_groups(mentions: DataFrame, identities: Sequence[str], terms: str | None = None) -> DataFrame:
    """Return the concepts that mostly have the name of a group with a capital letter: `concept`, `identity`.

    "Black student" names the group, and "black hair" does not.
    """
    words = with_further_terms(load_terms(terms))
    pieces = pieces_of(identities, words)
    entry_of_name = _names_of_compared(words, _entries_of(pieces))
    concepts = _mostly_names(mentions).to_frame("concept")
    named = concepts.with_columns(name=plain_words(col.concept).str.extract(f"({any_of(entry_of_name)})"))
    rows = []
    for concept, name in named.drop_nulls("name").iter_rows():
        rows.append((concept, _common_owner({entry_of_name[name]}, pieces)))
    owned = DataFrame(rows, schema={"concept": String, "identity": String}, orient="row")
    return owned.drop_nulls("identity")


def _mostly_names(mentions: DataFrame) -> Series:
    """Return the concepts most of whose mentions have a name."""
    is_name = col.proper.cast(pl.Float64).mean() >= MOSTLY
    return mentions.group_by("concept").agg(is_name=is_name).filter("is_name")["concept"].sort()


def names_in(mentions: DataFrame, terms: str | None = None) -> Series:
    """Return the concepts that are mostly names, or have the name of a person.

    Names of peoples, religions and other groups do not count.
    """
    concepts = _mostly_names(mentions).to_frame("concept")
    peoples = [people for of_race in nations().values() for forms in of_race.values() for people in forms[1:]]
    of_groups = any_of([*load_terms(terms).forms(), *peoples])
    return concepts.filter(~plain_words(col.concept).str.contains(of_groups))["concept"]
