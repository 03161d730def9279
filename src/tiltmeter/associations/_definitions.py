"""The definitions of associations, and the validated options that a user sets with `-P key=value`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Final, Literal

from pydantic import BaseModel, BeforeValidator, Field, InstanceOf, PositiveInt, ValidationError

from tiltmeter._files.yaml import error_sentence
from tiltmeter.definitions import Definition, of_method
from tiltmeter.errors import InputError, check_known
from tiltmeter.study import Settings


@dataclass(frozen=True, slots=True)
class AssociationDefinition(Definition):
    """The rules of one definition of associations."""

    counterbalanced: bool
    """Whether both orders of a pair are prompted equally often; otherwise the characters keep the order of
    the grid."""
    deals_names: bool
    """Whether first names are assigned to identities at random if the grid lists names; otherwise its
    descriptors are used."""
    strict_guards: bool
    """Whether different numbers and the long lists of opposites also keep phrases apart."""
    own_exclusive_only: bool
    """Whether a concept is excluded only for the identity it belongs to, so that "observes Shabbat" can be
    reported for Muslim."""
    score_over: Literal["lists", "mentions"] | None
    """The denominator of the published score. None: a concept is credited to every identity with a higher
    rate, by one-sided tests."""

    @property
    def published(self) -> bool:
        """Whether the published criterion applies: score above 0 and unadjusted p < 0.05, within contexts."""
        return self.score_over is not None


DEFAULT: Final = AssociationDefinition(
    "default",
    6,
    counterbalanced=True,
    deals_names=True,
    strict_guards=True,
    own_exclusive_only=False,
    score_over=None,
)
PAPER: Final = AssociationDefinition(
    "paper",
    2,
    counterbalanced=False,
    deals_names=False,
    strict_guards=False,
    own_exclusive_only=True,
    score_over="lists",
)
BADF_CODE: Final = replace(PAPER, name="badf-code", score_over="mentions")


def definition_of(settings: Settings) -> AssociationDefinition:
    """Return the rules of the definition in the settings; raise InputError if it is of another method."""
    return of_method(settings.definition, DEFAULT)


NO_ENCODER: Final = "none"
STAGES: Final = ("extract", "refine", "decompose", "polish")
"""Stages of the judge, in their order."""
ALL_STAGES_AT_ONCE: Final = "whole"
"""All stages of the judge in one request."""


def _values(text: str) -> tuple[str, ...]:
    """Return the values of a text with commas."""
    return tuple(value.strip() for value in text.split(","))


def _checked_stages(text: str) -> tuple[str, ...]:
    stages = _values(text)
    if stages == (ALL_STAGES_AT_ONCE,):
        return stages
    first, *later = STAGES
    in_order = (first, *(stage for stage in later if stage in stages))
    if stages != in_order:
        raise ValueError(
            f"give extract, optionally followed by {', '.join(later)} in this order; "
            f"or {ALL_STAGES_AT_ONCE} alone, not {text!r}"
        )
    return stages


Kept = Literal["definitional", "echo", "names", "agreement"]
"""Kinds of concepts that are excluded by default."""


class AssociationOptions(BaseModel, frozen=True):
    """User options for extraction, clustering and testing; files are paths as the user wrote them."""

    rules: InstanceOf[AssociationDefinition]
    judged: bool
    stages: Annotated[tuple[str, ...], BeforeValidator(_checked_stages)] = STAGES
    encoder: str | None
    threshold: Annotated[float, Field(gt=0, lt=1)] = 0.63
    method: Literal["leader", "components", "average"] = "leader"
    minimum: PositiveInt = 5
    shuffle: Literal["list", "descriptor"] = "list"
    wording: str | None = None
    terms: str | None = None
    language: str = "en"
    against: Literal["rest", "each"] = "rest"
    reference: str | None = None
    keep: Annotated[tuple[Kept, ...], BeforeValidator(_values)] = ()
    """Concepts that are excluded by default: those that belong to a group by definition, words of the prompt,
    names of people and places, and forms that agree with the gender of a person."""
    themes: str | None = None


def options_of(settings: Settings) -> AssociationOptions:
    """Return the options of a study, with defaults.

    Raises
    ------
    InputError
        A value has the wrong type or range, or contradicts another; the message names the key.
    """
    params = settings.params
    if settings.file_for("lists") is not None and settings.file_for("mentions") is None:
        raise InputError(
            "--replace lists= needs --replace mentions= as well: give both tables of the run, edited or not"
        )
    rules = definition_of(settings)
    extraction = params.get("extraction", "judge" if settings.judge else "words")
    check_known(extraction, ("judge", "words"), f"-P extraction={extraction}")
    judged = extraction == "judge"
    if judged and settings.judge is None:
        raise InputError(
            "-P extraction=judge needs a judge: give --judge PROVIDER/NAME, or use -P extraction=words"
        )
    if rules.published:
        for key in ("against", "reference", "keep"):
            if key in params:
                raise InputError(
                    f"-P {key}= does not apply to the definition {rules.name}, "
                    "which fixes what is compared; leave it out"
                )
    encoder = params.get("encoder", "all-MiniLM-L6-v2" if judged else NO_ENCODER)
    derived = {"rules": rules, "judged": judged, "encoder": None if encoder == NO_ENCODER else encoder}
    try:
        return AssociationOptions.model_validate({**params, **derived})
    except ValidationError as error:
        raise InputError(f"-P {error_sentence(error, AssociationOptions)}") from None
