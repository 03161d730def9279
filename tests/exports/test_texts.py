"""Markdown, LaTeX and CSV: whatever a text holds, it is shown, comes back, and nothing else happens."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest
from hypothesis import example, given, strategies as st
from markdown_it import MarkdownIt

from exports.conftest import exported
from tiltmeter.blocks import Column, Table
from tiltmeter.reports.files import csv_table
from tiltmeter.reports.latex import latex_text as latex
from tiltmeter.reports.markdown import fenced, table as markdown_table, text as markdown
from tiltmeter.sanitising import printable

ACTIVE = [
    *"\\`*_{}[]<>&|~#$%^\"'-!@:\n a1é漢\u202e\u2028\0",
    "--",
    "://",
    "  ",
    "&amp;",
    "&#60;",
    "www.",
    "http://a.b",
    "](",
]
ACTIVE += ["\\input{x}", "^^M"]
texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.builds("".join, st.lists(st.sampled_from(ACTIVE), max_size=12)),
)


class Cells(HTMLParser):
    """Tags, and the text of each cell of a table."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.cells: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        if self.cells and self.tags[-1] in ("td", "th"):
            self.cells[-1] += data.removesuffix("\n")


def read_markdown(source: str) -> Cells:
    cells = Cells()
    cells.feed(MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(source))
    return cells


def spaced(text: str) -> str:
    """As a reader sees it: space at the ends or repeated is not seen."""
    return " ".join(text.split())


@given(st.lists(texts, min_size=3, max_size=3))
@example(["a|b", "\\|", "`|`"])
@example(["<b>", "![x](y)", "&lt;"])
def test_a_cell_of_markdown_shows_the_text(cells: list[str]) -> None:
    columns = [Column(name, [cell]) for name, cell in zip(("one", "two", "three"), cells, strict=True)]
    table = read_markdown(markdown_table(Table("", columns)))
    assert table.tags == ["table", "thead", "tr", "th", "th", "th", "tbody", "tr", "td", "td", "td"]
    assert [spaced(cell) for cell in table.cells] == [
        "one",
        "two",
        "three",
        *(spaced(printable(cell, one_line=True)) for cell in cells),
    ]


@given(texts)
def test_markdown_links_mentions_and_marks_of_direction_do_not_act(text: str) -> None:
    shown = markdown(text)
    assert shown.isprintable(), "one line, no character that is not seen"
    assert not re.search(r"(?<!\\)([<>@`*\[|$]|://)|www\.", shown, re.IGNORECASE)


@given(texts)
def test_a_block_of_code_ends_where_it_should(text: str) -> None:
    assert read_markdown(f"{fenced(text)}\n").tags == ["pre", "code"]


UNESCAPED = {
    r"\textbackslash{}": "\\", r"\textasciitilde{}": "~", r"\textasciicircum{}": "^", r"\textless{}": "<", r"\textgreater{}": ">",
    r"\textbar{}": "|", r"{\char34}": '"', r"\textasciigrave{}": "`", "$-$": "−", "--": "–", r"\ldots{}": "…", "``": "“", "''": "”",
    "~": "\u00a0", "{-}": "-", **{f"\\{mark}": mark for mark in "{}$&%#_"}, **{f"{{{mark}}}": mark for mark in "[]*'"},
}  # fmt: skip
"""What LaTeX prints for each of these; every other character but the special ones stands for itself."""
ESCAPES = "|".join(re.escape(one) for one in sorted(UNESCAPED, key=len, reverse=True))
TOKEN = re.compile(r"\\texttt\{U\+([0-9A-F]{4,6})\}|(" + ESCAPES + r")|([^\\{}$&%#_^~\n])")


def read_latex(source: str) -> str:
    """What is printed; fails at anything that would act."""
    place, shown = 0, ""
    while place < len(source):
        match = TOKEN.match(source, place)
        assert match, f"{source[place : place + 20]!r} acts"
        shown += chr(int(match[1], 16)) if match[1] else UNESCAPED[match[2]] if match[2] else match[3]
        place = match.end()
    return shown


@given(texts)
@example("--x---")
@example("{-}'' ``")
def test_latex_prints_the_text(text: str) -> None:
    assert read_latex(latex(text)) == text
    assert not re.search(r"^[\[*]", latex(text)), "what begins a row is no argument of the row before"


@pytest.mark.verify
@pytest.mark.parametrize("format", ["markdown", "latex"])
def test_untrusted_names_in_tables(evil: Path, format: str) -> None:
    source = exported(evil, format, every=True).read_text()
    assert "a" * 1_000_000 in source
    assert "\u202e" not in source
    if format == "markdown":
        table = read_markdown(source)
        assert not {"script", "img", "b", "a", "h1", "code"} & set(table.tags)
        assert {"<script>alert(1)</script>", "=cmd|' /C calc'!A0"} <= set(table.cells)
    else:
        body = [line for line in source.splitlines() if not line.startswith("%")]
        assert body[0].startswith(r"\begin{tabular}")
        rows = [line.removesuffix(r" \\").split(" & ") for line in body if line.endswith(r" \\")]
        assert {len(row) for row in rows} == {len(rows[0])}
        shown = {read_latex(cell) for row in rows for cell in row}
        assert {"<script>alert(1)</script>", "=cmd|' /C calc'!A0", "\u202etfel ot thgir\u202c"} <= shown


csv.field_size_limit(sys.maxsize)
# All texts a Polars table can hold, and more often than by chance those that matter here.
csv_marks = st.sampled_from([*"=+-@'\",;\t\r\n \u202e＝1x"])
cells_of_csv = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])), st.builds("".join, st.lists(csv_marks))
)


def undone(text: str) -> str:
    """The rule of the documentation: take one leading apostrophe away wherever there is one."""
    return text.removeprefix("'")


def written(table: pl.DataFrame) -> str:
    return csv_table(table.lazy()).collect().write_csv(quote_style="non_numeric")


def cells_of(text: str, column: int = 0) -> list[str]:
    return [row[column] for row in csv.reader(io.StringIO(text, newline=""))][1:]


@given(st.lists(cells_of_csv, min_size=1, max_size=5))
def test_texts_come_back_and_none_is_a_formula(cells: list[str]) -> None:
    text = written(pl.DataFrame({"cell": cells}, schema={"cell": pl.String}))
    rows = cells_of(text)
    assert [undone(row) for row in rows] == cells
    for row in rows:
        seen = "".join(one for one in row if one.isprintable() and not one.isspace())
        assert seen[:1] not in tuple("=+-@＝＋－＠"), row
        assert row[:1] not in tuple("\t\r\n")
    again = pl.read_csv(text.encode(), infer_schema=False)
    assert [undone(row) for row in again["cell"]] == cells


@given(st.lists(st.one_of(st.none(), st.lists(cells_of_csv, max_size=3)), min_size=1, max_size=4))
def test_lists_are_json(cells: list[list[str] | None]) -> None:
    text = written(
        pl.DataFrame(
            {"n": range(len(cells)), "cell": cells}, schema={"n": pl.Int64, "cell": pl.List(pl.String)}
        )
    )
    assert [json.loads(row) if row else None for row in cells_of(text, 1)] == cells


def test_numbers_and_nothing_stay_what_they_are() -> None:
    table = pl.DataFrame({"a": [-1.5, None], "b": [-3, 4], "=c": ["", None], "d": [True, None]})
    assert written(table) == '"a","b","\'=c","d"\n-1.5,-3,"","true"\n,4,,\n'


@pytest.mark.parametrize("table", ["findings", "responses", "measures", "design", "examples"])
def test_of_a_run(run: Path, table: str) -> None:
    place, same = (
        exported(run, kind, run.parent / f"out.{kind}", table=table) for kind in ("csv", "parquet")
    )
    truth = pl.read_parquet(same)
    flat = [name for name, kind in truth.schema.items() if not kind.is_nested()]
    read = pl.read_csv(place, schema_overrides={name: truth.schema[name] for name in flat})
    assert read.columns == truth.columns
    # An apostrophe is there only where the rule set one.
    texts_back = read.select(flat).with_columns(pl.col(pl.String).str.replace("^'", ""))
    assert texts_back.equals(truth.select(flat))
