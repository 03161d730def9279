"""Comparisons of a user's texts: pairs, clusters, strata and a reference, checked by other computations."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom

from conftest import Tiltmeter
from tiltmeter.associations._significance import find_associations, shuffled_counts
from tiltmeter.associations._tables import LISTS
from tiltmeter.runs import load
from tiltmeter.schema import conform


def lists_of(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return LISTS and mentions of rows.

    Rows have the columns `identity`, `concepts` and any of `pair`, `context` and `cluster`.
    """
    numbered = rows.with_row_index("row").with_columns(
        attempt=pl.format("{}#0", "row"), character=pl.lit(0), status=pl.lit("listed")
    )
    stratum = pl.coalesce("pair", pl.lit("all")) if "pair" in rows.columns else pl.lit("all")
    mentions = (
        numbered.select("attempt", pl.col("character").cast(pl.Int8), concept="concepts")
        .explode("concept")
        .drop_nulls()
    )
    return conform(numbered.with_columns(stratum=stratum), LISTS), mentions


def paired(seed: int, pairs: int, correlation: float, effect: float) -> pl.DataFrame:
    """Return pairs of texts of two groups, of which some have the concept "warm".

    Members of a pair tend to share the concept. Group "W" has it more often.
    """
    draw = np.random.default_rng(seed)
    common, independent = draw.random(pairs), draw.random((2, pairs))
    chance = np.where(draw.random((2, pairs)) < correlation, common, independent)
    warm = np.stack([chance[0] < 0.3 + effect, chance[1] < 0.3])
    names = [f"p{number}" for number in range(pairs)]
    groups = []
    for group, members in zip("WM", warm, strict=True):
        concepts = [["warm"] if is_warm else [] for is_warm in members]
        groups.append(pl.DataFrame({"identity": group, "pair": names, "concepts": concepts}))
    return pl.concat(groups)


def test_pairs_are_tested_by_mcnemar() -> None:
    rows = paired(3, 400, 0.8, 0.12)
    associations = find_associations(*lists_of(rows)).filter(identity="W").row(0, named=True)
    has_concept = rows.with_columns(warm=pl.col("concepts").list.len() > 0)
    wide = has_concept.pivot("identity", index="pair", values="warm")
    more = int((wide["W"] & ~wide["M"]).sum())
    fewer = int((wide["M"] & ~wide["W"]).sum())
    assert associations["p"] == pytest.approx(binom.sf(more - 1, more + fewer, 0.5))
    assert associations["effect"] == pytest.approx((more - fewer) / 400)
    unpaired = find_associations(*lists_of(rows.drop("pair"))).filter(identity="W").row(0, named=True)
    assert associations["high"] - associations["low"] < 0.75 * (unpaired["high"] - unpaired["low"])
    assert associations["p"] < unpaired["p"]


def false_reports(rows: pl.DataFrame, comparisons: int = 2) -> tuple[int, bool]:
    """Return the number of false reports of single concepts, and whether any concept is reported.

    The number is that of concepts that would be reported if each were the only one of its study.
    """
    associations = find_associations(*lists_of(rows))
    smallest = associations.group_by("concept").agg(pl.col("p").min())
    return int((smallest["p"] < 0.05 / comparisons).sum()), bool(associations["reported"].any())


def test_no_more_than_the_nominal_share_of_pairs_without_an_effect_is_reported() -> None:
    studies = [paired(seed, 120, 0.8, 0.0) for seed in range(400)]
    concepts = [pl.when(pl.col(f"{seed}").list.len() > 0).then(pl.lit(f"warm {seed}")) for seed in range(400)]
    columns = (
        studies[0]
        .select("identity", "pair")
        .with_columns(**{f"{seed}": study["concepts"] for seed, study in enumerate(studies)})
    )
    rows = columns.select("identity", "pair", concepts=pl.concat_list(concepts).list.drop_nulls())
    alone, is_any_reported = false_reports(rows)
    assert alone <= 33
    assert not is_any_reported
    # Each pair has a text of each of four groups, and a random one of them has the concept. Tests of four
    # groups are less exact.
    holders = np.random.default_rng(5).integers(0, 4, (150, 400))
    texts = []
    for group in range(4):
        for pair in range(150):
            names = [f"x{number}" for number in np.flatnonzero(holders[pair] == group)]
            texts.append({"identity": str(group), "pair": f"p{pair}", "concepts": names})
    rows = pl.DataFrame(texts)
    alone, is_any_reported = false_reports(rows, comparisons=4)
    assert alone <= 48
    assert not is_any_reported


def test_shuffling_keeps_pairs_together() -> None:
    rows = paired(4, 300, 0.95, 0.15)
    lists, mentions = lists_of(rows)
    assert find_associations(lists, mentions)["reported"].any()
    assert shuffled_counts(lists, mentions, runs=40).sum() <= 4


def test_clusters_of_texts_widen_intervals() -> None:
    draw = np.random.default_rng(8)
    authors = [f"{group}{number}" for group in "AB" for number in range(30)]
    likes = dict(zip(authors, draw.random(60) < 0.35, strict=True))
    rows = pl.DataFrame(
        [
            {
                "identity": author[0],
                "cluster": author,
                "concepts": ["x"] if likes[author] != (draw.random() < 0.05) else [],
            }
            for author in authors
            for _ in range(20)
        ]
    )
    assert width_of_interval(rows) > 2.5 * width_of_interval(rows.drop("cluster"))


def width_of_interval(rows: pl.DataFrame) -> float:
    """Return the width of the interval of the first identity."""
    association = find_associations(*lists_of(rows)).sort("identity").row(0, named=True)
    return float(association["high"] - association["low"])


def by_authors(draw: np.random.Generator, number: int, texts: int, concepts: int = 1) -> pl.DataFrame:
    """Return texts by `number` authors for each of two groups, with 25 names each.

    The rates of the concepts "x0", ... differ between authors and not between groups.
    """
    rates = draw.beta(2, 2, (2, number, concepts))
    rows = []
    for group, of_authors in zip("AB", rates, strict=True):
        for author, of_concepts in enumerate(of_authors):
            for message in draw.random((texts, concepts)) < of_concepts:
                name = f"{group}-name-{draw.integers(25)}"
                rows.append(
                    (group, f"{group}{author}", name, [f"x{concept}" for concept in np.flatnonzero(message)])
                )
    return pl.DataFrame(rows, schema=["identity", "cluster", "name", "concepts"], orient="row")


def test_few_authors_cause_no_false_associations() -> None:
    """Eight authors for each group give at most the nominal share of false associations."""
    rows = by_authors(np.random.default_rng(3), 8, 25, concepts=400)
    for accounted in (rows, rows.drop("name")):
        alone, is_any_reported = false_reports(accounted)
        assert alone <= 33
        assert not is_any_reported
    alone, is_any_reported = false_reports(rows.drop("cluster"))
    assert alone > 120
    assert is_any_reported


def test_authors_and_names_both_widen_intervals() -> None:
    rows = by_authors(np.random.default_rng(5), 40, 15)
    assert width_of_interval(rows) > 1.5 * width_of_interval(rows.drop("cluster"))


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    """Letters of women and men for the same posts, by six authors."""
    draw = np.random.default_rng(2)
    rows = []
    for number in range(120):
        for name, group in (("Anna", "women"), ("Paul", "men")):
            trait = "warm" if draw.random() < (0.6 if group == "women" else 0.2) else "punctual"
            role = "She is a mother." if group == "women" and number % 4 == 0 else ""
            rows.append(
                (
                    group,
                    number,
                    f"author {number % 6}",
                    ("nurse", "clerk")[number % 2],
                    f"{name} is {trait}. {role}",
                )
            )
    table = pl.DataFrame(rows, schema=["group", "post", "author", "occupation", "text"], orient="row")
    table.write_csv(tmp_path / "letters.csv")
    return tmp_path / "letters.csv"


@pytest.mark.verify
def test_texts_are_compared_by_pair_stratum_cluster_and_reference(
    tiltmeter: Tiltmeter, tmp_path: Path, letters: Path
) -> None:
    plain = ("analyse", str(letters), "--study", "associations", "--text", "text", "--identity", "group")
    columns = ("--pair", "post", "--by", "occupation", "--cluster", "author", "--reference", "men")
    done = tiltmeter(*plain, *columns, "--out", "run")
    assert done.returncode == 0, done.stderr
    rows = load(tmp_path / "run").table("associations").filter("reported")
    assert set(rows.select("label", "identity", "against").rows()) == {
        ("warm", "women", "men"),
        ("punctual", "men", "women"),
    }
    assert set(rows["context"]) == {None, "nurse", "clerk"}
    assert re.search(r"women +warm +\S+ +men +2\d%", done.stdout), "the share of the reference is named"
    excluding = tiltmeter(*plain, "--out", "held")
    assert excluding.returncode == 0, excluding.stderr
    assert "mother" in tiltmeter("show held").stdout.partition("Excluded as definitional")[2]
    including = tiltmeter(*plain, "--keep-definitional", "--out", "kept")
    assert including.returncode == 0, including.stderr
    assert ("women", "mother") in load(tmp_path / "kept").findings.filter(metric="association").select(
        "group", "concept"
    ).rows()
    assert "Excluded as definitional" not in tiltmeter("show kept").stdout


@pytest.mark.verify
@pytest.mark.parametrize(
    ("options", "opponents"),
    [
        (("--against", "each"), {("a", "b"), ("a", "c"), ("b", "a"), ("b", "c"), ("c", "a"), ("c", "b")}),
        (("--reference", "c"), {("a", "c"), ("b", "c"), ("c", "a"), ("c", "b")}),
    ],
)
def test_three_groups_are_compared_with_each_other(
    tiltmeter: Tiltmeter, tmp_path: Path, options: tuple[str, ...], opponents: set[tuple[str, str]]
) -> None:
    words = {"a": "gardening", "b": "sailing", "c": "chess"}
    rows = [
        (group, f"She enjoyed {word if number % 2 else 'running'}.")
        for group, word in words.items()
        for number in range(100)
    ]
    pl.DataFrame(rows, schema=["group", "text"], orient="row").write_csv(tmp_path / "three.csv")
    tiltmeter(
        "analyse three.csv --study associations --text text --group group --out run --display none",
        *options,
        exits=0,
    )
    findings = load(tmp_path / "run").findings.filter(metric="association")
    assert set(findings.select("group", "group_2").iter_rows()) == opponents
    assert set(findings.select("group", "concept").iter_rows()) == {
        (group, f"enjoyed {word}") for group, word in words.items()
    }
    assert findings["attempts"].unique().to_list() == [100]
    assert "50%" in tiltmeter("show run").stdout
    labelled = tiltmeter("label run -n 5 -o labels.csv", exits=0)
    assert "responses written to labels.csv" in labelled.stdout + labelled.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--reference", "woman"), "there is no group 'woman' to compare with: did you mean women"),
        (("--against", "all"), "-P against must be 'rest' or 'each', found 'all'"),
        (("--pair", "group"), "--group and --pair name the same column 'group'"),
        (("--cluster", "autor"), "--cluster autor"),
        (("--reference", "men", "--definition", "paper"), "fixes what is compared"),
    ],
)
def test_mistakes_in_the_options_of_a_comparison_are_reported(
    tiltmeter: Tiltmeter, letters: Path, options: tuple[str, ...], message: str
) -> None:
    command = ("analyse", str(letters), "--study", "associations", "--text", "text", "--identity", "group")
    done = tiltmeter(*command, "--out", "run", *options)
    assert done.returncode == 2, done.stdout
    assert message in done.stderr.replace("\n", " ")


@pytest.mark.verify
def test_letters_of_women_and_men_for_the_same_post(
    tiltmeter: Tiltmeter, tmp_path: Path, shared: Path
) -> None:
    """Analyse 120 reference letters in 60 pairs.

    Differences and p-values are those of the discordant pairs, which are counted here from the evidence.
    """
    file = shared / "data" / "letters" / "clg_letters.csv"
    command = ("analyse", str(file), "--study", "associations", "--out", "run")
    columns = ("--text", "chatgpt_gen", "--identity", "gender", "--name", "name")
    pairs = ("--pair", "age", "--pair", "occupation")
    done = tiltmeter(*command, *columns, *pairs)
    assert done.returncode == 0, done.stderr
    run = load(tmp_path / "run")
    assert set(run.definitional.select("group", "concept").rows()) == {("female", "female"), ("male", "male")}
    texts = (
        pl.read_csv(file)
        .with_row_index("item")
        .select(attempt=pl.format("texts/{}#0", "item"), pair=pl.format("{}, {}", "age", "occupation"))
    )
    mentions = (
        run.table("mentions")
        .join(run.table("concepts").select("phrase", "concept"), on="phrase")
        .join(texts, on="attempt")
    )
    tested = run.table("associations").filter(pl.col("p").is_not_null(), pl.col("p") < 1)
    assert tested.height > 100
    for row in tested.head(300).iter_rows(named=True):
        holds = mentions.filter(concept=row["concept"])
        of_identity = pl.col("identity") == row["identity"]
        of_group = set(holds.filter(of_identity)["pair"])
        of_opponents = set(holds.filter(~of_identity)["pair"])
        more, fewer = len(of_group - of_opponents), len(of_opponents - of_group)
        assert row["effect"] == pytest.approx((more - fewer) / 60)
        assert row["p"] == pytest.approx(binom.sf(more - 1, more + fewer, 0.5))
        assert row["low"] <= row["effect"] <= row["high"]
        if row["reported"]:  # the odds ratio of discordant pairs
            assert more / max(fewer, 0.5) > 2
            assert row["low"] > 0
