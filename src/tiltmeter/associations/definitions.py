"""What each definition of associations decides, and what a user may choose with `-P key=value`: checked once, then passed on as objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from tiltmeter.errors import InputError
from tiltmeter.registry import check_known
from tiltmeter.study import Definition, Settings


@dataclass(frozen=True, slots=True)
class AssociationRules(Definition):
    """The choices of one definition."""

    counterbalanced: bool
    """Both orders of a pair are asked for equally often; otherwise the characters keep the order of the grid."""
    strict_guards: bool
    """Numbers and the long lists of opposites keep phrases apart as well."""
    own_exclusive_only: bool
    """A concept is dropped only where it is exclusive to the row's own identity, so that "observes Shabbat" stays for Muslim."""
    score_over: Literal["lists", "mentions"] | None
    """Divisor of the published score. None: concepts are credited to the highest rate, by one-sided tests in one family."""

    @property
    def published(self) -> bool:
        """Whether associations are the published ones: score above 0 and raw p < 0.05, within contexts only."""
        return self.score_over is not None


DEFAULT = AssociationRules("default", 1, counterbalanced=True, strict_guards=True, own_exclusive_only=False, score_over=None)
PAPER = AssociationRules("paper", 1, counterbalanced=False, strict_guards=False, own_exclusive_only=True, score_over="lists")
BADF_CODE = AssociationRules("badf-code", 1, counterbalanced=False, strict_guards=False, own_exclusive_only=True, score_over="mentions")
DEFINITIONS: Mapping[str, AssociationRules] = {one.name: one for one in (DEFAULT, PAPER, BADF_CODE)}


def rules_of(definition: str) -> AssociationRules:
    """The rules of a definition by name; raises InputError for an unknown one."""
    check_known(definition, DEFINITIONS, f"unknown definition {definition!r} of associations")
    return DEFINITIONS[definition]


STAGES = ("extract", "refine", "decompose", "polish")
WHOLE = "whole"
NO_ENCODER = "none"

Value = TypeVar("Value", int, float)


@dataclass(frozen=True, slots=True)
class AssociationOptions:
    """What a user may choose about extraction, unifying and testing; files are paths as the user wrote them."""

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


def options_of(settings: Settings) -> AssociationOptions:
    """The options of a study, with defaults.

    Raises
    ------
    InputError
        A value is not of its kind or range, or contradicts another; the message names the key.
    """
    given = settings.params
    if settings.file_for("lists") is not None and settings.file_for("mentions") is None:
        raise InputError("--replace lists= goes with --replace mentions=: give both tables of the run, edited or not")
    encoder = given.get("encoder", "all-MiniLM-L6-v2")
    return AssociationOptions(
        rules=rules_of(settings.definition),
        judged=_judged(settings),
        stages=_stages(given.get("stages", ",".join(STAGES))),
        encoder=None if encoder == NO_ENCODER else encoder,
        threshold=_number(given, "threshold", 0.63, lambda value: 0 < value < 1, "a similarity between 0 and 1, such as 0.63"),
        method=_one_of("method", given.get("method", "leader"), ("leader", "components", "average")),
        minimum=_number(given, "minimum", 5, lambda value: value >= 1, "a number of lists, such as 5"),
        shuffle=_one_of("shuffle", given.get("shuffle", "list"), ("list", "descriptor")),
        wording=given.get("wording"),
        terms=given.get("terms"),
    )


def _judged(settings: Settings) -> bool:
    chosen = _one_of("extraction", settings.params.get("extraction", "judge" if settings.judge else "lexical"), ("judge", "lexical"))
    if chosen == "judge" and settings.judge is None:
        raise InputError("-P extraction=judge needs a model that extracts: give --judge PROVIDER/NAME, or -P extraction=lexical")
    return chosen == "judge"


def _stages(text: str) -> tuple[str, ...]:
    found = tuple(one.strip() for one in text.split(","))
    if found == (WHOLE,):
        return found
    for one in found:
        _one_of("stages", one, (*STAGES, WHOLE))
    if found[0] != STAGES[0] or found != tuple(one for one in STAGES if one in found):
        raise InputError(f"-P stages={text}: give extract and, in this order, any of {', '.join(STAGES[1:])}; or {WHOLE} alone")
    return found


def _one_of(name: str, value: str, known: Sequence[str]) -> str:
    check_known(value, known, f"-P {name}={value}")
    return value


def _number(given: Mapping[str, str], name: str, default: Value, fits: Callable[[Value], bool], wanted: str) -> Value:
    """The number given as `name`, of the type of its default."""
    try:
        value = type(default)(given.get(name, default))
    except ValueError:
        value = None
    if value is None or not fits(value):
        raise InputError(f"-P {name}={given[name]}: give {wanted}")
    return value
