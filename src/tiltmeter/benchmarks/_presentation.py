"""Report blocks of benchmarks: disparities between groups, bias of the tool, and effects of roles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import polars as pl
from polars import DataFrame, Expr, col, lit, when

from tiltmeter._quantities import interval_name, number
from tiltmeter.benchmarks._definitions import DEFAULT_STATISTICS, FOUR_FIFTHS
from tiltmeter.benchmarks._display import (
    PLACE,
    differing_groups,
    displayed_numbers,
    is_true,
    means_of_groups,
    wide_rows,
    words_of,
)
from tiltmeter.benchmarks._explanations import how_to_read
from tiltmeter.benchmarks._headlines import bias_of_tool, headline
from tiltmeter.benchmarks._tables import BASELINES, NO_ROLE
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
)
from tiltmeter.schema import beside, metric_name
from tiltmeter.study import ReportView

CLUSTER_PREFIX: Final = "cluster_"
"""Prefix of features that are the membership in a cluster of answers."""
LEAD: Final = ("words", "label", "values")
DISPARITY_COLUMNS: Mapping[str, tuple[str, Kind, int]] = {
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
MOST_KEYS: Final = 15
"""Maximum number of key rows whose table is not in details."""
MOST_OF_FEW_CONDITIONS: Final = 6
"""Maximum number of key rows for which the heat map of groups and conditions is not in details."""
MOST: Final = 40
"""Maximum number of rows of a table of further measures."""
WIDEST: Final = 24
"""Maximum number of columns of a heat map; with more, each model is shown without a role only."""
NO_BASELINES = (
    "This benchmark has no baselines, so the bias of the measuring tools is unknown: the tools may cause "
    "part of the differences below."
)
TOOL_NOTE = (
    "Bias of the tool: the features of the baselines, without any model. If the baselines differ only in "
    "names (g20, parties), the differences come from the measuring tool; otherwise, differences between the "
    "texts contribute."
)
RATIOS_MEASURED = "The impact ratio of decisions is not calibrated."
WHERE_TO_LOOK = (
    "All {total:,} numbers: tiltmeter show RUN --all, or the tables statistics, disparities and groups in "
    "stages/ of the run folder. The answers behind a number: tiltmeter show RUN --metric "
    "{statistic}_{feature} --group GROUP{context}"
)
INFLUENCE_NOTE = (
    "Influence: change of the range due to the answer (the range minus its value without that answer)."
)
ABOUT_ANSWERS = "These numbers describe the model's answers about a group, not the group itself."


def present(view: ReportView) -> list[Block]:
    """Return the report blocks of all benchmarks, one after the other."""
    blocks: list[Block] = []
    disparities = view.table("disparities")
    for (part,), findings in view.findings.group_by("part", maintain_order=True):
        of_part = disparities.filter(part=part) if disparities.height else disparities
        examples = view.examples.filter(part=part) if view.examples.height else view.examples
        blocks.append(Heading(view.titles.get(str(part), str(part)), 1))
        blocks += _part(_report_of(findings, of_part, examples))
    return blocks


@dataclass(frozen=True, slots=True)
class _Report:
    """The tables behind the blocks of one benchmark."""

    findings: DataFrame
    disparities: DataFrame
    """The table of disparities of the runs; empty if there is none."""
    examples: DataFrame
    numbers: DataFrame
    """The numbers for display (see `displayed_numbers`)."""
    further: DataFrame
    """Findings of further measures."""
    rows: DataFrame
    """One row per condition and feature (see `wide_rows`), without clusters of answers."""
    topics: DataFrame
    """The same for clusters of answers."""
    features: list[str]
    level: float
    different: DataFrame
    """Groups that differ from the others (see `differing_groups`)."""
    names_only: bool
    """Whether the baselines of the groups differ in names only."""

    @property
    def measured(self) -> DataFrame:
        """The numbers that are not calibrated."""
        return self.numbers.filter(~col.calibrated)

    @property
    def of_first_feature(self) -> Expr:
        """The condition that selects the first feature, about which the headline speaks."""
        return col.feature.is_in(self.features[:1])

    @property
    def key_rows(self) -> DataFrame:
        """The key rows of all features."""
        return self.rows.filter("key")

    @property
    def headline_rows(self) -> DataFrame:
        """The key row of the first feature of each model, without a role if there is one; the worst first."""
        rows = self.key_rows.filter(self.of_first_feature).sort(col.context != NO_ROLE, maintain_order=True)
        of_models = rows.unique("model", keep="first", maintain_order=True)
        worst_first = [col.range_q, -col.range_low, -col.range]
        return of_models.sort(worst_first, nulls_last=True, maintain_order=True)


def _report_of(findings: DataFrame, disparities: DataFrame, examples: DataFrame) -> _Report:
    is_number = col.metric.is_in(["value", "disparity"])
    is_topic = col.feature.str.starts_with(CLUSTER_PREFIX)
    numbers = displayed_numbers(findings.filter(is_number), disparities)
    all_rows = wide_rows(numbers)
    rows = all_rows.filter(~is_topic)
    level = findings["level"][0]
    features = numbers.filter(~col.calibrated, ~is_topic)["feature"].unique(maintain_order=True)
    return _Report(
        findings=findings,
        disparities=disparities,
        examples=examples,
        numbers=numbers,
        further=findings.filter(~is_number),
        rows=rows,
        topics=all_rows.filter(is_topic),
        features=features.to_list(),
        level=level,
        different=differing_groups(numbers, rows, level),
        names_only=is_true(disparities, "names_only"),
    )


def _part(report: _Report) -> list[Block]:
    """Return the blocks of one benchmark."""
    return [
        *_headlines(report),
        *_callouts(report),
        *_means_of_models(report),
        *_pair(report),
        *_key_numbers(report),
        *_explanations(report),
        *_feature_details(report),
        *_topics(report),
        *_further_statistics(report),
        *_further_measures(report),
        _where_to_look(report),
    ]


def _headlines(report: _Report) -> Iterator[Headline]:
    groups = means_of_groups(report.numbers)
    for row in report.headline_rows.iter_rows(named=True):
        yield headline(row, report.different, report.level, groups, report.names_only)


def _callouts(report: _Report) -> Iterator[Block]:
    """Yield what is unknown about the key numbers, and the bias of the measuring tool."""
    is_unknown = pl.any_horizontal(col.estimate.is_null(), col.low.is_null())
    notes = report.findings.filter("key", is_unknown)["note"].drop_nulls()
    for note in notes.unique().sort():
        yield Callout(note)
    if BASELINES not in report.numbers["context"]:
        yield Callout(NO_BASELINES)
    elif report.features:
        corrected = bool(report.headline_rows["calibrated"].any())
        sentence = bias_of_tool(
            report.numbers, report.features[0], report.level, corrected, report.names_only
        )
        if sentence is not None:
            yield Callout(sentence)


def _means_of_models(report: _Report) -> Iterator[Block]:
    """Yield the key mean of each group with its interval, sorted; those of further models in details."""
    figures = [
        figure
        for row in report.headline_rows.iter_rows(named=True)
        for figure in _means_of_groups(report, row)
    ]
    yield from figures[:1]
    for figure in figures[1:]:
        yield Details(figure.title, [figure])


def _means_of_groups(report: _Report, row: Mapping[str, Any]) -> Iterator[Intervals]:
    """Yield the means of the groups under the condition of a key row, unless there are fewer than two.

    The line of the figure is the mean of the baselines, or of all groups if the values are calibrated.
    """
    is_mean = col.comparison.is_null() & col.estimate.is_not_null()
    means = report.numbers.filter(is_mean, statistic="mean", feature=row["feature"])
    same_condition = [col(name).eq_missing(lit(row[name])) for name in ("model", "context", "calibrated")]
    of_condition = means.filter(*same_condition)
    groups = beside(of_condition.filter(col.group.is_not_null()), report.different, *PLACE, "group")
    groups = groups.sort("estimate", "group", descending=[True, False])
    if groups.height < 2:
        return
    of_line = of_condition if row["calibrated"] else means.filter(context=BASELINES)
    overall = of_line.filter(col.group.is_null())["estimate"]
    null_value = None if overall.is_empty() else overall[0]
    notes = []
    if null_value is not None:
        line = "Mean of all groups" if row["calibrated"] else "Mean of the baseline texts"
        notes.append(f"{line} (the line of the figure): {number(null_value)}.")
    notes += groups["note"].drop_nulls().unique().sort().to_list()
    kind = f"{row['words']}, calibrated," if row["calibrated"] else row["words"]
    values = groups.select("group", "estimate", "low", "high").iter_rows()
    intervals = [
        IntervalRow("", group, mean, low, high, null_value=null_value) for group, mean, low, high in values
    ]
    model = f", {row['model']}" if report.headline_rows.height > 1 else ""
    yield Intervals(
        f"Mean of {kind} in the answers about each group{model}",
        intervals,
        report.level,
        _direction_column(groups),
        " ".join(notes),
        names=("", "group"),
        finding=next(head.text for head in _headlines(report) if head.model == row["model"]),
        about=f"Mean of {kind} for each group (dot) and {interval_name(report.level)} (line)"
        f"{_size_of(report)}",
        axis=row["words"],
        null_words="mean of all groups" if row["calibrated"] else "mean of the baseline texts",
    )


def _size_of(report: _Report) -> str:
    """Return the number of answers and prompts of a model as the end of a sentence."""
    largest = report.findings.filter("key").select(pl.max("attempts", "items")).row(0)
    attempts, items = largest
    if not attempts or not items:
        return "."
    return f"; {attempts:,} answers to {items:,} prompts of each model."


def _direction_column(groups: DataFrame) -> list[Column]:
    """Return a column that says which groups differ from the others; none if no group does."""
    if not groups["from_others"].count():
        return []
    higher = when(col.from_others > 0).then(lit("higher"))
    direction = higher.when(col.from_others < 0).then(lit("lower"))
    return [Column("compared with the others", groups.select(direction).to_series().to_list())]


def _pair(report: _Report) -> Iterator[Block]:
    """Yield one prompt about two groups, with both answers, of the first model that has one."""
    if "other_prompt" not in report.examples.columns:
        return
    examples = report.examples.filter(report.of_first_feature).drop_nulls("other_prompt")
    if examples.height:
        models = report.headline_rows["model"].to_list()
        worst_first = col.model.replace_strict(models, range(len(models)), default=len(models))
        example = examples.sort(worst_first, maintain_order=True).row(0, named=True)
        words = words_of(report.features[0])
        title = f"One prompt about two groups, and the {words} of each answer of {example['model']}"
        yield Responses.pair(title, example)


def _key_numbers(report: _Report) -> Iterator[Block]:
    """Yield the table of key disparities, their ranges, and the means of the first feature."""
    keys = report.key_rows
    title = "Disparity between groups"
    if keys["calibrated"].any():
        title += ", calibrated where there is a baseline"
    methods = report.findings.filter("key")["method"].drop_nulls().unique(maintain_order=True)
    notes = [*(f"Method: {method}." for method in methods), ABOUT_ANSWERS]
    if keys.filter("calibrated", "ratio_decision").height:
        notes.append(RATIOS_MEASURED)
    is_calibrated = keys.filter(report.of_first_feature)["calibrated"].any()
    first = report.rows.filter(report.of_first_feature)
    if is_calibrated:  # the measured values are among the details of the feature
        first = first.filter("calibrated")
    means = report.numbers.filter("calibrated") if is_calibrated else report.measured
    table = _disparity_table(title, keys, " ".join(notes))
    maps = [_heatmap(means, feature) for feature in report.features[:1]]
    yield _intervals(report, "Range of means", "range", first, 0.0)
    if keys.height > MOST_KEYS:
        yield Details(f"{title}: all {keys.height} features and conditions", [table])
    else:
        yield table
    if keys.height > MOST_OF_FEW_CONDITIONS:
        yield Details("Means of each group under each condition", maps)
    else:
        yield from maps


def _explanations(report: _Report) -> Iterator[Block]:
    texts = how_to_read(report.findings, report.disparities, report.rows)
    yield Details("How to read these numbers", [Text(text) for text in texts])
    of_baselines = report.rows.filter(context=BASELINES)
    if of_baselines.height:
        yield Details("Bias of the tool", [_disparity_table("Bias of the tool", of_baselines, TOOL_NOTE)])


def _feature_details(report: _Report) -> Iterator[Block]:
    for feature in report.features:
        title = f"{words_of(feature)}: disparity, groups, effects of roles"
        yield Details(title, list(_feature(feature, report)))
    measured = report.rows.filter(~col.calibrated)
    yield Details(
        "Feature measurements", [_intervals(report, "Mean over all prompts of all groups", "mean", measured)]
    )


def _topics(report: _Report) -> Iterator[Block]:
    topics = report.topics
    if topics.is_empty():
        return
    title = (
        "Share of the answers in each cluster (clustered over all groups with names masked), "
        "and disparity between groups"
    )
    features = topics["feature"].unique(maintain_order=True)
    shares = [_heatmap(report.measured, feature) for feature in features]
    yield Details("Topics: clusters of similar answers", [_disparity_table(title, topics), *shares])


def _further_statistics(report: _Report) -> list[Block]:
    """Return a heat map of each statistic of the groups that the tables do not show.

    If there are no other numbers, the default statistics are shown as well.
    """
    tabulated = DEFAULT_STATISTICS if report.rows.height else ()
    numbers = report.measured.filter(
        col.group.is_not_null(), col.comparison.is_null(), ~col.statistic.is_in(tabulated)
    )
    maps: list[Block] = [
        _heatmap(table, table["feature"][0], table["statistic"][0])
        for table in numbers.partition_by("statistic", "feature")
    ]
    if maps and report.rows.height:
        return [Details("Other statistics of each group", maps)]
    return maps


def _further_measures(report: _Report) -> Iterator[Block]:
    if report.further.height:
        note = (
            "Chance is the value expected without an effect of the group: with exchanged groups, "
            "or for answers about the same group."
        )
        table = _significance_table("measures", report.further, note)
        yield Details("Further measures of the same answers", [table])


def _where_to_look(report: _Report) -> Text:
    """Return how to print all numbers, and the answers behind a number."""
    if report.rows.height or report.numbers.is_empty():
        statistic = "mean"
    else:
        statistic = report.numbers["statistic"][0]
    has_conditions = report.rows.filter(~col.calibrated)["context"].count() > 0
    text = WHERE_TO_LOOK.format(
        total=report.findings.height,
        context=" --context CONDITION" if has_conditions else "",
        statistic=statistic,
        feature=report.features[0] if report.features else "FEATURE",
    )
    return Text(text, small=True)


def _feature(feature: str, report: _Report) -> Iterator[Block]:
    """Yield the blocks about one feature: disparity, groups, effects of roles, and influential answers."""
    words = words_of(feature)
    rows = report.rows.filter(feature=feature)
    numbers = report.numbers.filter(feature=feature)
    # The ratio of decisions is in the row of the measured values.
    is_repeated = col.calibrated & col.ratio_decision.fill_null(value=False)
    of_ratios = [name for name in rows.columns if name.startswith("ratio")]
    rows = rows.with_columns(
        when(~is_repeated).then(col(of_ratios)), verdict=when(~is_repeated).then("verdict")
    )
    title = f"Disparity of {words} between groups, measured and calibrated (minus the baseline)"
    yield _disparity_table(title, rows)
    yield _intervals(report, f"Range of the means of {words}", "range", rows, 0.0)
    if rows["ratio_decision"].any():
        note = (
            "The line at 0.8 is the four-fifths rule: an impact ratio violates it "
            "if its whole interval lies below the line."
        )
        yield _intervals(
            report, f"Impact ratio of {words}", "ratio", rows, FOUR_FIFTHS, note, "four-fifths rule"
        )
    else:
        yield _intervals(report, f"Impact ratio of {words}", "ratio", rows)
    for _, table in numbers.group_by("calibrated", maintain_order=True):
        yield _heatmap(table, feature)
    from_others = numbers.filter(comparison="minus_others", statistic="mean")
    if from_others.height:
        yield _significance_table(
            "comparisons of a group with the mean of the others",
            from_others,
            "Chance is the value without a difference.",
        )
    yield from _effects_of_roles(numbers, words)
    if report.examples.height:
        yield from _influential_answers(report.examples.filter(feature=feature))


def _effects_of_roles(numbers: DataFrame, words: str) -> Iterator[Block]:
    """Yield a heat map of the change of each group's mean in each role, if there are roles."""
    is_mean = col.comparison.is_null() & ~col.calibrated
    shifts = numbers.filter(col.shift.is_not_null(), is_mean, statistic="mean")
    if shifts.is_empty():
        return
    apart = shifts.filter("apart", col.group.is_not_null())
    names = apart.select(pl.format("{} ({})", "group", "label")).to_series()
    table = shifts.pivot("label", index="group", values="shift")
    table = table.with_columns(col.group.fill_null("all prompts"))
    title = f"Effect of roles on {words}: mean in each role minus mean without a role"
    groups = ", ".join(names) or "no group"
    note = f"The intervals with and without the role do not overlap for: {groups}."
    yield Heatmap.of(title, table, "signed", 0.0, note)


def _influential_answers(examples: DataFrame) -> Iterator[Block]:
    yield Text(INFLUENCE_NOTE, small=True)
    columns = ("prompt", "answer", "outcome", "label", "influence", "prompt_id")
    for condition, answers in examples.group_by("model", "context", maintain_order=True):
        names = ", ".join(str(name) for name in condition if name)
        responses = [Response(*row) for row in answers.select(columns).iter_rows()]
        yield Responses(f"Most influential answers for the range of means ({names})", responses)


def _disparity_table(title: str, rows: DataFrame, note: str = "") -> Table:
    """Return a table with those of DISPARITY_COLUMNS that have values.

    The column "values" is omitted if no row is calibrated.
    """
    names = [name for name in DISPARITY_COLUMNS if rows[name].null_count() < rows.height]
    if "values" in names and not rows["calibrated"].any():
        names.remove("values")
    columns = []
    for name in names:
        heading, kind, rank = DISPARITY_COLUMNS[name]
        columns.append(Column.of(rows, name, heading, kind, rank))
    return Table(title, columns, len(set(LEAD) & set(names)), note)


def _intervals(
    report: _Report,
    title: str,
    measure: str,
    rows: DataFrame,
    null: float | None = None,
    note: str = "",
    null_words: str = "no difference",
) -> Intervals:
    intervals = []
    ordered = rows.sort("calibrated", maintain_order=True)
    for (words, values), of_panel in ordered.group_by("words", "values", maintain_order=True):
        for row in of_panel.iter_rows(named=True):
            low, high = row[f"{measure}_low"], row[f"{measure}_high"]
            panel = f"{words}, {values}"
            intervals.append(IntervalRow(panel, row["label"], row[measure], low, high, null_value=null))
    return Intervals(
        title,
        intervals,
        note=note,
        names=("feature", "condition"),
        finding=_values_in_words(title, measure, rows),
        about=f"Value (dot) and {interval_name(report.level)} (line){_size_of(report)}",
        axis=AXES[measure],
        null_words=null_words,
    )


AXES: Final = {
    "range": "highest minus lowest mean of the groups",
    "ratio": "impact ratio",
    "mean": "mean over all prompts",
}
"""Titles of the axes of measures."""
MOST_NAMED: Final = 4
"""Largest number of conditions whose values the title of a figure names."""


def _values_in_words(title: str, measure: str, rows: DataFrame) -> str:
    """Return a measure of each model in words, calibrated if possible; the title for several features."""
    of_models = rows.filter(col.context.fill_null("") != BASELINES, col(measure).is_not_null())
    if of_models["calibrated"].any():
        of_models = of_models.filter("calibrated")
    if of_models.is_empty() or of_models["words"].n_unique() > 1 or of_models.height > MOST_NAMED:
        return title
    values = ", ".join(f"{label} {number(value)}" for label, value in of_models["label", measure].iter_rows())
    suffix = ", calibrated" if of_models["calibrated"].any() else ""
    return f"{title}{suffix}: {values}"


def _heatmap(numbers: DataFrame, feature: str, statistic: str = "mean") -> Heatmap:
    """Return a heat map of a statistic by group and condition, for measured or calibrated numbers."""
    is_of_group = col.comparison.is_null() & col.group.is_not_null()
    means = numbers.filter(is_of_group, statistic=statistic, feature=feature)
    if means["label"].n_unique() > WIDEST and NO_ROLE in means["context"]:
        means = means.filter(context=NO_ROLE)
    table = means.pivot("label", index="group", values="estimate").sort("group")
    kind = ", calibrated" if means["calibrated"].any() else ""
    title = f"{words_of(feature)}{kind}: {statistic.replace('_', ' ')} of the answers about each group"
    return Heatmap.of(title, table)


def _significance_table(subject: str, findings: DataFrame, note: str) -> Table:
    """Return a table of findings, the most significant first."""
    rows = findings.sort("q", "p", nulls_last=True, maintain_order=True).head(MOST)
    rows = rows.with_columns(metric=metric_name())
    names = [name for name in ("metric", "group", "group_2", "model", "context") if rows[name].count()]
    columns = [Column.of(rows, name, name.replace("_", " "), "name") for name in names]
    columns.append(Column.of(rows, "estimate", "value", "number"))
    columns.append(Column("interval", rows.select("low", "high").rows(), "interval"))
    columns.append(Column.of(rows, "null_value", "chance", "number", 1))
    q = rows.select(pl.coalesce("q", "p")).to_series()
    columns.append(Column("q", q.to_list(), "probability"))
    title = f"All {findings.height} {subject}"
    if findings.height > MOST:
        title = f"The {MOST} most significant of {findings.height:,} {subject}"
    return Table(title, columns, len(names), note)
