"""The definitions of the study `bbq`: the default one, and the formulas of other projects."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Final

from tiltmeter.probes._definitions import DEFAULT, ProbeDefinition


@dataclass(frozen=True, slots=True)
class BbqDefinition(ProbeDefinition):
    """A definition of the metrics of BBQ.

    Answers are read, and intervals computed, as in the default definition of the probes. The name is
    "default", or a key of `FORMULAS`.
    """


def _named(name: str) -> BbqDefinition:
    """Return the definition of this name."""
    fields = {field.name: getattr(DEFAULT, field.name) for field in dataclasses.fields(ProbeDefinition)}
    return BbqDefinition(**{**fields, "name": name, "version": 1})


BBQ: Final = _named("default")
BBQ_R: Final = _named("bbq-r")
HELM: Final = _named("helm")
LM_EVAL: Final = _named("lm-eval")
ESBBQ: Final = _named("esbbq")
EUROEVAL: Final = _named("euroeval")
ACCURACY: Final = _named("accuracy")
