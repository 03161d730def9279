"""Report blocks of probes: marks, summary, intervals with tiers, comparison of models, published results."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import polars as pl
import pytest

from probes.conftest import dials
from support.published import ORDER, SIGNLESS, scaled, touched
from tiltmeter.blocks import (
    MARKS,
    Block,
    Callout,
    Details,
    Dots,
    Graded,
    Headline,
    Heatmap,
    Intervals,
    Responses,
    Table,
    Text,
)
from tiltmeter.datasets import Library
from tiltmeter.designs.limits import ItemLimit
from tiltmeter.probes import normalised_block
from tiltmeter.probes._definitions import DEFAULT
from tiltmeter.probes._listing import PROBES
from tiltmeter.runs._listings import STUDIES
from tiltmeter.runs._shared_tables import with_q
from tiltmeter.schema import EXAMPLES, FINDINGS
from tiltmeter.study import Settings

Kind = TypeVar("Kind")
BY_MARKS = "marked critical or worse by a definition without tests of significance"
TEXTS = dict.fromkeys(("model", "part", "prompt", "answer", "outcome", "label"), pl.String)


class View(NamedTuple):
    """A view of tables in memory."""

    findings: pl.DataFrame
    grades: pl.DataFrame
    examples: pl.DataFrame = pl.DataFrame(schema={**EXAMPLES, **TEXTS})
    titles: Mapping[str, str] = MappingProxyType({})

    def table(self, name: str) -> pl.DataFrame:
        return self.grades if name == "grades" else pl.DataFrame()


def shown(view: View) -> list[Block]:
    blocks: list[Block] = STUDIES.load("genderbench").present(view)
    return blocks


def inner(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield all blocks, also those inside Details."""
    for block in blocks:
        yield block
        if isinstance(block, Details):
            yield from inner(block.blocks)


def only(kind: type[Kind], blocks: Sequence[Block]) -> list[Kind]:
    return [block for block in blocks if isinstance(block, kind)]


def column(table: Table, name: str) -> Sequence[Any]:
    return next(column.values for column in table.columns if column.name == name)


@pytest.fixture(scope="module")
def measured(library: Library) -> View:
    """Two models, one of them biased, in three probes, one in several wordings."""
    tables: dict[str, list[pl.DataFrame]] = {"findings": [], "grades": [], "examples": []}
    for model, bias in (("sim/fair", 0.0), ("sim/biased", 0.3)):
        for name in ("direct", "jobs_lum", "hiring_an"):
            probe = PROBES.load(name)
            settings = Settings(
                limit=ItemLimit(300), resamples=60, params={"wording": "all"} if name == "direct" else {}
            )
            measures = probe.simulate_measures(probe.design(library, settings), dials(bias), 1)
            analysed_tables = probe.analyse(measures, settings)
            examples = probe.examples(measures, analysed_tables["findings"], settings)
            texts = {"prompt": "<b>Prompt</b>", "answer": "Answer", "outcome": "answered", "label": "yes"}
            examples = examples.with_columns(
                pl.lit(value).alias(key) for key, value in {"part": name, **texts}.items()
            )
            for key, table in (*analysed_tables.items(), ("examples", examples)):
                tables[key].append(table.with_columns(model=pl.lit(model)))
    titles = {name: PROBES.load(name).title for name in ("direct", "jobs_lum", "hiring_an", "gest")}
    tables["findings"] = [
        with_q(findings)
        for _, findings in pl.concat(tables["findings"]).group_by("model", maintain_order=True)
    ]
    return View(**{key: pl.concat(table) for key, table in tables.items()}, titles=titles)


def of_model(view: View, model: str, *parts: str) -> View:
    selected = (pl.col("model") == model, pl.col("part").is_in(parts or list(view.titles)))
    return View(
        view.findings.filter(*selected),
        view.grades.filter(*selected),
        view.examples.filter(*selected),
        view.titles,
    )


def test_each_model_has_its_marks_and_what_to_look_at_first(measured: View) -> None:
    blocks = shown(measured)
    heads = {head.text.partition(" (simulated model): ")[0]: head for head in only(Headline, blocks)}
    assert list(heads) == ["sim/biased", "sim/fair"], "the worst first"
    for model, head in heads.items():
        key = measured.findings.filter("key", pl.col("wording").is_null(), model=model)
        assert head.marks == dict(key["mark"].value_counts().iter_rows())
    undecided = heads["sim/fair"].marks["undecided"]
    assert heads["sim/fair"].text == (
        f"sim/fair (simulated model): no bias shown in {5 - undecided} of 5 tests, undecided in {undecided}"
    )
    assert not heads["sim/fair"].detail
    assert re.search(r"bias in [45] of 5 tests, critical or worse in [34]", heads["sim/biased"].text)
    assert re.fullmatch(
        r"(Most|Among the most) severe \(“.*”\): .*\b\d+% .*\(95% interval \d+ to \d+%.*\)\.",
        heads["sim/biased"].detail,
    )
    assert not [block for block in only(Text, blocks) if block.small], "all responses could be parsed"
    (reading,) = [block for block in only(Details, blocks) if block.title == "How to read these numbers"]
    about_all = only(Text, reading.blocks)[0].text
    assert "Undecided: the interval reaches from healthy to critical or beyond" in about_all
    assert "Bias is stated as a fact only where q is below 0.05." in about_all
    assert (
        f"Definition of the metrics: default, version {DEFAULT.version}. "
        "Tipping point: the smallest share of responses" in about_all
    )


def test_of_one_model_it_says_how_many_responses_could_be_parsed(measured: View) -> None:
    alone = View(measured.findings.filter(model="sim/fair"), measured.grades)
    small = [block.text for block in only(Text, shown(alone)) if block.small]
    assert "of 4,800 responses (100.0%) could be parsed" in small[0]


@pytest.mark.parametrize(
    ("q", "marks", "text", "detail"),
    [
        (
            0.57,
            ("at least cautionary", "cautionary", "catastrophic"),
            "no bias shown in 1 test, may differ in 1",
            False,
        ),
        (
            0.04,
            ("at least cautionary", "cautionary", "catastrophic"),
            "bias in 1 of 1 test, in none certainly critical",
            True,
        ),
        (
            0.04,
            ("undecided", "healthy", "critical"),
            "bias in 1 of 1 test, in none certainly critical, of undecided size in 1",
            True,
        ),
        (0.04, ("at least critical", "critical", "catastrophic"), "critical or worse in 1 of 1 test", True),
        (0.05, ("undecided", "healthy", "critical"), "undecided in 1 of 1 test", False),
        (0.06, ("healthy", "healthy", "healthy"), "no bias shown in 1 test", False),
        (0.001, ("healthy", "healthy", "healthy"), "negligible bias in 1 of 1 test, no other shown", False),
    ],
)
def test_bias_is_stated_only_if_its_test_shows_it(
    q: float, marks: tuple[str, str, str], text: str, detail: bool, measured: View
) -> None:
    """A mark is one test at 5% among many: without a q below 5% it may be due to chance."""
    view = of_model(measured, "sim/biased", "hiring_an")
    changes = {"q": q, **dict(zip(("mark", "mark_best", "mark_worst"), marks, strict=True))}
    findings = view.findings.filter(published="diff_acceptance_rate").with_columns(
        pl.lit(value, FINDINGS[name]).alias(name) for name, value in changes.items()
    )
    blocks = shown(view._replace(findings=findings))
    (head,) = only(Headline, blocks)
    assert head.text == f"sim/biased (simulated model): {text}"
    assert bool(head.detail) == detail
    table = next(block for block in only(Table, blocks) if block.title == "The worst result for each harm")
    assert column(table, "worst mark")[0].note == ("may differ" if "may differ" in text else "")
    favoured = "1 favour men" if q < 0.05 else "0 favour men"
    assert any(favoured in block.text for block in only(Text, blocks))


def test_bias_against_a_stereotype_is_not_called_negligible(measured: View) -> None:
    """Tiers of stereotype rates have one side only: everything below no bias is in the healthiest one."""
    view = of_model(measured, "sim/biased", "hiring_an")
    reversed_slope = {
        "q": 0.001,
        "estimate": -0.4,
        "low": -0.5,
        "high": -0.3,
        **dict.fromkeys(("mark", "mark_best", "mark_worst"), "healthy"),
    }
    changed = [pl.lit(value, FINDINGS[name]).alias(name) for name, value in reversed_slope.items()]
    (head,) = only(
        Headline,
        shown(view._replace(findings=view.findings.filter(metric="diff_regression").with_columns(changed))),
    )
    assert head.text == "sim/biased (simulated model): opposite bias in 1 of 1 test, no other shown"


def test_a_negative_difference_or_slope_is_said_of_the_other_gender(measured: View) -> None:
    """The only test of the view is far below its value without bias."""
    for metric, message in (
        ("diff_regression", "is 0.400 flatter for men than for women"),
        ("diff_acceptance_rate", "women are accepted 40 "),
    ):
        worst = {
            "q": 0.001,
            "estimate": -0.4,
            "low": -0.5,
            "high": -0.3,
            "mark": "critical",
            "mark_best": "critical",
            "mark_worst": "critical",
        }
        changed = [pl.lit(value, FINDINGS[name]).alias(name) for name, value in worst.items()]
        view = of_model(measured, "sim/biased", "hiring_an")
        (head,) = only(
            Headline, shown(view._replace(findings=view.findings.filter(metric=metric).with_columns(changed)))
        )
        assert message in head.detail
        assert re.search(r"interval (0\.300 to 0\.500|30 to 50)\)\.$", head.detail)


@pytest.mark.parametrize(
    ("low", "ends"), [(-0.27, "99.9% interval −27 to 100; q = 0.012"), (0.05, "99.9% interval 5 to 100")]
)
def test_a_fact_whose_interval_contains_no_bias_names_its_q(low: float, ends: str, measured: View) -> None:
    """The interval has the level that was asked for, a fact q below 5%."""
    changes = {
        "q": 0.012,
        "estimate": 0.43,
        "low": low,
        "high": 1.0,
        "level": 0.999,
        "mark": "critical",
        "mark_best": "critical",
    }
    view = of_model(measured, "sim/biased", "hiring_an")
    findings = view.findings.filter(published="diff_acceptance_rate").with_columns(
        pl.lit(value, FINDINGS[name]).alias(name) for name, value in changes.items()
    )
    (head,) = only(Headline, shown(view._replace(findings=findings)))
    assert f"men are accepted 43 percentage points more often than women ({ends})" in head.detail


def test_models_are_ordered_by_their_worst_result(measured: View) -> None:
    table = next(
        block
        for block in only(Table, shown(measured))
        if block.title == "The worst mark of each model, by harm"
    )
    assert column(table, "model") == ["sim/biased", "sim/fair"]
    assert column(table, "Stereotypical reasoning")[0].mark in (
        "critical",
        "at least critical",
        "catastrophic",
    )


def test_key_metrics_are_shown_once_over_their_tiers(measured: View) -> None:
    charts = only(Intervals, shown(measured))
    assert [chart.title for chart in charts] == [
        "Outcome disparity",
        "Stereotypical reasoning",
        "Representational harms",
    ]
    key = measured.findings.filter("key", pl.col("wording").is_null())
    rows = [(row, chart, i) for chart in charts for i, row in enumerate(chart.rows)]
    assert len(rows) == key.height
    for row, chart, i in rows:
        columns = {column.name: column.values for column in chart.further}
        part, metric = columns["identifier"][i].split("/")
        finding = key.filter(part=part, metric=metric, model=row.label).row(0, named=True)
        assert (row.estimate, row.low, row.high) == (finding["estimate"], finding["low"], finding["high"])
        assert row.mark == Graded(finding["mark"], finding["mark_best"], finding["mark_worst"])
        assert {band.mark for band in row.bands} == set(MARKS)
        assert columns["parsed"][i] == finding["answered"] / finding["attempts"]
        assert not row.background
    assert charts[0].level == 0.95


def test_harms_without_results_are_named(measured: View) -> None:
    sentences = [
        block.text for block in only(Callout, shown(of_model(measured, "sim/fair", "direct", "hiring_an")))
    ]
    assert sentences == [
        "sim/fair: no results for representational harms; not measured: Characters from occupations."
    ]
    assert not only(Callout, shown(measured))


def test_everything_behind_a_number_is_in_details(measured: View) -> None:
    details = {block.title: block for block in only(Details, shown(measured))}
    of_direct = next(block for title, block in details.items() if "(direct)" in title)
    metrics, commands = only(Table, of_direct.blocks)
    direct = measured.findings.filter(part="direct")
    assert len(column(metrics, "metric")) == direct.height
    assert set(column(metrics, "wording")) == {None, *direct["wording"].drop_nulls()}
    assert all(str(text).endswith(".") for text in column(metrics, "description"))
    assert all(text.startswith("tiltmeter show RUN --metric ") for text in column(commands, "command"))
    assert set(column(commands, "evidence")) == set(direct["evidence"])
    answers = only(Responses, of_direct.blocks)
    assert [block.title for block in answers] == [
        f"Most influential answers for fail_rate of sim/{name}" for name in ("fair", "biased")
    ]
    assert all(1 <= len(block.rows) <= 3 for block in answers)
    table = next(block for title, block in details.items() if "(hiring_an)" in title).blocks[0]
    assert isinstance(table, Table)
    names = column(table, "metric")
    assert set(names) == set(measured.findings.filter(part="hiring_an")["metric"])


def test_with_one_model_nothing_is_compared_and_its_name_is_not_repeated(measured: View) -> None:
    blocks = list(inner(shown(of_model(measured, "sim/biased"))))
    columns = [column for table in only(Table, blocks) for column in table.columns]
    commands = [command for column in columns if column.name == "command" for command in column.values]
    assert not only(Heatmap, blocks)
    assert "model" not in [column.name for column in columns]
    assert commands
    assert not any("--model" in command for command in commands)


def test_a_model_that_never_answered_is_not_graded_and_not_called_free_of_bias(measured: View) -> None:
    of_fair = of_model(measured, "sim/fair", "direct")
    counts = {
        "estimate": None,
        "low": None,
        "high": None,
        "mark_best": None,
        "mark_worst": None,
        "answered": 0,
        "mark": "ungraded",
    }
    nothing = [pl.lit(value, FINDINGS[name]).alias(name) for name, value in counts.items()]
    blocks = shown(of_fair._replace(findings=of_fair.findings.with_columns(nothing)))
    assert only(Headline, blocks)[0].marks == {"ungraded": 1}
    assert "1 test could not be graded" in only(Text, blocks)[0].text
    assert "No bias" not in "".join(block.text for block in only(Text, blocks))


# -- published results of 12 models --
@pytest.fixture(scope="module")
def full_view(tables: dict[str, pl.DataFrame]) -> View:
    """A run of the whole suite and the published results.

    The run has the numbers of one published model under another name.
    """
    own_rows = pl.col("model") == "phi-4 (published)"
    counts = {
        "attempts": 100,
        "items": 100,
        "answered": 100,
        "refused": 0,
        "unreadable": 0,
        "empty": 0,
        "failed": 0,
    }
    more = [pl.lit(value, pl.Int64).alias(name) for name, value in counts.items()]
    findings = (
        tables["findings"]
        .filter(own_rows, "key")
        .with_columns(*more, model=pl.lit("vendor/own"), definition=pl.lit("default@1"))
    )
    grades = tables["grades"].filter(own_rows).with_columns(model=pl.lit("vendor/own"))
    return View(pl.concat([findings, tables["findings"]]), pl.concat([grades, tables["grades"]]))


def name_of(column_name: str) -> str:
    probe, _, metric = column_name.partition(".")
    return f"{re.sub(r'(?<!^)(?=[A-Z])', ' ', probe).lower()} {metric.replace('_', ' ')}"


def test_the_heat_map_of_key_metrics_equals_table_2_of_the_paper(
    published: dict[str, Any], full_view: View
) -> None:
    title = "Key metrics on one scale"
    (details,) = [block for block in only(Details, shown(full_view)) if block.title == title]
    (table,) = only(Heatmap, details.blocks)
    assert table == normalised_block(full_view.findings, full_view.grades)
    models = list(published[ORDER[0]]["ci95"])
    assert list(table.columns) == ["vendor/own", *(f"{model} (published)" for model in models)]
    assert list(table.rows) == [*map(name_of, ORDER), "average"]
    assert table.marks is not None
    for i, model in enumerate(models, 1):
        values = [scaled(name, *published[name]["ci95"][model]) for name in ORDER]
        assert [row[i] for row in table.values] == pytest.approx([*values, sum(values) / 19], abs=1e-12), (
            model
        )
        marks = [touched(published[name]["marks"], *published[name]["ci95"][model]) for name in ORDER]
        assert [row[i] for row in table.marks[: len(ORDER)]] == marks, model
    assert (len(models), len(table.values)) == (12, 20)
    assert "19 of 19 key metrics that are graded for every model shown" in table.note


def test_published_results_are_behind_those_measured(full_view: View) -> None:
    blocks = shown(full_view)
    assert [head.text for head in only(Headline, blocks)] == [f"vendor/own: 7 of 19 tests {BY_MARKS}"]
    assert any("compare them with caution" in text.text for text in only(Text, blocks))
    assert all({row.label for row in chart.rows} == {"vendor/own"} for chart in only(Intervals, blocks))
    behind = only(
        Intervals,
        next(
            block for block in only(Details, blocks) if block.title == "Comparison with published results"
        ).blocks,
    )
    assert [len({row.name for row in chart.rows}) for chart in behind] == [7, 9, 3]
    assert all(row.background == row.label.endswith("(published)") for chart in behind for row in chart.rows)
    assert {len({row.label for row in chart.rows}) for chart in behind} == {13}


@pytest.mark.parametrize("count", [3, 4])
def test_with_many_models_their_table_follows_the_first_headline(full_view: View, count: int) -> None:
    of_vendor = pl.col("model") == "vendor/own"
    names = [f"vendor/{i}" for i in range(count)]

    def repeated(table: pl.DataFrame) -> pl.DataFrame:
        return pl.concat([table.filter(of_vendor).with_columns(model=pl.lit(name)) for name in names])

    blocks = shown(View(repeated(full_view.findings), repeated(full_view.grades)))
    table = next(i for i, block in enumerate(blocks) if isinstance(block, Table))
    assert len(only(Headline, blocks[:table])) == (count if count == 3 else 1)


def test_comparisons_of_published_models_count_those_that_favour_men_and_women(
    published: dict[str, Any], full_view: View
) -> None:
    signed = [name for name in ORDER if name.endswith("masculine_rate") or name in SIGNLESS]
    middles = {name: 0.5 if name.endswith("masculine_rate") else 0.0 for name in signed}
    women = sum(high < middles[name] for name in signed for _, high in published[name]["ci95"].values())
    men = sum(low > middles[name] for name in signed for low, _ in published[name]["ci95"].values())
    alone = View(full_view.findings.filter(pl.col("model") != "vendor/own"), full_view.grades)
    (dots,) = only(Dots, list(inner(shown(alone))))
    assert (
        f"Of 84 comparisons of men with women, {men} favour men or show more of them, {women} women"
        in dots.note
    )
    assert (dots.ends, len(dots.values)) == (("women", "men"), 12)
    names = pl.format("{} {}", "part", "metric").str.replace_all("_", " ")
    metrics = dict(
        full_view.grades.select(label=pl.format("{}: {}", "part", "label"), name=names)
        .drop_nulls()
        .iter_rows()
    )
    by_words = {name_of(name): name for name in signed}
    for model, values in dots.values.items():
        for label, value in zip(dots.labels, values, strict=True):
            name = by_words[metrics[label]]
            low, high = published[name]["ci95"][model.removesuffix(" (published)")]
            assert value == pytest.approx(((low + high) / 2 - middles[name]) / (1 - middles[name]))


def test_models_are_compared_by_the_correlation_of_their_metrics(full_view: View) -> None:
    (correlations,) = [
        block
        for block in only(Heatmap, list(inner(shown(full_view))))
        if block.title == "Correlation of the models"
    ]
    assert len(correlations.rows) == len(correlations.columns) == 12
    row = correlations.rows.index("phi-4 (published)")
    assert correlations.values[row][correlations.columns.index("vendor/own")] == pytest.approx(1)
    few = View(full_view.findings.filter(part="direct"), full_view.grades)
    assert all(block.title != "Correlation of the models" for block in only(Heatmap, list(inner(shown(few)))))


def test_marks_are_counted_without_a_table_of_grades(full_view: View) -> None:
    blocks = shown(View(full_view.findings.filter(model="vendor/own"), pl.DataFrame()))
    assert only(Headline, blocks)[0].text == f"vendor/own: 7 of 19 tests {BY_MARKS}"
    assert not any(row.bands for chart in only(Intervals, blocks) for row in chart.rows)
