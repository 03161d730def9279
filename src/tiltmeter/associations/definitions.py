"""The definitions of associations, and the validated options that a user sets with `-P key=value`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from tiltmeter.errors import InputError
from tiltmeter.registry import check_known
from tiltmeter.study import Definition, Settings


@dataclass(frozen=True, slots=True)
class AssociationRules(Definition):
    """The rules of one definition of associations."""

    counterbalanced: bool
    """Whether both orders of a pair are prompted equally often; otherwise the characters keep the order of the grid."""
    deals_names: bool
    """Whether first names are assigned to identities at random if the grid lists names; otherwise its descriptors are used."""
    strict_guards: bool
    """Whether different numbers and the long lists of opposites also keep phrases apart."""
    own_exclusive_only: bool
    """Whether a concept is excluded only for the identity it belongs to, so that "observes Shabbat" can be reported for Muslim."""
    score_over: Literal["lists", "mentions"] | None
    """The denominator of the published score. None: a concept is credited to every identity with a higher rate, by one-sided tests."""

    @property
    def published(self) -> bool:
        """Whether the published criterion applies: score above 0 and unadjusted p < 0.05, within contexts only."""
        return self.score_over is not None


DEFAULT = AssociationRules(
    "default", 3, counterbalanced=True, deals_names=True, strict_guards=True, own_exclusive_only=False, score_over=None
)
PAPER = AssociationRules(
    "paper", 1, counterbalanced=False, deals_names=False, strict_guards=False, own_exclusive_only=True, score_over="lists"
)
BADF_CODE = replace(PAPER, name="badf-code", score_over="mentions")
DEFINITIONS: Mapping[str, AssociationRules] = {one.name: one for one in (DEFAULT, PAPER, BADF_CODE)}


def rules_of(definition: str) -> AssociationRules:
    """Return the rules of a definition by name; raise InputError for an unknown one."""
    check_known(definition, DEFINITIONS, f"unknown definition {definition!r} of associations")
    return DEFINITIONS[definition]


STAGES = ("extract", "refine", "decompose", "polish")
WHOLE = "whole"
NO_ENCODER = "none"
KEPT = ("definitional", "echo")
"""Concepts that are excluded by default: those that belong to a group by definition, and words of the prompt."""

Value = TypeVar("Value", int, float)


@dataclass(frozen=True, slots=True)
class AssociationOptions:
    """User options for extraction, clustering and testing; files are paths as the user wrote them."""

    rules: AssociationRules
    judged: bool
    stages: tuple[str, ...]
    encoder: str | None
    threshold: float
    method: str
    minimum: int
    shuffle: str
    wording: str | None
    terms: str | None
    language: str
    against: str
    reference: str | None
    keep: tuple[str, ...]
    themes: str | None


def options_of(settings: Settings) -> AssociationOptions:
    """Return the options of a study, with defaults.

    Raises
    ------
    InputError
        A value has the wrong type or range, or contradicts another; the message names the key.
    """
    given = settings.params
    if settings.file_for("lists") is not None and settings.file_for("mentions") is None:
        raise InputError("--replace lists= needs --replace mentions= as well: give both tables of the run, edited or not")
    judged, rules = _judged(settings), rules_of(settings.definition)
    encoder = given.get("encoder", "all-MiniLM-L6-v2" if judged else NO_ENCODER)
    if rules.published and (unused := [key for key in ("against", "reference", "keep") if key in given]):
        raise InputError(f"-P {unused[0]}= does not apply to the definition {rules.name}, which fixes what is compared; leave it out")
    return AssociationOptions(
        rules=rules,
        judged=judged,
        stages=_stages(given.get("stages", ",".join(STAGES))),
        encoder=None if encoder == NO_ENCODER else encoder,
        threshold=_number(given, "threshold", 0.63, lambda value: 0 < value < 1, "a similarity between 0 and 1, such as 0.63"),
        method=_one_of("method", given.get("method", "leader"), ("leader", "components", "average")),
        minimum=_number(given, "minimum", 5, lambda value: value >= 1, "a number of lists, such as 5"),
        shuffle=_one_of("shuffle", given.get("shuffle", "list"), ("list", "descriptor")),
        wording=given.get("wording"),
        terms=given.get("terms"),
        language=given.get("language", "en"),
        against=_one_of("against", given.get("against", "rest"), ("rest", "each")),
        reference=given.get("reference"),
        keep=tuple(_one_of("keep", one.strip(), KEPT) for one in given["keep"].split(",")) if "keep" in given else (),
        themes=given.get("themes"),
    )


def _judged(settings: Settings) -> bool:
    chosen = _one_of("extraction", settings.params.get("extraction", "judge" if settings.judge else "words"), ("judge", "words"))
    if chosen == "judge" and settings.judge is None:
        raise InputError("-P extraction=judge needs a judge: give --judge PROVIDER/NAME, or use -P extraction=words")
    return chosen == "judge"


def _stages(text: str) -> tuple[str, ...]:
    found = tuple(one.strip() for one in text.split(","))
    for one in found:
        _one_of("stages", one, (*STAGES, WHOLE))
    if found != (WHOLE,) and (found[0] != STAGES[0] or found != tuple(one for one in STAGES if one in found)):
        raise InputError(f"-P stages={text}: give extract, optionally followed by {', '.join(STAGES[1:])} in this order; or {WHOLE} alone")
    return found


def _one_of(name: str, value: str, known: Sequence[str]) -> str:
    check_known(value, known, f"-P {name}={value}")
    return value


def _number(given: Mapping[str, str], name: str, default: Value, fits: Callable[[Value], bool], wanted: str) -> Value:
    """Return the option `name` as a number of the type of its default."""
    with suppress(ValueError):
        value = type(default)(given.get(name, default))
        if fits(value):
            return value
    raise InputError(f"-P {name}={given[name]}: give {wanted}")
