"""A result in a notebook: headline first, at most a screen, styles that apply to nothing else."""

from __future__ import annotations

import re

import pytest

from support.block_cases import ABOUT, CASES, hostile, seen
from tiltmeter.blocks import Block, Column, Details, Heading, Headline, Table, Text
from tiltmeter.reports import Report
from tiltmeter.reports._notebook import MOST_HEADLINES, MOST_ROWS, as_notebook


def shown(blocks: list[Block]) -> str:
    return as_notebook(Report([ABOUT], blocks))


def test_the_headline_comes_first_and_the_rest_is_named() -> None:
    table = Table("Key numbers", [Column("n", list(range(1000, 1100)), "count")])
    heads = [
        Headline(f"model {i}: bias in 3 of 4 tests", "Largest: 3 points.", {"critical": 3}) for i in range(9)
    ]
    text = seen(
        shown([Heading("Study"), *heads, table, table, Text("later"), Details("More", [Text("within")])])
    )
    assert text.startswith("model 0: bias in 3 of 4 tests Largest: 3 points. C 3 critical")
    assert text.count("bias in 3 of 4 tests") == MOST_HEADLINES
    assert text.count("Key numbers") == 1
    assert f"1,00{MOST_ROWS - 1} " in text
    assert f"1,00{MOST_ROWS} " not in text
    assert f"{100 - MOST_ROWS} more rows" in text
    assert "within" not in text
    assert 'report("page.html")' in text


@pytest.mark.parametrize("kind", CASES)
def test_a_block_of_each_kind_can_be_shown(kind: str) -> None:
    block, words = CASES[kind]
    if kind not in ("Details", "Responses"):
        assert words[0].lower() in seen(shown([block])).lower()


def test_each_rule_is_limited_to_the_result() -> None:
    (css,) = re.findall(r"<style>(.*?)</style>", shown([CASES["Headline"][0]]), re.DOTALL)
    rules = re.sub(r"@media[^{]*\{(.*?\})\}", r"\1", css)
    selectors = [selector for rule in re.findall(r"([^{}]+)\{", rules) for selector in rule.split(",")]
    assert len(selectors) > 10
    assert all(selector.strip().startswith(".tiltmeter") for selector in selectors), selectors
    assert "--ink:" in css, "the colours of the page"


def test_texts_from_outside_are_escaped_in_a_notebook() -> None:
    for block in hostile():
        source = shown([block])
        assert "<script" not in source
        assert "\x1b" not in source
