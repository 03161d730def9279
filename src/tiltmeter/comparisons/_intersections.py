"""Rates of intersections of attributes, shrunk towards their margins, as rows of FINDINGS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from tiltmeter import stats
from tiltmeter._arrays import Floats
from tiltmeter.comparisons._outcomes import ComparedOutcome, Row

SHRUNK: Final = "_shrunk"
"""End of the name of a rate that is shrunk towards what the attributes alone predict."""


def shrunk_means(compared: ComparedOutcome, members: Mapping[str, Sequence[str]]) -> list[Row]:
    """Return the rate of each intersection, shrunk towards what the effects of its attributes predict.

    Parameters
    ----------
    compared
        A rate of the intersections.
    members
        The groups of an intersection, one of each attribute: {"Black, female": ("Black", "female")}.
    """
    successes, trials = compared.sample.effective_counts()
    effects = _effects([members[name] for name in compared.names])
    rates = stats.shrunk_rates(successes, trials, effects)
    metric = f"{compared.outcome.metric}{SHRUNK}"
    return [
        {
            **compared.described(metric, [name]),
            "group": name,
            "estimate": float(rate),
            "unit": "share",
            "note": "shrunk towards what the attributes alone predict",
            "method": "beta distribution around a logistic regression on the attributes",
        }
        for name, rate in zip(compared.names, rates, strict=True)
    ]


def _effects(members: Sequence[Sequence[str]]) -> Floats:
    """Return an intercept, and a column for each group of an attribute but its first: (cells, columns)."""
    columns = [np.ones(len(members))]
    for of_attribute in zip(*members, strict=True):
        later_groups = sorted(set(of_attribute))[1:]
        columns += [np.array([group == member for member in of_attribute]) for group in later_groups]
    return np.stack(columns, axis=1).astype(np.float64)
