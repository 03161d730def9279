"""The first screen of own texts states only what the texts show, in unusual designs as well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import tiltmeter as tm
from tiltmeter.blocks import Headline, Table

FILLER = ["opened a window", "came home", "walked to the station", "bought bread", "fed a cat"]


def texts_of(shares: dict[str, tuple[int, float]], phrase: str = "keeps a careful diary") -> pl.DataFrame:
    """Return texts of groups, each with its number of texts and the share of them that have the phrase."""
    draw = np.random.default_rng(5)
    rows = []
    for group, (number, share) in shares.items():
        for place in range(number):
            says = f"The person {phrase}." if place < share * number else "The person is here."
            rows.append((group, f"{says} The person {draw.choice(FILLER)}."))
    return pl.DataFrame(rows, schema=["group", "text"], orient="row")


def first_screen(table: pl.DataFrame, out: Path, **options: Any) -> str:
    """Return the text and the details of the headlines."""
    run = tm.analyse(table, text="text", group="group", display="none", out=out, **options)
    headlines = [block for block in run.blocks() if isinstance(block, Headline)]
    return " ".join(f"{block.text}. {block.detail}" for block in headlines)


def test_nothing_is_said_about_power_where_nothing_was_compared(tmp_path: Path) -> None:
    table = texts_of({"a": (40, 0.2), "b": (40, 0.2)}).with_columns(code="group")
    screen = first_screen(table, tmp_path / "run", location="code")
    assert "Nothing was compared: no location has descriptions of two groups." in screen
    assert "equality" not in screen


def test_texts_in_pairs_have_no_figure_of_what_could_be_found(tmp_path: Path) -> None:
    table = texts_of({"a": (40, 0.2), "b": (40, 0.2)}).with_columns(pair=pl.int_range(80) % 40)
    screen = first_screen(table, tmp_path / "run", pair="pair")
    assert "This is no evidence of equality." in screen


def test_authors_make_the_figure_one_for_the_best_case(tmp_path: Path) -> None:
    table = texts_of({"a": (40, 0.2), "b": (40, 0.2)}).with_columns(author=pl.int_range(80) // 4)
    screen = first_screen(table, tmp_path / "run", cluster="author")
    assert "even if all descriptions were independent, a concept in 10%" in screen


def test_a_small_group_with_a_higher_share_is_named_as_such(tmp_path: Path) -> None:
    table = texts_of({"alpha": (300, 0.6), "beta": (8, 0.75), "gamma": (300, 0.1), "delta": (300, 0.1)})
    screen = first_screen(table, tmp_path / "run")
    assert "Strongest: alpha → " in screen
    assert "beta has a higher share, 75.0%, which may be chance." in screen


def test_the_next_group_is_named_with_its_share(tmp_path: Path) -> None:
    table = texts_of({"alpha": (200, 0.6), "beta": (200, 0.5), "gamma": (200, 0.1), "delta": (200, 0.1)})
    screen = first_screen(table, tmp_path / "run")
    assert "alpha → " in screen
    assert "in 60.0% of 200 descriptions" in screen
    assert "Next is beta with 50.0%, and may be as high." in screen


def test_a_group_named_others_is_an_ordinary_group(tmp_path: Path) -> None:
    table = texts_of({"alpha": (100, 0.6), "others": (100, 0.1)})
    run = tm.analyse(table, text="text", group="group", display="none", out=tmp_path / "run")
    (headline, *_) = [block for block in run.blocks() if isinstance(block, Headline)]
    assert "others 10.0% of 100" in headline.text
    assert "Next is" not in headline.detail


def test_the_tone_is_compared_with_themes_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("money: [salary, wage]\n", encoding="utf-8")
    table = texts_of({"alpha": (200, 0.6), "beta": (200, 0.1)}, phrase="is wonderful and brilliant")
    params = {"themes": str(tmp_path / "mine.yaml")}
    run = tm.analyse(table, text="text", group="group", params=params, display="none", out=tmp_path / "run")
    assert any(
        "Tone: texts of the group alpha are more positive" in b.text
        for b in run.blocks()
        if isinstance(b, Headline)
    )
    (differing,) = [b for b in run.blocks() if isinstance(b, Table) and b.title.startswith("Themes and tone")]
    themes = next(column.values for column in differing.columns if column.name == "theme")
    assert "tone: positive minus negative" in themes


def test_a_published_definition_gives_no_figure_of_its_own(tmp_path: Path) -> None:
    table = texts_of({"a": (40, 0.2), "b": (40, 0.2)})
    missing = pl.DataFrame({"group": ["a", "b"] * 3, "text": [None] * 6}, schema=table.schema)
    screen = first_screen(pl.concat([table, missing]), tmp_path / "run", definition="paper")
    assert "0 associated concepts found" in screen
    assert "equality" not in screen
