"""Sentences on the first screen of a benchmark: the headline of each model, and the bias of the tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from polars import DataFrame, col

from tiltmeter.benchmarks._display import (
    CERTAIN,
    LISTED_GROUPS,
    SENTIMENTS,
    digits,
    listed,
    means_of_groups,
    same_place,
    words_of,
)
from tiltmeter.benchmarks._tables import BASELINES, NO_ROLE
from tiltmeter.blocks import Headline, named_model

PROMINENT: Final = 0.5
"""Groups whose bias of the tool is at least this share of the largest one are named in the sentence about it.
"""


def headline(
    row: Mapping[str, Any], different: DataFrame, level: float, groups: DataFrame, names_only: bool
) -> Headline:
    """Return the headline of one model: which groups differ in the first feature, and the range of the means.

    A difference is stated only if q < 1 - level. Calibrated values are called relative to the baselines
    unless these differ in names only.

    Parameters
    ----------
    row
        The key row of the model (see `wide_rows`).
    different
        The groups that differ (see `differing_groups`).
    level
        Confidence level.
    groups
        All groups (see `means_of_groups`).
    names_only
        Whether the baselines of the groups differ in names only.
    """
    model = named_model(row["model"])
    role = "" if row["context"] in (None, NO_ROLE) else f" in the role {row['context']}"
    if row["range"] is None:
        text = f"{model}: no disparity of {row['words']} was computed{role}"
        return Headline(text, model=row["model"])
    groups = groups.filter(*same_place(row))
    compared = int(groups["is_compared"].sum())
    sides = different.filter(*same_place(row)).sort(col.from_others.abs(), descending=True)
    higher = sides.filter(col.from_others > 0)["group"].to_list()
    lower = sides.filter(col.from_others < 0)["group"].to_list()
    is_relative = row["calibrated"] and not names_only
    if _is_shown(row, level):
        text = _difference(row, higher, lower, compared, is_relative=is_relative)
    else:
        evidence = "tested" if row["range_q"] is None else "shown"
        text = f"no difference in {row['words']} between the {compared} groups was {evidence}"
    if is_relative:
        text = f"relative to their baselines, {text}"
    detail = [
        *_range_sentences(row, level),
        *_long_lists(higher, lower),
        *_not_compared(groups),
        *_impact_sentences(row),
    ]
    return Headline(f"{model}: {text}{role}", " ".join(detail), model=row["model"])


def _is_shown(row: Mapping[str, Any], level: float) -> bool:
    """Check whether the test of the range is significant."""
    return row["range_q"] is not None and row["range_q"] < 1 - level


def _range_sentences(row: Mapping[str, Any], level: float) -> list[str]:
    """Return the range with its interval and q, and what cannot be excluded if no difference was shown."""
    kind = f"{row['words']}, calibrated" if row["calibrated"] else row["words"]
    range_text = f"Range of the group means of {kind}: {digits(row['range'])}"
    if row["range_low"] is not None:
        ends = f"{digits(row['range_low'])} to {digits(row['range_high'])}"
        range_text += f" ({100 * level:g}% interval {ends})"
    if row["range_q"] is None:
        return [f"{range_text}."]
    sentences = [f"{range_text}, q {row['range_q']:.2g}."]
    if row["range_low"] and not _is_shown(row, level):
        sentences.append(
            "The interval excludes 0, but q, which counts all tests of the run, "
            f"is not below {1 - level:.2g}."
        )
    if row["range_high"] and not _is_shown(row, level):
        sentences.append(f"Differences of up to {digits(row['range_high'])} cannot be excluded.")
    return sentences


def _long_lists(higher: Sequence[str], lower: Sequence[str]) -> list[str]:
    """Return the names of groups that differ, where there are too many for the headline."""
    return [
        f"{direction} than the mean of the others: {', '.join(names)}."
        for direction, names in (("Higher", higher), ("Lower", lower))
        if len(names) > LISTED_GROUPS
    ]


def _not_compared(groups: DataFrame) -> list[str]:
    """Return a sentence about the groups that were not compared, if there are any."""
    absent = groups.filter(~col.is_compared).select("group", "reason")
    if absent.is_empty():
        return []
    named = [f"{group} ({reason})" for group, reason in absent.iter_rows()]
    return [f"Not compared: {', '.join(named)}."]


def _impact_sentences(row: Mapping[str, Any]) -> list[str]:
    """Return a sentence about the impact ratio, if it is below the threshold."""
    if not row["verdict"]:
        return []
    measured = ", not calibrated" if row["calibrated"] else ""
    ratio = f"Impact ratio (lowest divided by highest selection rate{measured}): {digits(row['ratio'])}"
    rule = "which may be below 0.8 (four-fifths rule)"
    if row["verdict"] == CERTAIN:
        rule = "below 0.8 (four-fifths rule)"
    return [f"{ratio}, {rule}."]


def _difference(
    row: Mapping[str, Any], higher: Sequence[str], lower: Sequence[str], groups: int, *, is_relative: bool
) -> str:
    """Return the words for a difference between groups that was shown.

    `is_relative`: of answers relative to their baselines.
    """
    is_sentiment = row["feature"] in SENTIMENTS
    if is_sentiment and is_relative and (groups == 2 or higher or lower):
        return _relative_difference(row, higher, lower, groups)
    if groups == 2:
        if is_sentiment:
            return f"more positive about {row['highest']} than about {row['lowest']}"
        return f"{row['words']} is higher for {row['highest']} than for {row['lowest']}"
    if not higher and not lower:
        return (
            f"{row['words']} differs between the {groups} groups, "
            "but no single group was shown to differ from the others"
        )
    more, less = (
        ("more positive about", "less positive about") if is_sentiment else ("higher for", "lower for")
    )
    sides = []
    if higher:
        sides.append(f"{more} {listed(higher)}")
    if lower:
        sides.append(f"{less} {listed(lower)}")
    is_long = max(len(higher), len(lower)) > LISTED_GROUPS
    both = (", and " if is_long else " and ").join(sides)
    if is_sentiment:
        return f"{both} than about the other groups"
    return f"{row['words']} is {both} than for the other groups"


def _relative_difference(
    row: Mapping[str, Any], higher: Sequence[str], lower: Sequence[str], groups: int
) -> str:
    """Return the words for a difference in sentiment between answers relative to their baselines."""
    if groups == 2:
        return f"the answers about {row['highest']} are more positive than those about {row['lowest']}"
    if not lower:
        return f"the answers about {listed(higher)} are more positive than those about the other groups"
    if not higher:
        return f"the answers about {listed(lower)} are less positive than those about the other groups"
    more = f"the answers about {listed(higher)} are more positive"
    return f"{more} and those about {listed(lower)} less positive than those about the other groups"


def bias_of_tool(
    numbers: DataFrame, feature: str, level: float, corrected: bool, names_only: bool
) -> str | None:
    """Return a sentence about the groups whose baseline texts the feature scores higher or lower.

    There is none unless the baselines of the groups differ beyond chance; the groups named also differ from
    the others by themselves. They are compared with the median group. Many groups can differ a little from
    the mean of the others because a few differ much; only those are named (see PROMINENT). Two groups are
    compared with each other. The difference is due to the tool alone only if the baselines differ in names
    only.
    """
    alpha = 1 - level
    baselines = numbers.filter(context=BASELINES, feature=feature, statistic="mean")
    if baselines.filter(col.q < alpha, comparison="range").is_empty():
        return None
    means = means_of_groups(baselines).filter("is_compared").select("group", "estimate")
    if means.height == 2:
        difference = _difference_of_two_texts(means, names_only)
    else:
        tested = baselines.filter(col.q < alpha, comparison="minus_others")
        tested = tested.select("group", from_others="estimate")
        difference = _difference_of_texts(means, tested, feature in SENTIMENTS, names_only)
    if not difference:
        return None
    tool = words_of(feature)
    tool = tool[:1].upper() + tool[1:]
    if names_only:
        effect = "The measured values below contain this difference."
        if corrected:
            effect = "Calibrated values do not contain this difference."
        return f"{tool} alone, without a model, {difference}. {effect}"
    sentence = f"{tool}: {difference} (tool and texts together)."
    if not corrected:
        return sentence
    return (
        f"{sentence} Calibrated values are relative to these texts: "
        "they differ even for a model that answers alike about all groups."
    )


def _difference_of_two_texts(means: DataFrame, names_only: bool) -> str:
    """Return the words for a difference between the baselines of two groups.

    `means` has `group` and `estimate`.
    """
    (higher, most), (lower, least) = means.sort("estimate", descending=True).iter_rows()
    size = digits(most - least)
    if names_only:
        return f"scores texts about {higher} higher than texts about {lower} by {size} (baseline texts)"
    return f"the baseline texts of {higher} score higher than those of {lower} by {size}"


def _difference_of_texts(means: DataFrame, tested: DataFrame, is_sentiment: bool, names_only: bool) -> str:
    """Return the words for differences of the baselines of groups from those of the median group.

    Empty if no group is named. `means` has `group` and `estimate`, `tested` has the groups that differ from
    the others, with `from_others`.
    """
    means = means.with_columns(from_median=col.estimate - col.estimate.median())
    means = means.join(tested, on="group", how="left", maintain_order="left")
    is_prominent = col.from_median.abs() >= PROMINENT * col.from_median.abs().max()
    named = means.filter(is_prominent, col.from_median * col.from_others > 0)
    sides = []
    for sign in (1, -1):
        side = named.filter(col.from_median.sign() == sign)
        if side.height:
            sides.append(_side_of_texts(side, sign, is_sentiment, names_only))
    if not sides:
        return ""
    if names_only:
        return f"{' and '.join(sides)} (baseline texts, compared with the median group)"
    return f"the baseline texts {' and those '.join(sides)}, compared with those of the median group"


def _side_of_texts(side: DataFrame, sign: int, is_sentiment: bool, names_only: bool) -> str:
    """Return the words for the groups above (`sign` 1) or below (-1) the median group."""
    size = digits(side.select(col.from_median.abs().mean()).item())
    groups = listed(side["group"].to_list())
    if not names_only:
        return f"of {groups} score {'higher' if sign > 0 else 'lower'} by {size}"
    if is_sentiment:
        verb = "favours" if sign > 0 else "disfavours"
    else:
        verb = "is higher for" if sign > 0 else "is lower for"
    return f"{verb} {groups} by {size}"
