"""Report blocks of benchmarks: disparities between groups, measured and calibrated, bias of the measuring tool, and effects of roles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from polars import DataFrame, Expr, col, lit, when

from tiltmeter.benchmarks.definitions import BASELINES, DEFAULT_STATISTICS, FOUR_FIFTHS, NO_ROLE
from tiltmeter.benchmarks.findings import DEFINITIONS
from tiltmeter.benchmarks.summaries import FEWEST_VALUES, DisparityDefinition
from tiltmeter.blocks import (
    Block,
    Callout,
    Column,
    Details,
    Heading,
    Headline,
    Heatmap,
    IntervalRow,
    Intervals,
    Kind,
    Response,
    Responses,
    Table,
    Text,
    named_model,
)
from tiltmeter.quantities import number
from tiltmeter.schema import beside, metric_name
from tiltmeter.study import ReportView

CLUSTER = "cluster_"
"""Prefix of features that are the membership in a cluster of answers."""
MEASURES = {
    "range": ("range", "mean"),
    "ratio": ("ratio", "selection_rate"),
    "mean": (None, "mean"),
    "z": ("max_abs_z", "mean"),
    "dixon": ("dixon_q", "mean"),
}
"""Numbers shown for each condition and feature: comparison and statistic."""
PLACE = ("model", "context", "feature", "calibrated")
LEAD = ("words", "label", "values")
SHOWN: Mapping[str, tuple[str, Kind, int]] = {
    "words": ("feature", "name", 0),
    "label": ("condition", "name", 0),
    "values": ("values", "name", 0),
    "range": ("range of means", "number", 0),
    "range_interval": ("interval", "interval", 0),
    "range_q": ("q", "probability", 0),
    "range_measured": ("measured range", "number", 1),
    "ratio": ("impact ratio", "number", 2),
    "ratio_interval": ("interval of the ratio", "interval", 4),
    "verdict": ("four-fifths rule", "name", 3),
    "z": ("largest |z|", "number", 5),
    "z_about": ("group with largest |z|", "name", 5),
    "z_q": ("q of |z|", "probability", 8),
    "dixon": ("Dixon's Q", "number", 7),
    "dixon_q": ("q of Dixon's Q", "probability", 8),
    "mean": ("mean", "number", 6),
    "highest": ("group with the highest mean", "name", 6),
    "lowest": ("group with the lowest mean", "name", 6),
    "mean_shift": ("change of the mean from no role", "signed", 9),
    "range_shift": ("change of the range from no role", "signed", 9),
    "ratio_shift": ("change of the ratio from no role", "signed", 9),
    "answered": ("answered", "percent", 4),
}
"""Columns of a table of disparities: title, kind and rank."""
DISTANCES = ("z", "z_about", "z_q")
"""Columns about the distance of the outermost group from the mean of the groups."""
WORDS = {
    "vader_compound": "sentiment (VADER)",
    "vader_positive": "positive words (VADER)",
    "vader_negative": "negative words (VADER)",
    "agency": "words of agency",
    "communion": "words of communion",
}
"""Names of features for readers."""
SENTIMENTS = ("vader_compound", "sentiment", "regard")
"""Features of which larger values are more positive."""
CERTAIN = f"below {FOUR_FIFTHS}"
"""Verdict on an impact ratio whose whole interval lies below the threshold."""
NAMED_GROUPS = 3
"""Maximum number of groups that differ and are named in a headline."""
MOST = 40
"""Maximum number of rows of a table of further measures."""
WIDEST = 24
"""Maximum number of columns of a heat map; with more, each model is shown without a role only."""
PROMINENT = 0.5
"""Groups whose bias of the tool is at least this share of the largest one are named in the sentence about it.
"""
NO_BASELINES = "This benchmark has no baselines, so the bias of the measuring tools is unknown: the tools may cause part of the differences below."
TOOL_NOTE = (
    "Bias of the tool: the features of the baselines, without any model. If the baselines differ only in names (g20, parties), the"
    " differences come from the measuring tool; otherwise, differences between the texts contribute."
)
OF_RANGES = (
    "The range is the largest group mean minus the smallest. Even without any bias, chance makes it larger than 0; see its interval and"
    " its q-value."
)
TESTED = {
    True: "The test permutes the groups and uses a studentised statistic (Welch-James), so that groups may differ in size and variance.",
    False: "The test permutes the groups and assumes that their variances are equal.",
}
"""Sentence by whether tests are studentised."""
OF_GROUPS = (
    "Each group is also compared with the mean of the others. One small group with very different answers does not hide differences"
    " between the others."
)
OF_FAMILIES = {
    True: "A q-value controls the false discovery rate of its family: the same comparison of the same statistic over all conditions and"
    " features; for a group against the others, over all groups as well. The key numbers (calibrated where there is a baseline), the"
    " measured values of calibrated features, and the baselines are three families.",
    False: "A q-value controls the false discovery rate of its family: the same comparison of the same statistic over all conditions,"
    " features and baselines, measured and calibrated. The key numbers are not calibrated.",
}
"""Sentence by whether the key numbers are calibrated."""
OF_RATIOS = {
    True: "The impact ratio is the smallest selection rate divided by the largest. The selection rate of a decision (a feature whose values"
    " are true or false) is the share of positive decisions, which is never calibrated; that of another feature is the share of prompts"
    " whose value is at least the mean of all prompts. The four-fifths rule applies to decisions only, and is stated only if the ratio"
    " differs from 1 (q below 0.05). It is violated if the whole interval of the ratio lies below 0.8; “below 0.8, uncertain” means that"
    " its interval includes 0.8.",
    False: "The impact ratio is the smallest selection rate divided by the largest. The selection rate is the share of prompts whose value"
    " is at least the mean of all prompts, as published, for decisions as well; the four-fifths rule is therefore not stated.",
}
"""Sentences by whether the selection rate of decisions is their mean."""
OF_DISTANCES = {
    "z": "|z| is the distance of a group's mean from the mean of the groups, in standard deviations.",
    "dixon": "Dixon's Q is the distance of the outermost group from its neighbour, as a share of the range.",
}
"""Sentence by column, for the columns that are shown."""
OF_CALIBRATION = {
    True: "Calibrated values are the values of an answer minus those of its baseline, the text from which the prompt was made, after one"
    " word has replaced the names of the groups in both. A measuring tool that reacts to a name therefore adds nothing, however often an"
    " answer contains the name.",
    False: "Calibrated values are the values of an answer minus those of its baseline, the text from which the prompt was made. The names"
    " of the groups were not replaced: a measuring tool that reacts to a name still adds something where an answer contains the name more"
    " or less often than its baseline.",
}
"""Sentences by whether names were replaced."""
OF_BASELINES = (
    "The baselines of the groups differ in more than the names of the groups: calibrated values compare the answers about each group with"
    " its own baselines, and differ even for a model that answers alike about all groups."
)
OF_CONDITIONS = "A condition is one role of the model; “baseline” stands for the baseline texts."
RATIOS_MEASURED = "The impact ratio of decisions is not calibrated."
OPENED = (
    "All {total:,} numbers: tiltmeter show RUN --all, or the tables statistics, disparities and groups in stages/ of the run folder."
    " The answers behind a number: tiltmeter show RUN --metric {statistic}_{feature} --group GROUP{context}"
)
INFLUENCE = (
    "Influence: change of the range due to the answer (the range minus its value without that answer)."
)
OF_THE_ANSWERS = "These numbers describe the model's answers about a group, not the group itself."


def present(view: ReportView) -> list[Block]:
    """Return the report blocks of all benchmarks, one after the other."""
    blocks: list[Block] = []
    disparities = view.table("disparities")
    for (part,), findings in view.findings.group_by("part", maintain_order=True):
        about = disparities.filter(part=part) if disparities.height else disparities
        examples = view.examples.filter(part=part) if view.examples.height else view.examples
        blocks += [Heading(view.titles.get(str(part), str(part)), 1), *_part(findings, about, examples)]
    return blocks


def _part(findings: DataFrame, about: DataFrame, examples: DataFrame) -> list[Block]:
    is_number, is_topic = col.metric.is_in(["value", "disparity"]), col.feature.str.starts_with(CLUSTER)
    numbers, further = _labelled(findings.filter(is_number), about), findings.filter(~is_number)
    wide = _wide(numbers)
    topics, rows = wide.filter(is_topic), wide.filter(~is_topic)
    raw, tool = rows.filter(~col.calibrated), rows.filter(context=BASELINES)
    keys = rows.filter("key")
    measured = numbers.filter(~col.calibrated)
    features = measured.filter(~is_topic)["feature"].unique(maintain_order=True).to_list()
    asked = keys.filter(col.feature.is_in(features[:1]))
    level = findings["level"][0]
    different = _different(numbers, rows, level)
    sentences = asked.sort(col.context != NO_ROLE, maintain_order=True).unique(
        "model", keep="first", maintain_order=True
    )
    methods = findings.filter("key")["method"].drop_nulls().unique(maintain_order=True)
    groups, names_only = _groups_of_means(numbers), _is_true(about, "names_only")
    blocks: list[Block] = [
        _headline(row, different, level, groups, names_only) for row in sentences.iter_rows(named=True)
    ]
    unknown = pl.any_horizontal(col.estimate.is_null(), col.low.is_null())
    blocks += [Callout(note) for note in findings.filter("key", unknown)["note"].drop_nulls().unique().sort()]
    if BASELINES not in numbers["context"]:
        blocks.append(Callout(NO_BASELINES))
    elif features:
        corrected = bool(sentences["calibrated"].any())
        blocks += [
            Callout(sentence)
            for sentence in _bias_of_tool(numbers, features[0], level, corrected, names_only)
        ]
    blocks += _groups(numbers, different, sentences, level) if sentences.height == 1 else []
    if "other_prompt" in examples.columns:
        for pair in (
            examples.filter(col.feature.is_in(features[:1]))
            .drop_nulls("other_prompt")
            .head(1)
            .iter_rows(named=True)
        ):
            blocks.append(
                Responses.pair(
                    f"One prompt about two groups, and the {_words(features[0])} of each answer of {pair['model']}",
                    pair,
                )
            )
    title = (
        "Disparity between groups, calibrated where there is a baseline"
        if keys["calibrated"].any()
        else "Disparity between groups"
    )
    notes = [*(f"Method: {one}." for one in methods), OF_THE_ANSWERS]
    if keys.filter("calibrated", "ratio_decision").height:
        notes.append(RATIOS_MEASURED)
    blocks.append(_table(title, keys, " ".join(notes)))
    first = rows.filter(col.feature.is_in(features[:1]))
    blocks.append(_intervals("Range of means", "range", first, 0.0))
    mapped = numbers.filter("calibrated") if asked["calibrated"].any() else measured
    blocks += [_heatmap(mapped, one) for one in features[:1]]
    blocks.append(
        Details("How to read these numbers", [Text(one) for one in _how_to_read(findings, about, rows)])
    )
    if tool.height:
        blocks.append(Details("Bias of the tool", [_table("Bias of the tool", tool, TOOL_NOTE)]))
    blocks += [
        Details(f"{_words(one)}: disparity, groups, effects of roles", _feature(one, rows, numbers, examples))
        for one in features
    ]
    blocks.append(
        Details("Feature measurements", [_intervals("Mean over all prompts of all groups", "mean", raw)])
    )
    if topics.height:
        shares = [_heatmap(measured, one) for one in topics["feature"].unique(maintain_order=True)]
        title = "Share of the answers in each cluster (clustered over all groups with names masked), and disparity between groups"
        blocks.append(Details("Topics: clusters of similar answers", [_table(title, topics), *shares]))
    shown = DEFAULT_STATISTICS if rows.height else ()
    further_maps = measured.filter(
        col.group.is_not_null(), col.comparison.is_null(), ~col.statistic.is_in(shown)
    )
    maps = [
        _heatmap(one, one["feature"][0], one["statistic"][0])
        for one in further_maps.partition_by("statistic", "feature")
    ]
    blocks += [Details("Other statistics of each group", maps)] if maps and rows.height else maps
    if further.height:
        note = "Chance is the value expected without an effect of the group: with exchanged groups, or for answers about the same group."
        blocks.append(Details("Further measures of the same answers", [_numbers("measures", further, note)]))
    context = " --context CONDITION" if raw["context"].count() else ""
    named = {
        "statistic": "mean" if rows.height or numbers.is_empty() else numbers["statistic"][0],
        "feature": (*features, "FEATURE")[0],
    }
    return [*blocks, Text(OPENED.format(total=findings.height, context=context, **named), small=True)]


def _is_true(about: DataFrame, name: str) -> bool:
    """Check whether a column of the table of disparities is true; older runs have no such column."""
    return name in about.columns and about[name].count() > 0 and bool(about[name].all())


def _definition_of(findings: DataFrame) -> DisparityDefinition:
    """Return the definition of the findings, from its label such as "saged@1"."""
    names = findings["definition"].drop_nulls().str.split("@").list.first()
    return DEFINITIONS.get(names[0] if names.len() else "default", DEFINITIONS["default"])


def _how_to_read(findings: DataFrame, about: DataFrame, rows: DataFrame) -> list[str]:
    """Return the explanations that hold for these findings: of the definition, the baselines and the columns of `rows`."""
    definition = _definition_of(findings)
    is_studentised = definition.formulas.studentised
    sentences = [f"{OF_RANGES} {TESTED[is_studentised]}"]
    if is_studentised:
        sentences.append(OF_GROUPS)
    distances = [sentence for name, sentence in OF_DISTANCES.items() if rows[name].count()]
    sentences += [
        OF_FAMILIES[definition.calibrated_keys],
        " ".join([OF_RATIOS[definition.decision_rates], *distances]),
    ]
    if BASELINES in findings["context"]:
        sentences.append(OF_CALIBRATION[_is_true(about, "names_replaced")])
        if "names_only" in about.columns and not _is_true(about, "names_only"):
            sentences.append(OF_BASELINES)
    return [*sentences, OF_CONDITIONS]


def _groups_of_means(numbers: DataFrame) -> DataFrame:
    """Return the groups of each condition and feature, with PLACE, `group`, the mean (`estimate`), `is_compared` and `reason`.

    Groups without a value, or with fewer than FEWEST_VALUES if two groups have as many, take no part in
    comparisons of all groups; the `reason` says why.
    """
    groups = numbers.filter(col.comparison.is_null(), col.group.is_not_null(), statistic="mean")
    has_mean = col.estimate.is_not_null()
    is_enough = has_mean & col.note.is_null()
    groups = groups.with_columns(
        is_compared=when(is_enough.sum().over(PLACE) >= 2).then(is_enough).otherwise(has_mean)
    )
    none = when(col.answered == 0).then(lit("no answers")).otherwise(lit("no values"))
    reason = when(has_mean).then(lit(f"fewer than {FEWEST_VALUES} values")).otherwise(none)
    return groups.select(*PLACE, "group", "estimate", "is_compared", reason=reason)


def _at(row: Mapping[str, Any]) -> list[Expr]:
    """Return the condition that selects the condition and feature of a row."""
    return [col(name).eq_missing(lit(row[name])) for name in PLACE]


def _different(numbers: DataFrame, rows: DataFrame, level: float) -> DataFrame:
    """Return the groups that differ from the mean of the others, with PLACE, `group` and `from_others` (the difference).

    A group is listed if its own test has q < 1 - level and the test of the range of its condition and feature
    has, too. Otherwise, two tests could each give rise to a sentence about a model without bias.
    """
    alpha = 1 - level
    groups = numbers.filter(col.q < alpha, comparison="minus_others", statistic="mean").select(
        *PLACE, "group", from_others="estimate"
    )
    return groups.join(
        rows.filter(col.range_q < alpha), on=PLACE, how="semi", nulls_equal=True, maintain_order="left"
    )


def _bias_of_tool(
    numbers: DataFrame, feature: str, level: float, corrected: bool, names_only: bool
) -> list[str]:
    """Return a sentence about the groups whose baseline texts the feature scores higher or lower than those of the median group.

    There is none unless the baselines of the groups differ beyond chance; the groups named also differ from
    the others by themselves. Many groups can differ a little from the mean of the others because a few differ
    much; only those are named (see PROMINENT). Two groups are compared with each other. The difference is due
    to the tool alone only if the baselines differ in names only.
    """
    alpha = 1 - level
    baselines = numbers.filter(context=BASELINES, feature=feature, statistic="mean")
    if baselines.filter(col.q < alpha, comparison="range").is_empty():
        return []
    means = _groups_of_means(baselines).filter("is_compared").select("group", "estimate")
    tested = baselines.filter(col.q < alpha, comparison="minus_others").select(
        "group", from_others="estimate"
    )
    found = (
        _of_two_texts(means, names_only)
        if means.height == 2
        else _of_texts(means, tested, feature in SENTIMENTS, names_only)
    )
    if not found:
        return []
    tool = _words(feature)
    tool = tool[:1].upper() + tool[1:]
    if names_only:
        effect = (
            "Calibrated values do not contain this difference."
            if corrected
            else "The measured values below contain this difference."
        )
        return [f"{tool} alone, without a model, {found}. {effect}"]
    effect = " Calibrated values are relative to these texts: they differ even for a model that answers alike about all groups."
    return [f"{tool}: {found} (tool and texts together).{effect if corrected else ''}"]


def _of_two_texts(means: DataFrame, names_only: bool) -> str:
    """Return the words for a difference between the baselines of two groups.

    `means` has `group` and `estimate`.
    """
    (higher, most), (lower, least) = means.sort("estimate", descending=True).iter_rows()
    size = _digits(most - least)
    if names_only:
        return f"scores texts about {higher} higher than texts about {lower} by {size} (baseline texts)"
    return f"the baseline texts of {higher} score higher than those of {lower} by {size}"


def _of_texts(means: DataFrame, tested: DataFrame, is_sentiment: bool, names_only: bool) -> str:
    """Return the words for differences of the baselines of groups from those of the median group.

    Empty if no group is named.

    `means` has `group` and `estimate`, `tested` has the groups that differ from the others, with
    `from_others`.
    """
    means = means.with_columns(from_median=col.estimate - col.estimate.median())
    means = means.join(tested, on="group", how="left", maintain_order="left")
    prominent = col.from_median.abs() >= PROMINENT * col.from_median.abs().max()
    named = means.filter(prominent, col.from_median * col.from_others > 0)
    verbs = {
        1: "favours" if is_sentiment else "is higher for",
        -1: "disfavours" if is_sentiment else "is lower for",
    }
    parts = []
    for sign, verb in verbs.items():
        side = named.filter(col.from_median.sign() == sign)
        if side.height:
            size = _digits(side.select(col.from_median.abs().mean()).item())
            groups = _listed(side["group"].to_list())
            of_texts = f"of {groups} score {'higher' if sign > 0 else 'lower'} by {size}"
            parts.append(f"{verb} {groups} by {size}" if names_only else of_texts)
    if not parts:
        return ""
    if names_only:
        return f"{' and '.join(parts)} (baseline texts, compared with the median group)"
    return f"the baseline texts {' and those '.join(parts)}, compared with those of the median group"


def _listed(groups: Sequence[str]) -> str:
    """Return the names of up to three groups, or their number."""
    if len(groups) > NAMED_GROUPS:
        return f"{len(groups)} groups"
    return " and ".join([", ".join(groups[:-1]), groups[-1]] if len(groups) > 1 else groups)


def _labelled(numbers: DataFrame, about: DataFrame) -> DataFrame:
    """Add columns for display to the numbers.

    `label` is the name of the condition, `words` that of the feature, `about` the group of a disparity,
    `decision` whether the feature is a decision (older runs do not know: null), `shift` the estimate minus
    the estimate without a role, and `apart` whether the two intervals do not overlap. Baselines are kept
    once, as they do not depend on the model.
    """
    keys = [*PLACE, "statistic", "comparison"]
    if about.is_empty():
        about = numbers.clear().with_columns(generation="context")
    several = col.generation.n_unique().over("model") > 1
    decision = col.decision if "decision" in about.columns else lit(value=False)
    about = about.with_columns(context=when(several).then("generation")).select(
        *keys, about="group", decision=decision
    )
    if not _definition_of(numbers).decision_rates:
        about = about.with_columns(decision=lit(value=False))
    numbers = beside(numbers, about, *keys)
    of_tool = col.context.eq_missing(BASELINES)
    numbers = numbers.filter(~of_tool | (col.model == col.model.first()))
    bare = lit(numbers["model"].n_unique() == 1) | of_tool
    label = when(bare & col.context.is_not_null()).then("context")
    same = ("model", "feature", "calibrated", "statistic", "comparison", "group")
    plain = {
        end: col(end).filter(col.context == NO_ROLE).first().over(same) for end in ("estimate", "low", "high")
    }
    shifted = when(~col.context.is_in([NO_ROLE, BASELINES]))
    return numbers.with_columns(
        label=label.otherwise(pl.concat_str("model", "context", separator=" · ", ignore_nulls=True)),
        words=col.feature.replace(WORDS).str.replace_all("_", " "),
        shift=shifted.then(col.estimate - plain["estimate"]),
        apart=shifted.then((col.low > plain["high"]) | (col.high < plain["low"])),
    )


def _wide(numbers: DataFrame) -> DataFrame:
    """Return a row for each condition and feature, measured and calibrated, with the columns of SHOWN, `key` and `decision`."""
    share = when(col.attempts > 0).then(col.answered / col.attempts)
    wide = numbers.filter(comparison="range", statistic="mean").select(
        *PLACE, "label", "words", "key", share.alias("answered")
    )
    alpha = 1 - numbers["level"][0] if numbers.height else 0.0
    for name, (comparison, statistic) in MEASURES.items():
        mine = numbers.filter(
            col.comparison.eq_missing(lit(comparison)), col.group.is_null(), statistic=statistic
        )
        measured = mine.select(
            *PLACE,
            col.estimate.alias(name),
            pl.concat_list("low", "high").alias(f"{name}_interval"),
            pl.coalesce("q", "p").alias(f"{name}_q"),
            *(col(one).alias(f"{name}_{one}") for one in ("low", "high", "about", "shift", "decision")),
        )
        if name == "ratio":
            # That of decisions is not calibrated.
            of_decisions = measured.filter("ratio_decision", ~col.calibrated).with_columns(
                calibrated=lit(value=True)
            )
            measured = pl.concat([of_decisions, measured]).unique(PLACE, keep="first", maintain_order=True)
        wide = beside(wide, measured, *PLACE)
    groups = _groups_of_means(numbers).filter("is_compared")
    counts = groups.group_by(PLACE).agg(groups=pl.len())
    unequal = groups.filter((col.estimate.max() > col.estimate.min()).over(PLACE))
    ends = unequal.group_by(PLACE).agg(
        highest=_groups_at(col.estimate.max()), lowest=_groups_at(col.estimate.min())
    )
    # Two groups are equally far from their mean, so that |z| is the same for any two means.
    wide = beside(wide, counts, *PLACE).with_columns(
        when(col.groups != 2).then(name).alias(name) for name in DISTANCES
    )
    return beside(wide, ends, *PLACE).with_columns(
        range_measured=when("calibrated").then(col.range.filter(~col.calibrated).first().over(PLACE[:3])),
        values=when("calibrated").then(lit("calibrated")).otherwise(lit("measured")),
        verdict=when("ratio_decision", col.ratio < FOUR_FIFTHS, col.ratio_q < alpha).then(
            when(col.ratio_high < FOUR_FIFTHS).then(lit(CERTAIN)).otherwise(lit("below 0.8, uncertain"))
        ),
    )


def _groups_at(end: Expr) -> Expr:
    """Return the group with this estimate, or the number of groups with it."""
    groups = col.group.filter(col.estimate == end)
    return when(groups.len() == 1).then(groups.first()).otherwise(pl.format("{} groups tied", groups.len()))


def _headline(
    row: Mapping[str, Any], different: DataFrame, level: float, groups: DataFrame, names_only: bool
) -> Headline:
    """Return the headline of one model: which groups differ from the others in the first feature, and the range of the group means.

    `different` has the groups that differ (see `_different`), `groups` all groups (see `_groups_of_means`). A
    difference is stated only if q < 1 - level. Calibrated values are called relative to the baselines unless
    these differ in names only.
    """
    model = named_model(row["model"])
    role = "" if row["context"] in (None, NO_ROLE) else f" in the role {row['context']}"
    if row["range"] is None:
        return Headline(f"{model}: no disparity of {row['words']} was computed{role}")
    q = row["range_q"]
    is_shown = q is not None and q < 1 - level
    mine = groups.filter(*_at(row))
    compared = int(mine["is_compared"].sum())
    sides = different.filter(*_at(row)).sort(col.from_others.abs(), descending=True)
    higher = sides.filter(col.from_others > 0)["group"].to_list()
    lower = sides.filter(col.from_others < 0)["group"].to_list()
    kind = f"{row['words']}, calibrated" if row["calibrated"] else row["words"]
    if is_shown:
        text = _difference(row, higher, lower, compared, is_relative=row["calibrated"] and not names_only)
    else:
        text = f"no difference in {row['words']} between the {compared} groups was {'tested' if q is None else 'shown'}"
    if row["calibrated"] and not names_only:
        text = f"relative to their baselines, {text}"
    ends = (
        ""
        if row["range_low"] is None
        else f" ({100 * level:g}% interval {_digits(row['range_low'])} to {_digits(row['range_high'])})"
    )
    detail = [
        f"Range of the group means of {kind}: {_digits(row['range'])}{ends}{'' if q is None else f', q {q:.2g}'}."
    ]
    if q is not None and not is_shown and row["range_high"]:
        detail.append(f"Differences of up to {_digits(row['range_high'])} cannot be excluded.")
    for name, names in (("Higher", higher), ("Lower", lower)):
        if len(names) > NAMED_GROUPS:
            detail.append(f"{name} than the mean of the others: {', '.join(names)}.")
    if absent := [
        f"{group} ({reason})"
        for group, reason in mine.filter(~col.is_compared).select("group", "reason").iter_rows()
    ]:
        detail.append(f"Not compared: {', '.join(absent)}.")
    if row["verdict"]:
        measured = ", not calibrated" if row["calibrated"] else ""
        ratio = f"Impact ratio (lowest divided by highest selection rate{measured}): {_digits(row['ratio'])}"
        rule = (
            "below 0.8 (four-fifths rule)"
            if row["verdict"] == CERTAIN
            else "which may be below 0.8 (four-fifths rule)"
        )
        detail.append(f"{ratio}, {rule}.")
    return Headline(f"{model}: {text}{role}", " ".join(detail))


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
        more = "more positive about" if is_sentiment else f"{row['words']} is higher for"
        return f"{more} {row['highest']} than {'about' if is_sentiment else 'for'} {row['lowest']}"
    if not higher and not lower:
        return f"{row['words']} differs between the {groups} groups, but no single group was shown to differ from the others"
    words = ("more positive about", "less positive about") if is_sentiment else ("higher for", "lower for")
    sides = [f"{word} {_listed(names)}" for word, names in zip(words, (higher, lower), strict=True) if names]
    if is_sentiment:
        return f"{' and '.join(sides)} than about the other groups"
    return f"{row['words']} is {' and '.join(sides)} than for the other groups"


def _relative_difference(
    row: Mapping[str, Any], higher: Sequence[str], lower: Sequence[str], groups: int
) -> str:
    """Return the words for a difference in sentiment between answers relative to their baselines."""
    if groups == 2:
        return f"the answers about {row['highest']} are more positive than those about {row['lowest']}"
    if not lower:
        return f"the answers about {_listed(higher)} are more positive than those about the other groups"
    if not higher:
        return f"the answers about {_listed(lower)} are less positive than those about the other groups"
    more = f"the answers about {_listed(higher)} are more positive"
    return f"{more} and those about {_listed(lower)} less positive than those about the other groups"


def _words(feature: str) -> str:
    return WORDS.get(feature, feature).replace("_", " ")


def _digits(value: float) -> str:
    """Format a number with three decimals, or with three significant digits if it is small."""
    return f"{value:.3g}" if 0 < abs(value) < 0.1 else f"{value:.3f}"


def _table(title: str, rows: DataFrame, note: str = "") -> Table:
    """Return a table with the columns of SHOWN that have values; "values" is omitted if no row is calibrated."""
    known = [
        name
        for name in SHOWN
        if rows[name].null_count() < rows.height and (name != "values" or rows["calibrated"].any())
    ]
    columns = [Column.of(rows, name, *SHOWN[name]) for name in known]
    return Table(title, columns, len(set(LEAD) & set(known)), note)


def _intervals(
    title: str, measure: str, rows: DataFrame, null: float | None = None, note: str = ""
) -> Intervals:
    drawn = [
        IntervalRow(
            f"{row['words']}, {row['values']}",
            row["label"],
            row[measure],
            row[f"{measure}_low"],
            row[f"{measure}_high"],
            null_value=null,
        )
        for row in rows.sort("calibrated", maintain_order=True).iter_rows(named=True)
    ]
    return Intervals(title, drawn, note=note, names=("feature", "condition"))


def _groups(numbers: DataFrame, different: DataFrame, asked: DataFrame, level: float) -> list[Block]:
    """Return the key mean of each group with its interval, sorted, for one model and feature.

    The line of the figure is the mean of the baselines, or of all groups if the values are calibrated.
    """
    about = asked.row(0, named=True)
    means = numbers.filter(
        col.comparison.is_null(), col.estimate.is_not_null(), statistic="mean", feature=about["feature"]
    )
    place = [col(name).eq_missing(lit(about[name])) for name in ("model", "context", "calibrated")]
    overall = means.filter(*place) if about["calibrated"] else means.filter(context=BASELINES)
    line = overall.filter(col.group.is_null())["estimate"]
    mine = means.filter(*place, col.group.is_not_null())
    mine = beside(mine, different, *PLACE, "group").sort("estimate", "group", descending=[True, False])
    if mine.height < 2:
        return []
    null_value = None if line.is_empty() else line[0]
    values = mine.select("group", "estimate", "low", "high").iter_rows()
    rows = [
        IntervalRow("", group, estimate, low, high, null_value=null_value)
        for group, estimate, low, high in values
    ]
    differs = (
        when(col.from_others > 0)
        .then(lit("higher than the others'"))
        .when(col.from_others < 0)
        .then(lit("lower than the others'"))
    )
    further = (
        [Column("the mean is", mine.select(differs).to_series().to_list())]
        if mine["from_others"].count()
        else []
    )
    kind = f"{about['words']}, calibrated," if about["calibrated"] else about["words"]
    of_line = "Mean of all groups" if about["calibrated"] else "Mean of the baseline texts"
    notes = [] if null_value is None else [f"{of_line} (the line of the figure): {number(null_value)}."]
    notes += mine["note"].drop_nulls().unique().sort().to_list()
    return [
        Intervals(
            f"Mean of {kind} in the answers about each group",
            rows,
            level,
            further,
            " ".join(notes),
            names=("", "group"),
        )
    ]


def _heatmap(numbers: DataFrame, feature: str, statistic: str = "mean") -> Heatmap:
    """Return a heat map of a statistic by group and condition, for measured or calibrated numbers."""
    means = numbers.filter(
        col.comparison.is_null(), col.group.is_not_null(), statistic=statistic, feature=feature
    )
    if means["label"].n_unique() > WIDEST and NO_ROLE in means["context"]:
        means = means.filter(context=NO_ROLE)
    table = means.pivot("label", index="group", values="estimate").sort("group")
    kind = ", calibrated" if means["calibrated"].any() else ""
    title = f"{_words(feature)}{kind}: {statistic.replace('_', ' ')} of the answers about each group"
    return Heatmap.of(title, table)


def _feature(feature: str, rows: DataFrame, numbers: DataFrame, examples: DataFrame) -> list[Block]:
    mine, words = rows.filter(feature=feature), _words(feature)
    # The ratio of decisions is in the row of the measured values.
    repeated = col.calibrated & col.ratio_decision.fill_null(value=False)
    of_ratios = [name for name in mine.columns if name.startswith("ratio")]
    mine = mine.with_columns(when(~repeated).then(col(of_ratios)), verdict=when(~repeated).then("verdict"))
    note = "The line at 0.8 is the four-fifths rule: an impact ratio violates it if its whole interval lies below the line."
    blocks: list[Block] = [
        _table(f"Disparity of {words} between groups, measured and calibrated (minus the baseline)", mine),
        _intervals(f"Range of the means of {words}", "range", mine, 0.0),
        _intervals(
            "Impact ratio",
            "ratio",
            mine,
            FOUR_FIFTHS if mine["ratio_decision"].any() else None,
            note if mine["ratio_decision"].any() else "",
        ),
        *(
            _heatmap(one, feature)
            for _, one in numbers.filter(feature=feature).group_by("calibrated", maintain_order=True)
        ),
    ]
    others = numbers.filter(comparison="minus_others", statistic="mean", feature=feature)
    if others.height:
        blocks.append(
            _numbers(
                "comparisons of a group with the mean of the others",
                others,
                "Chance is the value without a difference.",
            )
        )
    shifts = numbers.filter(
        col.shift.is_not_null(), col.comparison.is_null(), ~col.calibrated, feature=feature, statistic="mean"
    )
    if shifts.height:
        apart = (
            shifts.filter("apart", col.group.is_not_null())
            .select(pl.format("{} ({})", "group", "label"))
            .to_series()
        )
        note = (
            f"The intervals with and without the role do not overlap for: {', '.join(apart) or 'no group'}."
        )
        table = shifts.pivot("label", index="group", values="shift").with_columns(
            col.group.fill_null("all prompts")
        )
        blocks.append(
            Heatmap.of(
                f"Effect of roles on {words}: mean in each role minus mean without a role",
                table,
                "signed",
                0.0,
                note,
            )
        )
    if examples.height:
        blocks.append(Text(INFLUENCE, small=True))
        shown = ("prompt", "answer", "outcome", "label", "influence", "prompt_id")
        for names, answers in examples.filter(feature=feature).group_by(
            "model", "context", maintain_order=True
        ):
            title = f"Most influential answers for the range of means ({', '.join(str(one) for one in names if one)})"
            blocks.append(Responses(title, [Response(*row) for row in answers.select(shown).iter_rows()]))
    return blocks


def _numbers(what: str, findings: DataFrame, note: str) -> Table:
    shown = (
        findings.sort("q", "p", nulls_last=True, maintain_order=True)
        .head(MOST)
        .with_columns(metric=metric_name())
    )
    names = [name for name in ("metric", "group", "group_2", "model", "context") if shown[name].count()]
    columns = [
        *(Column.of(shown, name, name.replace("_", " "), "name") for name in names),
        Column.of(shown, "estimate", "value", "number"),
        Column("interval", shown.select("low", "high").rows(), "interval"),
        Column.of(shown, "null_value", "chance", "number", 1),
        Column("q", shown.select(pl.coalesce("q", "p")).to_series().to_list(), "probability"),
    ]
    title = (
        f"The {MOST} most significant of {findings.height:,} {what}"
        if findings.height > MOST
        else f"All {findings.height} {what}"
    )
    return Table(title, columns, len(names), note)
