"""How an answer about exclusivity is read: which identity it names, if any."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tiltmeter._json import read_json
from tiltmeter.associations.exclusivity._labels import bare, pieces_of
from tiltmeter.associations.unifying._terms import Terms, plain_words_of

__all__ = ["Names", "Verdict"]

_IDENTITY_KEYS = ("identity", "answer", "exclusive_to", "group", "belongs_to")
_REASON_KEYS = ("reason", "explanation", "why", "justification")
_NONE = re.compile(r"(?:none|no|not|nobody|neither|null|nil|n a|nothing|any|all|both|every|everyone)\b")
_LINE = re.compile(r"^(?:[^\w\n]|_)*+(identity|answer|reason)[\W_]*[:=]\s*(.+)$", re.IGNORECASE | re.MULTILINE)


class Verdict(NamedTuple):
    """What an answer says; `problem` is None where it could be read."""

    identity: str | None
    reason: str | None
    problem: str | None = None


class Names:
    """The identities of a study by every name a judge may give them.

    Parameters
    ----------
    identities
        As the study calls them.
    terms
        Whose `called` give further names; a name that would mean two of the identities means neither.
    """

    def __init__(self, identities: Sequence[str], terms: Terms) -> None:
        self.identities = list(identities)
        meant: dict[str, set[str]] = {}
        for identity, pieces in pieces_of(identities, terms).items():
            known = terms.names_of(pieces[0].entry) if len(pieces) == 1 else []
            for name in (bare(identity), *known):
                meant.setdefault(name, set()).add(identity)
        for identity in identities:
            meant[plain_words_of(identity)] = {identity}
        self._meant = {name: next(iter(found)) for name, found in meant.items() if name and len(found) == 1}
        longest_first = sorted(self._meant, key=lambda name: (-len(name), name))
        self._any = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)")

    def read(self, answer: str | None) -> Verdict:
        """The verdict of an answer: JSON in whatever wrapping, lines "identity: ..." and "reason: ...", or the name alone."""
        text = (answer or "").strip()
        if not text:
            return Verdict(None, None, "the answer is empty")
        try:
            found = read_json(text)
        except ValueError as error:
            return self._lines(text, str(error))
        if isinstance(found, list):
            if len(found) != 1:
                return Verdict(None, None, f"the answer is a list of {len(found)}, and one identity or none is asked for")
            found = found[0] if isinstance(found[0], dict) else {"identity": found[0]}
        lowered = {plain_words_of(str(key)).replace(" ", "_"): value for key, value in found.items()}
        key = next((key for key in _IDENTITY_KEYS if key in lowered), None)
        reason = next((str(lowered[key]) for key in _REASON_KEYS if lowered.get(key)), None)
        if key is None:
            return Verdict(None, reason, 'the answer has no "identity"')
        return self._named(lowered[key], reason)

    def _lines(self, text: str, problem: str) -> Verdict:
        if "{" in text:
            return Verdict(None, None, problem)
        lines: Mapping[str, str] = {name.lower(): value.rstrip() for name, value in _LINE.findall(text)}
        said = lines.get("identity", lines.get("answer"))
        if said is None and len(text.split()) <= 6:
            said = text
        return Verdict(None, None, problem) if said is None else self._named(said, lines.get("reason"))

    def _named(self, said: Any, reason: str | None) -> Verdict:
        if isinstance(said, list):
            said = said[0] if len(said) == 1 else None if not said else ", ".join(map(str, said))
        if said is None or said is False:
            return Verdict(None, reason)
        plain = plain_words_of(str(said)).strip(" .,;:!?\"'*`()[]")
        if plain in self._meant:
            return Verdict(self._meant[plain], reason)
        if not plain or _NONE.match(plain):
            return Verdict(None, reason)
        meant = {self._meant[name] for name in self._any.findall(plain)}
        if len(meant) == 1:
            return Verdict(meant.pop(), reason)
        known = ", ".join(self.identities)
        if meant:
            return Verdict(None, reason, f"the identity {str(said)[:100]!r} names {len(meant)} of them; it must be one of {known}, or none")
        return Verdict(None, reason, f"the identity {str(said)[:100]!r} is not one of {known}, or none")
