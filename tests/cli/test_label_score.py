"""`tiltmeter label SAMPLE --score`: figures of annotated samples, and messages about mistakes in a sample."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from conftest import Tiltmeter


def test_old_name_scores_several_samples_and_names_its_successor(shared: Path, tiltmeter: Tiltmeter) -> None:
    lists = shared / "data" / "badf" / "Sample_eva.csv"
    decisions = shared / "data" / "badf" / "sample_phrase_filter_res.csv"
    done = tiltmeter("validate", lists, decisions, "-f", "json", exits=0)
    assert "use: tiltmeter label SAMPLE --score" in done.stderr
    first, second = json.loads(done.stdout)
    assert (first["sample"], first["level"]) == ("Sample_eva.csv", 0.95)
    (recall,) = [
        row for row in first["figures"] if (row["step"], row["metric"]) == ("extraction", "recall (macro)")
    ]
    assert (round(recall["typed"], 4), round(recall["estimate"], 4)) == (0.9856, 0.9889)
    (accuracy,) = [row for row in second["figures"] if row["metric"] == "accuracy"]
    assert (accuracy["step"], accuracy["estimate"], accuracy["typed"]) == ("exclusivity", 0.97, 0.98)
    assert len(first["disagreements"]) == 30
    assert second["disagreements"] == [
        {
            "row": 10,
            "about": "Afro-textured hair",
            "step": "exclusivity",
            "metric": "decision right",
            "typed": 1.0,
            "recomputed": 0.0,
        }
    ]


def test_the_table_shows_values_intervals_and_units(shared: Path, tiltmeter: Tiltmeter) -> None:
    done = tiltmeter("label", shared / "data" / "badf" / "Sample_eva.csv", "--score", exits=0)
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    recall = (
        "extraction recall (macro) 0.9889 0.9787 … 0.9968 0.9856 50 stories "
        "bootstrap percentiles, 2,000 resamples of stories"
    )
    assert recall in lines
    assert "decomposition unique phrases 517 50 stories none: a count" in lines
    assert "Figures stated in the sheet that differ from those computed from its rows:" in lines
    assert "3 extraction recall 1.0000 0.9286" in lines


def test_gold_clusters_are_scored_with_the_concepts_of_a_run(tmp_path: Path, tiltmeter: Tiltmeter) -> None:
    pl.DataFrame({"phrase": ["calm", "serene", "shy"], "gold": ["a", "a", "b"]}).write_csv(
        tmp_path / "gold.csv"
    )
    concepts = pl.DataFrame(
        {"phrase": ["calm", "serene", "shy", "tall"], "concept": ["calm", "calm", "shy", "tall"]}
    )
    concepts.write_parquet(tmp_path / "concepts.parquet")
    done = tiltmeter("label gold.csv --score --concepts concepts.parquet -f json", exits=0)
    figures = {row["metric"]: row["estimate"] for row in json.loads(done.stdout)[0]["figures"]}
    assert figures["v_measure"] == figures["b_cubed_f"] == 1
    concepts.head(2).write_parquet(tmp_path / "concepts.parquet")
    done = tiltmeter("label gold.csv --score --concepts concepts.parquet", exits=2)
    assert "gold.csv, row 4, column 'phrase': 'shy' is not a phrase of concepts.parquet" in done.stderr


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("", (), "s.csv"),
        ("a,b\n1,2\n", (), "s.csv is not an annotated sample"),
        (
            "concept,truth,found\nmale,yes,no\n",
            ("--concepts", "s.csv"),
            "--concepts applies only to a sample with phrases and gold clusters",
        ),
        ("concept,truth,found\nmale,yes,no\n", ("-f", "xml"), "is not one of table, json"),
        ("concept,truth,found\nmale,yes,no\n", ("-o", "x.csv"), "--score only reads a sample"),
        (
            "model,part,prompt_id,repetition,stratum,stratum_size,label\nm,p,1,0,all,1,yes\n",
            (),
            "add its labels to the run, which scores them: tiltmeter label RUN --from s.csv",
        ),
    ],
)
def test_mistakes_in_samples_and_arguments_of_score_are_explained(
    tmp_path: Path, tiltmeter: Tiltmeter, text: str, arguments: tuple[str, ...], message: str
) -> None:
    (tmp_path / "s.csv").write_text(text)
    done = tiltmeter("label s.csv --score", *arguments, exits=2, says=message)
    assert not done.stdout


def test_concepts_without_score_are_refused(tiltmeter: Tiltmeter) -> None:
    tiltmeter("label run --concepts concepts.parquet", exits=2, says="--concepts applies only to --score")
