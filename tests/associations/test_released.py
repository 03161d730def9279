"""Released BADF results: tables of the paper, mistakes in files, and analysis of the recovered counts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from tiltmeter.associations.paper_tables import by_location, summary, top
from tiltmeter.associations.released import read_counts, read_released, reanalyse
from tiltmeter.associations.released._published import COUNTED, complete_counts, counts_behind
from tiltmeter.errors import InputError
from tiltmeter.stats import benjamini_hochberg, independence_p

SETS = ["base__gender", "base__race", "base__religions", "negative__gender", "single__gender"]


def golden(shared: Path, name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((shared / "golden" / "badf" / f"{name}.json").read_text())
    return document


def counts_file(shared: Path, name: str) -> Path:
    return (
        shared / "golden" / "badf" / f"recovered_counts_{'gender' if name.endswith('gender') else '4id'}.csv"
    )


def published(shared: Path, name: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    return read_released(shared / "data" / "badf" / golden(shared, name)["file"]), read_counts(
        counts_file(shared, name)
    )


@pytest.mark.parametrize("name", SETS)
def test_summaries_of_released_files_equal_the_published_ones(shared: Path, name: str) -> None:
    expected, table = golden(shared, name), published(shared, name)[0]
    assert table.height == expected["rows"]
    by_name = {row.pop("identity"): row for row in summary(table).drop("scope").to_dicts()}
    assert set(by_name) == set(expected["identities"])
    for identity, figures in expected["identities"].items():
        figures = {key: value for key, value in figures.items() if not key.startswith("paper")}
        assert figures.pop("count") == by_name[identity].pop("count")
        assert by_name[identity] == pytest.approx(figures, rel=1e-12, abs=0)


@pytest.mark.parametrize("name", SETS)
def test_top_tens_of_released_files_equal_the_published_ones(shared: Path, name: str) -> None:
    expected, table = golden(shared, name), published(shared, name)[0]
    columns = {"context": "location", "concept": "phrase", "score": "score", "p": "p"}
    overall = top(table).select("context", "identity", "concept", "score", "p")
    assert overall.rename({"context": "location", "concept": "phrase"}).to_dicts() == expected["top10"]
    each = top(table, each_identity=True)
    for identity, rows in expected["top10_by_identity"].items():
        own_rows = each.filter(pl.col("identity") == identity).select(*columns).rename(columns)
        assert own_rows.to_dicts() == rows
    assert each.height == 10 * len(expected["top10_by_identity"])


@pytest.mark.parametrize("name", SETS)
def test_counts_by_location_of_released_files_equal_the_published_ones(shared: Path, name: str) -> None:
    expected = golden(shared, name)["by_identity_location"]
    cells = {(who, where): count for who, counts in expected.items() for where, count in counts.items()}
    rows = by_location(published(shared, name)[0]).select("identity", "context", "count").rows()
    assert {(who, where): count for who, where, count in rows} == cells


HEADER = "Location Category,Demographic Identity,Phrase,Score,P-Value,Prompt Response"


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join((HEADER, *lines)) + "\n")
    return path


def test_exclusive_rows_are_no_associations(tmp_path: Path) -> None:
    file = write(
        tmp_path / "r.csv",
        "media,female,calm,0.2,0.01,NO",
        "media,male,a man,0.9,0.001,YES",
        "law,male,tall,0.1,0.04,no",
    )
    table = read_released(file)
    assert table["exclusive"].to_list() == [False, True, False]
    assert summary(table).select("identity", "count", "max_score").rows() == [
        ("female", 1, 0.2),
        ("male", 1, 0.1),
    ]
    assert top(table)["concept"].to_list() == ["calm", "tall"]
    assert by_location(table).rows() == [
        ("female", "media", 1),
        ("female", "law", 0),
        ("male", "media", 0),
        ("male", "law", 1),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("media,female,calm,much,0.01,NO", "row 3, column 'Score': 'much' is not a number of at least 0"),
        ("media,female,calm,nan,0.01,NO", "row 3, column 'Score'"),
        ("media,female,calm,inf,0.01,NO", "row 3, column 'Score'"),
        ("media,female,calm,-0.1,0.01,NO", "row 3, column 'Score'"),
        ("media,female,calm,0.1,1.01,NO", "row 3, column 'P-Value': '1.01' is not a number from 0 to 1"),
        ("media,female,calm,0.1,,NO", "row 3, column 'P-Value'"),
        (
            "media,female,calm,0.1,0.01,maybe",
            "row 3, column 'Prompt Response': 'maybe' is neither YES nor NO",
        ),
        ("media,,calm,0.1,0.01,NO", "row 3, column 'Demographic Identity' is empty"),
        ("media,male,tall,0.1,0.01,NO", "row 3 repeats row 2"),
        ("media,male,tall,0.1,0.01,NO,more", "cannot be read"),
    ],
)
def test_a_wrong_value_in_a_released_file_is_reported_with_its_row(
    tmp_path: Path, line: str, message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        read_released(write(tmp_path / "r.csv", "media,male,tall,0.1,0.02,NO", line))
    assert "r.csv" in str(caught.value)


def test_a_file_that_is_no_released_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "short.csv").write_text(HEADER.replace("Score", "Scores") + "\na,b,c,0.1,0.1,NO\n")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00\x01\x02")
    write(tmp_path / "header.csv")
    for name, message in (
        ("none.csv", "there is no file"),
        ("empty.csv", "cannot be read"),
        ("short.csv", "has no column 'Score': did you mean Scores"),
        ("bytes.csv", r"bytes\.csv"),
        ("header.csv", "contains no rows"),
        ("", "there is no file"),
    ):
        with pytest.raises(InputError, match=message):
            read_released(tmp_path / name)


def test_inconsistent_recovered_counts_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "c.csv"
    race = "setting,cat,loc,id,phrase,a,min,max,total,n,p\nbase,race,media,x,calm,9,0,4,9,10,0.01\n"
    gender = "setting,cat,loc,id,phrase,a,c,n_lists,p\nbase,gender,media,x,calm,9.5,0,10,0.01\n"
    for text, message in (
        (race, "'count': 9 is inconsistent with the smallest, largest"),
        (gender, r"'a': '9\.5' is not a whole number"),
    ):
        file.write_text(text)
        with pytest.raises(InputError, match=r"c\.csv, row 2, column " + message):
            read_counts(file)


@pytest.mark.parametrize("name", SETS)
def test_recovered_counts_are_completed_to_the_published_p_values(shared: Path, name: str) -> None:
    expected = golden(shared, name)
    block = counts_behind(*published(shared, name), None, None)
    assert (block["setting"][0], block["category"][0]) == (expected["setting"], expected["category"])
    complete = complete_counts(block)
    assert complete["count"].null_count() == 0
    for where, who, mentions, lists in (
        complete.select("context", "identity", "mentions", "lists").unique().iter_rows()
    ):
        assert (mentions, lists) == (
            expected["score_denominator_mentions"][where][who],
            expected["lists_per_identity"][where],
        )
    # Sums of squares were used for a few concepts only; the p-values of all concepts must be reproduced.
    cells = complete.group_by("context", "concept").agg("count", pl.col("lists").first())
    again = cells.with_columns(
        again=pl.Series(
            independence_p(np.array(cells["count"].to_list()), cells["lists"].to_numpy()[:, None])
        )
    )
    both = block.join(again, on=["context", "concept"])
    assert both.height == expected["rows"]
    assert both["again"].to_numpy() == pytest.approx(both["p"].to_numpy(), rel=1e-9, abs=0)


def test_completed_counts_contain_the_published_hidden_counts(shared: Path) -> None:
    for case in json.loads((shared / "golden" / "badf" / "unit_cases.json").read_text())["four_identity_4x2"]:
        if case["setting"] == "base":
            complete = complete_counts(counts_behind(*published(shared, f"base__{case['cat']}"), None, None))
            cell = complete.filter(context=case["loc"], concept=case["phrase"])
            counts = dict(cell.select("identity", "count").iter_rows())
            assert {name: counts.pop(name) for name in case["counts"]} == case["counts"]
            assert list(counts.values()) == [case["min_count_of_unlisted"]]


@pytest.mark.parametrize("name", SETS)
def test_facts_and_rules_equal_those_counted_from_the_file(shared: Path, name: str) -> None:
    """Count the facts again from the file of recovered counts."""
    expected = golden(shared, name)
    raw = pl.read_csv(counts_file(shared, name), infer_schema_length=None).filter(
        setting=expected["setting"], cat=expected["category"]
    )
    if "c" in raw.columns:
        raw = raw.with_columns(max=pl.max_horizontal("a", "c"), total=pl.col("a") + pl.col("c"), k=pl.lit(2))
    else:
        raw = raw.with_columns(k=pl.lit(4))
    analysed_tables = reanalyse(*published(shared, name))
    facts = {
        "not_highest": pl.col("a") < pl.col("max"),
        "single": pl.col("a") == 1,
        "needs_exact": pl.col("total") / pl.col("k") < 5,
    }
    rules = {"highest": pl.col("a") == pl.col("max"), "support": pl.col("a") >= 5, "published": pl.lit(True)}
    for identity in (None, *expected["identities"]):
        own_rows = raw if identity is None else raw.filter(pl.col("id") == identity)
        for table, kind, expressions in (
            (analysed_tables.facts, "fact", facts),
            (analysed_tables.rules, "rule", rules),
        ):
            row = {
                row[kind]: row
                for row in table.filter(pl.col("identity").eq_missing(pl.lit(identity))).iter_rows(named=True)
            }
            for key, expression in expressions.items():
                assert (row[key]["rows"], row[key]["of"]) == (
                    own_rows.filter(expression).height,
                    own_rows.height,
                )


def test_shares_of_facts_about_four_identities_are_those_of_the_specification(shared: Path) -> None:
    """Just over half of the published rows of four identities name one without the highest count."""
    entries = [
        reanalyse(*published(shared, name)).facts.filter(pl.col("identity").is_null())
        for name in ("base__race", "base__religions")
    ]
    both = pl.concat(entries).group_by("fact").agg(pl.col("rows", "of").sum())
    shares = {row["fact"]: row["rows"] / row["of"] for row in both.iter_rows(named=True)}
    assert shares == pytest.approx({"not_highest": 0.562, "single": 0.135, "needs_exact": 0.521}, abs=5e-4)


SimulatedRelease = tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame, np.ndarray[Any, Any]]


def simulated_release(seed: int, k: int, concepts: int, hide: float) -> SimulatedRelease:
    """Draw a study: its released rows, recovered counts, complete counts and the p-value of every test."""
    rng = np.random.default_rng(seed)
    lists = 120
    rates = rng.beta(0.5, 8, (concepts, 1)) * rng.choice([1.0, 1.0, 1.0, 3.0], (concepts, k))
    counts = rng.binomial(lists, np.clip(rates, 0, 1))
    counts = counts[counts.sum(axis=1) > 0]
    names = [f"identity {place}" for place in range(k)]
    mentions = counts.sum(axis=0) + rng.integers(0, 5, k)
    p = independence_p(counts, lists)
    rows, cells = [], []
    for place, cell in enumerate(counts):
        least, about = int(cell.min()), {"context": "media", "concept": f"concept {place}"}
        for number, name in enumerate(names):
            cells.append(about | {"identity": name, "count": int(cell[number])})
            if p[place] < 0.05 and cell[number] > least and rng.random() >= hide:
                score = (int(cell[number]) - least) / int(mentions[number])
                numbers = {
                    "least": least,
                    "greatest": int(cell.max()),
                    "total": int(cell.sum()),
                    "lists": lists,
                    "identities": k,
                }
                rows.append(
                    about
                    | {"identity": name, "count": int(cell[number]), "score": score, "p": float(p[place])}
                    | numbers
                )
    complete = pl.DataFrame(cells).join(
        pl.DataFrame({"identity": names, "mentions": mentions}), on="identity", maintain_order="left"
    )
    table = pl.DataFrame(rows).with_columns(
        setting=pl.lit("base"), category=pl.lit("any"), exclusive=pl.lit(False)
    )
    return (
        table.select("context", "identity", "concept", "score", "p", "exclusive"),
        table.select(*COUNTED),
        complete,
        p,
    )


@settings(max_examples=10)
@given(st.integers(0, 10_000), st.sampled_from([2, 3, 4]), st.sampled_from([0.0, 0.3]))
def test_hidden_counts_of_simulated_studies_are_recovered(seed: int, k: int, hide: float) -> None:
    released, recovered, truth, _ = simulated_release(seed, k, 300, hide if k > 2 else 0.0)
    complete = complete_counts(counts_behind(released, recovered, None, None))
    both = complete.join(
        truth, on=["context", "concept", "identity"], how="left", suffix="_true", maintain_order="left"
    )
    assert both.filter(pl.col("known") & (pl.col("count") != pl.col("count_true"))).is_empty()
    cells = both.group_by("concept").agg(pl.col("count", "count_true").sort())
    assert cells["count"].equals(cells["count_true"], check_names=False)
    assert both["mentions"].equals(both["mentions_true"].cast(pl.Int64), check_names=False)
    assert hide > 0 or complete["known"].all()


@settings(max_examples=10)
@given(st.integers(0, 10_000), st.sampled_from([2, 4]))
def test_false_discovery_control_includes_unreleased_tests(seed: int, k: int) -> None:
    """Give the number of tests: the verdicts are those of Benjamini and Hochberg on all p-values."""
    released, recovered, truth, p = simulated_release(seed, k, 400, 0.0)
    analysed_tables = reanalyse(released, recovered, tests=len(p))
    concepts = pl.DataFrame(
        {"concept": truth["concept"].unique(maintain_order=True), "q_whole": benjamini_hochberg(p)}
    )
    both = analysed_tables.associations.join(concepts, on="concept", maintain_order="left")
    assert both["fdr"].to_list() == (both["q_whole"] < 0.05).to_list()
    assert both["fdr_released"].all()
    assert (analysed_tables.families.bound or 0) >= len(p)
    # Without the number, the largest possible family selects no more.
    bounded = reanalyse(released, recovered)
    assert bounded.families.used == analysed_tables.families.bound
    assert (bounded.associations["fdr"] <= analysed_tables.associations["fdr"]).all()


def test_rules_give_the_verdicts_computed_by_hand() -> None:
    """Analyse four identities with 100 lists each.

    The concept calm is concentrated on one identity, shy on two with equal counts, and rare is in three lists
    of one.
    """
    cells = {"calm": [40, 10, 8, 5], "shy": [30, 30, 2, 1], "rare": [3, 0, 0, 0], "tall": [1, 1, 1, 20]}
    rows = []
    for concept, counts in cells.items():
        least = min(counts)
        of_concept = {
            "concept": concept,
            "p": float(independence_p([counts], 100)[0]),
            "least": least,
            "greatest": max(counts),
            "total": sum(counts),
        }
        for name, count in zip("abcd", counts, strict=True):
            if count > least:
                rows.append(of_concept | {"identity": name, "count": count, "score": (count - least) / 500})
    table = pl.DataFrame(rows).with_columns(
        context=pl.lit("media"),
        exclusive=pl.lit(False),
        setting=pl.lit("s"),
        category=pl.lit("c"),
        identities=pl.lit(4),
        lists=pl.lit(100),
    )
    analysed_tables = reanalyse(
        table.select("context", "identity", "concept", "score", "p", "exclusive"),
        table.select(*COUNTED),
        tests=10,
    )
    verdicts = {
        (row["concept"], row["identity"]): row for row in analysed_tables.associations.iter_rows(named=True)
    }
    # The default definition selects no identity if two have equal counts.
    alone, tied = {("calm", "a"), ("tall", "d")}, {("shy", "a"), ("shy", "b")}
    for rule, selected in (
        ("highest", alone | tied | {("rare", "a")}),
        ("together", alone | tied),
        ("default", alone),
    ):
        assert {key for key, row in verdicts.items() if row[rule]} == selected
    rare = verdicts["rare", "a"]
    assert (rare["fdr_released"], rare["support"], rare["exact"], rare["needs_exact"]) == (
        True,
        False,
        False,
        True,
    )
    assert rare["p"] < 0.05 < rare["p_exact"]
    calm, behind = verdicts["calm", "a"], verdicts["calm", "b"]
    assert (verdicts["shy", "a"]["leader"], behind["leader"], behind["leader_rate"]) == (None, "a", 0.4)
    assert calm["effect"] == pytest.approx(0.4 - 23 / 300)
    assert calm["low"] < calm["effect"] < calm["high"]


def test_exclusive_rows_are_not_reanalysed(shared: Path) -> None:
    released, counts = published(shared, "base__gender")
    marked = released.with_columns(exclusive=pl.col("concept") == "nervous")
    analysed_tables = reanalyse(marked, counts)
    assert (
        analysed_tables.associations.height == released.height - marked["exclusive"].sum() < released.height
    )
    assert analysed_tables.families == reanalyse(released, counts).families


def complaint(released: pl.DataFrame, counts: pl.DataFrame, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        reanalyse(released, counts, **options)
    return str(caught.value)


def test_counts_that_do_not_belong_to_the_released_file_are_refused(shared: Path) -> None:
    released, counts = published(shared, "base__gender")
    race_counts = read_counts(counts_file(shared, "base__race"))
    assert "the counts do not contain all 444 released rows" in complaint(released, race_counts)
    assert "nearest: base gender, 442 rows" in complaint(
        released, counts.filter(pl.col("concept") != "emotionally affected")
    )
    assert "the counts do not contain" in complaint(released, counts, setting="single")
    assert "--setting 'open' matches no row of the counts" in complaint(released, counts, setting="open")
    assert "--tests 9: the released rows alone are from 444 tests" in complaint(released, counts, tests=9)
    twice = pl.concat([counts, counts.with_columns(setting=pl.lit("again"))])
    assert (
        "choose one with --setting base --category gender or --setting again --category gender"
        in complaint(released, twice)
    )
    assert reanalyse(released, twice, setting="again").setting == "again"
    off = counts.with_columns(
        pl.col("count", "greatest", "total") + (pl.col("concept") == "nervous").cast(pl.Int64)
    )
    other_score = (
        r"the counts of 'nervous' for 'female' in '[a-z ]+' give score 0\.0\d+ and p .+, "
        r"but 0\.0\d+ and .+ were released"
    )
    assert re.search(other_score, complaint(released, off))
    apart = counts.with_columns(pl.col("count") + (pl.col("concept") == "nervous").cast(pl.Int64))
    assert "'nervous' in 'healthcare' has hidden counts that cannot be determined" in complaint(
        released, apart
    )
    lost = released.filter((pl.col("context") != "media") | (pl.col("identity") == "male"))
    assert "give --tests N" in complaint(lost, counts)
    assert reanalyse(lost, counts, tests=50_000).families.bound is None
