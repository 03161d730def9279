"""A table of texts alone: its columns are found and said, asked for on a terminal, or explained."""

from __future__ import annotations

import os
import pty
import random
import sys
import time
from pathlib import Path

import polars as pl
import pytest

import tiltmeter as tm
from conftest import Tiltmeter
from tiltmeter.errors import InputError

TRAITS = ["curious", "calm", "brave", "honest", "gentle", "clever", "patient", "tidy"]
NATIONS = ["Norwegian", "Syrian", "Indian", "Chilean"]
PLACES = ["bakery", "harbour", "school", "hospital"]


def texts(rows: int = 200) -> pl.DataFrame:
    """Return short texts about people of four nations, five of each author."""
    draw = random.Random(4)
    table = []
    for number in range(rows):
        nation = NATIONS[number % 4]
        hobby = "sail" if nation == "Norwegian" and draw.random() < 0.6 else "read"
        first, second, third = draw.choices(TRAITS, k=3)
        text = (
            f"This person is {first} and {second}. They work at the {draw.choice(PLACES)} and like to {hobby}"
            f" in the evening. Neighbours call them {third}."
        )
        table.append({"id": number, "story": text, "nation": nation, "author": f"writer {number // 5}"})
    return pl.DataFrame(table)


def test_a_spreadsheet_alone_gives_words_themes_and_tone(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    texts().write_excel(tmp_path / "texts.xlsx")
    done = tiltmeter("analyse texts.xlsx --out run", exits=0)
    assert "the texts are in the column 'story' and the groups in 'nation'" in done.stderr
    assert "several texts have the same 'author'" in done.stderr
    assert "--cluster author" in done.stderr
    screen = " ".join(done.stdout.split())
    assert "Strongest: Norwegian → sail" in screen
    assert "Themes: " in screen
    assert "Tone: " in screen
    again = tm.analyse(tmp_path / "texts.xlsx", text="story", group="nation", out=tmp_path / "again")
    assert tm.load(tmp_path / "run").findings.equals(again.findings)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"sex": ["m", "f"] * 100}, "the texts are in 'story', and their groups may be in 'nation' or 'sex'"),
        (
            {"reply": texts()["story"].reverse()},
            "the texts may be in 'story' or 'reply', and their groups are in 'nation'",
        ),
    ],
)
def test_columns_that_may_be_either_are_explained(
    tiltmeter: Tiltmeter, tmp_path: Path, columns: dict[str, list[str]], sentence: str
) -> None:
    texts().with_columns(**{name: pl.Series(values) for name, values in columns.items()}).write_csv(
        tmp_path / "t.csv"
    )
    done = tiltmeter("analyse t.csv --out run", exits=2, says=sentence)
    assert "tiltmeter analyse t.csv --text story --group nation" in " ".join(done.stderr.split())
    assert not (tmp_path / "run").exists()


def test_a_table_without_groups_is_explained(tmp_path: Path) -> None:
    table = texts().select("id", "story")
    with pytest.raises(InputError, match="no column looks like that of their groups"):
        tm.analyse(table, out=tmp_path / "run")


def test_columns_are_asked_for_on_a_terminal(environment: dict[str, str], tmp_path: Path) -> None:
    texts().with_columns(sex=pl.Series(["m", "f"] * 100)).write_csv(tmp_path / "t.csv")
    command = [sys.executable, "-m", "tiltmeter", "analyse", str(tmp_path / "t.csv"), "--out", "run"]
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(tmp_path)
        os.execve(sys.executable, command, environment)
    answers = [b"7\n", b"1\n"]
    printed = b""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # the process has ended
            break
        if not piece:
            break
        printed += piece
        if answers and printed.count(b"Number, 1 to 3: ") == 3 - len(answers):
            os.write(terminal, answers.pop(0))
    os.waitpid(process, 0)
    words = printed.decode()
    assert "Which column has the group that each text is about?" in words
    assert "1  nation" in words
    assert "Strongest" in words
    assert set(tm.load(tmp_path / "run").table("lists")["identity"]) == set(NATIONS)


SPANISH = (
    "La persona es muy {} y trabaja en la ciudad con sus vecinos desde hace muchos años, porque le gusta la"
    " vida que tiene en el barrio."
)
GERMAN = (
    "Die Person ist sehr {} und arbeitet seit vielen Jahren mit den Nachbarn in der Stadt, weil ihr das Leben"
    " in dem Viertel sehr gut gefällt."
)


def test_the_language_of_texts_is_found_and_mixed_languages_are_said(
    tiltmeter: Tiltmeter, tmp_path: Path
) -> None:
    pytest.importorskip("simplemma")
    rows = [{"text": SPANISH.format(word), "group": group} for group in "ab" for word in TRAITS * 6]
    rows += [{"text": GERMAN.format(word), "group": group} for group in "ab" for word in TRAITS]
    pl.DataFrame(rows).write_csv(tmp_path / "t.csv")
    done = tiltmeter("analyse t.csv --out run", exits=0)
    said = " ".join(done.stderr.split())
    assert "the texts seem to be in Spanish and are read as such" in said
    assert "14% of the texts seem to be in German and are not counted" in said
    run = tm.load(tmp_path / "run")
    assert run.about["params"]["language"] == "es"
    lists = run.table("lists")
    assert lists.filter(status="missing").height == 2 * len(TRAITS)


def grouped(groups: int, of_each: int) -> pl.DataFrame:
    table = texts(groups * of_each).select(text="story")
    return table.with_columns(group=pl.format("group {}", pl.int_range(pl.len()) // of_each))


def test_many_groups_are_analysed_and_what_could_be_found_is_said_before_and_after(
    tiltmeter: Tiltmeter, tmp_path: Path
) -> None:
    grouped(120, 6).write_csv(tmp_path / "many.csv")
    done = tiltmeter("analyse", "many.csv", "-P", "encoder=none", "--out", "run")
    assert done.returncode == 0, done.stderr
    assert "the groups in 'group'" in done.stderr
    assert "cannot be found in the smallest group, which has 6" in done.stderr
    assert "120 groups: every concept is compared 120 times" in done.stderr
    assert "0 associated concepts found" in done.stdout
    assert "This is no evidence of equality: a concept in 10% of the others' descriptions" in done.stdout


def test_too_many_comparisons_are_refused_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = grouped(50, 6)
    with pytest.raises(InputError, match=r"50 groups have 2,450 ordered pairs.*give --against rest"):
        tm.analyse(table, text="text", group="group", params={"against": "each"}, out=tmp_path / "pairs")
    assert not (tmp_path / "pairs").exists()
    monkeypatch.setattr("tiltmeter.associations._group_sizes.MOST_COMPARISONS", 500)
    with pytest.raises(InputError, match=r"comparisons, more than 500; give -P minimum=50"):
        tm.analyse(table, text="text", group="group", out=tmp_path / "all")


@pytest.mark.parametrize(("column", "flag"), [("gender", "--by gender"), ("writer", "--cluster writer")])
def test_a_column_with_few_values_is_named_for_comparisons_within_them(
    column: str, flag: str, tiltmeter: Tiltmeter, tmp_path: Path
) -> None:
    table = texts(80).select("story", "nation", (pl.int_range(80) // 4 % 2).cast(pl.String).alias(column))
    table.write_csv(tmp_path / "texts.csv")
    done = tiltmeter("analyse", "texts.csv", "--text", "story", "--group", "nation", "--out", "run")
    assert done.returncode == 0, done.stderr
    assert flag in done.stderr
    assert done.stderr.count(f"{column!r}") == 1
