"""Concepts that belong to an identity by definition, by the answers of a judge."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from polars import DataFrame, lit

from tiltmeter._judging.questions import NOT_ASKED, JudgeQuestion, ParsedReply, ask_questions
from tiltmeter.associations._exclusive_terms import AROUND, bare_name, pieces_of
from tiltmeter.associations._extraction_judge import judge_wording
from tiltmeter.associations._tables import EXCLUSIVE, JUDGEMENTS
from tiltmeter.associations._terms import Terms, load_terms, plain_words_of
from tiltmeter.models._json_replies import object_schema, read_json
from tiltmeter.schema import conform
from tiltmeter.study import Judge

STAGE: Final = "exclusivity"
SCHEMA: Final = object_schema(identity={"type": "string"}, reason={"type": "string"})


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
        for identity, pieces in pieces_of(identities, terms).items():
            names = [bare_name(identity)]
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
        plain = "" if value is None or value is False else plain_words_of(str(value)).strip(AROUND)
        if plain not in self._identity_of_name and (not plain or _NONE.match(plain)):
            return ParsedReply(ExclusivityVerdict(None, reason))
        names = self._any_name.findall(plain)
        identities = {self._identity_of_name[name] for name in names}
        if len(identities) == 1:
            return ParsedReply(ExclusivityVerdict(identities.pop(), reason))
        problem = f"names {len(identities)} of them; it must be" if identities else "is not"
        possible = ", ".join(self.identities)
        return ParsedReply(None, f"the identity {str(value)[:100]!r} {problem} one of {possible}, or none")
