"""The definitions of the study `bbq` beside the default: the formulas of other projects."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Final

from tiltmeter.probes._definitions import DEFAULT, ProbeDefinition


@dataclass(frozen=True, slots=True)
class BbqDefinition(ProbeDefinition):
    """The formula of another project. Answers are read, and intervals computed, as in the default definition.

    The name is a key of `FORMULAS`.
    """


def _of_formula(name: str) -> BbqDefinition:
    """Return the definition of a formula."""
    fields = {field.name: getattr(DEFAULT, field.name) for field in dataclasses.fields(ProbeDefinition)}
    return BbqDefinition(**{**fields, "name": name, "version": 1})


BBQ_R: Final = _of_formula("bbq-r")
HELM: Final = _of_formula("helm")
LM_EVAL: Final = _of_formula("lm-eval")
ESBBQ: Final = _of_formula("esbbq")
EUROEVAL: Final = _of_formula("euroeval")
ACCURACY: Final = _of_formula("accuracy")
