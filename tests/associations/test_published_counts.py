"""The released numbers of the original, from the integer counts behind them."""

from __future__ import annotations

import json
from itertools import zip_longest
from pathlib import Path

import polars as pl
import pytest
from scipy.stats import chi2_contingency

from tiltmeter.associations._definitions import BADF_CODE, PAPER
from tiltmeter.associations._significance import compare_counts

RELATIVE = 1e-9
RELEASED = {name: f"two1_QWEN3-32B_sim_{name}_all_summ_base.csv" for name in ("race", "religions")}
SETTINGS = {
    "base": "two1_QWEN3-32B_sim_gender_cb20_base.csv",
    "negative": "two1_QWEN3-32B_gender_simple3_sim_gender_simple3_all_summ.csv",
    "single": "one_QWEN3-32B_gender_sim_gender__all_summ.csv",
}
PUBLISHED = {
    "Location Category": "loc",
    "Demographic Identity": "id",
    "Phrase": "phrase",
    "Score": "score",
    "P-Value": "p",
}


def released(shared: Path, name: str) -> pl.DataFrame:
    return pl.read_csv(shared / "data" / "badf" / name).select(
        pl.col(old).alias(new) for old, new in PUBLISHED.items()
    )


def gender_counts(shared: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return recovered rows of two identities, and the counts of both identities of each row.

    A context is a location of a setting.
    """
    rows = pl.read_csv(shared / "golden" / "badf" / "recovered_counts_gender.csv")
    rows = rows.with_columns(context=pl.format("{}/{}", "setting", "loc"), identity="id", concept="phrase")
    mentions = rows.group_by("context", "identity").agg(
        mentions=pl.col("n_mentions").first(), kinds=pl.col("n_mentions").n_unique()
    )
    assert (mentions["kinds"] == 1).all()
    first_counts = rows.select("context", "concept", "identity", count="a", lists="n_lists")
    opposite = pl.col("identity").replace_strict({"female": "male", "male": "female"})
    second_counts = rows.select("context", "concept", opposite, count="c", lists="n_lists")
    counts = pl.concat([first_counts, second_counts]).unique(
        ["context", "concept", "identity"], maintain_order=True
    )
    return rows, counts.join(
        mentions.drop("kinds"), on=["context", "identity"], how="left", maintain_order="left"
    )


def hidden_counts(
    present: list[int], *, identities: int, least: int, total: int, lists: int, p: float
) -> list[int]:
    """Return the counts of the identities without a released row.

    At least one count is the smallest. All counts together give the total and p.
    """
    absent, remainder = identities - len(present), total - sum(present)
    if absent == 0:
        return []
    if absent == 1:
        candidates = [[remainder]]
    elif absent == 2:
        candidates = [[least, remainder - least]]
    else:
        candidates = [[least, count, remainder - least - count] for count in range(least, remainder // 2 + 1)]
    for hidden in candidates:
        table = [[a, lists - a] for a in present + hidden]
        if abs(chi2_contingency(table).pvalue / p - 1) < RELATIVE:
            return hidden
    raise AssertionError(f"no counts give {p}")


def four_identity_counts(shared: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return rows and counts of four identities, as `gender_counts` does.

    Counts of identities without a released row are computed, and mentions follow from the released scores.
    """
    rows = pl.read_csv(shared / "golden" / "badf" / "recovered_counts_4id.csv")
    scores = pl.concat(released(shared, name).with_columns(cat=pl.lit(cat)) for cat, name in RELEASED.items())
    rows = rows.join(scores.drop("p"), on=["cat", "loc", "id", "phrase"], how="left", maintain_order="left")
    rows = rows.with_columns(context=pl.format("{}/{}", "cat", "loc"), identity="id", concept="phrase")
    assert rows["score"].null_count() == 0
    mentions = rows.group_by("context", "identity").agg(
        mentions=((pl.col("a") - pl.col("min")) / pl.col("score")).median().round(0)
    )
    names = {cat: sorted(rows.filter(pl.col("cat") == cat)["id"].unique()) for cat in RELEASED}
    counts = []
    for (cat, context, concept), group in rows.group_by("cat", "context", "concept", maintain_order=True):
        cell = group.row(0, named=True)
        present = dict(group.select("id", "a").iter_rows())
        hidden = hidden_counts(
            list(present.values()),
            identities=4,
            least=cell["min"],
            total=cell["total"],
            lists=cell["n"],
            p=cell["p"],
        )
        absent = [name for name in names[str(cat)] if name not in present]
        pairs = [*present.items(), *zip_longest(absent, hidden)]
        counts += [(context, concept, name, count, cell["n"]) for name, count in pairs]
    table = pl.DataFrame(counts, schema=["context", "concept", "identity", "count", "lists"], orient="row")
    return rows, table.join(mentions, on=["context", "identity"], how="left", maintain_order="left")


def assert_as_released(rows: pl.DataFrame, counts: pl.DataFrame) -> None:
    scored = compare_counts(counts, BADF_CODE).select(
        "context", "concept", "identity", ours="score", our_p="p", ours_reported="reported"
    )
    both = rows.join(scored, on=["context", "concept", "identity"], how="left")
    assert both["ours"].null_count() == 0
    for computed, published in (("ours", "score"), ("our_p", "p")):
        assert ((both[computed] / both[published] - 1).abs() < RELATIVE).all()
    assert both["ours_reported"].all()


def test_released_scores_and_p_of_two_identities_are_reproduced(shared: Path) -> None:
    rows, counts = gender_counts(shared)
    assert rows.height == 1579
    assert_as_released(rows, counts)


@pytest.mark.parametrize("setting", SETTINGS)
def test_recovered_counts_give_the_scores_of_the_released_files(shared: Path, setting: str) -> None:
    rows, counts = gender_counts(shared)
    rows = rows.filter(pl.col("setting") == setting)
    table = released(shared, SETTINGS[setting])
    again = rows.drop("score", "p").join(table, on=["loc", "id", "phrase"])
    assert again.height == table.height == rows.height
    assert_as_released(again, counts)


@pytest.mark.verify
def test_released_scores_and_p_of_four_identities_are_reproduced(shared: Path) -> None:
    rows, counts = four_identity_counts(shared)
    assert rows.height == 5582
    assert_as_released(rows, counts)
    assert counts.group_by("context", "concept").len()["len"].unique().to_list() == [4]


def test_golden_cases_of_two_identities_are_reproduced(shared: Path) -> None:
    cases = json.loads((shared / "golden" / "badf" / "unit_cases.json").read_text())["gender_2x2_yates"]
    for case in cases:
        opposite = "male" if case["id"] == "female" else "female"
        cells = {
            "identity": [case["id"], opposite],
            "count": [case["a"], case["c"]],
            "lists": case["n_lists"],
            "mentions": case["n_mentions"],
        }
        counts = pl.DataFrame({"context": case["loc"], "concept": case["phrase"]} | cells)
        row = compare_counts(counts, BADF_CODE).row(0, named=True)
        assert (row["score"], row["p"]) == pytest.approx((case["score"], case["p"]), rel=RELATIVE)


def test_golden_cases_of_four_identities_are_reproduced(shared: Path) -> None:
    cases = json.loads((shared / "golden" / "badf" / "unit_cases.json").read_text())["four_identity_4x2"]
    assert len(cases) == 4
    for case in cases:
        present, least = list(case["counts"].values()), case["min_count_of_unlisted"]
        hidden = hidden_counts(
            present, identities=4, least=least, total=case["total"], lists=case["n"], p=case["p"]
        )
        cells = {
            "identity": [f"identity {place}" for place in range(4)],
            "count": present + hidden,
            "lists": case["n"],
        }
        counts = pl.DataFrame({"context": case["loc"], "concept": case["phrase"]} | cells)
        counts = counts.with_columns(mentions=pl.lit(None, pl.Int64))
        scored = compare_counts(counts, PAPER)
        assert scored["p"].to_list() == pytest.approx([case["p"]] * 4, rel=RELATIVE)
        assert scored["score"].to_list() == pytest.approx(
            [(a - min(present + hidden)) / case["n"] for a in present + hidden]
        )


def test_the_concept_nervous_has_the_expected_values_under_every_definition(shared: Path) -> None:
    counts = gender_counts(shared)[1].filter(context="base/law policy", concept="nervous")
    female = pl.col("identity") == "female"
    code = compare_counts(counts, BADF_CODE).filter(female).row(0, named=True)
    paper = compare_counts(counts, PAPER).filter(female).row(0, named=True)
    assert (code["count"], code["lists"], code["mentions"]) == (337, 900, 6017)
    assert (code["score"], paper["score"]) == pytest.approx((0.0432109024430779, 260 / 900), rel=RELATIVE)
    assert code["p"] == paper["p"] == pytest.approx(1.10654e-47, rel=1e-5)
    default = compare_counts(counts).filter(female).row(0, named=True)
    assert 0.25 < default["low"] < 260 / 900 < default["high"] < 0.33
    # For two identities, twice the one-sided test is the published test.
    assert (default["reported"], default["effect"], default["p"]) == (
        True,
        pytest.approx(260 / 900),
        pytest.approx(code["p"], rel=1e-9),
    )


@pytest.mark.verify
def test_published_associations_of_identities_without_the_highest_count_are_rarely_reported(
    shared: Path,
) -> None:
    rows, counts = four_identity_counts(shared)
    keys = ["context", "concept", "identity"]
    judged = rows.select(*keys, "a", "max").join(compare_counts(counts).drop("count"), on=keys, how="left")
    behind = judged.filter(pl.col("a") < pl.col("max"))
    assert behind.height / judged.height == pytest.approx(0.55, abs=0.02)
    assert behind["reported"].sum() < 0.01 * behind.height
    assert (judged.filter("reported")["effect"] > 0).all()
    assert judged["reported"].sum() > 0
