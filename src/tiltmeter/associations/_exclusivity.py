"""Detect concepts that belong to one identity by definition or universal fact ("male", "observes Ramadan").

They are not associations.

Each concept is decided once, by a list of terms or by a judge. The decisions and reasons form the table
EXCLUSIVE; the definition of the study determines which associations they exclude.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import polars as pl
from polars import DataFrame, Series, String, col, lit, when

from tiltmeter._judging.questions import NOT_ASKED, JudgeQuestion, ParsedReply, ask_questions
from tiltmeter.associations._definitions import AssociationDefinition
from tiltmeter.associations._extraction_judge import judge_wording
from tiltmeter.associations._tables import EXCLUSIVE, JUDGEMENTS
from tiltmeter.associations._terms import (
    Entry,
    IdentityTerms,
    Terms,
    found_forms,
    load_terms,
    negated,
    plain_words,
    plain_words_of,
)
from tiltmeter.models._json_replies import object_schema, read_json
from tiltmeter.schema import beside, conform
from tiltmeter.study import Judge

STAGE: Final = "exclusivity"
SCHEMA: Final = object_schema(identity={"type": "string"}, reason={"type": "string"})


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
    decided = exclusive.filter(col.identity.is_not_null() | col.by.eq(ECHO))
    owners = decided.unique("concept", keep="first").select("concept", owner=col.identity.fill_null(""))
    if rules.own_exclusive_only:  # a composite identity also owns the concepts of its parts
        owner = pl.concat_str(lit(_APART), "owner", lit(_APART))
        identity = pl.concat_str(lit(_APART), "identity", lit(_APART))
        is_owned = identity.str.contains(owner, literal=True).fill_null(False)
    else:
        is_owned = col.owner.is_not_null()
    return beside(rows.select("concept", "identity"), owners, "concept").select(is_owned).to_series()


def drop_exclusive(associations: DataFrame, exclusive: DataFrame, rules: AssociationDefinition) -> DataFrame:
    """Set `reported` to False for associations with an exclusive concept; no row is removed."""
    return associations.with_columns(reported=col.reported & ~is_exclusive(associations, exclusive, rules))


ECHO: Final = "prompt"
"""Source of the decision that a concept is an echo of the prompt, and so an association of no identity."""


def with_echo(exclusive: DataFrame, echo: Series) -> DataFrame:
    """Mark the concepts in `echo` that belong to no identity as echo of the prompt."""
    is_echo = col.identity.is_null() & col.concept.is_in(echo.implode())
    reason = when(is_echo).then(lit("a word of it is in the prompt")).otherwise("reason")
    return exclusive.with_columns(by=when(is_echo).then(lit(ECHO)).otherwise("by"), reason=reason)


def kept_out(exclusive: DataFrame, keep: Sequence[str]) -> DataFrame:
    """Return the rows of EXCLUSIVE without those that the user keeps: "definitional", "echo"."""
    is_echo = col.by.eq(ECHO).fill_null(False)
    if "echo" in keep:
        exclusive = exclusive.filter(~is_echo)
    if "definitional" in keep:
        exclusive = exclusive.filter(is_echo)
    return exclusive


# -- identities named in the labels of a study -----------------------------------------------------

_APART: Final = ", "
"""The separator in a label made from several columns."""
_SEPARATORS: Final = re.compile(r"\s*[,;/|+&]\s*")
_AROUND: Final = " .,;:!?\"'*`()[]"
_ARTICLE: Final = re.compile(r"^(?:an?|the) ")
_PEOPLE: Final = re.compile(r" (?:people|persons?|individuals?|characters?)$")


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
    bare_name = _bare_name(text)
    for name in (plain_words_of(text), bare_name, bare_name.removesuffix("s")):
        if name in terms.called:
            return terms.called[name]
    return None


def _pieces_of(labels: Sequence[str], terms: Terms) -> dict[str, tuple[Piece, ...]]:
    """Return the identities named in each label, at least one.

    Letters are read as identities only if every one-letter name in the study is such a letter: "W" together
    with "M", but not with "B".
    """
    names = {_bare_name(text) for label in labels for text in (label, *_SEPARATORS.split(label))}
    one_letter_names = {name for name in names if len(name) == 1}
    letters: Mapping[str, Entry] = {}
    if one_letter_names <= terms.letters.keys():
        identities = {terms.letters[name] for name in one_letter_names}
        if len(identities) > 1:
            letters = terms.letters
    return {label: _pieces_in(label, terms, letters) for label in labels}


def _pieces_in(label: str, terms: Terms, letters: Mapping[str, Entry]) -> tuple[Piece, ...]:
    entry = letters.get(_bare_name(label)) or _entry_of(label, terms)
    if entry:
        return (Piece(label, entry),)
    texts = [text for text in _SEPARATORS.split(label) if text]
    if len(texts) > 1:
        return tuple(piece for text in texts for piece in _pieces_in(text, terms, letters))
    return _named_pieces(_bare_name(label), terms) or (Piece(label, ("", _bare_name(label))),)


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
    concepts: Sequence[str], identities: Sequence[str], terms: str | None = None
) -> DataFrame:
    """Find exclusive concepts by their terms.

    A concept is exclusive if all its terms belong to one identity of a category compared here. A concept that
    negates its term ("avoids church") is exclusive to no identity; the bare name of an identity ("black") is
    exclusive to it. Terms are coarser than a judge: "attends an event with a Muslim friend" contains a term
    as well. The only term of an identity that the list of terms does not contain is its own name.

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
    compared = {piece.entry for pieces_of_label in pieces.values() for piece in pieces_of_label}
    words = _with_names_of_unknown(words, compared)
    # Terms of identities not compared here count as well: a concept with a Muslim and a Hindu term belongs to
    # neither.
    categories = {category for category, _ in compared}
    rows = []
    for concept, terms_of_concept in zip(concepts, _exclusive_terms(concepts, words), strict=True):
        text = concept or ""  # released tables have rows without a concept
        entries = [(form, entry) for form, entry in terms_of_concept if entry[0] in categories]
        identity = _entry_of(text, words)  # the bare name of an identity, not the colour of a coat
        if identity is not None and identity[0] in categories:
            entries.append((text.lower(), identity))
        owner = _common_owner({entry for _, entry in entries}, pieces)
        reason = f"it contains the term “{entries[0][0]}”" if owner else None
        rows.append((concept, owner, "terms", reason, "ok"))
    return DataFrame(rows, schema=dict(EXCLUSIVE), orient="row")


def _with_names_of_unknown(terms: Terms, identities: set[Entry]) -> Terms:
    """Add the names of identities that the terms do not contain as their only terms."""
    names = {name for category, name in identities if not category} - _NO_NAMES
    words = sorted(name for name in names if len(name) > 1 and not name.isnumeric())
    unknown = {name: IdentityTerms.model_validate({"terms": [name]}) for name in words}
    return terms.replaced(identities=terms.identities | {"": unknown})


def _exclusive_terms(concepts: Sequence[str], terms: Terms) -> list[list[tuple[str, Entry]]]:
    """Return the exclusive terms in each concept with their identities.

    Empty for a concept that negates them.
    """
    plain = pl.select(plain_words(lit(Series(concepts, dtype=String).fill_null("")))).to_series()
    forms = terms.forms()
    owners: dict[str, Entry] = {}
    for form, number in forms.items():
        term = terms.terms[number]
        if term.exclusive:
            owners[form] = (term.category, term.identity)
    exclusive: list[list[tuple[str, Entry]]] = []
    for forms_of_concept, is_negated in zip(found_forms(plain, forms), negated(plain, terms), strict=True):
        if is_negated:
            exclusive.append([])
        else:
            exclusive.append([(form, owners[form]) for form in forms_of_concept if form in owners])
    return exclusive


def _common_owner(identities: set[Entry], pieces: Mapping[str, Sequence[Piece]]) -> str | None:
    """Return the only label that contains all these identities, or the common part of several labels.

    None if no label or every label contains them.
    """
    holders = [
        label
        for label, pieces_of_label in pieces.items()
        if identities <= {piece.entry for piece in pieces_of_label}
    ]
    if len(holders) == len(pieces):
        return None
    if len(holders) == 1:
        return holders[0]
    texts = {
        _APART.join(piece.text for piece in pieces[label] if piece.entry in identities) for label in holders
    }
    return texts.pop() if len(texts) == 1 else None


# -- by a judge ------------------------------------------------------------------------------------


def exclusive_by_judge(
    concepts: Sequence[str],
    identities: Sequence[str],
    category: str,
    judge: Judge,
    wording: str | None = None,
    *,
    terms: str | None = None,
) -> tuple[DataFrame, DataFrame]:
    """Ask a judge, at temperature 0, to which identity each concept belongs, if any.

    A concept belongs to an identity by definition or universal fact. If an answer cannot be parsed, the judge
    is asked once more, with the reason. A concept without a usable answer is kept with the status
    "unreadable"; its `reason` is "not asked yet" if the run was interrupted.

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
    templates = judge_wording(wording, about=STAGE)
    fields = {"identities": ", ".join(identities), "category": category}
    names = JudgedNames(identities, load_terms(terms))
    questions = [
        JudgeQuestion({**fields, "concept": json.dumps(concept, ensure_ascii=False)}, names.read)
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
    rows = []
    for concept, question in zip(concepts, questions, strict=True):
        reply = question.replies[-1] if question.replies else None
        if reply is not None and reply.value:
            rows.append((concept, reply.value.identity, "judge", reply.value.reason, "ok"))
            continue
        if reply is not None:
            problem = reply.problem
        elif question.error == NOT_ASKED:
            problem = NOT_ASKED
        else:
            problem = f"no answer ({question.error})"
        rows.append((concept, None, "judge", problem, "unreadable"))
    exclusive = DataFrame(rows, schema=dict(EXCLUSIVE), orient="row")
    return exclusive, conform(answers.with_columns(stage=lit(STAGE)), JUDGEMENTS)


class ExclusivityVerdict(NamedTuple):
    """A parsed answer."""

    identity: str | None
    reason: str | None


_IDENTITY_KEYS: Final = ("identity", "answer", "exclusive_to", "group", "belongs_to")
_REASON_KEYS: Final = ("reason", "explanation", "why", "justification")
_NONE: Final = re.compile(
    r"(?:none|no|not|nobody|neither|null|nil|n a|nothing|any|all|both|every|everyone)\b"
)
_LINE: Final = re.compile(
    r"^(?:[^\w\n]|_)*+(identity|answer|reason)[\W_]*[:=]\s*(.+)$", re.IGNORECASE | re.MULTILINE
)
_LONGEST_NAME: Final = 6
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
        identities_of_name: dict[str, set[str]] = {}
        for identity, pieces in _pieces_of(identities, terms).items():
            names = [_bare_name(identity)]
            if len(pieces) == 1:
                names += terms.names_of(pieces[0].entry)
            for name in names:
                identities_of_name.setdefault(name, set()).add(identity)
        for identity in identities:
            identities_of_name[plain_words_of(identity)] = {identity}
        self._identity_of_name: dict[str, str] = {}
        for name, possible in identities_of_name.items():
            if name and len(possible) == 1:
                self._identity_of_name[name] = next(iter(possible))
        longest_first = sorted(self._identity_of_name, key=lambda name: (-len(name), name))
        self._any_name = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)")

    def read(self, answer: str) -> ParsedReply[ExclusivityVerdict]:
        """Parse an answer: JSON in any wrapping, lines "identity: ..." and "reason: ...", or a bare name."""
        text = answer.strip()
        try:
            content = read_json(text)
        except ValueError as error:
            content = {name.lower(): value.rstrip() for name, value in _LINE.findall(text)}
            has_identity = "identity" in content or "answer" in content
            if not has_identity and 0 < len(text.split()) <= _LONGEST_NAME:
                content["identity"] = text
            if "{" in text or content.keys() <= {"reason"}:
                return ParsedReply(None, str(error))
        if isinstance(content, list):
            if len(content) != 1:
                return ParsedReply(
                    None, f"the answer is a list of {len(content)}, and one identity or none is asked for"
                )
            content = content[0] if isinstance(content[0], dict) else {"identity": content[0]}
        values = {plain_words_of(str(key)).replace(" ", "_"): value for key, value in content.items()}
        key = next((key for key in _IDENTITY_KEYS if key in values), None)
        reason = next((str(values[key]) for key in _REASON_KEYS if values.get(key)), None)
        if key is None:
            return ParsedReply(None, 'the answer has no "identity"')
        return self._read_name(values[key], reason)

    def _read_name(self, value: Any, reason: str | None) -> ParsedReply[ExclusivityVerdict]:
        """Return the verdict of an answer whose identity is `value`, as the judge wrote it."""
        if isinstance(value, list):
            value = ", ".join(map(str, value))
        plain = "" if value is None or value is False else plain_words_of(str(value)).strip(_AROUND)
        if plain not in self._identity_of_name and (not plain or _NONE.match(plain)):
            return ParsedReply(ExclusivityVerdict(None, reason))
        names = self._any_name.findall(plain)
        identities = {self._identity_of_name[name] for name in names}
        if len(identities) == 1:
            return ParsedReply(ExclusivityVerdict(identities.pop(), reason))
        problem = f"names {len(identities)} of them; it must be" if identities else "is not"
        possible = ", ".join(self.identities)
        return ParsedReply(None, f"the identity {str(value)[:100]!r} {problem} one of {possible}, or none")
