"""Charts as files and in the page: real pictures, valid Vega-Lite, in the colours of the page."""

from __future__ import annotations

from pathlib import Path

import altair as alt
import pytest

from support.block_cases import CASES, hostile
from tiltmeter.blocks import Bars, Details, Dots, Heatmap, Intervals
from tiltmeter.errors import InputError
from tiltmeter.reports import write_charts
from tiltmeter.reports.charts import PAINTS, chart_of, paint_rules, svg

CHARTS = ("Intervals", "Bars", "Heatmap", "Dots")
MAGIC = {".png": b"\x89PNG", ".svg": b"<svg", ".pdf": b"%PDF"}


@pytest.mark.parametrize("kind", CHARTS)
def test_files(kind: str, tmp_path: Path) -> None:
    block = CASES[kind][0]
    paths = write_charts([block, Details("inner", [block])], tmp_path)
    assert len({path.name for path in paths}) == 6, "two charts of one title have names of their own"
    assert all(path.read_bytes().startswith(MAGIC[path.suffix]) for path in paths)


@pytest.mark.parametrize("kind", CHARTS)
def test_in_the_page(kind: str) -> None:
    block = CASES[kind][0]
    assert isinstance(block, Bars | Dots | Heatmap | Intervals)
    alt.Chart.from_dict(chart_of(block).to_dict(validate=True), validate=True)
    drawn = str(svg(block))
    assert drawn.startswith("<svg")
    assert f'aria-label="{block.title}' in drawn
    assert any(colour in drawn for colour in PAINTS), "the page can put its own colours in"
    assert all(colour in str(paint_rules()) for colour in PAINTS)


def test_texts_from_outside_are_escaped() -> None:
    for block in hostile():
        if isinstance(block, Bars | Dots | Heatmap | Intervals):
            assert "<script" not in str(svg(block))


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        write_charts([CASES["Bars"][0]], tmp_path / "file")
