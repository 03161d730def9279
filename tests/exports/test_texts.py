"""Markdown, LaTeX and CSV: any text is shown or read back as it is, and none acts as markup or a formula."""

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
from tiltmeter._sanitising import printable
from tiltmeter.blocks import Column, Table
from tiltmeter.reports._files import csv_table
from tiltmeter.reports._latex import latex_text as latex
from tiltmeter.reports._markdown import fenced, table as markdown_table, text as markdown

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
    """A reader of HTML that collects the tags, and the text of each cell of a table."""

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
    """The text without repeated spaces and without spaces at its ends, which a browser does not show."""
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
    escaped = markdown(text)
    assert escaped.isprintable(), "one line, no invisible character"
    assert not re.search(r"(?<!\\)([<>@`*\[|$]|://)|www\.", escaped, re.IGNORECASE)


@given(texts)
def test_a_block_of_code_ends_where_it_should(text: str) -> None:
    assert read_markdown(f"{fenced(text)}\n").tags == ["pre", "code"]


UNESCAPED = {
    r"\textbackslash{}": "\\", r"\textasciitilde{}": "~", r"\textasciicircum{}": "^", r"\textless{}": "<",
    r"\textgreater{}": ">", r"\textbar{}": "|", r"{\char34}": '"', r"\textasciigrave{}": "`", "$-$": "−",
    "--": "–", r"\ldots{}": "…", "``": "“", "''": "”", "~": "\u00a0", "{-}": "-",
    **{f"\\{mark}": mark for mark in "{}$&%#_"}, **{f"{{{mark}}}": mark for mark in "[]*'"},
}  # fmt: skip
"""What LaTeX prints for each command. All other characters but the special ones are printed unchanged."""
ESCAPES = "|".join(re.escape(command) for command in sorted(UNESCAPED, key=len, reverse=True))
TOKEN = re.compile(r"\\texttt\{U\+([0-9A-F]{4,6})\}|(" + ESCAPES + r")|([^\\{}$&%#_^~\n])")


def read_latex(source: str) -> str:
    """The text that LaTeX prints; anything that would act as a command fails."""
    place = 0
    printed = ""
    while place < len(source):
        match = TOKEN.match(source, place)
        assert match, f"{source[place : place + 20]!r} acts"
        code_point, command, character = match.groups()
        if code_point:
            printed += chr(int(code_point, 16))
        elif command:
            printed += UNESCAPED[command]
        else:
            printed += character
        place = match.end()
    return printed


@given(texts)
@example("--x---")
@example("{-}'' ``")
def test_latex_prints_the_text(text: str) -> None:
    assert read_latex(latex(text)) == text
    assert not re.search(r"^[\[*]", latex(text)), "the beginning of a row is no argument of the row before"


@pytest.mark.verify
@pytest.mark.parametrize("format", ["markdown", "latex"])
def test_untrusted_names_stay_text_in_tables(evil: Path, format: str) -> None:
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
        cells = {read_latex(cell) for row in rows for cell in row}
        assert {"<script>alert(1)</script>", "=cmd|' /C calc'!A0", "\u202etfel ot thgir\u202c"} <= cells


csv.field_size_limit(sys.maxsize)
# All texts that a Polars table can hold; those with characters of formulas and of CSV are more frequent.
csv_marks = st.sampled_from([*"=+-@'\",;\t\r\n \u202e＝1x"])
cells_of_csv = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])), st.builds("".join, st.lists(csv_marks))
)


def undone(text: str) -> str:
    """The rule of the documentation: remove one leading apostrophe wherever there is one."""
    return text.removeprefix("'")


def written(table: pl.DataFrame) -> str:
    return csv_table(table.lazy()).collect().write_csv(quote_style="non_numeric")


def cells_of(text: str, column: int = 0) -> list[str]:
    return [row[column] for row in csv.reader(io.StringIO(text, newline=""))][1:]


@given(st.lists(cells_of_csv, min_size=1, max_size=5))
def test_texts_are_read_back_from_csv_and_none_is_a_formula(cells: list[str]) -> None:
    text = written(pl.DataFrame({"cell": cells}, schema={"cell": pl.String}))
    rows = cells_of(text)
    assert [undone(row) for row in rows] == cells
    for row in rows:
        visible = "".join(
            character for character in row if character.isprintable() and not character.isspace()
        )
        assert visible[:1] not in tuple("=+-@＝＋－＠"), row
        assert row[:1] not in tuple("\t\r\n")
    again = pl.read_csv(text.encode(), infer_schema=False)
    assert [undone(row) for row in again["cell"]] == cells


@given(st.lists(st.one_of(st.none(), st.lists(cells_of_csv, max_size=3)), min_size=1, max_size=4))
def test_lists_in_csv_are_json(cells: list[list[str] | None]) -> None:
    text = written(
        pl.DataFrame(
            {"n": range(len(cells)), "cell": cells}, schema={"n": pl.Int64, "cell": pl.List(pl.String)}
        )
    )
    assert [json.loads(row) if row else None for row in cells_of(text, 1)] == cells


def test_numbers_and_nulls_in_csv_are_unchanged() -> None:
    table = pl.DataFrame({"a": [-1.5, None], "b": [-3, 4], "=c": ["", None], "d": [True, None]})
    assert written(table) == '"a","b","\'=c","d"\n-1.5,-3,"","true"\n,4,,\n'


@pytest.mark.parametrize("table", ["findings", "responses", "measures", "design", "examples"])
def test_the_csv_of_a_table_of_a_run_is_read_back(run: Path, table: str) -> None:
    place = exported(run, "csv", run.parent / "out.csv", table=table)
    truth = pl.read_parquet(exported(run, "parquet", run.parent / "out.parquet", table=table))
    flat = [name for name, kind in truth.schema.items() if not kind.is_nested()]
    read = pl.read_csv(place, schema_overrides={name: truth.schema[name] for name in flat})
    assert read.columns == truth.columns
    # Only the rule adds leading apostrophes here.
    texts_back = read.select(flat).with_columns(pl.col(pl.String).str.replace("^'", ""))
    assert texts_back.equals(truth.select(flat))
