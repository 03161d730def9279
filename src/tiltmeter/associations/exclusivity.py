"""Detect concepts that belong to one identity by definition or universal fact ("male", "observes Ramadan").

They are not associations.

Each concept is decided once, by a list of terms or by a judge. The decisions and reasons form the table
EXCLUSIVE; the definition of the study determines which associations they exclude.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl
from polars import DataFrame, Series, String, col, lit, when

from tiltmeter.associations.definitions import AssociationRules
from tiltmeter.associations.extraction_judge import judge_wording
from tiltmeter.associations.tables import EXCLUSIVE, JUDGEMENTS
from tiltmeter.associations.terms import (
    Entry,
    IdentityTerms,
    Terms,
    found_forms,
    load_terms,
    negated,
    plain_words,
    plain_words_of,
)
from tiltmeter.judging.questions import NOT_ASKED, JudgeQuestion, ParsedReply, ask_questions
from tiltmeter.models.json_replies import object_schema, read_json
from tiltmeter.schema import beside, conform
from tiltmeter.study import Judge

STAGE = "exclusivity"
SCHEMA = object_schema(identity={"type": "string"}, reason={"type": "string"})


def is_exclusive(rows: DataFrame, exclusive: DataFrame, rules: AssociationRules) -> Series:
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
    owners = exclusive.filter(col.identity.is_not_null() | col.by.eq(ECHO)).unique("concept", keep="first")
    owners = owners.select("concept", owner=col.identity.fill_null(""))
    held = col.owner.is_not_null()
    if rules.own_exclusive_only:  # a composite identity also owns the concepts of its parts
        own, whole = (pl.concat_str(lit(_APART), column, lit(_APART)) for column in ("owner", "identity"))
        held = whole.str.contains(own, literal=True).fill_null(False)
    return beside(rows.select("concept", "identity"), owners, "concept").select(held).to_series()


def drop_exclusive(associations: DataFrame, exclusive: DataFrame, rules: AssociationRules) -> DataFrame:
    """Set `reported` to False for associations with an exclusive concept; no row is removed."""
    return associations.with_columns(reported=col.reported & ~is_exclusive(associations, exclusive, rules))


ECHO = "prompt"
"""Source of the decision that a concept is an echo of the prompt, and so an association of no identity."""


def with_echo(exclusive: DataFrame, echo: Series) -> DataFrame:
    """Mark the concepts in `echo` that belong to no identity as echo of the prompt."""
    is_echo = col.identity.is_null() & col.concept.is_in(echo.implode())
    reason = when(is_echo).then(lit("a word of it is in the prompt")).otherwise("reason")
    return exclusive.with_columns(by=when(is_echo).then(lit(ECHO)).otherwise("by"), reason=reason)


def kept_out(exclusive: DataFrame, keep: Sequence[str]) -> DataFrame:
    """Return the rows of EXCLUSIVE without those that the user keeps: "definitional", "echo"."""
    is_echo = col.by.eq(ECHO).fill_null(False)
    return exclusive.filter(is_echo & ("echo" not in keep) | ~is_echo & ("definitional" not in keep))


# -- identities named in the labels of a study ------------------------------------------------------------------------

_APART = ", "
"""The separator in a label made from several columns."""
_SEPARATORS = re.compile(r"\s*[,;/|+&]\s*")
_AROUND = " .,;:!?\"'*`()[]"
_ARTICLE = re.compile(r"^(?:an?|the) ")
_PEOPLE = re.compile(r" (?:people|persons?|individuals?|characters?)$")


class Piece(NamedTuple):
    """One identity in a label ("a Black", "Muslims", "W").

    A label may contain several ("an Asian, M", "Black woman").
    """

    text: str
    """The text as written in the label."""
    entry: Entry


def _bare_name(text: str) -> str:
    """Return a name in plain words, without article, "people" or surrounding punctuation."""
    return _PEOPLE.sub("", _ARTICLE.sub("", plain_words_of(text).strip(_AROUND))).strip(_AROUND)


def _entry_of(text: str, terms: Terms) -> Entry | None:
    """Return the identity if the text is a name of it and nothing else; plurals in -s are recognised."""
    name = _bare_name(text)
    names = (plain_words_of(text), name, name.removesuffix("s"))
    return next((terms.called[one] for one in names if one in terms.called), None)


def _pieces_of(labels: Sequence[str], terms: Terms) -> dict[str, tuple[Piece, ...]]:
    """Return the identities named in each label, at least one.

    Letters are read as identities only if every one-letter name in the study is such a letter: "W" together
    with "M", but not with "B".
    """
    names = {_bare_name(text) for label in labels for text in (label, *_SEPARATORS.split(label))}
    single = {name for name in names if len(name) == 1}
    lettered = single <= terms.letters.keys() and len({terms.letters[name] for name in single}) > 1
    return {label: _pieces_in(label, terms, terms.letters if lettered else {}) for label in labels}


def _pieces_in(label: str, terms: Terms, letters: Mapping[str, Entry]) -> tuple[Piece, ...]:
    if entry := letters.get(_bare_name(label)) or _entry_of(label, terms):
        return (Piece(label, entry),)
    texts = [text for text in _SEPARATORS.split(label) if text]
    if len(texts) > 1:
        return tuple(piece for text in texts for piece in _pieces_in(text, terms, letters))
    return _named_pieces(_bare_name(label), terms) or (Piece(label, ("", _bare_name(label))),)


def _named_pieces(name: str, terms: Terms) -> tuple[Piece, ...]:
    """Return the identities of a name that consists only of names ("black woman").

    Empty if it contains any other word.
    """
    found = found_forms(Series([name]), terms.called)[0]
    return tuple(Piece(text, terms.called[text]) for text in found) if " ".join(found) == name else ()


# -- by terms ---------------------------------------------------------------------------------------------------------

_NO_NAMES = frozenset({"other", "others", "unknown", "none", "no", "any", "all", "na", "n a"})
"""Labels that may occur in any list."""


def exclusive_by_terms(
    concepts: Sequence[str], identities: Sequence[str], terms: str | None = None
) -> DataFrame:
    """Find exclusive concepts by their terms: a concept is exclusive if all its terms belong to one identity of a category compared here.

    A concept that negates its term ("avoids church") is exclusive to no identity; the bare name of an
    identity ("black") is exclusive to it. Terms are coarser than a judge: "attends an event with a Muslim
    friend" contains a term as well. The only term of an identity that the list of terms does not contain is
    its own name.

    Parameters
    ----------
    concepts
        The concepts to decide.
    identities
        The identities compared, as named in the study: with or without an article, in any case, as letters
        ("W", "M"), or several identities together ("an Asian, M").
    terms
        A YAML file in the format of `terms.yaml`; None: the built-in terms.

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
    words = load_terms(terms)
    pieces = _pieces_of(identities, words)
    compared = {piece.entry for found in pieces.values() for piece in found}
    names = {name for category, name in compared if not category} - _NO_NAMES
    unknown = sorted(name for name in names if len(name) > 1 and not name.isnumeric())
    words = words.replaced(
        identities=words.identities
        | {"": {name: IdentityTerms.model_validate({"terms": [name]}) for name in unknown}}
    )
    # Terms of identities not compared here count as well: a concept with a Muslim and a Hindu term belongs to
    # neither.
    categories = {category for category, _ in compared}
    rows = []
    for concept, held in zip(concepts, _held_terms(concepts, words), strict=True):
        text = concept or ""  # released tables have rows without a concept
        named = _entry_of(text, words)  # the bare name of an identity, not the colour of a coat
        known = [
            (form, entry)
            for form, entry in (*held, (text.lower(), named))
            if entry is not None and entry[0] in categories
        ]
        owner = _common_owner({entry for _, entry in known}, pieces)
        rows.append(
            (concept, owner, "terms", f"it contains the term “{known[0][0]}”" if owner else None, "ok")
        )
    return DataFrame(rows, schema=dict(EXCLUSIVE), orient="row")


def _held_terms(concepts: Sequence[str], terms: Terms) -> list[list[tuple[str, Entry]]]:
    """Return the exclusive terms in each concept with their identities.

    Empty for a concept that negates them.
    """
    plain = pl.select(plain_words(lit(Series(concepts, dtype=String).fill_null("")))).to_series()
    forms = terms.forms()
    owners = {form: term[:2] for form, place in forms.items() if (term := terms.terms[place]).exclusive}
    held = found_forms(plain, forms), negated(plain, terms)
    return [
        [] if negates else [(form, owners[form]) for form in found if form in owners]
        for found, negates in zip(*held, strict=True)
    ]


def _common_owner(wanted: set[Entry], pieces: Mapping[str, Sequence[Piece]]) -> str | None:
    """Return the only label that contains all these identities, or the common part of several; None if no label or every label does."""
    holders = [label for label, found in pieces.items() if wanted <= {piece.entry for piece in found}]
    if len(holders) == len(pieces):
        return None
    if len(holders) == 1:
        return holders[0]
    texts = {_APART.join(piece.text for piece in pieces[label] if piece.entry in wanted) for label in holders}
    return texts.pop() if len(texts) == 1 else None


# -- by a judge -------------------------------------------------------------------------------------------------------


def exclusive_by_judge(
    concepts: Sequence[str],
    identities: Sequence[str],
    category: str,
    judge: Judge,
    wording: str | None = None,
    *,
    terms: str | None = None,
) -> tuple[DataFrame, DataFrame]:
    """Ask a judge, at temperature 0, to which identity each concept belongs by definition or universal fact, if any.

    If an answer cannot be parsed, the judge is asked once more, with the reason. A concept without a usable
    answer is kept with the status "unreadable"; its `reason` is "not asked yet" if the run was interrupted.

    Parameters
    ----------
    concepts
        The concepts to decide.
    identities
        The identities compared, as named in the study; the judge may use any name listed in the terms.
    category
        The category of the identities, such as "gender", for templates with the placeholder {category}.
    judge
        The judge to ask.
    wording
        The name of a wording, or a file with one (see `wordings`); of several wordings, the first one is
        used.
    terms
        A YAML file in the format of `terms.yaml`; None: the built-in terms.

    Returns
    -------
    tuple[pl.DataFrame, pl.DataFrame]
        EXCLUSIVE, one row per concept, in order; and JUDGEMENTS.

    Raises
    ------
    InputError
        The wording or the file of terms is invalid.
    """
    templates, shared = (
        judge_wording(wording, about=STAGE),
        {"identities": ", ".join(identities), "category": category},
    )
    names = JudgedNames(identities, load_terms(terms))
    questions = [
        JudgeQuestion({**shared, "concept": json.dumps(concept, ensure_ascii=False)}, names.read)
        for concept in concepts
    ]
    answers = ask_questions(
        judge,
        templates["question"],
        templates["again"],
        questions,
        schema=SCHEMA,
        sampling={"temperature": 0.0},
    )
    made = []
    for concept, question in zip(concepts, questions, strict=True):
        error = question.error if question.error == NOT_ASKED else f"no answer ({question.error})"
        verdict, problem, _ = (
            question.replies[-1] if question.replies else ParsedReply[ExclusivityVerdict](None, error)
        )
        identity, reason = verdict or (None, problem)
        made.append((concept, identity, "judge", reason, "ok" if verdict else "unreadable"))
    return DataFrame(made, schema=dict(EXCLUSIVE), orient="row"), conform(
        answers.with_columns(stage=lit(STAGE)), JUDGEMENTS
    )


class ExclusivityVerdict(NamedTuple):
    """A parsed answer."""

    identity: str | None
    reason: str | None


_IDENTITY_KEYS = ("identity", "answer", "exclusive_to", "group", "belongs_to")
_REASON_KEYS = ("reason", "explanation", "why", "justification")
_NONE = re.compile(r"(?:none|no|not|nobody|neither|null|nil|n a|nothing|any|all|both|every|everyone)\b")
_LINE = re.compile(
    r"^(?:[^\w\n]|_)*+(identity|answer|reason)[\W_]*[:=]\s*(.+)$", re.IGNORECASE | re.MULTILINE
)
_LONGEST_NAME = 6
"""Maximum number of words of an answer that may be a bare name."""


class JudgedNames:
    """Parser of a judge's answers that recognises the identities of a study by all their names.

    Parameters
    ----------
    identities
        The identities, as named in the study.
    terms
        The source of further names (`called`); a name shared by two of the identities is ignored.
    """

    def __init__(self, identities: Sequence[str], terms: Terms) -> None:
        self.identities = list(identities)
        meant: dict[str, set[str]] = {}
        for identity, pieces in _pieces_of(identities, terms).items():
            known = terms.names_of(pieces[0].entry) if len(pieces) == 1 else []
            for name in (_bare_name(identity), *known):
                meant.setdefault(name, set()).add(identity)
        meant |= {plain_words_of(identity): {identity} for identity in identities}
        self._meant = {name: next(iter(found)) for name, found in meant.items() if name and len(found) == 1}
        longest_first = sorted(self._meant, key=lambda name: (-len(name), name))
        self._any = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)")

    def read(self, answer: str) -> ParsedReply[ExclusivityVerdict]:
        """Parse an answer: JSON in any wrapping, lines "identity: ..." and "reason: ...", or a bare name."""
        text = answer.strip()
        try:
            found = read_json(text)
        except ValueError as error:
            found = {name.lower(): value.rstrip() for name, value in _LINE.findall(text)}
            if not found.keys() & {"identity", "answer"} and 0 < len(text.split()) <= _LONGEST_NAME:
                found["identity"] = text
            if "{" in text or found.keys() <= {"reason"}:
                return ParsedReply(None, str(error))
        if isinstance(found, list):
            if len(found) != 1:
                return ParsedReply(
                    None, f"the answer is a list of {len(found)}, and one identity or none is asked for"
                )
            found = found[0] if isinstance(found[0], dict) else {"identity": found[0]}
        lowered = {plain_words_of(str(key)).replace(" ", "_"): value for key, value in found.items()}
        key = next((key for key in _IDENTITY_KEYS if key in lowered), None)
        reason = next((str(lowered[key]) for key in _REASON_KEYS if lowered.get(key)), None)
        if key is None:
            return ParsedReply(None, 'the answer has no "identity"')
        return self._read_name(lowered[key], reason)

    def _read_name(self, given: Any, reason: str | None) -> ParsedReply[ExclusivityVerdict]:
        if isinstance(given, list):
            given = ", ".join(map(str, given))
        plain = "" if given is None or given is False else plain_words_of(str(given)).strip(_AROUND)
        if plain not in self._meant and (not plain or _NONE.match(plain)):
            return ParsedReply(ExclusivityVerdict(None, reason))
        meant = {self._meant[name] for name in self._any.findall(plain)}
        if len(meant) == 1:
            return ParsedReply(ExclusivityVerdict(meant.pop(), reason))
        named = f"names {len(meant)} of them; it must be" if meant else "is not"
        return ParsedReply(
            None, f"the identity {str(given)[:100]!r} {named} one of {', '.join(self.identities)}, or none"
        )
