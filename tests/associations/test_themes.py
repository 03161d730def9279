"""Themes of descriptions by group, and the table that compares the judge with words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from conftest import Tiltmeter
from tiltmeter.blocks import Details, Heatmap, Pairs, Table
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


def test_themes_are_shares_of_descriptions_with_their_words(
    tiltmeter: Tiltmeter, tmp_path: Path, texts: Path
) -> None:
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
        assert shares["appearance", group] == pytest.approx(own_rows.str.contains("slender").mean()), (
            "'not tall' does not belong to the theme"
        )
        assert shares["work", group] == pytest.approx(own_rows.str.contains("engineer").mean())
    assert set(themes.filter("reported").select("concept", "identity").rows()) == {
        ("appearance", "women"),
        ("positive tone", "women"),
    }
    finding = run.findings.filter(metric="theme", feature="appearance", group="women").row(0, named=True)
    assert finding["low"] <= shares["appearance", "women"] - shares["appearance", "men"] <= finding["high"]
    details = [block for block in run.blocks() if isinstance(block, Details)]
    (figure,) = [block for of in details for block in of.blocks if isinstance(block, Heatmap)]
    assert list(figure.columns) == ["men", "women"]
    (differ,) = [block for block in run.blocks() if isinstance(block, Pairs) and "Themes" in block.title]
    assert {(row.label, row.group) for row in differ.rows} == {
        ("appearance", "women"),
        ("positive tone", "women"),
    }
    shown_shares = {row.label: (row.share, row.other_share) for row in differ.rows}
    assert shown_shares["appearance"] == (shares["appearance", "women"], shares["appearance", "men"])
    assert [column.name for column in differ.table.columns][:4] == ["group", "theme", "share", "others"]


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
