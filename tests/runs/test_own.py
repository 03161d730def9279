"""Rows of the user's files are matched with prompts in any order; rows that cannot be matched are refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tiltmeter as tm
from support.analysing import STUDY, analyse, prompts
from tiltmeter.errors import InputError
from tiltmeter.probes._definitions import DEFAULT, GENDERBENCH
from tiltmeter.runs import resolve

pytestmark = pytest.mark.usefixtures("workplace")


def answers(rows: int = 3_944) -> pl.DataFrame:
    yes = pl.int_range(pl.len()) % 3 == 0
    return (
        prompts()
        .head(rows)
        .select("prompt_id", "prompt", answer=pl.when(yes).then(pl.lit("yes")).otherwise(pl.lit("no")))
    )


@pytest.mark.verify
@pytest.mark.parametrize("by", ["prompt_id", "prompt"])
def test_the_order_of_rows_and_their_split_into_files_do_not_matter(tmp_path: Path, by: str) -> None:
    table = answers().select(by, "answer", repetition=0)
    if by == "prompt":
        table = table.unique(
            "prompt", keep="none"
        )  # of equal texts it is the order that tells which is which
    table.write_csv(tmp_path / "a.csv")
    table.sample(fraction=1, shuffle=True, seed=1).write_csv(tmp_path / "b.csv")
    table.reverse().head(100).write_parquet(tmp_path / "c.parquet")
    table.reverse().slice(100).write_ndjson(tmp_path / "d.jsonl")
    runs = [analyse("a.csv"), analyse("b.csv"), analyse("c.parquet", "d.jsonl")]
    assert len({run.path for run in runs}) == 3
    for run in runs[1:]:
        assert run.responses.equals(runs[0].responses)
        assert run.findings.equals(runs[0].findings)


def test_runs_of_other_files_and_model_names_have_other_folders(tmp_path: Path) -> None:
    answers().write_csv(tmp_path / "a.csv")
    first = analyse("a.csv")
    assert set(first.about["inputs"]) == {"a.csv"}
    assert analyse("a.csv").path == first.path
    assert analyse("a.csv", model="other").path != first.path
    answers(3_000).write_csv(tmp_path / "a.csv")
    assert analyse("a.csv").path != first.path
    assert resolve(str(first.path / "study.yaml")).study.name == STUDY


def test_answers_without_repetitions_are_numbered_over_all_files(tmp_path: Path) -> None:
    for name, column in (("a.csv", "prompt_id"), ("b.csv", "prompt")):
        pl.concat([answers(60), answers(60)]).select(column, "answer").write_csv(tmp_path / name)
    run = analyse("a.csv", "b.csv")
    counts = run.responses.group_by("prompt_id").agg(pl.len(), last=pl.col("repetition").max())
    assert counts["len"].sum() == 240
    assert run.findings.filter("key")["attempts"].item() == 240, (
        "more answers than the design asks for are more attempts"
    )
    assert (counts["len"] == counts["last"] + 1).all()


def test_prompts_with_equal_texts_get_their_answers_in_order(tmp_path: Path) -> None:
    twice = prompts().filter(pl.len().over("prompt") == 2).sort("prompt").head(2)
    assert twice["prompt"].n_unique() == 1
    for extra in ({}, {"repetition": 0}):
        rows = twice.select("prompt", answer=pl.Series(["yes", "no"]))
        rows.with_columns(**{name: pl.lit(value) for name, value in extra.items()}).write_csv(
            tmp_path / "a.csv"
        )
        analysed_tables = analyse("a.csv").responses
        assert dict(analysed_tables.select("prompt_id", "answer").iter_rows()) == dict(
            zip(twice["prompt_id"], ["yes", "no"], strict=True)
        )
        assert analysed_tables["repetition"].to_list() == [0, 0]


def test_one_attempt_answered_twice_is_refused(tmp_path: Path) -> None:
    table = answers(5).with_columns(repetition=0)
    table.write_csv(tmp_path / "a.csv")
    table.tail(1).write_csv(tmp_path / "b.csv")
    pl.concat([table, table.head(1)]).write_csv(tmp_path / "c.csv")
    last = table["prompt_id"][4]
    with pytest.raises(
        InputError, match=rf"b\.csv answers the prompt {last} for 'mine', repetition 0, as a.csv does"
    ):
        analyse("a.csv", "b.csv")
    with pytest.raises(InputError, match=r"c\.csv answers the prompt .*, twice"):
        analyse("c.csv")
    with pytest.raises(InputError, match=r"a\.csv is given twice"):
        tm.analyse(["a.csv", "a.csv"], STUDY)
    assert not list(tmp_path.glob("runs/*"))


@pytest.mark.parametrize("repetition", [-1, 32_768, "first", 0.5])
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_repetitions_out_of_range_are_refused(tmp_path: Path, repetition: object, suffix: str) -> None:
    table = answers(1).with_columns(repetition=pl.lit(repetition))
    writers: dict[str, Any] = {
        "csv": table.write_csv,
        "jsonl": table.write_ndjson,
        "parquet": table.write_parquet,
    }
    writers[suffix](tmp_path / f"a.{suffix}")
    row = 2 if suffix == "csv" else 1
    with pytest.raises(
        InputError,
        match=rf"a\.{suffix}, row {row}, column 'repetition': .* is not a whole number from 0 to 32,767",
    ):
        analyse(f"a.{suffix}")


@pytest.mark.parametrize("value", [{"text": "yes"}, ["yes"]])
def test_answers_that_are_no_text_are_refused(tmp_path: Path, value: object) -> None:
    message = "an object" if isinstance(value, dict) else "a list"
    ids = answers(2)["prompt_id"].to_list()
    lines = [{"prompt_id": ids[0], "answer": "no"}, {"prompt_id": ids[1], "answer": value}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(InputError, match=rf"a\.jsonl, line 2: 'answer' is {message}, not text"):
        analyse("a.jsonl")
    pl.DataFrame({"prompt_id": ids[:1], "answer": [value]}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"a\.parquet, column 'answer' contains"):
        analyse("a.parquet")


def test_lines_that_are_no_objects_are_named(tmp_path: Path) -> None:
    for text, message in (
        ("\n[1]\n", "entry 1 is not an object"),
        ('{"prompt": "a", "answer": "b"}\n{"pro', "line 2 is not valid JSON"),
    ):
        (tmp_path / "a.jsonl").write_text(text)
        with pytest.raises(InputError, match=message):
            analyse("a.jsonl")


def log_of(study: str) -> dict[str, Any]:
    """A probe log of the published package, made from the design of a probe.

    All answers favour the person named first.
    """
    design = prompts(study, definition=GENDERBENCH).sort("item", "prompt_index")
    items: dict[int, dict[str, Any]] = {}
    for row in design.iter_rows(named=True):
        item = items.setdefault(
            row["item"], {"metadata": {"scenario_id": row["scenario_id"]}, "prompts": [], "attempts": []}
        )
        prompt = {
            "uuid": row["prompt_id"],
            "text": f"[asked then] {row['prompt']}",
            "metadata": {"male_first": row["male_first"]},
        }
        item["prompts"].append(prompt)
        item["attempts"].append({"repetition_id": 0, "answer": "(a)", "prompt": {"uuid": row["prompt_id"]}})
    return {"probe_state": {"class": "RelationshipLevyProbe", "probe_items": list(items.values())}}


def test_a_probe_log_is_matched_with_the_items_of_the_published_definition(tmp_path: Path) -> None:
    """The default definition draws other couples, without ambiguous names."""
    (tmp_path / "log.jsonl").write_text(json.dumps(log_of("genderbench/relationship_levy")))
    run = analyse("log.jsonl", study="genderbench/relationship_levy")
    assert (run.about["items"], run.about["definition"]) == ("genderbench", "default")
    assert run.finding("diff_success_rate").estimate == 0
    assert run.finding("diff_success_rate").values["definition"] == DEFAULT.label
    original = prompts("genderbench/relationship_levy", definition=GENDERBENCH)
    assert run.design["prompt"].to_list() == [f"[asked then] {text}" for text in original["prompt"]]
    assert run.measures["options"].equals(original["options"])


@pytest.mark.verify
@pytest.mark.parametrize("definition", ["default", "genderbench"])
def test_prompts_of_a_probe_log_keep_their_texts(tmp_path: Path, shared: Path, definition: str) -> None:
    with gzip.open(
        shared / "golden" / "genderbench" / "logs" / "DiscriminationTamkin.jsonl.gz", "rt"
    ) as packed:
        text = packed.read()
    (tmp_path / "log.jsonl").write_text(text)
    run = analyse("log.jsonl", study="genderbench/discrimination_tamkin", settings={"definition": definition})
    logged = {
        (attempt["prompt"]["text"], attempt["answer"])
        for item in json.loads(text.splitlines()[-1])["probe_state"]["probe_items"]
        for attempt in item["attempts"]
    }
    assert set(run.design["wording"]) == {"log"}
    assert set(run.evidence("max_diff").select("prompt", "answer").iter_rows()) <= logged
    assert run.evidence("max_diff").height == run.finding("max_diff").values["attempts"]
    with pytest.raises(InputError, match="remove -P wording="):
        analyse(
            "log.jsonl", study="genderbench/discrimination_tamkin", settings={"params": {"wording": "all"}}
        )


def test_a_probe_log_without_attempts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"probe_state": {"class": "GestProbe", "probe_items": []}}')
    with pytest.raises(InputError, match="a probe log without any answer"):
        analyse("log.jsonl", study="genderbench/gest")
