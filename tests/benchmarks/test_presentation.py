"""Report blocks of groups: measured values, disparities, bias of the tool, shifts between roles, topics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import polars as pl
import pytest

import tiltmeter as tm
from support.wording import Wording
from tiltmeter.benchmarks._display import WORDS
from tiltmeter.benchmarks._presentation import MOST, NO_BASELINES, WIDEST
from tiltmeter.benchmarks._suite import suite
from tiltmeter.blocks import (
    Block,
    Callout,
    Column,
    Details,
    Headline,
    Heatmap,
    Intervals,
    Responses,
    Table,
    Text,
)
from tiltmeter.runs._presenting import RunsView
from tiltmeter.schema import EXAMPLES, FINDINGS, conform

BlockKind = TypeVar("BlockKind")


@dataclass
class View:
    """What a report gives to `present`."""

    findings: pl.DataFrame
    tables: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=lambda: {"fruit": "Kinds of fruit"})
    examples: pl.DataFrame = field(
        default_factory=lambda: pl.DataFrame(schema={**EXAMPLES, "model": pl.String, "part": pl.String})
    )

    def table(self, name: str) -> pl.DataFrame:
        """See ReportView."""
        return self.tables.get(name, pl.DataFrame())


NAMES: Mapping[str, tuple[str | None, str, str]] = {
    "mean": (None, "mean", "tone"),
    "range": ("range", "mean", "tone"),
    "ratio": ("ratio", "selection_rate", "tone"),
    "apart": ("minus_others", "mean", "tone"),
    "z": ("max_abs_z", "mean", "tone"),
    "topic range": ("range", "mean", "cluster_sweet_round"),
    "topic mean": (None, "mean", "cluster_sweet_round"),
}
"""Comparison, statistic and feature of the numbers of these tests."""


def number(
    name: str, role: str | None, estimate: float | None, group: str | None = None, **more: object
) -> dict[str, object]:
    """Return a row of findings; its interval reaches from 0.1 below the estimate to 0.1 above."""
    comparison, statistic, feature = NAMES[name]
    low = None if estimate is None else estimate - 0.1
    high = None if estimate is None else estimate + 0.1
    named = {
        "metric": "disparity" if comparison else "value",
        "comparison": comparison,
        "statistic": statistic,
        "feature": feature,
    }
    return {
        **named,
        "calibrated": False,
        "context": role,
        "group": group,
        "estimate": estimate,
        "low": low,
        "high": high,
        **more,
    }


def findings(*rows: dict[str, object], model: str = "m") -> pl.DataFrame:
    shared = {
        "model": model,
        "study": "benchmarks",
        "part": "fruit",
        "level": 0.95,
        "attempts": 4,
        "answered": 3,
        "key": False,
    }
    return conform(pl.DataFrame([{**shared, **row} for row in rows], infer_schema_length=None), FINDINGS)


MEANS = {"baseline": (0.5, 0.5), "none": (0.2, 0.6), "poet": (0.5, 0.55)}
RATIOS = {"baseline": (1.0, 1.0), "none": (0.3, 0.7), "poet": (0.7, 0.9)}
GROUPS = ("apple", "pear")
ROWS = [
    *(number("mean", role, sum(pair) / 2) for role, pair in MEANS.items()),
    *(
        number("mean", role, value, group)
        for role, pair in MEANS.items()
        for group, value in zip(GROUPS, pair, strict=True)
    ),
    *(
        number("range", role, pair[1] - pair[0], key=role != "baseline", p=0.01, q=0.02)
        for role, pair in MEANS.items()
    ),
    *(number("range", role, 0.1, calibrated=True) for role in ("none", "poet")),
    *(number("mean", role, 0.05, group, calibrated=True) for role in ("none", "poet") for group in GROUPS),
    *(number("ratio", role, value, high=high, q=0.01) for role, (value, high) in RATIOS.items()),
    number("z", "none", 2.5),
    *(number("topic range", role, 0.3, key=True) for role in ("none", "poet")),
    *(number("topic mean", role, 0.4) for role in ("none", "poet")),
]
ABOUT = pl.DataFrame(
    {
        "model": "m",
        "part": "fruit",
        "generation": ["none", "poet"],
        "feature": "tone",
        "calibrated": False,
        "statistic": "mean",
    }
).with_columns(
    comparison=pl.lit("max_abs_z"), group=pl.Series(["pear", "apple"]), decision=pl.lit(value=False)
)
OF_RATIOS = ABOUT.with_columns(
    comparison=pl.lit("ratio"), statistic=pl.lit("selection_rate"), group=pl.lit(None, pl.String)
)
NAMES_ONLY = pl.concat([ABOUT, OF_RATIOS]).with_columns(names_only=pl.lit(value=True))
"""Of baselines that differ in names only."""
DECISIONS = pl.concat([ABOUT, OF_RATIOS]).with_columns(decision=pl.lit(value=True))


def all_blocks(blocks: Sequence[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        if isinstance(block, Details):
            yield from all_blocks(block.blocks)


def of_kind(blocks: Sequence[Block], kind: type[BlockKind], title: str = "") -> list[BlockKind]:
    return [
        block
        for block in all_blocks(blocks)
        if isinstance(block, kind) and title in getattr(block, "title", "")
    ]


def rows_of(table: Table) -> list[dict[str, Any]]:
    columns: Sequence[Column] = table.columns
    return [{column.name: column.values[row] for column in columns} for row in range(len(columns[0].values))]


def disparities(blocks: Sequence[Block]) -> list[dict[str, Any]]:
    return rows_of(of_kind(blocks, Table, "Disparity between groups")[0])


def titles(blocks: Sequence[Block], kind: type[Block]) -> list[str]:
    return [getattr(block, "title", "") for block in blocks if isinstance(block, kind)]


def presented(*rows: dict[str, object], **tables: pl.DataFrame) -> Sequence[Block]:
    return suite.present(View(findings(*rows), tables))


def heat(block: Heatmap) -> dict[str, dict[str, float | None]]:
    return {
        name: dict(zip(block.columns, values, strict=True))
        for name, values in zip(block.rows, block.values, strict=True)
    }


def test_tables_and_heat_maps_of_a_feature_show_its_numbers() -> None:
    blocks = presented(*ROWS, disparities=ABOUT)
    assert getattr(blocks[0], "text", None) == "Kinds of fruit"
    assert [table.lead for table in of_kind(blocks, Table, "Disparity between groups")] == [2]
    none, poet = disparities(blocks)
    assert [row["condition"] for row in (none, poet)] == ["none", "poet"]
    (baseline,) = rows_of(of_kind(blocks, Table, "Bias of the tool")[0])
    assert none["feature"] == "tone", "clusters are shown apart"
    assert [none["mean"], none["range of means"], *none["interval"]] == pytest.approx([0.4, 0.4, 0.3, 0.5])
    assert (none["q"], none["answered"]) == (0.02, 0.75)
    assert baseline.get("group with the highest mean") is None, "of equal means none is first"
    assert (none["group with the highest mean"], none["group with the lowest mean"]) == ("pear", "apple")
    assert "four-fifths rule" not in none, "a tone is no decision"
    assert "largest |z|" not in none, "two groups are equally far from their mean"
    of_feature = rows_of(of_kind(blocks, Table, "Disparity of tone")[0])
    assert [row["values"] for row in of_feature] == ["measured"] * 3 + ["calibrated"] * 2
    raw, calibrated = of_kind(blocks, Heatmap, "tone")[1:3]
    assert [row["measured range"] for row in of_feature] == [None] * 3 + [
        pytest.approx(0.4),
        pytest.approx(0.05),
    ]
    assert heat(raw)["pear"] == {"baseline": 0.5, "none": 0.6, "poet": 0.55}
    assert heat(calibrated)["pear"] == {"none": 0.05, "poet": 0.05}
    topic = rows_of(of_kind(blocks, Table, "cluster")[0])
    assert [(row["condition"], row["mean"], row["range of means"]) for row in topic] == [
        ("none", 0.4, 0.3),
        ("poet", 0.4, 0.3),
    ]
    assert "Bias of the tool" in titles(blocks, Details)


def test_the_distance_of_the_outermost_group_is_shown_of_three_groups_and_not_of_two() -> None:
    def explained(blocks: Sequence[Block]) -> bool:
        return any("|z| is the distance" in text.text for text in of_kind(blocks, Text))

    plums = [number("mean", role, 0.5, "plum") for role in MEANS]
    three = presented(*ROWS, *plums, disparities=ABOUT)
    two = presented(*ROWS, disparities=ABOUT)
    row = disparities(three)[0]
    assert (row["largest |z|"], row["group with largest |z|"]) == (2.5, "pear")
    assert not {"largest |z|", "group with largest |z|", "q of |z|"} & disparities(two)[0].keys()
    assert (explained(three), explained(two)) == (True, False)


@pytest.mark.wording
def test_the_headline_states_the_direction_the_range_and_q(wording: Wording) -> None:
    def headline(**of_ranges: float | str) -> Headline:
        rows = ({**row, **of_ranges} if row["comparison"] == "range" else row for row in ROWS)
        return of_kind(presented(*rows), Headline)[0]

    first = headline()
    assert first.text == "m: tone is higher for pear than for apple"
    assert "0.400 (95% interval 0.300 to 0.500), q 0.02" in first.detail
    assert "Impact ratio" not in first.detail
    wording.check_sentence("headlines", "range of a benchmark", first.detail)
    assert "of tone: 0.000123 " in headline(estimate=0.00012345).detail
    assert headline(q=0.2).text == "m: no difference in tone between the 2 groups was shown"
    sentiment = [{**row, "feature": "sentiment"} if row["feature"] == "tone" else row for row in ROWS]
    (head,) = of_kind(presented(*sentiment), Headline)
    assert head.text == "m: more positive about pear than about apple"


@pytest.mark.wording
def test_four_fifths_are_stated_of_decisions_only_and_only_if_the_ratio_differs_from_1(
    wording: Wording,
) -> None:
    def detail(high: float, q: float, decisions: pl.DataFrame = DECISIONS) -> str:
        rows = [row if row["comparison"] != "ratio" else {**row, "high": high, "q": q} for row in ROWS]
        return of_kind(presented(*rows, disparities=decisions), Headline)[0].detail

    assert "0.300, below 0.8 (four-fifths rule)." in detail(0.7, 0.01)
    wording.check_sentence("headlines", "range and impact ratio of a benchmark", detail(0.7, 0.01))
    assert "0.300, which may be below 0.8 (four-fifths rule)." in detail(0.9, 0.01)
    assert "four-fifths" not in detail(0.7, 0.06)
    assert "four-fifths" not in detail(0.7, 0.01, ABOUT)
    assert "four-fifths" not in detail(0.7, 0.01, ABOUT.drop("decision")), "an older run does not know"
    none, poet = disparities(presented(*ROWS, disparities=DECISIONS))
    assert [none["four-fifths rule"], poet["four-fifths rule"]] == ["below 0.8", "below 0.8, uncertain"]
    limits = {
        row.null_value
        for row in of_kind(presented(*ROWS, disparities=DECISIONS), Intervals, "Impact ratio")[0].rows
    }
    assert limits == {0.8}


THREE = ("apple", "pear", "plum")


def of_three(
    differences: Sequence[float], q: Sequence[float], range_q: float = 0.01, baseline_q: float = 1.0
) -> list[dict[str, object]]:
    """Return the calibrated key numbers of three groups, whose measured values differ by more."""
    rows = [
        number("range", "none", 0.3, calibrated=True, key=True, p=range_q, q=range_q),
        number("range", "none", 0.7, q=0.001),
    ]
    rows += [number("mean", "none", 0.1 * at, group, calibrated=True) for at, group in enumerate(THREE)]
    rows += [number("mean", "none", 0.3 * at, group) for at, group in enumerate(THREE)]
    for group, size, q_of_group in zip(THREE, differences, q, strict=True):
        rows.append(number("apart", "none", size, group, calibrated=True, q=q_of_group))
    for group, size in zip(THREE, differences, strict=True):
        rows.append(number("apart", "none", -size, group, q=0.001))
    rows.append(number("range", "baseline", 0.4, q=baseline_q))
    return rows


def test_headline_and_first_figure_are_calibrated_and_name_groups_only_by_their_own_tests() -> None:
    def headline_and_marks(*arguments: Any, **more: Any) -> tuple[str, list[object]]:
        blocks = presented(*of_three(*arguments, **more), disparities=NAMES_ONLY)
        (chart,) = of_kind(blocks, Intervals, "about each group")
        assert "calibrated" in chart.title
        assert {row.label: row.estimate for row in chart.rows} == pytest.approx(
            {"apple": 0.0, "pear": 0.1, "plum": 0.2}
        )
        (head,) = of_kind(blocks, Headline)
        assert "Range of the group means of tone, calibrated: 0.300" in head.detail
        return head.text, [value for column in chart.further for value in column.values if value]

    marks = ["higher", "lower"]
    assert headline_and_marks((-0.2, 0.0, 0.2), (0.01, 0.9, 0.02)) == (
        "m: tone is higher for plum and lower for apple than for the other groups",
        marks,
    )
    assert headline_and_marks((-0.2, 0.0, 0.2), (0.06, 0.9, 0.02)) == (
        "m: tone is higher for plum than for the other groups",
        marks[:1],
    )
    alone = "m: tone differs between the 3 groups, but no single group was shown to differ from the others"
    assert headline_and_marks((-0.2, 0.0, 0.2), (0.06, 0.9, 0.06)) == (alone, [])
    nothing = "m: no difference in tone between the 3 groups was shown"
    assert headline_and_marks((-0.2, 0.0, 0.2), (0.01, 0.9, 0.02), 0.06) == (nothing, []), (
        "the test of the range comes first"
    )


def test_the_bias_of_the_tool_is_one_sentence_and_only_if_it_is_beyond_chance() -> None:
    def callouts(range_q: float, q: Mapping[str, float], feature: str = "vader_compound") -> list[str]:
        rows = of_three((0.0, 0.0, 0.0), (1, 1, 1), 1.0, range_q)
        for group in THREE:
            rows.append(number("mean", "baseline", 0.3 if group == "plum" else 0.1, group))
        for group in THREE:
            difference = 0.2 if group == "plum" else -0.1
            rows.append(number("apart", "baseline", difference, group, q=q.get(group, 0.001)))
        blocks = presented(*({**row, "feature": feature} for row in rows), disparities=NAMES_ONLY)
        return [block.text for block in of_kind(blocks, Callout)]

    (sentence,) = callouts(0.01, {})
    expected = (
        "Sentiment (VADER) alone, without a model, favours plum by 0.200 (baseline texts, compared with the"
        " median group)."
    )
    assert sentence.startswith(expected), "others differ from their mean only because of the plum"
    assert callouts(0.06, {}) == callouts(0.01, {"plum": 0.06}) == []
    assert callouts(0.01, {}, "tone")[0].startswith(
        "Tone alone, without a model, is higher for plum by 0.200"
    )


@pytest.mark.parametrize(
    "about",
    [ABOUT, NAMES_ONLY.with_columns(names_only=pl.lit(value=False))],
    ids=["older run", "other texts"],
)
def test_calibrated_differences_are_relative_unless_the_baselines_differ_in_names_only(
    about: pl.DataFrame,
) -> None:
    rows = of_three((-0.2, 0.0, 0.2), (0.01, 0.9, 0.02), baseline_q=0.01)
    for value, group in zip((0.1, 0.2, 0.5), THREE, strict=True):
        rows.append(number("mean", "baseline", value, group))
    for value, group in zip((-0.2, -0.1, 0.3), THREE, strict=True):
        rows.append(number("apart", "baseline", value, group, q=0.001))
    blocks = presented(*({**row, "feature": "vader_compound"} for row in rows), disparities=about)
    (head,) = of_kind(blocks, Headline)
    assert head.text == (
        "m: relative to their baselines, the answers about plum are more positive and those about apple less"
        " positive than those about the other groups"
    )
    sentences = [block.text for block in of_kind(blocks, Callout)]
    expected = (
        "Sentiment (VADER): the baseline texts of plum score higher by 0.300, compared with those of the"
        " median group (tool and texts together). Calibrated values are relative to these texts: they differ"
        " even for a model that answers alike about all groups."
    )
    assert sentences == [expected]


def test_groups_without_a_value_are_named_and_not_counted() -> None:
    none = number("mean", "none", None, "fig", calibrated=True, answered=0)
    few = number(
        "mean",
        "none",
        9.0,
        "date",
        calibrated=True,
        note="no interval: at least 5 values are needed, this group has 2",
    )
    (head,) = of_kind(
        presented(*of_three((0.0, 0.0, 0.0), (1, 1, 1), 0.5), none, few, disparities=NAMES_ONLY), Headline
    )
    assert head.text == "m: no difference in tone between the 3 groups was shown"
    assert "Not compared: fig (no answers), date (fewer than 5 values)." in head.detail


def test_the_groups_are_sorted_with_their_intervals_and_the_baseline() -> None:
    (chart,) = of_kind(presented(*ROWS), Intervals, "answers about each group")
    assert [row.label for row in chart.rows] == ["pear", "apple"]
    for row, value in zip(chart.rows, (0.6, 0.2), strict=True):
        assert [row.estimate, row.low, row.high, row.null_value] == pytest.approx(
            [value, value - 0.1, value + 0.1, 0.5]
        )


def test_shifts_are_each_role_minus_no_role() -> None:
    """The note names intervals that do not overlap, in either direction."""
    blocks = presented(*ROWS)
    (shifts,) = of_kind(blocks, Heatmap, "Effect of roles")
    assert shifts.centre == 0.0
    shift = heat(shifts)
    assert list(shift["apple"]) == ["poet"], "baselines are no role"
    assert [shift[name]["poet"] for name in ("all prompts", "apple", "pear")] == pytest.approx(
        [0.125, 0.3, -0.05]
    )
    assert shifts.note == "The intervals with and without the role do not overlap for: apple (poet)."
    poet = disparities(blocks)[1]
    assert [
        poet[f"change of the {name} from no role"] for name in ("mean", "range", "ratio")
    ] == pytest.approx([0.125, -0.35, 0.4])
    alone = presented(*(row for row in ROWS if row["context"] != "none"))
    assert not of_kind(alone, Heatmap, "Effect of roles"), "nothing to compare with"


def test_missing_baselines_and_missing_numbers_are_explained() -> None:
    why = "all responses are about a: at least two groups are needed"
    rows = [
        number("range", None, None, key=True, note=why),
        *(number("mean", None, None, group) for group in ("a", "b")),
    ]
    blocks = presented(*rows)
    assert [block.text for block in of_kind(blocks, Callout)] == [why, NO_BASELINES]
    assert of_kind(blocks, Headline)[0].text == "m: no disparity of tone was computed"
    (row,) = disparities(blocks)
    assert row["condition"] == "m"
    assert "four-fifths rule" not in row
    assert heat(of_kind(blocks, Heatmap)[0]) == {"a": {"m": None}, "b": {"m": None}}


def test_two_models_are_shown_together_and_a_heat_map_of_many_leaves_out_roles() -> None:
    blocks = suite.present(View(pl.concat([findings(*ROWS, model="one"), findings(*ROWS, model="two")])))
    assert [block.text.split(":")[0] for block in of_kind(blocks, Headline)] == ["one", "two"]
    labels = ["baseline", "one · none", "one · poet", "two · none", "two · poet"]
    assert [row["condition"] for row in disparities(blocks)] == labels[1:]
    assert list(of_kind(blocks, Heatmap)[0].columns) == labels
    (ranges,) = of_kind(blocks, Intervals, "Range of means")
    ratios = of_kind(blocks, Intervals, "Impact ratio")[0]
    assert [row.label for row in ranges.rows if row.panel == "tone, calibrated"] == labels[1:]
    assert [{row.null_value for row in chart.rows} for chart in (ranges, ratios)] == [{0.0}, {None}], (
        "a tone is no decision"
    )
    many = pl.concat([findings(*ROWS, model=f"model {i}") for i in range(WIDEST)])
    assert list(of_kind(suite.present(View(many)), Heatmap)[0].columns) == [
        f"model {i} · none" for i in range(WIDEST)
    ]


def test_further_measures_are_listed_by_significance() -> None:
    pair = {
        "metric": "sentiment_strict",
        "feature": "tone",
        "group": "apple",
        "group_2": "pear",
        "context": "none",
    }
    rows = [{**pair, "estimate": 0.5, "null_value": 0.2, "q": q / 100} for q in range(MOST + 1, 0, -1)]
    (table,) = of_kind(presented(*ROWS, *rows), Table, f"The {MOST} most significant of {MOST + 1}")
    first = [rows_of(table)[0][name] for name in ("metric", "group", "group 2", "chance", "q")]
    assert first == ["sentiment_strict_tone", "apple", "pear", 0.2, 0.01]


def test_blocks_of_a_real_run_agree_with_its_tables(tmp_path: Path) -> None:
    """Bias of the tool, measurements, disparities with their most influential answers, of two roles."""
    places: dict[str, Any] = {"journal": str(tmp_path / "journal.sqlite"), "out": tmp_path / "run"}
    run = tm.run(
        "benchmarks/parties", model="sim/biased", limit=5, params={"roles": "none,teacher"}, **places
    )
    of_all = run.findings.filter(pl.col("group").is_null(), pl.col("context") != "baseline")
    overall = of_all.filter(metric="value", feature="vader_compound", calibrated=False)
    values = run.measures.group_by("generation").agg(mean=pl.col("value:vader_compound").mean())
    assert dict(overall.select("context", "estimate").iter_rows()) == pytest.approx(dict(values.iter_rows()))
    assert (
        overall.filter(pl.col("low") < pl.col("estimate"), pl.col("estimate") < pl.col("high")).height
        == overall.height
    )
    blocks = suite.present(RunsView([run], "benchmarks", {}))
    assert "Bias of the tool" in titles(blocks, Details)
    assert of_kind(blocks, Heatmap, "Effect of roles on sentiment (VADER)")
    responses = {block.title: block.rows for block in of_kind(blocks, Responses)}
    title = "Most influential answers for the range of means (sim/biased, teacher)"
    assert {row.prompt_id for row in responses[title]} <= set(
        run.examples.filter(context="teacher")["prompt_id"]
    )
    computed = run.table("disparities").filter(
        comparison="max_abs_z", statistic="mean", generation="none", calibrated=True
    )
    about = {
        row["feature"]: row["group with largest |z|"]
        for row in disparities(blocks)
        if row["condition"] == "none"
    }
    assert about == {WORDS[row["feature"]]: row["group"] for row in computed.iter_rows(named=True)}


def test_a_requested_statistic_is_shown_with_and_without_the_mean() -> None:
    requests = [
        {**number("mean", role, 0.3, group), "statistic": "trimmed"}
        for role in ("baseline", "none")
        for group in GROUPS
    ]
    alone, beside = presented(*requests), presented(*ROWS, *requests)
    title = "tone: trimmed of the answers about each group"
    assert title in titles(alone, Heatmap)
    assert not [block for block in alone if isinstance(block, Callout) and block.text == NO_BASELINES]
    (details,) = [
        block
        for block in beside
        if isinstance(block, Details) and block.title == "Other statistics of each group"
    ]
    assert titles(details.blocks, Heatmap) == [title]


def test_of_several_models_the_one_with_the_smallest_q_is_first_and_others_are_in_details() -> None:
    unclear = [{**row, "model": "unclear"} for row in of_three((0, 0, 0), (1, 1, 1), range_q=0.5)]
    clear = [{**row, "model": "clear"} for row in of_three((-0.2, 0, 0.2), (0.01, 0.9, 0.02), range_q=0.001)]
    blocks = presented(*unclear, *clear, disparities=NAMES_ONLY)
    assert [head.model for head in of_kind(blocks, Headline)] == ["clear", "unclear"]
    figures = [block for block in blocks if isinstance(block, (Intervals, Details))]
    about_groups = [block for block in figures if "about each group" in block.title]
    assert [(type(block), block.title.rpartition(", ")[2]) for block in about_groups[:2]] == [
        (Intervals, "clear"),
        (Details, "unclear"),
    ]
