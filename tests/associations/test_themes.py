"""Themes and tone of descriptions by group, and the table that compares the judge with words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tiltmeter as tm
from conftest import Tiltmeter
from tiltmeter.blocks import Details, Headline, Heatmap, Table
from tiltmeter.runs import load


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """Descriptions with the theme appearance (half of the women, a tenth of the men) and work (a third)."""
    draw = np.random.default_rng(3)
    rows = []
    for number in range(400):
        group, share = (("women", 0.5), ("men", 0.1))[number % 2]
        look = "The person is beautiful and slender." if draw.random() < share else "The person is there."
        job = "An engineer with a salary." if draw.random() < 0.33 else "The person came home."
        rows.append((group, f"{look} {job} The person is not tall."))
    pl.DataFrame(rows, schema=["group", "text"], orient="row").write_csv(tmp_path / "texts.csv")
    return tmp_path / "texts.csv"


def share_of_words(texts: pl.Series, words: Sequence[str]) -> float:
    """Return the mean share of the words of each text that are among some words."""
    every = texts.str.to_lowercase().str.extract_all(r"[a-z]+")
    counted = every.list.eval(pl.element().is_in(words)).list.sum()
    return float((counted / every.list.len()).mean())  # type: ignore[arg-type]


def test_themes_are_shares_of_words(tiltmeter: Tiltmeter, tmp_path: Path, texts: Path) -> None:
    plain = ("analyse", str(texts), "--study", "associations", "--text", "text", "--identity", "group")
    done = tiltmeter(*plain, "--out", "run")
    assert done.returncode == 0, done.stderr
    run, table = load(tmp_path / "run"), pl.read_csv(texts)
    themes = run.table("themes")
    shares = {
        (theme, group): rate
        for theme, group, rate in themes.select("concept", "identity", "rate").iter_rows()
    }
    for group in ("women", "men"):
        own_rows = table.filter(group=group)["text"]
        expected = share_of_words(own_rows, ["beautiful", "slender"])
        assert shares["appearance", group] == pytest.approx(expected), "'not tall' is not of the theme"
        expected = share_of_words(own_rows, ["engineer", "salary"])
        assert shares["work", group] == pytest.approx(expected)
    assert set(themes.filter("reported").select("concept", "identity").rows()) == {
        ("appearance", "women"),
        ("positive tone", "women"),
        ("positive minus negative tone", "women"),
    }
    finding = run.findings.filter(metric="theme", feature="appearance", group="women").row(0, named=True)
    assert finding["low"] <= shares["appearance", "women"] - shares["appearance", "men"] <= finding["high"]
    details = [block for block in run.blocks() if isinstance(block, Details)]
    (figure,) = [block for of in details for block in of.blocks if isinstance(block, Heatmap)]
    assert list(figure.columns) == ["men", "women"]
    (differ,) = [block for block in run.blocks() if isinstance(block, Table) and "Themes" in block.title]
    columns = {column.name: list(column.values) for column in differ.columns}
    assert set(zip(columns["group"], columns["theme"], strict=True)) == {
        ("women", "appearance"),
        ("women", "tone: positive minus negative"),
    }
    assert columns["words per 100"][0] == f"{100 * shares['appearance', 'women']:.1f}"
    assert columns["others"][0] == f"{100 * shares['appearance', 'men']:.1f}"
    headlines = [block.text for block in run.blocks() if isinstance(block, Headline)]
    assert headlines[1].startswith("Themes: groups differ in ")
    assert "women → appearance" in headlines[1]
    assert headlines[2].startswith("Tone: texts of the group women are more positive: ")


def test_longer_texts_do_not_have_more_of_a_theme(tmp_path: Path) -> None:
    """Texts of one group are five times as long, and have the same share of words of each theme."""
    draw = np.random.default_rng(0)
    rows = []
    for number in range(300):
        group, length = (("long", 15), ("short", 3))[number % 2]
        words = draw.choice(["an engineer", "a lamp", "a family", "a river", "a window"], size=length)
        rows.append({"group": group, "text": " ".join(f"There was {word}." for word in words)})
    run = tm.analyse(pl.DataFrame(rows), text="text", group="group", out=tmp_path / "run")
    themes = run.table("themes")
    assert {"work", "family"} <= set(themes["concept"])
    assert not themes["reported"].any()


def test_themes_of_a_user_are_read_from_a_file(tiltmeter: Tiltmeter, tmp_path: Path, texts: Path) -> None:
    (tmp_path / "mine.yaml").write_text("money: [salary, wage]\nlooks: [slender]\n", encoding="utf-8")
    plain = ("analyse", str(texts), "--study", "associations", "--text", "text", "--identity", "group", "-P")
    assert tiltmeter(*plain, "themes=mine.yaml", "--out", "run").returncode == 0
    assert {"money", "looks"} < set(load(tmp_path / "run").table("themes")["concept"])
    (tmp_path / "bad.yaml").write_text("money: salary\n", encoding="utf-8")
    done = tiltmeter(*plain, "themes=bad.yaml", "--out", "bad")
    assert "bad.yaml: money must be a list such as [one, another]" in done.stderr.replace("\n", " ")


@pytest.mark.verify
def test_one_table_compares_the_associations_found_by_judge_and_by_words(
    tiltmeter: Tiltmeter, tmp_path: Path
) -> None:
    options = ("-m", "sim/biased", "--judge", "sim/fair", "--limit", "40", "--out", "run")
    done = tiltmeter("run", "associations/gender", *options, "-P", "encoder=none", "-P", "names=grid")
    assert done.returncode == 0, done.stderr
    (table,) = [
        block
        for block in load(tmp_path / "run").blocks()
        if isinstance(block, Table) and "the judge and with words" in block.title
    ]
    columns = {column.name: list(column.values) for column in table.columns}
    assert columns["found by judge"] == columns["found by words"] == columns["shared"] == [2, 2]
    assert columns["by words only"] == ["", ""]


NAMES = {
    "women": ["Grace", "Joy", "Rose", "Hope", "Faith", "Melody"],
    "men": ["Carl", "Peter", "Burton", "John", "Frank", "Art"],
}
"""Names, of which those of the women are also ordinary words of themes and of positive tone."""
SENTENCES = [
    "When the class began, {} opened the window.",
    "{}'s teacher was proud of the drawing.",
    "We met {} at the station and walked home.",
    "Everyone knows {}. {} paints every day.",
    "{} Carter is an artist who paints old houses.",
]


def test_names_are_of_no_theme_and_of_no_tone(tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    rows = []
    for number in range(400):
        group = ("women", "men")[number % 2]
        name = draw.choice(NAMES[group])
        rows.append((group, draw.choice(SENTENCES).replace("{}", name)))
    table = pl.DataFrame(rows, schema=["group", "text"], orient="row")
    run = tm.analyse(table, text="text", group="group", display="none", out=tmp_path / "run")
    themes = run.table("themes")
    assert themes.height > 0
    assert not themes["reported"].any()
