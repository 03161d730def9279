"""Markdown and LaTeX: whatever a text holds, it is shown and nothing else happens."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st
from markdown_it import MarkdownIt

from exports.conftest import exported
from tiltmeter.blocks import Column, Table
from tiltmeter.reports.latex import latex_text as latex
from tiltmeter.reports.markdown import fenced, table as markdown_table, text as markdown
from tiltmeter.sanitising import printable

ACTIVE = [*"\\`*_{}[]<>&|~#$%^\"'-!@:\n a1é漢\u202e\u2028\0", "--", "://", "  ", "&amp;", "&#60;", "www.", "http://a.b", "]("]
ACTIVE += ["\\input{x}", "^^M"]
texts = st.one_of(st.text(st.characters(exclude_categories=["Cs"])), st.builds("".join, st.lists(st.sampled_from(ACTIVE), max_size=12)))


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


@settings(deadline=None)
@given(st.lists(texts, min_size=3, max_size=3))
@example(["a|b", "\\|", "`|`"])
@example(["<b>", "![x](y)", "&lt;"])
def test_a_cell_of_markdown_shows_the_text(cells: list[str]) -> None:
    columns = [Column(name, [cell]) for name, cell in zip(("one", "two", "three"), cells, strict=True)]
    made = read_markdown(markdown_table(Table("", columns)))
    assert made.tags == ["table", "thead", "tr", "th", "th", "th", "tbody", "tr", "td", "td", "td"]
    assert [spaced(cell) for cell in made.cells] == ["one", "two", "three", *(spaced(printable(cell, one_line=True)) for cell in cells)]


@settings(deadline=None)
@given(texts)
def test_markdown_links_mentions_and_marks_of_direction_do_not_act(text: str) -> None:
    shown = markdown(text)
    assert shown.isprintable(), "one line, no character that is not seen"
    assert not re.search(r"(?<!\\)([<>@`*\[|$]|://)|www\.", shown, re.IGNORECASE)


@settings(deadline=None)
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
        found = TOKEN.match(source, place)
        assert found, f"{source[place : place + 20]!r} acts"
        shown += chr(int(found[1], 16)) if found[1] else UNESCAPED[found[2]] if found[2] else found[3]
        place = found.end()
    return shown


@settings(deadline=None)
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
        made = read_markdown(source)
        assert not {"script", "img", "b", "a", "h1", "code"} & set(made.tags)
        assert {"<script>alert(1)</script>", "=cmd|' /C calc'!A0"} <= set(made.cells)
    else:
        body = [line for line in source.splitlines() if not line.startswith("%")]
        assert body[0].startswith(r"\begin{tabular}")
        rows = [line.removesuffix(r" \\").split(" & ") for line in body if line.endswith(r" \\")]
        assert {len(row) for row in rows} == {len(rows[0])}
        shown = {read_latex(cell) for row in rows for cell in row}
        assert {"<script>alert(1)</script>", "=cmd|' /C calc'!A0", "\u202etfel ot thgir\u202c"} <= shown
