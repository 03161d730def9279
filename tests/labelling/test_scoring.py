"""Accuracy of the steps of associations: published and strict scores, sheets, and mistakes in a sample."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tiltmeter.errors import InputError
from tiltmeter.labelling.scoring import SampleScores, score_sample


@pytest.fixture(scope="module")
def golden(shared: Path) -> Any:
    return json.loads((shared / "golden" / "badf" / "evaluation_metrics.json").read_text())


@pytest.fixture(scope="module")
def lists(shared: Path) -> SampleScores:
    return score_sample(shared / "data" / "badf" / "Sample_eva.csv")


@pytest.fixture(scope="module")
def decisions(shared: Path) -> SampleScores:
    return score_sample(shared / "data" / "badf" / "sample_phrase_filter_res.csv")


def figure(scores: SampleScores, step: str, metric: str) -> dict[str, Any]:
    return scores.figures.filter(step=step, metric=metric).row(0, named=True)


def estimates(scores: SampleScores, step: str) -> dict[str, float | None]:
    """The estimate of each metric of a step."""
    return dict(scores.figures.filter(step=step).select("metric", "estimate").iter_rows())


def test_published_scores_of_the_lists(lists: SampleScores, golden: dict[str, Any]) -> None:
    typed = golden["sample_eva"]
    for step, metric, key in (
        ("extraction", "recall (macro)", "recall_macro"),
        ("extraction", "precision (macro)", "precision_macro"),
        ("decomposition", "accuracy (macro)", "decomposition_accuracy_macro"),
    ):
        row = figure(lists, step, metric)
        assert (row["typed"], row["n"], typed["rows"]) == (pytest.approx(typed[key], rel=1e-11), 50, 50)
    for metric in ("homogeneity", "completeness", "v_measure"):
        assert figure(lists, "unifying", metric)["typed"] == typed[f"{metric}_typed"]
    unifying = estimates(lists, "unifying")
    assert unifying["v_measure"] == pytest.approx(typed["v_measure_from_h_c"], rel=1e-12)
    assert unifying["homogeneity"] is None


def test_strict_scores_of_the_lists(lists: SampleScores, golden: dict[str, Any]) -> None:
    strict, expected = golden["sample_eva"]["strict_string_recompute"], golden["sample_eva"]
    for step, metric, key in (
        ("extraction", "recall (macro)", "recall"),
        ("extraction", "precision (macro)", "precision"),
        ("decomposition", "accuracy (macro)", "decomp"),
        ("extraction", "recall (micro)", "micro_recall"),
        ("extraction", "precision (micro)", "micro_precision"),
        ("decomposition", "accuracy (micro)", "micro_decomp"),
    ):
        row = figure(lists, step, metric)
        assert round(row["estimate"], 4) == strict[key]
        assert 0.8 < row["low"] < row["estimate"] < row["high"] <= 1
        assert "stories" in row["interval"]
    assert estimates(lists, "extraction")["phrases"] == expected["concepts_total_stage1"]
    assert estimates(lists, "decomposition").items() >= {
        ("phrases", expected["concepts_total_final"]),
        ("phrases per story", expected["concepts_per_story_final"]),
        ("phrases per character", expected["concepts_per_character_final"]),
        ("unique phrases", expected["unique_final_lower"]),
    }


def test_typed_scores_that_the_lists_do_not_give_are_named(lists: SampleScores) -> None:
    misread = lists.disagreements.filter(step="extraction", metric="recall")
    assert misread["row"].to_list() == [3, 5, 7, 10, 12, 21, 23, 47, 49]
    # Row 3: one of John's fourteen phrases in the two lists was replaced, which was typed as precision 14/15
    # and recall 1.
    assert misread.select("typed", "recomputed").row(0) == (1, pytest.approx(13 / 14))
    assert lists.disagreements["row"].max() == 51


def test_published_scores_of_the_exclusivity_filter(decisions: SampleScores, golden: dict[str, Any]) -> None:
    expected = golden["filter"]
    names = {
        "accuracy": "accuracy_recomputed", "precision": "precision", "recall": "recall",
        "accuracy of always no": "always_no_baseline", "true positives": "tp", "false negatives": "fn",
        "false positives": "fp", "true negatives": "tn",
    }  # fmt: skip
    exclusivity = estimates(decisions, "exclusivity")
    assert {metric: exclusivity[metric] for metric in names} == pytest.approx(
        {metric: expected[key] for metric, key in names.items()}, rel=1e-12
    )
    kappa = figure(decisions, "exclusivity", "Cohen's kappa")
    assert round(kappa["estimate"], 4) == expected["cohen_kappa"]
    assert 0 < kappa["low"] < kappa["estimate"] < kappa["high"] <= 1
    accuracy = figure(decisions, "exclusivity", "accuracy")
    assert (accuracy["typed"], accuracy["n"]) == (expected["accuracy_from_RES_column"], expected["n"])
    # Wilson's interval of 97 in 100, by hand: (97 + z2/2 -+ z sqrt(97 * 3 / 100 + z2 / 4)) / (100 + z2).
    assert (accuracy["low"], accuracy["high"]) == pytest.approx((0.9154806, 0.9897453), abs=1e-6)
    assert decisions.disagreements.select("row", "about", "typed", "recomputed").rows() == [
        (10, "Afro-textured hair", 1.0, 0.0)
    ]


def test_scores_of_a_sheet_of_lists(tmp_path: Path) -> None:
    rows = [
        ("a", "Ann", ["Calm ", "kind", "kind"], ["calm", "brave"], [], []),
        ("a", "Bob", ["tall"], ["tall"], ["x", "y"], ["x"]),
        ("b", "Ann", [], ["at  ease", "shy"], ["z"], ["z"]),
    ]
    lists = dict.fromkeys(("found", "truth", "decomposed", "decomposed_truth"), pl.List(pl.String))
    table = pl.DataFrame(rows, schema={"story": pl.String, "character": pl.String, **lists}, orient="row")
    table.write_parquet(tmp_path / "s.parquet")
    table.with_columns(pl.col(pl.List(pl.String)).list.join("; ")).write_csv(tmp_path / "s.csv")
    table.write_ndjson(tmp_path / "s.jsonl")
    for suffix in ("parquet", "csv", "jsonl"):
        scores = score_sample(tmp_path / f"s.{suffix}")
        extraction, decomposition = estimates(scores, "extraction"), estimates(scores, "decomposition")
        # Story a: Ann has "calm" in both lists of 2, Bob has the same single phrase in both. No phrase of
        # story b is found, so it has a recall but no precision.
        values = [extraction[name] for name in ("recall (macro)", "recall (micro)", "precision (macro)")]
        assert values == pytest.approx([(2 / 3 + 0) / 2, 2 / 5, 2 / 3])
        assert (decomposition["accuracy (macro)"], decomposition["phrases"]) == pytest.approx(
            ((1 / 2 + 1) / 2, 3)
        )
        assert scores.disagreements.is_empty()


def test_scores_of_a_perfect_sample_have_an_interval(tmp_path: Path) -> None:
    stories = [f"{number},Ann,calm; kind,kind; Calm" for number in range(20)]
    (tmp_path / "s.csv").write_text("\n".join(["story,character,found,truth", *stories]))
    row = figure(score_sample(tmp_path / "s.csv"), "extraction", "recall (macro)")
    # Clopper and Pearson at 20 of 20.
    assert (row["estimate"], row["low"], row["high"]) == (1.0, pytest.approx(0.025 ** (1 / 20)), 1.0)


def test_scores_of_a_sheet_of_decisions(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text(
        "concept,truth,found\nmale,yes,yes\ncalm,no,no\nobserves Ramadan,Yes,no\nshy,NO,no\n"
    )
    scores = score_sample(tmp_path / "s.csv")
    values = estimates(scores, "exclusivity")
    assert [values[name] for name in ("accuracy", "recall", "Cohen's kappa")] == pytest.approx(
        [0.75, 0.5, 0.5], rel=1e-12
    )
    assert figure(scores, "exclusivity", "accuracy")["typed"] is None


def test_scores_of_a_sheet_of_gold_clusters(tmp_path: Path) -> None:
    # Six phrases: one of the three gold clusters is split in two, the others are found complete.
    pairs = [("calm", "a", "calm"), ("serene", "a", "calm"), ("composed", "a", "composed")]
    pairs += [("shy", "b", "shy"), ("timid", "b", "shy"), ("tall", "c", "tall")]
    table = pl.DataFrame(pairs, schema=["phrase", "gold", "concept"], orient="row")
    table.write_csv(tmp_path / "s.csv")
    table.drop("concept").write_csv(tmp_path / "gold.csv")
    table.select("phrase", "concept", mentions=1).reverse().write_parquet(tmp_path / "concepts.parquet")
    scores = score_sample(tmp_path / "s.csv")
    values = estimates(scores, "unifying")
    # Entropy of the classes over that of the clusters, since each cluster lies within one class.
    classes = entropy([3 / 6, 2 / 6, 1 / 6])
    clusters = entropy([2 / 6, 2 / 6, 1 / 6, 1 / 6])
    assert (values["homogeneity"], values["completeness"]) == pytest.approx((1, classes / clusters))
    assert (values["b_cubed_precision"], values["b_cubed_recall"]) == pytest.approx(
        (1, (2 * 2 / 3 + 1 / 3 + 2 + 1) / 6)
    )
    for row in scores.figures.head(6).iter_rows(named=True):
        assert 0 <= row["low"] <= row["estimate"] <= row["high"] <= 1
        assert row["low"] < row["high"]
    assert score_sample(tmp_path / "gold.csv", concepts=tmp_path / "concepts.parquet").figures.equals(
        scores.figures
    )


def entropy(shares: list[float]) -> float:
    return -sum(share * math.log(share) for share in shares)


@pytest.mark.verify
def test_intervals_of_clusterings_cover_the_value_of_a_large_sample(tmp_path: Path) -> None:
    """Draw samples of gold clusters whose phrases are misplaced with a probability of 0.15.

    About nine intervals in ten contain the value of a very large sample.
    """
    rng = np.random.default_rng(7)

    def draw(clusters: int) -> pl.DataFrame:
        sizes = rng.integers(1, 8, clusters)
        gold = np.repeat(np.arange(clusters), sizes)
        strays = rng.random(gold.size) < 0.15
        concept = np.where(strays, gold.size + np.arange(gold.size), gold)
        return pl.DataFrame({"phrase": np.arange(gold.size), "gold": gold, "concept": concept})

    def recall(table: pl.DataFrame) -> dict[str, Any]:
        table.write_csv(tmp_path / "s.csv")
        return figure(score_sample(tmp_path / "s.csv"), "unifying", "b_cubed_recall")

    truth = recall(draw(3_000))["estimate"]
    rows = [recall(draw(40)) for _ in range(20)]
    covered = [row["low"] <= truth <= row["high"] for row in rows]
    assert sum(covered) >= 16


SHEET = "prompt,1_summ,2_summ_combine,1_ans,2_ans,recall_1,precision_1,accuracy_2\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot be read"),
        ("story,character,found,truth\n", "contains no rows"),
        ("a,b\n1,2\n", "is not an annotated sample: it needs the columns story, character, read, label"),
        ("story,character,found,truht\na,Ann,calm,calm\n", "has no column 'truth': did you mean truht"),
        ("story,character\na,Ann\n", "has no column 'found'"),
        ("story,found,truth\na,calm,calm\n", "has no column 'character'"),
        ("story,character,decomposed\na,Ann,calm\n", "has no column 'decomposed_truth'"),
        ("story,character,found,truth\na,Ann,calm,calm\na,Ann,shy,shy\n", "row 3 repeats row 2"),
        ("concept,truth,found\nmale,yes,perhaps\n", "row 2, column 'found': 'perhaps' is neither yes nor no"),
        ("concept,truth\nmale,yes\n", "has no column 'found'"),
        (
            "phrase,gt,filter_res,RES\nmale,YES,YES,2\n",
            "row 2, column 'RES': '2' is not a whole number from 0 to 1",
        ),
        ("phrase,gt,filter_res,RES\nmale,YES,,1\n", "row 2, column 'filter_res': '' is neither yes nor no"),
        (
            "phrase,gold\nmale,1\n",
            "has no column 'concept': add the concept of each phrase, or give the table of a run",
        ),
        ("phrase,gold,concept\nmale,1,\n", "row 2, column 'concept' is empty"),
        ("phrase,gold,concept\nmale,1,a\nmale,1,a\n", "row 3 repeats row 2"),
        ("prompt,1_summ,1_ans\nx,a: b,a: b\n", "has no column '2_summ_combine'"),
        (
            SHEET + "p,Ann: a,Ann: a,Ann: a,Ann: a,1,1,many\n",
            "row 2, column 'accuracy_2': 'many' is not a number from 0 to 1",
        ),
        (
            SHEET + "p,Ann: a,Ann: a,Ann: a,Ann: a,1,1.5,1\n",
            "row 2, column 'precision_1': '1.5' is not a number from 0 to 1",
        ),
        (
            SHEET + "p,Ann a; b,Ann: a,Ann: a,Ann: a,1,1,1\n",
            "row 2, column '1_summ': 'Ann a; b' has no character name before a colon",
        ),
        (SHEET + ",Ann: a,Ann: a,Ann: a,Ann: a,1,1,1\n", "row 2, column 'prompt': '' is empty"),
        (
            SHEET + 'p,"Ann: a\nAnn: b",Ann: a,Ann: a,Ann: a,1,1,1\n',
            "row 2, column '1_summ': 'Ann: b' is a second list of the character",
        ),
    ],
)
def test_a_mistake_in_a_sample_is_reported_with_the_file(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "s.csv").write_text(text)
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        score_sample(tmp_path / "s.csv")
    assert "s.csv" in str(caught.value)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_sheets_with_read_and_label_give_the_same_scores_as_earlier_columns(
    tmp_path: Path, suffix: str
) -> None:
    earlier = {
        "lists": "story,character,found,truth,decomposed,decomposed_truth\n"
        "a,Ann,calm; kind,calm,kind,kind\nb,Ann,shy,at ease,x,y\n",
        "decisions": "concept,truth,found\nmale,yes,yes\ncalm,no,yes\n",
        "clusters": "phrase,gold,concept\ncalm,1,calm\nserene,1,calm\nshy,2,shy\n",
    }
    current = {
        "lists": "story,character,step,read,label\n"
        "a,Ann,extraction,calm; kind,calm\nb,Ann,extraction,shy,at ease\n"
        "a,Ann,decomposition,kind,kind\nb,Ann,decomposition,x,y\n",
        "decisions": "concept,label,read\nmale,yes,yes\ncalm,no,yes\n",
        "clusters": "phrase,label,read\ncalm,1,calm\nserene,1,calm\nshy,2,shy\n",
    }
    for kind, text in earlier.items():
        (tmp_path / "earlier.csv").write_text(text)
        table = pl.read_csv(current[kind].encode(), infer_schema=False)
        sample = tmp_path / f"{kind}{suffix}"
        if suffix == ".csv":
            table.write_csv(sample)
        elif suffix == ".jsonl":
            table.write_ndjson(sample)
        else:
            table.write_parquet(sample)
        assert score_sample(sample).figures.equals(score_sample(tmp_path / "earlier.csv").figures)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("story,character,read\na,Ann,calm\n", "has no column 'label'"),
        ("story,character,step,read,label\na,Ann,filter,calm,calm\n", "'filter' is neither extraction nor"),
        ("story,character,read,label\na,Ann,calm,calm\na,Ann,shy,shy\n", "row 3 repeats row 2"),
        ("concept,read,label\nmale,perhaps,yes\n", "row 2, column 'read': 'perhaps' is neither yes nor no"),
        ("phrase,label\nmale,1\n", "has no column 'read': add the concept of each phrase"),
        (
            "model,part,prompt_id,stratum,label\nm,p,1,all,yes\n",
            "is a sample of the responses of a run; add its labels to the run",
        ),
    ],
)
def test_mistakes_in_sheets_with_read_and_label_are_reported(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "s.csv").write_text(text)
    with pytest.raises(InputError, match=re.escape(message)):
        score_sample(tmp_path / "s.csv")
