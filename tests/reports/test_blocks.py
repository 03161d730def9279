"""Every kind of block in every renderer and chart: texts are shown, and no text from outside is executed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import altair as alt
import pytest

from support.block_cases import ABOUT, CASES, hostile, seen
from tiltmeter.blocks import Bars, Block, Column, Details, Dots, Heatmap, Intervals, Table, Text
from tiltmeter.errors import InputError
from tiltmeter.reports import Report, as_html, as_latex, as_markdown, print_blocks, write_charts, write_page
from tiltmeter.reports._charts import PAINTS, paint_rules, svg
from tiltmeter.reports._figures import figure_of


def _page(blocks: list[Block], folder: Path) -> str:
    return write_page(Report([ABOUT], blocks), folder / "page.html").read_text(encoding="utf-8")


def _printed(blocks: list[Block], capsys: pytest.CaptureFixture[str]) -> str:
    print_blocks(blocks, everything=True)
    return capsys.readouterr().out


RENDERERS: dict[str, Callable[[list[Block], Path, Any], str]] = {
    "page": lambda blocks, folder, _: seen(_page(blocks, folder)),
    "notebook": lambda blocks, folder, _: seen(as_html(Report([ABOUT], blocks))),
    "markdown": lambda blocks, folder, _: re.sub(r"\\(.)", r"\1", as_markdown(blocks)),
    "latex": lambda blocks, folder, _: (
        as_latex(blocks).replace("$-$", "−").replace(r"\ldots{}", "…").replace("\\%", "%")
    ),
    "terminal": lambda blocks, folder, capsys: _printed(blocks, capsys),
}


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("kind", CASES)
def test_each_renderer_shows_the_words_of_each_kind_of_block(
    kind: str,
    renderer: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "240")
    block, words = CASES[kind]
    assert type(block).__name__ == kind
    text = RENDERERS[renderer]([block], tmp_path, capsys)
    for word in words:
        assert word.lower() in text.lower(), (word, text)


@pytest.mark.parametrize("width", ["40", "80", "1000"])
def test_no_control_character_of_a_text_reaches_the_terminal(
    width: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    print_blocks(hostile(), everything=True)
    assert "\x1b" not in capsys.readouterr().out


def test_markup_in_texts_from_outside_is_escaped_in_each_format(tmp_path: Path) -> None:
    blocks = hostile()
    for source in (_page(blocks, tmp_path), as_html(Report([ABOUT], blocks))):
        assert "<script" not in source
        assert "\x1b" not in source
        ids = re.findall(r' id="([^"]+)"', source)
        assert len(ids) == len(set(ids))
        assert set(re.findall(r'href="#([^"]+)"', source)) <= set(ids)
    written = as_markdown(blocks)
    assert "\\<script\\>" in written
    assert re.search(r"(?<!\\)[<\[]", written.replace("> ", "")) is None
    assert "\x1b" not in written + as_latex(blocks)
    assert re.search(r"(?<!\\)[_#&]", as_latex(blocks).replace("{lr}", "").replace(" & ", "")) is None


def test_a_terminal_omits_details_and_a_notebook_cuts_long_tables(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_blocks([Text("first"), Details("Every metric", [Text("within")])])
    printed = capsys.readouterr().out
    assert "within" not in printed
    assert "More with --all: Every metric." in printed
    html = seen(as_html(Report([ABOUT], [Table("long", [Column("n", list(range(1000, 2000)), "count")])])))
    assert [words for words in ("1,029", "1,030", "970 more rows") if words in html] == [
        "1,029",
        "970 more rows",
    ]


def test_the_same_blocks_give_the_same_page(tmp_path: Path) -> None:
    blocks = [block for block, _ in CASES.values()]
    assert _page(blocks, tmp_path) == _page(blocks, tmp_path)


CHARTS = ("Intervals", "Bars", "Heatmap", "Dots")
MAGIC = {".png": b"\x89PNG", ".svg": b"<svg", ".pdf": b"%PDF"}


@pytest.mark.parametrize("kind", CHARTS)
def test_charts_are_written_in_three_formats_under_different_names(kind: str, tmp_path: Path) -> None:
    block = CASES[kind][0]
    paths = write_charts([block, Details("inner", [block])], tmp_path)
    assert len({path.name for path in paths}) == 12, (
        "two charts of one title, at two widths, have names of their own"
    )
    assert all(path.read_bytes().startswith(MAGIC[path.suffix]) for path in paths)


@pytest.mark.parametrize("kind", CHARTS)
def test_a_chart_in_the_page_is_a_labelled_svg_in_colours_that_the_page_can_replace(kind: str) -> None:
    block = CASES[kind][0]
    assert isinstance(block, Bars | Dots | Heatmap | Intervals)
    alt.Chart.from_dict(figure_of(block), validate=True)
    drawn = str(svg(block))
    assert drawn.startswith("<svg")
    assert f'aria-label="{block.title}' in drawn
    assert any(colour in drawn for colour in PAINTS), "the page can put its own colours in"
    assert all(colour in str(paint_rules()) for colour in PAINTS)


def test_texts_from_outside_are_escaped_in_charts() -> None:
    for block in hostile():
        if isinstance(block, Bars | Dots | Heatmap | Intervals):
            assert "<script" not in str(svg(block))


def test_charts_in_a_folder_that_cannot_be_written_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        write_charts([CASES["Bars"][0]], tmp_path / "file")
