"""`tiltmeter swap`: suggested slots in files, folders and tables."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from conftest import Tiltmeter
from tiltmeter.designs.slots import read_prompts

LETTER = "Emily Jones is a nurse. She works at night.\n\nHis wife says he is late.\n"


def test_a_text_file_is_copied_with_slots(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "prompts.txt").write_text(LETTER, encoding="utf-8")
    printed = tiltmeter("swap prompts.txt", exits=0).stdout
    marked = (tmp_path / "prompts.marked.txt").read_text(encoding="utf-8")
    assert marked == (
        "{first_name} {last_name} is a nurse. {She/He/They} {works/work} at night.\n\n"
        "{His/Her/Their} wife says {he/she/they} {is/are} late.\n"
    )
    assert printed.startswith("prompts.marked.txt written, with 7 slots in 2 of 2 prompts.\n")
    assert "- line 3, “wife”: another person?" in printed
    assert "tiltmeter plan prompts.marked.txt --swap gender --prompts read.csv" in printed
    assert (tmp_path / "prompts.txt").read_text(encoding="utf-8") == LETTER


def test_nothing_is_overwritten(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "prompts.txt").write_text(LETTER)
    (tmp_path / "prompts.marked.txt").write_text("mine")
    tiltmeter("swap prompts.txt", exits=2, says="prompts.marked.txt exists; choose another name")
    tiltmeter("swap prompts.txt -o prompts.txt", exits=2, says="prompts.txt exists")
    assert (tmp_path / "prompts.marked.txt").read_text() == "mine"
    tiltmeter("swap prompts.txt -o other.txt", exits=0)
    assert (tmp_path / "other.txt").is_file()


def test_tables_and_folders_keep_their_form(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("prompt,expected\nIs she late?,yes\nIs it late?,no\n")
    printed = tiltmeter("swap table.csv", exits=0).stdout
    table = pl.read_csv(tmp_path / "table.marked.csv")
    assert table.columns == ["prompt", "expected"]
    assert table["prompt"].to_list() == ["{Is/Are} {she/he/they} late?", "Is it late?"]
    assert "1 prompt has no slot yet" in printed
    folder = tmp_path / "letters"
    folder.mkdir()
    (folder / "one.txt").write_text("Ask him.\n")
    tiltmeter("swap letters", exits=0)
    assert read_prompts(tmp_path / "letters.marked")["prompt"].to_list() == ["Ask {him/her/them}."]


def test_prompts_without_a_person_get_an_example(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "prompts.txt").write_text("The chair is broken.\n")
    printed = tiltmeter("swap prompts.txt", exits=0).stdout
    assert "no words about a person found in prompts.txt; nothing is written" in printed
    assert "{{a Muslim/a Christian}} asks for a loan." in printed
    assert not (tmp_path / "prompts.marked.txt").exists()


def test_mistakes_are_named(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n\n")
    (tmp_path / "other.csv").write_text("text\nhello\n")
    tiltmeter("swap nowhere.csv", exits=2, says="there is no file nowhere.csv")
    tiltmeter("swap nowhere.txt", exits=2, says="cannot read the prompts nowhere.txt")
    tiltmeter("swap empty.txt", exits=2, says="contains no prompts")
    tiltmeter("swap other.csv", exits=2, says="has no column 'prompt'")


def test_a_noun_of_another_person_is_not_marked(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("She is a waitress. My last landlord says that she pays on time.\n")
    output = tiltmeter("swap letter.txt", exits=0).stdout
    marked = (tmp_path / "letter.marked.txt").read_text()
    assert "My last landlord says" in marked
    assert "{{waitress/waiter/server}}" in marked
    assert "“landlord”: another person?" in output
    assert "“waitress”: marked; is it the person of the prompt?" in output
