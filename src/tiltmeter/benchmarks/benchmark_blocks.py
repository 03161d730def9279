"""Report blocks of benchmarks: disparities between groups, measured and calibrated, bias of the measuring tool, and effects of roles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
from polars import DataFrame, Expr, col, lit, when

from tiltmeter.benchmarks.configurations import BASELINES, DEFAULT_STATISTICS, FOUR_FIFTHS, NO_ROLE
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
from tiltmeter.study import ReportView, beside, metric_name

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
    "range_calibrated": ("calibrated range", "number", 1),
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
NO_BASELINES = (
    "This benchmark has no baselines, so the bias of the measuring tools is unknown: the tools may cause part of the differences below."
)
TOOL_NOTE = (
    "Bias of the tool: the features of the baselines. These texts differ only in names, so the differences come from the measuring tool,"
    " not from the model."
)
HOW_TO_READ = (
    "The range is the largest group mean minus the smallest. Even without any bias, chance makes it larger than 0; see its interval and"
    " its q-value. The test permutes the groups and uses a studentised statistic (Welch-James), so that groups may"
    " differ in size and variance.",
    "Each group is also compared with the mean of the others. One small group with very different answers does not hide differences"
    " between the others.",
    "A q-value controls the false discovery rate of its family: the same comparison of the same statistic over all conditions and"
    " features, measured and calibrated, baselines included; for a group against the others, over all groups as well.",
    "The impact ratio is the smallest selection rate divided by the largest. It violates the four-fifths rule if its whole interval lies"
    " below 0.8; “below 0.8, uncertain” means that its interval includes 0.8. |z| is the distance of a group's mean from the"
    " mean of the groups, in standard deviations. Dixon's Q is the distance of the outermost group from its neighbour, as a share of the"
    " range.",
    "Calibrated values are the values of an answer minus those of its baseline, the text from which the prompt was made. A condition is"
    " one role of the model; “baseline” stands for the baseline texts.",
)
OPENED = (
    "All {total:,} numbers: tiltmeter show RUN --all, or the tables statistics, disparities and groups in stages/ of the run folder."
    " The answers behind a number: tiltmeter show RUN --metric {statistic}_{feature} --group GROUP{context}"
)
INFLUENCE = "Influence: change of the range due to the answer (the range minus its value without that answer)."
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
    measured = numbers.filter(~col.calibrated)
    features = measured.filter(~is_topic)["feature"].unique(maintain_order=True).to_list()
    asked = raw.filter(col.label != BASELINES, col.feature.is_in(features[:1]))
    level = findings["level"][0]
    different = measured.filter(col.q < 1 - level, comparison="minus_others", statistic="mean")
    asked = beside(asked, different.group_by(PLACE).agg(different=_named_groups(), number_different=pl.len()), *PLACE)
    sentences = asked.sort(col.context != NO_ROLE, maintain_order=True).unique("model", keep="first", maintain_order=True)
    methods = findings.filter("key")["method"].drop_nulls().unique(maintain_order=True)
    groups = numbers.filter(statistic="mean")["group"].drop_nulls().n_unique()
    blocks: list[Block] = [_headline(row, level, groups) for row in sentences.iter_rows(named=True)]
    blocks += [Callout(note) for note in findings.filter("key", col.estimate.is_null())["note"].drop_nulls().unique().sort()]
    blocks += [] if BASELINES in numbers["context"] else [Callout(NO_BASELINES)]
    blocks += _groups(measured, different, sentences, level) if sentences.height == 1 else []
    if "other_prompt" in examples.columns:
        for pair in examples.filter(col.feature.is_in(features[:1])).drop_nulls("other_prompt").head(1).iter_rows(named=True):
            blocks.append(
                Responses.pair(f"One prompt about two groups, and the {_words(features[0])} of each answer of {pair['model']}", pair)
            )
    blocks.append(_table("Disparity between groups", raw, " ".join([*(f"Method: {one}." for one in methods), OF_THE_ANSWERS])))
    first = rows.filter(col.feature.is_in(features[:1]))
    blocks += [_intervals("Range of means", "range", first, 0.0), *(_heatmap(measured, one) for one in features[:1])]
    blocks.append(Details("How to read these numbers", [Text(one) for one in HOW_TO_READ]))
    if tool.height:
        blocks.append(Details("Bias of the tool", [_table("Bias of the tool", tool, TOOL_NOTE)]))
    blocks += [Details(f"{_words(one)}: disparity, groups, effects of roles", _feature(one, rows, numbers, examples)) for one in features]
    blocks.append(Details("Feature measurements", [_intervals("Mean over all prompts of all groups", "mean", raw)]))
    if topics.height:
        shares = [_heatmap(measured, one) for one in topics["feature"].unique(maintain_order=True)]
        title = "Share of the answers in each cluster (clustered over all groups with names masked), and disparity between groups"
        blocks.append(Details("Topics: clusters of similar answers", [_table(title, topics), *shares]))
    shown = DEFAULT_STATISTICS if rows.height else ()
    further_maps = measured.filter(col.group.is_not_null(), col.comparison.is_null(), ~col.statistic.is_in(shown))
    maps = [_heatmap(one, one["feature"][0], one["statistic"][0]) for one in further_maps.partition_by("statistic", "feature")]
    blocks += [Details("Other statistics of each group", maps)] if maps and rows.height else maps
    if further.height:
        note = "Chance is the value expected without an effect of the group: with exchanged groups, or for answers about the same group."
        blocks.append(Details("Further measures of the same answers", [_numbers("measures", further, note)]))
    context = " --context CONDITION" if raw["context"].count() else ""
    named = {"statistic": "mean" if rows.height or numbers.is_empty() else numbers["statistic"][0], "feature": (*features, "FEATURE")[0]}
    return [*blocks, Text(OPENED.format(total=findings.height, context=context, **named), small=True)]


def _labelled(numbers: DataFrame, about: DataFrame) -> DataFrame:
    """Add columns for display to the numbers.

    `label` is the name of the condition, `words` that of the feature, `about` the group of a disparity, `shift` the estimate minus the
    estimate without a role, and `apart` whether the two intervals do not overlap. Baselines are kept once, as they do not depend on the
    model.
    """
    keys = [*PLACE, "statistic", "comparison"]
    if about.is_empty():
        about = numbers.clear().with_columns(generation="context")
    several = col.generation.n_unique().over("model") > 1
    about = about.with_columns(context=when(several).then("generation")).select(*keys, about="group")
    numbers = beside(numbers, about, *keys)
    of_tool = col.context.eq_missing(BASELINES)
    numbers = numbers.filter(~of_tool | (col.model == col.model.first()))
    bare = lit(numbers["model"].n_unique() == 1) | of_tool
    label = when(bare & col.context.is_not_null()).then("context")
    same = ("model", "feature", "calibrated", "statistic", "comparison", "group")
    plain = {end: col(end).filter(col.context == NO_ROLE).first().over(same) for end in ("estimate", "low", "high")}
    shifted = when(~col.context.is_in([NO_ROLE, BASELINES]))
    return numbers.with_columns(
        label=label.otherwise(pl.concat_str("model", "context", separator=" · ", ignore_nulls=True)),
        words=col.feature.replace(WORDS).str.replace_all("_", " "),
        shift=shifted.then(col.estimate - plain["estimate"]),
        apart=shifted.then((col.low > plain["high"]) | (col.high < plain["low"])),
    )


def _wide(numbers: DataFrame) -> DataFrame:
    """Return a row for each condition and feature, measured and calibrated, with the columns of SHOWN."""
    share = when(col.attempts > 0).then(col.answered / col.attempts)
    wide = numbers.filter(comparison="range", statistic="mean").select(*PLACE, "label", "words", share.alias("answered"))
    for name, (comparison, statistic) in MEASURES.items():
        mine = numbers.filter(col.comparison.eq_missing(lit(comparison)), col.group.is_null(), statistic=statistic)
        measured = mine.select(
            *PLACE,
            col.estimate.alias(name),
            pl.concat_list("low", "high").alias(f"{name}_interval"),
            pl.coalesce("q", "p").alias(f"{name}_q"),
            *(col(one).alias(f"{name}_{one}") for one in ("low", "high", "about", "shift")),
        )
        wide = beside(wide, measured, *PLACE)
    groups = numbers.filter(col.comparison.is_null(), col.estimate.is_not_null(), col.group.is_not_null(), statistic="mean")
    unequal = groups.filter((col.estimate.max() > col.estimate.min()).over(PLACE))
    ends = unequal.group_by(PLACE).agg(highest=_groups_at(col.estimate.max()), lowest=_groups_at(col.estimate.min()))
    return beside(wide, ends, *PLACE).with_columns(
        range_calibrated=when(~col.calibrated).then(col.range.filter("calibrated").first().over(PLACE[:3])),
        values=when("calibrated").then(lit("calibrated")).otherwise(lit("measured")),
        verdict=when(col.ratio < FOUR_FIFTHS).then(
            when(col.ratio_high < FOUR_FIFTHS).then(lit(CERTAIN)).otherwise(lit("below 0.8, uncertain"))
        ),
    )


def _groups_at(end: Expr) -> Expr:
    """Return the group with this estimate, or the number of groups with it."""
    groups = col.group.filter(col.estimate == end)
    return when(groups.len() == 1).then(groups.first()).otherwise(pl.format("{} groups tied", groups.len()))


def _named_groups() -> Expr:
    """Return the names of up to three groups, or their number."""
    return when(pl.len() <= NAMED_GROUPS).then(col.group.str.join(", ")).otherwise(pl.format("{} groups", pl.len()))


def _headline(row: Mapping[str, Any], level: float, groups: int) -> Headline:
    """Return the headline of one model: the groups with the highest and the lowest mean of the first feature, and how many differ."""
    model = named_model(row["model"])
    role = "" if row["context"] in (None, NO_ROLE) else f" in the role {row['context']}"
    if row["range"] is None:
        return Headline(f"{model}: no disparity of {row['words']} was computed{role}")
    q = row["range_q"]
    shown = q is not None and q < 1 - level
    if shown and row["feature"] in SENTIMENTS:
        found = f"most positive about {row['highest']}, least positive about {row['lowest']}{role}"
    elif shown:
        found = f"{row['words']} is highest for {row['highest']} and lowest for {row['lowest']}{role}"
    else:
        found = f"no difference in {row['words']} between the {groups} groups {'was shown' if q is not None else 'was tested'}{role}"
    number = row["number_different"] or 0
    few = f" ({row['different']})" if 0 < number <= NAMED_GROUPS else ""
    more = f"; {number} of {groups} groups{few} differ{'s' if number == 1 else ''} from the others" if number else ""
    ends = "" if row["range_low"] is None else f" ({100 * level:g}% interval {_digits(row['range_low'])} to {_digits(row['range_high'])})"
    detail = [f"Range of the group means of {row['words']}: {_digits(row['range'])}{ends}{'' if q is None else f', q {q:.2g}'}."]
    if q is not None and not shown and row["range_high"] is not None:
        detail.append(f"Differences of up to {_digits(row['range_high'])} cannot be excluded.")
    if row["different"] and not few:
        detail.append(f"Different from the mean of the others: {row['different']}.")
    if row["verdict"]:
        unsure = "" if row["verdict"] == CERTAIN or row["ratio_high"] is None else ", but its interval includes 0.8"
        detail.append(
            f"Impact ratio (lowest divided by highest selection rate): {_digits(row['ratio'])}, below 0.8 (four-fifths rule){unsure}."
        )
    return Headline(f"{model}: {found}{more}", " ".join(detail))


def _words(feature: str) -> str:
    return WORDS.get(feature, feature).replace("_", " ")


def _digits(value: float) -> str:
    """Format a number with three decimals, or with three significant digits if it is small."""
    return f"{value:.3g}" if 0 < abs(value) < 0.1 else f"{value:.3f}"


def _table(title: str, rows: DataFrame, note: str = "") -> Table:
    """Return a table with the columns of SHOWN that have values; "values" is omitted if no row is calibrated."""
    known = [name for name in SHOWN if rows[name].null_count() < rows.height and (name != "values" or rows["calibrated"].any())]
    columns = [Column.of(rows, name, *SHOWN[name]) for name in known]
    return Table(title, columns, len(set(LEAD) & set(known)), note)


def _intervals(title: str, measure: str, rows: DataFrame, null: float | None = None, note: str = "") -> Intervals:
    drawn = [
        IntervalRow(
            f"{row['words']}, {row['values']}", row["label"], row[measure], row[f"{measure}_low"], row[f"{measure}_high"], null_value=null
        )
        for row in rows.sort("calibrated", maintain_order=True).iter_rows(named=True)
    ]
    return Intervals(title, drawn, note=note, names=("feature", "condition"))


def _groups(measured: DataFrame, different: DataFrame, asked: DataFrame, level: float) -> list[Block]:
    """Return the mean of each group with its interval, sorted, and the mean of the baselines as a line, for one model and feature."""
    about = asked.row(0, named=True)
    means = measured.filter(col.comparison.is_null(), col.estimate.is_not_null(), statistic="mean", feature=about["feature"])
    baseline = means.filter(col.group.is_null(), context=BASELINES)["estimate"]
    mine = means.filter(col.context.eq_missing(lit(about["context"])), col.group.is_not_null(), col.low.is_not_null(), model=about["model"])
    different = different.select(*PLACE, "group", from_others="estimate")
    mine = beside(mine, different, *PLACE, "group").sort("estimate", "group", descending=[True, False])
    if mine.height < 2:
        return []
    place = None if baseline.is_empty() else baseline[0]
    numbers = mine.select("group", "estimate", "low", "high").iter_rows()
    rows = [IntervalRow("", group, value, low, high, null_value=place) for group, value, low, high in numbers]
    differs = when(col.from_others > 0).then(lit("higher than the others'")).when(col.from_others < 0).then(lit("lower than the others'"))
    further = [Column("the mean is", mine.select(differs).to_series().to_list())] if mine["from_others"].count() else []
    note = "" if place is None else f"Mean of the baseline texts (the line of the figure): {number(place)}."
    title = f"Mean of {about['words']} in the answers about each group"
    return [Intervals(title, rows, level, further, note, names=("", "group"))]


def _heatmap(numbers: DataFrame, feature: str, statistic: str = "mean") -> Heatmap:
    """Return a heat map of a statistic by group and condition, for measured or calibrated numbers."""
    means = numbers.filter(col.comparison.is_null(), col.group.is_not_null(), statistic=statistic, feature=feature)
    if means["label"].n_unique() > WIDEST and NO_ROLE in means["context"]:
        means = means.filter(context=NO_ROLE)
    table = means.pivot("label", index="group", values="estimate").sort("group")
    kind = ", calibrated" if means["calibrated"].any() else ""
    title = f"{_words(feature)}{kind}: {statistic.replace('_', ' ')} of the answers about each group"
    return Heatmap.of(title, table)


def _feature(feature: str, rows: DataFrame, numbers: DataFrame, examples: DataFrame) -> list[Block]:
    mine, words = rows.filter(feature=feature), _words(feature)
    note = "The line at 0.8 is the four-fifths rule: an impact ratio violates it if its whole interval lies below the line."
    blocks: list[Block] = [
        _table(f"Disparity of {words} between groups, measured and calibrated (minus the baseline)", mine),
        _intervals(f"Range of the means of {words}", "range", mine, 0.0),
        _intervals("Impact ratio", "ratio", mine, FOUR_FIFTHS, note),
        *(_heatmap(one, feature) for _, one in numbers.filter(feature=feature).group_by("calibrated", maintain_order=True)),
    ]
    others = numbers.filter(comparison="minus_others", statistic="mean", feature=feature)
    if others.height:
        blocks.append(_numbers("comparisons of a group with the mean of the others", others, "Chance is the value without a difference."))
    shifts = numbers.filter(col.shift.is_not_null(), col.comparison.is_null(), ~col.calibrated, feature=feature, statistic="mean")
    if shifts.height:
        apart = shifts.filter("apart", col.group.is_not_null()).select(pl.format("{} ({})", "group", "label")).to_series()
        note = f"The intervals with and without the role do not overlap for: {', '.join(apart) or 'no group'}."
        table = shifts.pivot("label", index="group", values="shift").with_columns(col.group.fill_null("all prompts"))
        blocks.append(Heatmap.of(f"Effect of roles on {words}: mean in each role minus mean without a role", table, "signed", 0.0, note))
    if examples.height:
        blocks.append(Text(INFLUENCE, small=True))
        shown = ("prompt", "answer", "outcome", "label", "influence", "prompt_id")
        for names, answers in examples.filter(feature=feature).group_by("model", "context", maintain_order=True):
            title = f"Most influential answers for the range of means ({', '.join(str(one) for one in names if one)})"
            blocks.append(Responses(title, [Response(*row) for row in answers.select(shown).iter_rows()]))
    return blocks


def _numbers(what: str, findings: DataFrame, note: str) -> Table:
    shown = findings.sort("q", "p", nulls_last=True, maintain_order=True).head(MOST).with_columns(metric=metric_name())
    names = [name for name in ("metric", "group", "group_2", "model", "context") if shown[name].count()]
    columns = [
        *(Column.of(shown, name, name.replace("_", " "), "name") for name in names),
        Column.of(shown, "estimate", "value", "number"),
        Column("interval", shown.select("low", "high").rows(), "interval"),
        Column.of(shown, "null_value", "chance", "number", 1),
        Column("q", shown.select(pl.coalesce("q", "p")).to_series().to_list(), "probability"),
    ]
    title = f"The {MOST} most significant of {findings.height:,} {what}" if findings.height > MOST else f"All {findings.height} {what}"
    return Table(title, columns, len(names), note)
