"""Impact ratios of selection rates as rows of FINDINGS."""

from __future__ import annotations

from typing import Final

from tiltmeter import stats
from tiltmeter.comparisons._outcomes import ComparedOutcome, Row

IMPACT_RATIO: Final = "impact_ratio"
"""Metric of the ratio of a group's rate to that of the reference, or to the highest rate."""
FOUR_FIFTHS_RULE: Final = "four-fifths: "
"""Beginning of the note of an impact ratio; "yes", "no" or "cannot be told" follows."""
SCORE_INTERVAL: Final = (
    "score interval of the ratio; with counts below 5, at least as wide as from exact rates"
)


def impact_ratios(compared: ComparedOutcome) -> list[Row]:
    """Return the impact ratio of each group to the reference, or to the highest rate without one.

    The reference itself has no row; `group_2` of the other rows names it. Without a reference, the interval
    is about the highest true rate, whichever group has it (see `stats.highest_ratio_interval`), and `group_2`
    is null.

    Parameters
    ----------
    compared
        A rate of two or more groups.
    """
    successes, trials = compared.sample.effective_counts()
    reference = compared.groups.reference
    if reference in compared.names:
        place = compared.names.index(reference)
        ratios = stats.ratios_to_reference(successes, trials, place, compared.level)
        groups, other = [name for name in compared.names if name != reference], reference
        ratios = [ratio for number, ratio in enumerate(ratios) if number != place]
    else:
        ratios = stats.ratios_to_highest(successes, trials, compared.level)
        groups, other = compared.names, None
    rows = []
    for name, ratio in zip(groups, ratios, strict=True):
        rows.append(
            {
                **compared.described(IMPACT_RATIO, [name] if other is None else [name, other]),
                "group": name,
                "group_2": other,
                "estimate": ratio.estimate,
                "low": ratio.low,
                "high": ratio.high,
                "null_value": 1.0,
                "unit": "quotient",
                "method": SCORE_INTERVAL,
                "note": f"{FOUR_FIFTHS_RULE}{ratio.four_fifths}",
            }
        )
    return rows
