"""Figures in files: they keep their width, nothing is cut, ticks are round, and texts say what is shown."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from pypdf import PdfReader

import tiltmeter as tm
from support.block_cases import CASES, hostile
from tiltmeter.blocks import Band, Bars, Chart, Dots, Heatmap, IntervalRow, Intervals, PairRow, Pairs
from tiltmeter.reports import write_charts
from tiltmeter.reports._charts import as_svg
from tiltmeter.reports._figure_theme import COLUMN, TIERS, TWO_COLUMNS, Size
from tiltmeter.reports._text_widths import text_width, wrapped

SIZES = (COLUMN, TWO_COLUMNS)
LONG = "Decisions about loans, flats and jobs: decided in favour, largest difference between the groups"
BANDS = (
    Band("healthy", -0.03, 0.03),
    Band("cautionary", 0.03, 0.1),
    Band("critical", 0.1, 0.3),
    Band("catastrophic", 0.3, 1.0),
)
ROWS = [
    IntervalRow(panel, label, estimate, estimate - 0.2, estimate + 0.2, None, BANDS, 0.0, unit="difference")
    for panel in (LONG, "Ranking CVs")
    for label, estimate in (("openai/gpt-4o-mini-2024-07-18", 0.24), ("sim/fair", -0.17))
]
TIERED = Intervals(
    "Outcome disparity",
    ROWS,
    0.95,
    finding="sim/fair shows bias in 0 of 2 tests of outcome disparity",
    about="Value (dot) and 95% interval (line) for questions like these. 100 items per test and model.",
)
CHARTS: dict[str, Chart] = {
    "tiers": TIERED,
    "groups": Intervals("By group", [IntervalRow("", LONG, 0.2, 0.1, 0.3, unit="share")], 0.95),
    "bars": Bars("Counts", [LONG, "women"], {"one": [1, 2], "other": [3, None]}, axis=LONG),
    "heat": Heatmap("Means", [LONG, "x"], [f"group number {i}" for i in range(20)], [[0.123] * 20] * 2),
    "dots": Dots("Favoured", [LONG], {"a": [0.25], "b": [-0.1]}, ("women", "men"), (-1.0, 1.0)),
    "pairs": Pairs("Concepts", [PairRow(LONG, "women", 0.41, 0.1)], CASES["Table"][0]),  # type: ignore[arg-type]
}


def texts(chart: Chart, size: Size) -> list[str]:
    """Return the texts of a figure, one per line of text."""
    root = ET.fromstring(as_svg(chart, size))
    lines = [
        element.text or ""
        for text in root.iter("{http://www.w3.org/2000/svg}text")
        for element in text.iter()
    ]
    return [line for line in lines if line.strip()]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", CHARTS)
def test_a_figure_is_as_wide_as_its_place_and_no_text_is_cut(name: str, size: Size) -> None:
    svg = as_svg(CHARTS[name], size)
    width = float(re.search(r'width="([\d.]+)in"', svg)[1])  # type: ignore[index]
    assert width <= size.width / 72 + 0.06, "within a column, to a sixteenth of an inch"
    words = " ".join(texts(CHARTS[name], size))
    assert "…" not in words
    if name != "heat":
        assert all(word in words for word in LONG.split())


@pytest.mark.parametrize("size", SIZES)
def test_the_title_is_the_finding_and_the_subtitle_says_what_is_shown(size: Size) -> None:
    words = " ".join(texts(TIERED, size))
    assert f"{TIERED.finding} {TIERED.about}" in words
    assert "percentage points" in words
    for tier in ("A healthy", "B cautionary", "C critical", "D catastrophic", "no bias"):
        assert tier in words


def test_without_a_finding_the_title_says_between_which_values_and_of_what() -> None:
    heat = Heatmap("Means", ["women", "men"], ["home"], [[0.25], [0.5]], "percent")
    words = " ".join(texts(heat, TWO_COLUMNS))
    assert ("Means: from 25% (women, home) to 50% (men, home)") in words


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("low", "high"), [(-0.43, 0.31), (0.02, 0.037), (0.0, 1.0), (-0.9, -0.87)])
def test_ticks_are_round_and_equal_steps_and_no_interval_is_cut(low: float, high: float, size: Size) -> None:
    middle = (low + high) / 2
    row = IntervalRow("test", "model", middle, low, high, null_value=None, unit="difference")
    lines = texts(Intervals("One", [row], 0.95), size)
    ticks = [float(line.replace("−", "-")) for line in lines if re.fullmatch(r"[−\d.]+", line)]
    assert len(ticks) >= 3
    assert min(ticks) <= 100 * low + 1e-9
    assert max(ticks) >= 100 * high - 1e-9
    steps = {round(later - tick, 6) for tick, later in itertools.pairwise(ticks)}
    (step,) = steps
    assert f"{step:e}"[0] in "125", "1, 2 or 5 times a power of ten"


def test_numbers_of_a_heat_map_are_drawn_only_where_they_fit() -> None:
    names = [f"group number {i}" for i in range(20)]
    wide = Heatmap("Means", ["first"], names[:3], [[0.123] * 3])
    assert texts(wide, COLUMN).count("0.123") == 3
    assert "0.123" not in texts(replace(wide, columns=names, values=[[0.123] * 20]), COLUMN)


def test_without_numbers_signs_show_the_side_of_the_neutral_value() -> None:
    names = [f"group number {i}" for i in range(20)]
    changes = Heatmap("Changes", ["first"], names, [[0.123, -0.123, 0.0, None] * 5], "signed", 0.0)
    shown = texts(changes, COLUMN)
    assert shown.count("+") == 5
    assert shown.count("−") == 5


@pytest.mark.parametrize("size", SIZES)
def test_a_legend_shows_all_of_long_names_that_differ_at_their_ends(size: Size) -> None:
    name = "openrouter/" + "A-Very-Long-Name-of-a-Model-" * 4
    dots = Dots("Favoured", ["loans"], {f"{name}a": [0.2], f"{name}b": [0.1]}, ("women", "men"), (-1.0, 1.0))
    shown = "".join(texts(dots, size))
    assert f"{name}a" in shown
    assert f"{name}b" in shown


def test_a_cell_is_named_in_the_title_only_if_no_other_has_its_value() -> None:
    heat = Heatmap("Counts", ["women", "men"], ["home", "work"], [[2, 2], [0, 1]], "count")
    assert "Counts: from 0 (men, home) to 2" in texts(heat, TWO_COLUMNS)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("unit", "low", "high", "ends"), [("share", 0, 1, (0, 100)), ("difference", -1, 1, (-100, 100))]
)
def test_a_scale_does_not_reach_beyond_what_is_possible(
    unit: Any, low: float, high: float, ends: tuple[float, float], size: Size
) -> None:
    rows = [IntervalRow("test", LONG, 0.4, low + 0.004, high - 0.004, null_value=None, unit=unit)]
    dots = Dots(
        "Favoured", [LONG], {"a": [0.4]}, ("women", "men"), (-1.0, 1.0), intervals={"a": [(low, 0.996)]}
    )
    for chart in (Intervals("One", rows, 0.95), dots):
        lines = texts(chart, size)
        ticks = [float(line.replace("−", "-")) for line in lines if re.fullmatch(r"[−\d.]+", line)]
        assert (min(ticks), max(ticks)) == ends


def test_tiers_differ_in_grey() -> None:
    def lightness(colour: str) -> float:
        red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
        return 0.299 * red + 0.587 * green + 0.114 * blue

    shades = [lightness(TIERS[mark]) for mark in ("healthy", "cautionary", "critical", "catastrophic")]
    assert all(lighter - darker > 15 for lighter, darker in itertools.pairwise(shades))


def embedded(fonts: Any) -> list[set[str]]:
    """Return the entries of the descriptors of the fonts of a PDF page."""
    descendants = [font.get_object()["/DescendantFonts"][0].get_object() for font in fonts.values()]
    return [set(font["/FontDescriptor"].keys()) for font in descendants]


def test_files_have_the_width_of_one_or_two_columns_and_pdf_files_contain_their_fonts(
    tmp_path: Path,
) -> None:
    write_charts([TIERED], tmp_path)
    for name, inches in (("outcome-disparity", 7), ("outcome-disparity-column", 3.4)):
        page = PdfReader(tmp_path / f"{name}.pdf").pages[0]
        assert float(page.mediabox.width) / 72 == pytest.approx(inches, abs=0.06)
        assert "/FontFile" in str(embedded(page["/Resources"]["/Font"]))  # type: ignore[index]
    assert 'textLength="' in (tmp_path / "outcome-disparity.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("size", SIZES)
def test_texts_from_outside_are_escaped_in_files(size: Size) -> None:
    for block in hostile():
        if isinstance(block, Bars | Dots | Heatmap | Intervals):
            assert "<script" not in as_svg(block, size)


def test_lines_are_broken_at_spaces_and_long_words_within() -> None:
    lines = wrapped("a model/with-a-very-long-name-2024-07-18 of today", 60, 7)
    assert "".join(lines).replace(" ", "") == "amodel/with-a-very-long-name-2024-07-18oftoday"
    assert all(text_width(line, 7) <= 60 for line in lines)
    assert wrapped("", 60, 7) == [""]


@pytest.mark.usefixtures("workplace")
def test_the_figure_of_a_plan_names_metrics_in_words() -> None:
    (chart,) = [block for block in tm.plan("genderbench/gest", limit=20).blocks() if isinstance(block, Bars)]
    assert chart.labels == ["Who said it: stereotypical minus opposite choices"]
    assert chart.note
