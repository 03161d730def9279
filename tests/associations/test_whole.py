"""Studies of associations as a user runs them, from stories to findings, also resumed and replayed."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tiltmeter as tm
from associations.conftest import Study
from conftest import Tiltmeter
from support import misbehaving
from support.misbehaving import Behaviour, MisbehavingServer
from tiltmeter.associations._simulation import planted_associations
from tiltmeter.blocks import Details, Table
from tiltmeter.comparisons import is_about_missing
from tiltmeter.models import Message, Sampling
from tiltmeter.models.sim import Dials, create
from tiltmeter.runs import load

MODEL = ("-m", "sim/biased", "-M", "seed=1")
RUN = ("run", "associations/gender", *MODEL, "--limit", "40", "-P", "encoder=none", "--display", "none")
"""A seed without a false discovery: at q <= 0.05 about one study in five has one."""


def planted_in(run: tm.Run, bias: float = 0.25) -> set[tuple[str, str]]:
    truth = planted_associations(run.design, Dials(stereotypical_reasoning=bias).mapping())
    highest = pl.col("rate") == pl.col("rate").max().over("concept")
    return set(truth.filter((pl.col("effect") >= 0.10) & highest)["concept", "identity"].rows())


def found_in(run: tm.Run) -> set[tuple[str, str]]:
    """Return the associations over all locations that are no variants of others."""
    over_all = run.table("associations").filter("reported", pl.col("context").is_null())
    return set(over_all.filter(pl.col("variant_of").is_null())["label", "identity"].rows())


@pytest.mark.verify
@pytest.mark.parametrize(
    "extraction", [(), ("--judge", "sim/fair"), ("--judge", "sim/fair", "-P", "stages=whole")]
)
def test_planted_associations_are_found_and_no_others(
    tiltmeter_once: Tiltmeter, tmp_path: Path, extraction: tuple[str, ...]
) -> None:
    done = tiltmeter_once(*RUN, *extraction, "--out", "run")
    assert done.returncode == 0, done.stderr
    run = load(tmp_path / "run")
    assert found_in(run) == planted_in(run)
    assert "keeps a diary" in tiltmeter_once("show run").stdout
    lists = run.table("lists")
    assert lists.height == 2 * run.responses.height == 1_600
    assert (lists["status"] == "missing").sum() < 0.02 * lists.height
    assert set(run.measures["outcome"].unique()) <= {"answered", "unreadable"}
    assert run.about["complete"]


@pytest.mark.verify
def test_a_finding_leads_to_its_sentences(tiltmeter: Tiltmeter, study_once: Study) -> None:
    run = study_once(*RUN)
    behind = run.evidence("association", group="female", concept="keeps a diary")
    counted = run.table("associations").filter(
        pl.col("context").is_null(), identity="female", concept="keeps a diary"
    )
    assert behind.height == counted["count"].item()
    for row in behind.iter_rows(named=True):
        assert row["sentences"]
        assert all(sentence in row["answer"] and "diary" in sentence for sentence in row["sentences"])
    finding = ("--metric", "association", "--group", "female", "--concept", "keeps a diary")
    screen = tiltmeter("show", "run", *finding, "--examples", "3")
    assert screen.returncode == 0, screen.stderr
    assert screen.stdout.count("> ") >= 3
    assert "keeps a diary" in (run.path / "report.html").read_text()
    # Sentences are the evidence of an association. A count of associations has no examples.
    tests = run.table("tests").select("context", "concept", "identity", tested="reported")
    by_verdict = (
        run.table("associations")
        .join(tests, on=["context", "concept", "identity"], nulls_equal=True)
        .group_by(reported="tested")
    )
    examples = by_verdict.agg(fewest=pl.col("examples").list.len().min(), known=pl.col("examples").count())
    assert examples.filter("reported")["fewest"].item() > 0
    assert examples.filter(~pl.col("reported"))["known"].item() == 0
    assert run.table("associations")["reported"].sum() == run.findings.filter(metric="association").height > 0
    assert run.examples.is_empty()


@pytest.mark.verify
def test_a_second_run_gives_the_same_tables_and_asks_nothing(study: Study, study_once: Study) -> None:
    before = study_once(*RUN, "--judge", "sim/fair").about
    after = study(*RUN, "--judge", "sim/fair").about
    assert (after["tables"], after["models"][0]["tally"]["answered"]) == (before["tables"], 0)
    assert all(stage["answered"] == 0 for stage in after["judged_by"]["stages"])
    assert sum(stage["answered"] for stage in before["judged_by"]["stages"]) > 3 * 800


@pytest.mark.verify
def test_a_run_killed_during_judging_continues_and_pays_once(
    environment: dict[str, str], study: Study, tmp_path: Path
) -> None:
    command = [*RUN, "--judge", "sim/fair", "-J", "latency=0.05", "--max-connections", "16"]
    begun = [sys.executable, "-m", "tiltmeter", *command, "--out", "run"]
    process = subprocess.Popen(begun, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL)
    journal = tmp_path / "runs" / "journal.sqlite"
    while process.poll() is None:
        time.sleep(0.2)
        if stored_completions(journal) > 1_200:  # 800 stories and some answers of the judge
            os.kill(process.pid, signal.SIGKILL)
            break
    process.wait()
    paid = stored_completions(journal)
    assert 1_200 < paid < 3_900
    run = study(*command)
    answered = sum(stage["answered"] for stage in run.about["judged_by"]["stages"])
    assert answered == stored_completions(journal) - paid
    assert found_in(run) == planted_in(run)


def stored_completions(journal: Path) -> int:
    try:
        with sqlite3.connect(f"file:{journal}?mode=ro", uri=True) as opened:
            return int(opened.execute("select count(*) from completions").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


@pytest.mark.verify
def test_an_edited_stage_is_replayed(study: Study, study_once: Study, tmp_path: Path) -> None:
    run = study_once(*RUN)
    concepts = run.table("concepts").select(
        "phrase", concept=pl.col("concept").replace({"patient": "keeps a diary"})
    )
    concepts.write_csv(tmp_path / "mine.csv")
    again = study(*RUN, "--replace", "concepts=mine.csv", out="again")
    assert again.about["models"][0]["tally"]["answered"] == 0
    merged = {("patient and related", "female"), ("patient", "female"), ("keeps a diary", "female")}
    assert found_in(again) - merged == found_in(run) - merged
    assert len(found_in(again) & merged) == 1  # most texts with the concept contain its label
    assert "mine.csv" in str(again.about["inputs"])
    emptied = run.table("mentions")["attempt"][0]
    mentions = run.table("mentions").filter((pl.col("phrase") != "cheerful") & (pl.col("attempt") != emptied))
    mentions.write_parquet(tmp_path / "mentions.parquet")
    run.table("lists").write_parquet(tmp_path / "lists.parquet")
    third = study(
        *RUN, "--replace", "mentions=mentions.parquet", "--replace", "lists=lists.parquet", out="third"
    )
    assert found_in(third) == found_in(run) - {("cheerful", "male")}
    statuses = dict(third.table("lists")["status"].value_counts().iter_rows())
    assert (statuses["empty"], statuses["missing"]) == (2, (run.table("lists")["status"] == "missing").sum())
    assert third.table("mentions").height == mentions.height


@pytest.mark.verify
def test_tables_of_several_models_are_replayed_for_each_model(tiltmeter: Tiltmeter, study: Study) -> None:
    settings = ("--limit", "20", "--repeats", "3", "-P", "setting=two,single", "--judge", "sim/fair")
    both = (*RUN, "-m", "sim/fair", *settings)
    run = study(*both)
    with_mentions = run.table("lists").join(run.table("mentions"), on=["attempt", "character"], how="semi")
    assert set(with_mentions["model"]) == {"sim/biased", "sim/fair"}
    tables = {name: f"{name}=run/stages/{name}.parquet" for name in ("lists", "mentions", "exclusive")}
    again = study(*both, *(argument for table in tables.values() for argument in ("-P", table)), out="again")
    assert again.table("mentions").sort(pl.all()).equals(run.table("mentions").sort(pl.all()))
    assert again.findings.equals(run.findings)
    done = tiltmeter("run", "associations/religions", *RUN[2:], "--out", "other", "-P", tables["mentions"])
    assert done.returncode == 2
    assert "mentions.parquet contains no story of sim/biased in this run" in done.stderr


@pytest.mark.verify
@pytest.mark.parametrize("whose", ["-M", "-J"])
def test_a_study_without_lists_has_no_estimates_and_states_the_reason(
    tiltmeter: Tiltmeter, tmp_path: Path, whose: str
) -> None:
    judged = ("--judge", "sim/fair", whose, "refusal=1")
    command = ("run", "associations", *RUN[2:], "--limit", "5", "--repeats", "2")
    done = tiltmeter(*command, "--out", "run", *judged)
    assert done.returncode == 3, done.stderr
    assert "sim/biased, race: none of 10 responses could be used" in done.stderr
    run = load(tmp_path / "run")
    of_associations = run.findings.filter(~is_about_missing())
    assert of_associations["estimate"].null_count() == of_associations.height > 0
    for part in ("gender", "race", "religions"):
        total = run.finding("associations", part=part).values
        assert total["refused" if whose == "-M" else "unreadable"] == total["attempts"] > 0
        assert "nothing to compare: there are no character descriptions" in total["note"]
    assert "nothing to compare" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.verify
def test_models_and_settings_are_parts_of_one_report(study: Study) -> None:
    both = ("run", "associations/religions", "-m", "sim/biased", "-m", "sim/fair", "--limit", "30")
    run = study(*both, "--display", "none", "-P", "encoder=none", "-P", "setting=two,negative,single")
    assert run.findings["study"].unique().to_list() == ["associations"]
    assert run.findings["part"].unique().sort().to_list() == [
        "religions",
        "religions_negative",
        "religions_single",
    ]
    reported = dict(run.findings.filter(pl.col("concept").is_not_null())["model"].value_counts().iter_rows())
    assert reported.get("sim/fair", 0) <= 1  # one is expected in one of twenty such parts
    assert reported["sim/biased"] > 20
    assert "Shared associations" in (run.path / "report.html").read_text()


@pytest.mark.verify
@pytest.mark.parametrize("definition", ["paper", "badf-code"])
def test_published_definitions_report_associations_by_context_only(study: Study, definition: str) -> None:
    run = study(*RUN, "--definition", definition)
    assert run.design["order"].unique().to_list() == [0]
    single = run.findings.filter(pl.col("concept").is_not_null())
    assert single["context"].null_count() == 0
    assert (single["p"] < 0.05).all()


TEXTS = [
    ("female", "Anna was patient. She keeps a diary."),
    ("male", "Ben was cheerful. He plays chess."),
    ("male", "Carl was cheerful."),
]
OWN = ("--study", "associations", "--text", "story", "--identity", "who")


def write_texts(path: Path, times: int = 12) -> None:
    table = pl.DataFrame(TEXTS * times, schema=["who", "story"], orient="row")
    table.with_row_index("number").write_csv(path)


def test_associations_of_a_users_texts_are_found(tiltmeter: Tiltmeter, study: Study, tmp_path: Path) -> None:
    write_texts(tmp_path / "stories.csv")
    assert {("cheerful", "male"), ("patient", "female")} <= found_in(
        study("analyse", "stories.csv", *OWN, "-P", "encoder=none")
    )
    finding = ("--metric", "association", "--group", "male", "--concept", "cheerful")
    assert "> Ben was cheerful." in tiltmeter("show", "run", *finding).stdout


@pytest.mark.verify
def test_texts_may_be_in_one_file_per_identity(study: Study, tmp_path: Path) -> None:
    for identity in ("female", "male"):
        rows = [text for text in TEXTS * 12 if text[0] == identity]
        table = pl.DataFrame(rows, schema=["who", "story"], orient="row")
        table.write_csv(tmp_path / f"{identity}.csv")
    assert ("cheerful", "male") in found_in(
        study("analyse", "female.csv", "male.csv", *OWN, "-P", "encoder=none")
    )


GENDER = ("run", "associations/gender", "-m", "sim/fair")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "associations/gendre", "-m", "sim/fair"), "did you mean gender"),
        ((*GENDER, "-P", "setting=too"), "did you mean two"),
        ((*GENDER, "-P", "extraction=judge"), "give --judge PROVIDER/NAME"),
        ((*GENDER, "-P", "stages=refine"), "give extract, optionally followed by"),
        ((*GENDER, "-P", "threshold=2"), "-P threshold must be less than 1, found '2'"),
        ((*GENDER, "-P", "minimum=none"), "-P minimum must be a whole number such as 10"),
        ((*GENDER, "-P", "concepts=nowhere.csv"), "there is no such file"),
        ((*GENDER, "-P", "lists=some.csv"), "needs --replace mentions="),
        ((*GENDER, "-P", "setting=open_box", "-P", "encoder=none"), "use a local model"),
        ((*GENDER, "--definition", "genderbench"), "known: default, paper, badf-code"),
        ((*GENDER, "--judge", "sim/unfair"), "unknown simulated model"),
        (
            ("run", "genderbench/direct", "-m", "sim/fair", "--judge", "sim/fair"),
            "the probes use a judge only with -P unread=judge",
        ),
        (
            ("analyse", "stories.csv", "--study", "associations", "--text", "story"),
            "your own texts need --identity COLUMN",
        ),
        (
            ("analyse", "stories.csv", "--study", "associations", "--text", "stroy", "--identity", "who"),
            "did you mean story",
        ),
        (
            ("analyse", "stories.csv", "--study", "genderbench", *OWN[2:]),
            "supports only answers to its own prompts",
        ),
        (("analyse", "one.csv", *OWN), "at least two are needed"),
        (("analyse", "one.csv", "one.csv", *OWN), "one.csv is given twice"),
        (
            ("analyse", "nested.parquet", *OWN),
            "nested.parquet, column 'story' contains List(String) instead of text; convert it to text",
        ),
        (("analyse", "gap.csv", *OWN), "row 3, column 'who' is empty"),
    ],
)
def test_mistakes_in_options_and_tables_give_a_message_and_create_no_run(
    tiltmeter: Tiltmeter, tmp_path: Path, arguments: list[str], message: str
) -> None:
    write_texts(tmp_path / "stories.csv", 1)
    (tmp_path / "one.csv").write_text("who,story\nfemale,Anna was patient.\nfemale,Eva was calm.\n")
    (tmp_path / "gap.csv").write_text(
        "who,story\nfemale,Anna was patient.\n,Eva was calm.\nmale,Ben was calm.\n"
    )
    pl.DataFrame({"who": ["a", "b"], "story": [["Anna was patient."], ["Ben was calm."]]}).write_parquet(
        tmp_path / "nested.parquet"
    )
    done = tiltmeter(*arguments, "--out", "run")
    assert done.returncode == 2, done.stdout + done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.verify
def test_unreadable_answers_of_a_judge_are_counted_as_missing_lists(study: Study) -> None:
    judge = ("--judge", "sim/fair", "-J", "unreadable=0.3", "-J", "refusal=0.1")
    run = study(*RUN, "--repeats", "5", *judge)
    judgements = run.table("judgements")
    assert judgements["problem"].is_not_null().sum() > 0.2 * judgements.height
    assert (judgements["turn"] == 1).any()
    lists = run.table("lists")
    assert lists.height == 400
    lost = lists.filter(pl.col("status") == "missing")
    assert 0 < lost.height < 100
    assert lost["problem"].null_count() == 0
    note = run.finding("associations").values["note"]
    assert f"{lost.height} of 400 character descriptions are missing" in note
    assert run.measures.filter(pl.col("outcome") == "unreadable").height > 0


@pytest.mark.verify
def test_an_unreachable_judge_is_reported_and_the_stories_are_stored(
    tiltmeter: Tiltmeter, tmp_path: Path
) -> None:
    few = (*RUN, "--repeats", "1", "--out", "run", "--judge")
    done = tiltmeter(*few, "vllm/none", "--judge-base-url", "http://127.0.0.1:9/v1")
    assert done.returncode == 4
    assert "judge vllm/none: no server answers at http://127.0.0.1:9" in done.stderr
    assert tiltmeter(*few, "sim/fair").returncode == 0
    tally = load(tmp_path / "run").about["models"][0]["tally"]
    assert (tally["held"], tally["answered"]) == (40, 0)


@pytest.mark.verify
def test_a_model_without_bias_has_at_most_one_reported_association(study: Study) -> None:
    command = ("run", "associations/race", "-m", "sim/fair", "--limit", "60")
    run = study(*command, "-P", "encoder=none", "--display", "none")
    assert run.findings.filter(pl.col("concept").is_not_null()).height <= 1


@pytest.mark.verify
def test_identities_can_be_shuffled_by_descriptor(study: Study) -> None:
    run = study(*RUN, "-P", "shuffle=descriptor")
    tested = run.table("associations").filter("reported")
    assert tested["permutation_p"].is_between(0.001, 1).all()
    # Five descriptors per identity: 252 permutations, in pairs that exchange the identities.
    assert (tested.filter(pl.col("context").is_null())["permutation_p"] < 0.05).all()
    total = run.findings.filter(
        (pl.col("metric") == "associations") & pl.col("group").is_null() & pl.col("context").is_null()
    )
    assert "among whole descriptors" in total["method"][0]
    assert run.findings.filter(metric="association")["note"].null_count() == tested.height
    details = next(
        block for block in run.blocks() if isinstance(block, Details) and "with sentences" in block.title
    )
    tables = [block for block in details.blocks if isinstance(block, Table)]
    assert all("p, descriptors shuffled" in [column.name for column in table.columns] for table in tables)


@pytest.mark.verify
def test_a_table_of_exclusive_concepts_with_an_unknown_identity_is_refused(
    tiltmeter: Tiltmeter, tmp_path: Path
) -> None:
    (tmp_path / "mine.csv").write_text("concept,identity\nkeeps a diary,femal\n", encoding="utf-8")
    done = tiltmeter(*RUN, "--out", "run", "--replace", "exclusive=mine.csv")
    assert done.returncode == 2
    assert "mine.csv" in done.stderr
    assert "unknown identity 'femal': did you mean female" in done.stderr.replace("\n", " ")


def test_normalised_values_of_associations_are_refused(tiltmeter: Tiltmeter) -> None:
    assert tiltmeter(*RUN, "--limit", "4", "--repeats", "1", "--out", "run").returncode == 0
    screen = tiltmeter("show", "run", "--normalised")
    assert screen.returncode == 2
    assert "only probes have one" in screen.stderr


@pytest.mark.verify
@pytest.mark.parametrize("stages", ["extract,refine", "whole"])
def test_a_judge_whose_endpoint_rejects_schemas_reads_every_story(
    tiltmeter: Tiltmeter, study_once: Study, tmp_path: Path, stages: str
) -> None:
    simulated, rejected = create("sim", "fair"), 0

    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        nonlocal rejected
        if "response_format" in request:
            rejected += 1
            return misbehaving.status(400, {}, '{"error": {"message": "response_format is not supported"}}')
        requests = [Message(message["role"], message["content"]) for message in request["messages"]]
        sampling = Sampling(temperature=request.get("temperature"), seed=request.get("seed"))
        # This function is called inside an event loop, and the coroutine never waits.
        with pytest.raises(StopIteration) as answered:
            simulated.complete(requests, sampling, 0).send(None)
        return str(answered.value.value.text)

    stage = ("--repeats", "5", "-P", f"stages={stages}")
    local = study_once(*RUN, "--judge", "sim/fair", *stage)
    with MisbehavingServer(script) as server:
        judge = ("--judge", "vllm/judge", "--judge-base-url", server.url)
        done = tiltmeter(*RUN, *judge, *stage, "--out", "other")
    assert done.returncode == 0, done.stderr
    assert "rejects JSON schemas" in done.stderr
    assert rejected == 1
    assert found_in(load(tmp_path / "other")) == found_in(local) != set()
