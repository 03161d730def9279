"""Texts with the names of the people described: attribution, missing lists, definitional concepts, labels."""

from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from conftest import Tiltmeter
from tiltmeter import stats
from tiltmeter.associations._extraction_words import extract
from tiltmeter.associations._tables import STORIES
from tiltmeter.blocks import Callout, Table, Text
from tiltmeter.runs import Run, load

WHITE = ["Christopher Miller", "Emily Sanders", "Jack O'Brien", "Claire van Dyck", "Hannah Becker"]
HISPANIC = ["Maria Lopez", "Juan Pérez", "Sofia de la Cruz", "Diego Ramírez", "Elena García Ruiz"]


def analysed(
    tiltmeter: Tiltmeter, tmp_path: Path, texts: pl.DataFrame, *flags: str
) -> tuple[Run, subprocess.CompletedProcess[str]]:
    texts.write_csv(tmp_path / "texts.csv")
    columns = ["--text", "text", "--identity", "group"]
    if "name" in texts.columns:
        columns += ["--name", "name"]
    encoder = () if any(flag.startswith("encoder=") for flag in flags) else ("-P", "encoder=none")
    command = ("analyse", "texts.csv", "--study", "associations")
    done = tiltmeter(*command, *columns, *encoder, "--out", "run", *flags)
    assert done.returncode == 0, done.stderr
    return load(tmp_path / "run"), done


def read(texts: Sequence[tuple[str, str]]) -> list[tuple[str, set[str]]]:
    """Return the status and the phrases of the list of each (name, text), in their order."""
    rows = [
        {"attempt": str(number), "character": 0, "name": name, "text": text}
        for number, (name, text) in enumerate(texts)
    ]
    stories = pl.DataFrame(rows, schema=dict(STORIES))
    lists, mentions = extract(stories, stories.select("attempt", prompt=pl.lit("")))
    return [
        (status, set(mentions.filter(attempt=attempt)["phrase"]))
        for attempt, status in lists.select("attempt", "status").iter_rows()
    ]


DESCRIPTIONS = [
    # In the first person, with different introductions.
    (
        "Christopher",
        "My name is Christopher and I am a patient carpenter. I keep bees. My brother is rude.",
        {"patient", "carpenter"},
    ),
    (
        "Emily Sanders",
        "Hello! I'm Emily Sanders, and I am proud of my garden. I volunteer at a shelter.",
        {"volunteer at a shelter"},
    ),
    ("Wei Zhang", "Wei Zhang\n\nI am a shy engineer. I love chess.", {"shy", "engineer", "love chess"}),
    (
        "Aisha Khan",
        "I am a generous neighbour and a strict teacher.\n\nWarm regards,\nAisha Khan",
        {"generous"},
    ),
    ("Samuel", "My friends call me Samuel. I am thoughtful. My wife says that she is shy.", {"thoughtful"}),
    (
        "Juan Perez",
        '"My name is Juan Perez. I am a loyal friend and I keep a diary."',
        {"loyal", "friend", "keep a diary"},
    ),
    # By the surname alone, after the full name.
    (
        "Joseph Kelly",
        "I recommend Joseph Kelly. Kelly is diligent. Dr. Kelly mentors students.",
        {"diligent", "mentors students"},
    ),
    (
        "Joseph",
        "I recommend Joseph Kelly. Kelly is diligent. Professor Kelly mentors students.",
        {"diligent", "mentors students"},
    ),
    (
        "Sofia de la Cruz",
        "Sofia de la Cruz arrived. De la Cruz repairs clocks. Cruz is brave.",
        {"repairs clocks", "brave"},
    ),
    ("Kelly, Joseph", "Joseph Kelly came in. Kelly is diligent.", {"diligent"}),
    ("JOSEPH KELLY", "Joseph Kelly came in. Kelly's patience is famous. Kelly is diligent.", {"diligent"}),
    ("Mary Young", "Young people came in. Mary Young waved. Young plays chess.", {"plays chess"}),
    ("Boyd", "I met Sasha Boyd. Sasha designs costumes. She is kind.", {"designs costumes", "kind"}),
]


def test_a_named_person_is_recognised_in_the_first_person_and_by_the_surname() -> None:
    lists = read([(name, text) for name, text, _ in DESCRIPTIONS])
    for (name, text, expected), (status, phrases) in zip(DESCRIPTIONS, lists, strict=True):
        assert status == "listed", (name, text)
        assert expected <= phrases, (name, text)
        assert "rude" not in phrases, "of another person"
        assert "shy" not in phrases or name != "Samuel", "of another person"


def test_concepts_of_another_person_with_the_name_or_in_the_first_person_are_not_read() -> None:
    texts = [
        ("Joseph Kelly", "Joseph Kelly is patient. Emma Kelly is rude."),
        ("Kelly", "I am a lazy professor and I recommend Kelly. Kelly is patient."),
        ("Anna", '"My name is Tom and I am rude," he said. Anna was patient.'),
        ("Kelly", "I'm Kelly's manager. I am rude. Kelly is patient."),
    ]
    for status, phrases in read(texts):
        assert status == "listed"
        assert phrases - {"manager"} == {"patient"}


def test_texts_without_the_person_are_missing_and_texts_without_a_concept_are_empty(
    tiltmeter: Tiltmeter, tmp_path: Path
) -> None:
    texts = [
        "Everybody knows Christopher. I am a brave sailor. I love the sea.",  # "I" may be another person
        "Mark is a brave sailor.",
        "Christopher was there. The sea was calm.",
        "Christopher is brave.",
    ]
    run, _ = analysed(
        tiltmeter,
        tmp_path,
        pl.DataFrame({"name": "Christopher", "text": texts, "group": ["a", "b", "a", "b"]}),
    )
    assert run.table("lists")["status"].to_list() == ["missing", "missing", "empty", "listed"]
    shares = dict(run.findings.filter(metric="missing").select("group", "estimate").iter_rows())
    assert shares == {"a": 0.5, "b": 0.5, None: 0.5}
    note = run.finding("associations").values["note"]
    assert note == (
        "nothing was compared: no concept is in at least 5 descriptions;"
        " 2 of 4 character descriptions are missing"
    )


def biographies(named: dict[str, float], each: int, seed: int = 7) -> pl.DataFrame:
    """Return biographies in the third person; `named` is the share of each group that names its person."""
    draw = np.random.default_rng(seed)
    names = {"white": WHITE, "hispanic": HISPANIC}
    rows = []
    for group, share in named.items():
        for _ in range(each):
            name = str(draw.choice(names[group]))
            mentioned = name if draw.random() < share else "Alex"
            trait = str(draw.choice(["patient", "witty", "stubborn"]))
            rows.append((group, name, f"{mentioned} is {trait}. {mentioned} keeps a diary."))
    return pl.DataFrame(rows, schema=["group", "name", "text"], orient="row")


@pytest.mark.parametrize(("hispanic", "differs"), [(0.96, True), (0.66, False)])
def test_shares_of_missing_lists_are_shown_by_identity_with_a_warning_if_they_differ(
    tiltmeter: Tiltmeter, tmp_path: Path, hispanic: float, differs: bool
) -> None:
    texts = biographies({"white": 0.66, "hispanic": hispanic}, 150)
    run, _ = analysed(tiltmeter, tmp_path, texts)
    lost = (
        texts.with_columns(lost=pl.col("text").str.starts_with("Alex"))
        .group_by("group")
        .agg(pl.col("lost").sum(), every=pl.len())
    )
    counts = {group: (gone, every) for group, gone, every in lost.iter_rows()}
    screen = tiltmeter("show", "run").stdout
    for row in run.findings.filter(metric="missing").drop_nulls("group").iter_rows(named=True):
        gone, every = counts[row["group"]]
        expected = (gone / every, every, every - gone, every - gone)
        assert (row["estimate"], row["attempts"], row["answered"], row["items"]) == expected
        assert f"{100 * gone / every:.0f}%" in screen
    warned = "the share of missing descriptions differs between groups"
    message = screen.replace("\n", " ")
    assert (warned in message) == differs
    assert ("no difference between groups was shown (chi-squared test" in message) != differs
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert (
        "character descriptions are missing (most frequent reason: the story does not name the person)"
        in page
    )
    assert (warned in page) == differs
    (block,) = [
        block
        for block in run.blocks()
        if isinstance(block, Text | Callout) and "descriptions are missing (most" in block.text
    ]
    assert isinstance(block, Callout) == differs
    # Missing lists are not counted: all other lists contain the diary.
    diary = run.table("associations").filter(concept="keeps a diary")
    assert dict(diary.select("identity", "lists").iter_rows()) == {
        group: every - gone for group, (gone, every) in counts.items()
    }
    assert (diary["rate"] == 1).all()


def test_few_missing_lists_are_tested_by_permutation() -> None:
    a, n = np.array([6, 0]), np.array([12, 12])
    # Fisher's exact test, two-sided: 2 * C(12, 6) * C(12, 0) / C(24, 6).
    assert stats.permuted_independence_p(a, n, seed=3) == pytest.approx(2 * 924 / 134596, abs=0.003)
    assert stats.permuted_independence_p(np.array([1, 1, 1]), np.array([9, 9, 9]), seed=3) == 1.0
    under_the_null = np.random.default_rng(2).binomial(40, 0.08, (300, 2))
    small = [
        stats.permuted_independence_p(counts, np.array([40, 40]), draws=199, seed=1) <= 0.05
        for counts in under_the_null
    ]
    assert np.mean(small) < 0.08


def family_texts() -> pl.DataFrame:
    """Return letters in which a third of the men are family men and a third of the women mothers."""
    rows = []
    for i in range(120):
        trait = ("diligent", "curious", "calm", "witty")[i % 4]
        is_parent = i % 3 == 0
        man = "He is a family man. He repairs clocks." if is_parent else "He is a writer."
        woman = "She is a mother." if is_parent else "She is a writer."
        rows += [
            ("male", f"Joseph is {trait}. {man}", "Joseph"),
            ("female", f"Kelly is {trait}. {woman}", "Kelly"),
        ]
    return pl.DataFrame(rows, schema=["group", "text", "name"], orient="row")


def test_definitional_concepts_are_listed_and_not_counted_as_chance(
    tiltmeter: Tiltmeter, tmp_path: Path
) -> None:
    run, _ = analysed(tiltmeter, tmp_path, family_texts(), "-P", "shuffle=descriptor")
    assert set(run.findings.filter(metric="association")["concept"]) == {"repairs clocks"}, (
        "definitional concepts are not reported"
    )
    definitional = [("female", "mother"), ("male", "family man"), ("male", "man")]
    counts = "in 40 of 120 descriptions (33.3%); "
    assert set(run.definitional.select("group", "concept").rows()) == set(definitional)
    assert run.definitional["concept"].n_unique() == 3
    screen = tiltmeter("show", "run").stdout
    for words in (
        "definitional",
        counts,
        "family man",
        "mother",
        "it contains the term “man”",
    ):
        assert words in screen
    (table,) = [block for block in run.blocks() if isinstance(block, Table) and "definitional" in block.title]
    columns = {column.name: list(column.values) for column in table.columns}
    assert sorted(zip(columns["group"], columns["concept"], columns["counts"], strict=True)) == [
        ("female", "mother", f"{counts}male 0 of 120 (0.0%)"),
        ("male", "family man", f"{counts}female 0 of 120 (0.0%)"),
        ("male", "man", f"{counts}female 0 of 120 (0.0%)"),
    ]
    listed = [
        row
        for row in json.loads(tiltmeter("show", "run", "--format", "json").stdout)
        if row["metric"] == "definitional"
    ]
    assert {(row["group"], row["concept"]) for row in listed} == set(definitional)
    assert all(row["attempts"] == 120 and "by definition" in row["reason"] for row in listed)
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "family man" in page.partition("Excluded as definitional")[2]
    # With one descriptor per identity, every permutation of descriptors has the definitional concepts again.
    total = run.finding("associations").values
    assert (total["estimate"], total["null_value"], total["p"]) == (1, 1, 1), (
        "definitional concepts are not counted as chance either"
    )


@pytest.mark.verify
def test_the_p_of_a_count_can_be_small_with_one_descriptor_per_identity(
    tiltmeter: Tiltmeter, tmp_path: Path
) -> None:
    deeds = {
        "female": ("keeps a diary", "paints houses", "sings"),
        "male": ("repairs clocks", "trains dogs", "skates"),
    }
    draw = np.random.default_rng(5)
    people = family_texts().select("group", "name").rows()
    more = [
        "".join(f" {name} {deed}." for deed in deeds[group] if draw.random() < 0.5) for group, name in people
    ]
    run, _ = analysed(tiltmeter, tmp_path, family_texts().with_columns(text=pl.col("text") + pl.Series(more)))
    total = run.finding("associations").values
    assert (total["estimate"], total["p"]) == (6, pytest.approx(0.001))


@pytest.mark.verify
def test_the_items_of_a_finding_are_its_usable_texts(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    bees = (
        pl.when(pl.col("group") == "white")
        .then(pl.col("text").str.replace("a diary", "bees"))
        .otherwise("text")
    )
    texts = biographies({"white": 0.66, "hispanic": 0.9}, 100).with_columns(text=bees)
    run, _ = analysed(tiltmeter, tmp_path, texts)
    usable = dict(texts.filter(~pl.col("text").str.starts_with("Alex")).group_by("group").len().iter_rows())
    single = run.findings.filter(metric="association")
    assert set(single["concept"]) == {"keeps bees", "keeps a diary"}
    for group, items, attempts in single.select("group", "items", "attempts").iter_rows():
        assert items == attempts == usable[group]
    total, white = run.finding("associations"), run.finding("associations", group="white")
    assert (total.values["items"], white.values["items"]) == (sum(usable.values()), usable["white"])


@pytest.mark.verify
def test_an_association_is_labelled_by_the_most_frequent_phrase_of_its_identity(
    tiltmeter: Tiltmeter, tmp_path: Path, encoder: Path
) -> None:
    """Call women courageous and men brave: one concept, with a different label for each identity."""
    rows = []
    for i in range(200):
        women = ["courageous"] * 6 + ["brave"] + ["tired"] * 3
        men = ["brave"] * 2 + ["hungry"] * 8
        rows += [
            ("female", f"Anna is {women[i % 10]}. Anna has short light brown hair."),
            ("male", f"Paul is {men[i % 10]}. Paul has dark hair."),
        ]
    rows += [("male", "Paul is brave.")] * 120 + [("female", "Anna is courageous.")] * 200
    table = pl.DataFrame(rows, schema=["group", "text"], orient="row").with_columns(
        name=pl.col("text").str.split(" ").list.first()
    )
    run, _ = analysed(tiltmeter, tmp_path, table, "-P", f"encoder={encoder}")
    concepts = dict(run.table("concepts").select("phrase", "concept").iter_rows())
    assert concepts["courageous"] == concepts["brave"]
    single = run.findings.filter(metric="association")
    members = run.table("mentions").join(run.table("concepts").select("phrase", "concept"), on="phrase")
    for row in run.table("associations").filter("reported").iter_rows(named=True):
        phrases = members.filter(concept=row["concept"], identity=row["identity"])["phrase"]
        assert row["label"] in phrases.mode().to_list()
    assert "courageous" in single.filter(group="female")["concept"].to_list()
    behind = run.evidence("association", concept="courageous", group="female")
    assert behind.height > 0
    assert all(sentences for sentences in behind["sentences"].to_list())
    dark = [phrase for phrase, concept in concepts.items() if concept == concepts.get("has dark hair")]
    assert not any("light" in phrase for phrase in dark)


def test_intervals_are_too_narrow_if_stories_contrast_their_characters() -> None:
    """Check the statement of docs/associations.md about stories with two characters."""
    draw = np.random.default_rng(1)
    stories, p = 1000, 0.4
    chance = draw.random((2000, stories))
    contrasted = (chance < p).sum(axis=1), ((chance >= p) & (chance < 2 * p)).sum(axis=1)
    alike = draw.random((2000, stories)) < 0.8
    shared = (
        (chance < p).sum(axis=1),
        np.where(alike, chance < p, draw.random((2000, stories)) < p).sum(axis=1),
    )
    cover = []
    for first, second in (contrasted, shared):
        interval = stats.rate_difference(first, stories, second, stories)
        cover.append(float(((interval.low <= 0) & (interval.high >= 0)).mean()))
    assert cover[0] < 0.91 < 0.98 < cover[1]


def test_unequal_shares_of_texts_without_a_description_give_a_warning(
    tiltmeter: Tiltmeter, tmp_path: Path
) -> None:
    """Texts that do not name the person are missing and not empty: they lower no share."""
    unnamed, texts = {"Hispanic": 0.15, "white": 0.05}, []
    for group, names in (("Hispanic", HISPANIC), ("white", WHITE)):
        for number in range(400):
            name = names[number % len(names)]
            text = f"{name} came by. {name} is patient."
            if number < 400 * unnamed[group]:
                text = "A neighbour came by and was patient."
            texts.append({"group": group, "name": name, "text": text})
    run, _ = analysed(tiltmeter, tmp_path, pl.DataFrame(texts))
    missing = run.findings.filter(metric="missing")
    assert dict(missing.drop_nulls("group").select("group", "estimate").iter_rows()) == pytest.approx(unnamed)
    (warned,) = [
        block.text for block in run.blocks() if isinstance(block, Callout) and "are missing" in block.text
    ]
    assert "80 of 800 character descriptions are missing" in warned
    tests = run.table("tests").filter(concept="patient")
    assert tests.select((pl.col("count") == pl.col("lists")).all()).item(), (
        "each description contains the concept; missing ones are not counted"
    )


@pytest.mark.verify
def test_the_same_texts_in_other_formats_give_the_same_findings(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    sentences = [
        ("women", "She is a kind nurse. Her hobby is chess."),
        ("men", "He is a strong carpenter. His hobby is chess."),
    ] * 15
    texts = pl.DataFrame(sentences, schema=["group", "text"], orient="row")
    texts.write_csv(tmp_path / "texts.csv")
    (tmp_path / "texts.csv.gz").write_bytes(gzip.compress((tmp_path / "texts.csv").read_bytes()))
    texts.write_excel(tmp_path / "texts.xlsx")
    for number, (group, text) in enumerate(sentences):
        path = tmp_path / "essays" / group / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    entries = []
    for place in ("texts.csv", "texts.csv.gz", "texts.xlsx", "essays"):
        columns = ("--study", "associations", "--text", "text", "--group", "group", "-P", "encoder=none")
        done = tiltmeter("analyse", place, *columns, "--out", f"run-{place}")
        assert done.returncode == 0, done.stderr
        run = load(tmp_path / f"run-{place}")
        assert place in (tmp_path / f"run-{place}" / "run.json").read_text()
        entries.append(
            sorted(run.key_findings.drop_nulls("concept").select("group", "concept", "estimate").rows())
        )
    assert {concept for _, concept, _ in entries[0]} == {"kind nurse", "strong carpenter"}
    assert all(rows == entries[0] for rows in entries)


def test_damaged_files_and_folders_without_texts_are_refused_in_one_sentence(
    tiltmeter: Tiltmeter, tmp_path: Path
) -> None:
    (tmp_path / "texts.xlsx").write_text("no workbook")
    (tmp_path / "texts.csv.gz").write_text("not compressed")
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(b"group,text\n" + b"women,she is kind\n" * 500)[:40])
    (tmp_path / "empty").mkdir()
    (tmp_path / "latin" / "women").mkdir(parents=True)
    (tmp_path / "latin" / "women" / "1.txt").write_bytes("Sie ist müde.".encode("latin-1"))
    for place, words in (
        ("texts.xlsx", "texts.xlsx cannot be read"),
        ("texts.csv.gz", "texts.csv.gz cannot be read"),
        ("cut.csv.gz", "cut.csv.gz cannot be read"),
        ("empty", "empty is a folder without text files"),
        ("latin", "1.txt cannot be read"),
    ):
        columns = ("--study", "associations", "--text", "text", "--group", "group")
        done = tiltmeter("analyse", place, *columns, "--out", "run")
        assert done.returncode == 2
        assert words in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
        assert not (tmp_path / "run").exists()
