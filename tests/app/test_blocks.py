"""Every kind of block in the explorer: texts are shown, and no text from outside is executed."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from support.block_cases import ABOUT, CASES, hostile, seen
from tiltmeter._app import explorer
from tiltmeter.blocks import Block, Headline, Intervals
from tiltmeter.reports import Report
from tiltmeter.runs import Run

from .conftest import LINK

pytestmark = pytest.mark.verify


def explored(blocks: list[Block], probes_only: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the HTML that the explorer shows for a run whose report has these blocks."""
    monkeypatch.setenv("TILTMETER_RUNS", str(probes_only))
    monkeypatch.setattr(Run, "report_of", lambda _: Report([ABOUT], blocks))
    monkeypatch.setattr(
        sys, "argv", ["explorer", str(probes_only / "probes"), str(probes_only / "journal.sqlite"), ""]
    )
    page = AppTest.from_file(explorer.__file__, default_timeout=60).run()
    assert not page.exception
    assert not page.error
    (fragment,) = page.html
    return str(fragment.value)


@pytest.mark.parametrize("kind", CASES)
def test_the_explorer_shows_the_words_of_each_kind_of_block(
    kind: str, probes_only: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block, words = CASES[kind]
    html = seen(explored([block], probes_only, monkeypatch)).lower()
    for word in words:
        assert word.lower() in html, (word, html)


def test_markdown_in_headlines_and_titles_is_shown_as_text(
    probes_only: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chart, _ = CASES["Intervals"]
    assert isinstance(chart, Intervals)
    monkeypatch.setenv("TILTMETER_RUNS", str(probes_only))
    monkeypatch.setattr(
        Run, "report_of", lambda _: Report([ABOUT], [Headline(LINK, "", {}), replace(chart, title=LINK)])
    )
    monkeypatch.setattr(
        sys, "argv", ["explorer", str(probes_only / "probes"), str(probes_only / "journal.sqlite"), ""]
    )
    page = AppTest.from_file(explorer.__file__, default_timeout=60).run()
    texts = [
        str(element.value) for element in (*page.subheader, *page.caption) if "tracker" in str(element.value)
    ]
    assert len(texts) == 2
    for text in texts:
        assert re.search(r"(?<!\\)\]\(", text) is None
        assert "**bold" not in text.replace("\\*", "")


def test_markup_in_texts_from_outside_is_escaped_in_the_explorer(
    probes_only: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    html = explored(hostile(), probes_only, monkeypatch)
    assert "<script" not in html
    assert "\x1b" not in html
