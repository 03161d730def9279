"""What reports show of groups: what was measured, disparity raw and calibrated, the tool's bias, shifts between roles, topics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import polars as pl
import pytest

import tiltmeter as tm
from support.wording import Wording
from tiltmeter.benchmarks import suite
from tiltmeter.benchmarks.benchmark_blocks import MOST, NO_BASELINES, WIDEST, WORDS
from tiltmeter.blocks import Block, Callout, Column, Details, Headline, Heatmap, Intervals, Responses, Table
from tiltmeter.runs.opened_run import RunsView
from tiltmeter.study import EXAMPLES, FINDINGS, conform

BlockKind = TypeVar("BlockKind")


@dataclass
class View:
    """What a report gives to `present`."""

    findings: pl.DataFrame
    tables: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=lambda: {"fruit": "Kinds of fruit"})
    examples: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema={**EXAMPLES, "model": pl.String, "part": pl.String}))

    def table(self, name: str) -> pl.DataFrame:
        """See ReportView."""
        return self.tables.get(name, pl.DataFrame())


def number(name: str, role: str | None, estimate: float | None, group: str | None = None, **more: object) -> dict[str, object]:
    comparison, statistic, feature = {
        "mean": (None, "mean", "tone"),
        "range": ("range", "mean", "tone"),
        "ratio": ("ratio", "selection_rate", "tone"),
        "z": ("max_abs_z", "mean", "tone"),
        "topic range": ("range", "mean", "cluster_sweet_round"),
        "topic mean": (None, "mean", "cluster_sweet_round"),
    }[name]
    around = {"low": None, "high": None} if estimate is None else {"low": estimate - 0.1, "high": estimate + 0.1}
    named = {"metric": "disparity" if comparison else "value", "comparison": comparison, "statistic": statistic, "feature": feature}
    return {**named, "calibrated": False, "context": role, "group": group, "estimate": estimate, **around, **more}


def findings(*rows: dict[str, object], model: str = "m") -> pl.DataFrame:
    shared = {"model": model, "study": "benchmarks", "part": "fruit", "level": 0.95, "attempts": 4, "answered": 3, "key": False}
    return conform(pl.DataFrame([{**shared, **row} for row in rows], infer_schema_length=None), FINDINGS)


MEANS = {"baseline": (0.5, 0.5), "none": (0.2, 0.6), "poet": (0.5, 0.55)}
RATIOS = {"baseline": (1.0, 1.0), "none": (0.3, 0.7), "poet": (0.7, 0.9)}
GROUPS = ("apple", "pear")
ROWS = [
    *(number("mean", role, sum(pair) / 2) for role, pair in MEANS.items()),
    *(number("mean", role, value, group) for role, pair in MEANS.items() for group, value in zip(GROUPS, pair, strict=True)),
    *(number("range", role, pair[1] - pair[0], key=role != "baseline", p=0.01, q=0.02) for role, pair in MEANS.items()),
    *(number("range", role, 0.1, calibrated=True) for role in ("none", "poet")),
    *(number("mean", role, 0.05, group, calibrated=True) for role in ("none", "poet") for group in GROUPS),
    *(number("ratio", role, value, high=high) for role, (value, high) in RATIOS.items()),
    number("z", "none", 2.5),
    *(number("topic range", role, 0.3, key=True) for role in ("none", "poet")),
    *(number("topic mean", role, 0.4) for role in ("none", "poet")),
]
ABOUT = pl.DataFrame(
    {"model": "m", "part": "fruit", "generation": ["none", "poet"], "feature": "tone", "calibrated": False, "statistic": "mean"}
).with_columns(comparison=pl.lit("max_abs_z"), group=pl.Series(["pear", "apple"]))


def all_blocks(blocks: Sequence[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        if isinstance(block, Details):
            yield from all_blocks(block.blocks)


def of_kind(blocks: Sequence[Block], kind: type[BlockKind], title: str = "") -> list[BlockKind]:
    return [block for block in all_blocks(blocks) if isinstance(block, kind) and title in getattr(block, "title", "")]


def rows_of(table: Table) -> list[dict[str, Any]]:
    columns: Sequence[Column] = table.columns
    return [{one.name: one.values[row] for one in columns} for row in range(len(columns[0].values))]


def disparities(blocks: Sequence[Block]) -> list[dict[str, Any]]:
    return rows_of(of_kind(blocks, Table, "Disparity between groups")[0])


def titles(blocks: Sequence[Block], kind: type[Block]) -> list[str]:
    return [getattr(block, "title", "") for block in blocks if isinstance(block, kind)]


def presented(*rows: dict[str, object], **tables: pl.DataFrame) -> Sequence[Block]:
    return suite.present(View(findings(*rows), tables))


def heat(block: Heatmap) -> dict[str, dict[str, float | None]]:
    return {name: dict(zip(block.columns, values, strict=True)) for name, values in zip(block.rows, block.values, strict=True)}


def test_what_is_shown_of_a_feature() -> None:
    blocks = presented(*ROWS, disparities=ABOUT)
    assert getattr(blocks[0], "text", None) == "Kinds of fruit"
    assert [table.lead for table in of_kind(blocks, Table, "Disparity between groups")] == [2]
    baseline, none, poet = disparities(blocks)
    assert [row["condition"] for row in (baseline, none, poet)] == ["baseline", "none", "poet"]
    assert none["feature"] == "tone", "clusters are shown apart"
    assert (none["mean"], none["range of means"], none["interval"]) == tuple(map(pytest.approx, (0.4, 0.4, [0.3, 0.5])))
    assert (none["q"], none["answered"]) == (0.02, 0.75)
    assert (baseline["calibrated range"], none["calibrated range"]) == (None, 0.1)
    ends = (baseline["group with the highest mean"], none["group with the highest mean"], none["group with the lowest mean"])
    assert ends == (
        None,
        "pear",
        "apple",
    ), "of equal means none is first"
    assert [row["four-fifths rule"] for row in (baseline, none, poet)] == [None, "below 0.8", "below 0.8, uncertain"]
    assert (none["largest |z|"], none["group with largest |z|"]) == (2.5, "pear")
    of_feature = rows_of(of_kind(blocks, Table, "Disparity of tone")[0])
    assert [row["values"] for row in of_feature] == ["measured"] * 3 + ["calibrated"] * 2
    raw, calibrated = of_kind(blocks, Heatmap, "tone")[1:3]
    assert heat(raw)["pear"] == {"baseline": 0.5, "none": 0.6, "poet": 0.55}
    assert heat(calibrated)["pear"] == {"none": 0.05, "poet": 0.05}
    topic = rows_of(of_kind(blocks, Table, "cluster")[0])
    assert [(row["condition"], row["mean"], row["range of means"]) for row in topic] == [("none", 0.4, 0.3), ("poet", 0.4, 0.3)]
    assert "Bias of the tool" in titles(blocks, Details)


@pytest.mark.wording
def test_the_headline_says_what_was_found(wording: Wording) -> None:
    def said(**of_ranges: float | str) -> Headline:
        rows = ({**row, **of_ranges} if row["comparison"] == "range" else row for row in ROWS)
        return of_kind(presented(*rows), Headline)[0]

    found = said()
    assert found.text == "m: tone is highest for pear and lowest for apple"
    assert "0.400 (95% interval 0.300 to 0.500), q 0.02" in found.detail
    assert "0.300, below 0.8" in found.detail
    wording.check_sentence("headlines", "range and impact ratio of a benchmark", found.detail)
    assert "of tone: 0.000123 " in said(estimate=0.00012345).detail
    assert said(q=0.2).text == "m: no difference in tone between the 2 groups was shown"
    sentiment = [{**row, "feature": "sentiment"} if row["feature"] == "tone" else row for row in ROWS]
    (head,) = of_kind(presented(*sentiment), Headline)
    assert head.text.startswith("m: most positive about pear, least positive about apple")


def test_the_groups_are_sorted_with_their_intervals_and_the_baseline() -> None:
    (chart,) = of_kind(presented(*ROWS), Intervals, "answers about each group")
    assert [row.label for row in chart.rows] == ["pear", "apple"]
    for row, value in zip(chart.rows, (0.6, 0.2), strict=True):
        assert [row.estimate, row.low, row.high, row.null_value] == pytest.approx([value, value - 0.1, value + 0.1, 0.5])


def test_shifts_of_roles() -> None:
    """Each role minus no role; the note says where intervals do not overlap, in whichever direction."""
    blocks = presented(*ROWS)
    (shifts,) = of_kind(blocks, Heatmap, "Effect of roles")
    assert shifts.centre == 0.0
    found = heat(shifts)
    assert list(found["apple"]) == ["poet"], "baselines are no role"
    assert [found[name]["poet"] for name in ("all prompts", "apple", "pear")] == pytest.approx([0.125, 0.3, -0.05])
    assert shifts.note == "The intervals with and without the role do not overlap for: apple (poet)."
    poet = disparities(blocks)[2]
    assert [poet[f"change of the {name} from no role"] for name in ("mean", "range", "ratio")] == pytest.approx([0.125, -0.35, 0.4])
    alone = presented(*(row for row in ROWS if row["context"] != "none"))
    assert not of_kind(alone, Heatmap, "Effect of roles"), "nothing to compare with"


def test_without_baselines_or_numbers() -> None:
    why = "all responses are about a: at least two groups are needed"
    rows = [number("range", None, None, key=True, note=why), *(number("mean", None, None, group) for group in ("a", "b"))]
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
    assert [row["condition"] for row in disparities(blocks)] == labels, "the baselines once"
    assert list(of_kind(blocks, Heatmap)[0].columns) == labels
    (ranges,), (ratios, *_) = (of_kind(blocks, Intervals, title) for title in ("Range of means", "Impact ratio"))
    assert [row.label for row in ranges.rows if row.panel == "tone, calibrated"] == labels[1:]
    assert [{row.null_value for row in chart.rows} for chart in (ranges, ratios)] == [{0.0}, {0.8}]
    many = pl.concat([findings(*ROWS, model=f"model {i}") for i in range(WIDEST)])
    assert list(of_kind(suite.present(View(many)), Heatmap)[0].columns) == [f"model {i} · none" for i in range(WIDEST)]


def test_further_measures_the_most_significant_first() -> None:
    pair = {"metric": "sentiment_strict", "feature": "tone", "group": "apple", "group_2": "pear", "context": "none"}
    rows = [{**pair, "estimate": 0.5, "null_value": 0.2, "q": q / 100} for q in range(MOST + 1, 0, -1)]
    (table,) = of_kind(presented(*ROWS, *rows), Table, f"The {MOST} most significant of {MOST + 1}")
    first = [rows_of(table)[0][name] for name in ("metric", "group", "group 2", "chance", "q")]
    assert first == ["sentiment_strict_tone", "apple", "pear", 0.2, 0.01]


def test_of_a_real_run(tmp_path: Path) -> None:
    """The tool's bias, measurements, disparity with the answers behind it, of two roles."""
    places: dict[str, Any] = {"journal": str(tmp_path / "journal.sqlite"), "out": tmp_path / "run"}
    run = tm.run("benchmarks/parties", model="sim/biased", limit=3, params={"roles": "none,teacher"}, **places)
    of_all = run.findings.filter(pl.col("group").is_null(), pl.col("context") != "baseline")
    whole = of_all.filter(metric="value", feature="vader_compound", calibrated=False)
    values = run.measures.group_by("generation").agg(mean=pl.col("value:vader_compound").mean())
    assert dict(whole.select("context", "estimate").iter_rows()) == pytest.approx(dict(values.iter_rows()))
    assert whole.filter(pl.col("low") < pl.col("estimate"), pl.col("estimate") < pl.col("high")).height == whole.height
    blocks = suite.present(RunsView([run], "benchmarks", {}))
    assert "Bias of the tool" in titles(blocks, Details)
    assert of_kind(blocks, Heatmap, "Effect of roles on sentiment (VADER)")
    shown = {block.title: block.rows for block in of_kind(blocks, Responses)}
    title = "Most influential answers for the range of means (sim/biased, teacher)"
    assert {row.prompt_id for row in shown[title]} <= set(run.examples.filter(context="teacher")["prompt_id"])
    computed = run.table("disparities").filter(comparison="max_abs_z", statistic="mean", generation="none", calibrated=False)
    about = {row["feature"]: row["group with largest |z|"] for row in disparities(blocks) if row["condition"] == "none"}
    assert about == {WORDS[row["feature"]]: row["group"] for row in computed.iter_rows(named=True)}


def test_a_statistic_that_was_asked_for_is_shown_with_and_without_the_mean() -> None:
    asked = [{**number("mean", role, 0.3, group), "statistic": "trimmed"} for role in ("baseline", "none") for group in GROUPS]
    alone, beside = presented(*asked), presented(*ROWS, *asked)
    title = "tone: trimmed of the answers about each group"
    assert title in titles(alone, Heatmap)
    assert not [block for block in alone if isinstance(block, Callout) and block.text == NO_BASELINES]
    (details,) = [block for block in beside if isinstance(block, Details) and block.title == "Other statistics of each group"]
    assert titles(details.blocks, Heatmap) == [title]
