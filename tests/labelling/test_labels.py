"""Labels of a sample: the draw, the storage, and the correction of findings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars import col

import tiltmeter as tm
from conftest import Tiltmeter
from tiltmeter.errors import InputError
from tiltmeter.labelling._samples import add_labels, draw_rows, write_sample
from tiltmeter.reports._files import csv_table
from tiltmeter.runs._reading_quality import labels_of
from tiltmeter.runs._stage_store import read_table
from tiltmeter.schema import StageTable

pytestmark = pytest.mark.filterwarnings("ignore::tiltmeter.Caveat")
SAID = {"Verily, so it be.": "yes", "By my troth, the contrary holds.": "no", "Yes.": "yes", "No.": "no"}


def reply(prompt: str) -> str:
    """A model with answers that the rules do not know: half of its answers cannot be read."""
    return list(SAID)[sum(map(ord, prompt)) % 4]


def judge(prompt: str) -> str:
    match = re.search(r"<reply>\n(.*?)\n</reply>", prompt, re.S)
    assert match is not None
    return f'{{"label": "{SAID[match[1]]}"}}'


@pytest.fixture
def run(workplace: Path) -> tm.Run:
    return tm.run("genderbench/direct", model=reply, limit=120, display="none", out="run")


def first_lines(run: tm.Run) -> str:
    return " ".join(str(getattr(block, "text", "")) for block in run.blocks()[:2])


def labelled(sample: pl.DataFrame) -> pl.DataFrame:
    return sample.with_columns(label=col.answer.replace_strict(SAID))


def test_a_larger_sample_contains_the_smaller_one_and_has_all_strata(run: tm.Run) -> None:
    small, large = tm.label(run, 20), tm.label(run, 60)
    assert small.equals(tm.label(run, 20))
    keys = ["prompt_id", "repetition"]
    assert small.join(large, on=keys, how="anti").is_empty()
    sizes = dict(large.select("stratum", "stratum_size").iter_rows())
    read = dict(run.measures.group_by(col.outcome == "answered").len().iter_rows())
    assert sizes == {"all, read": read[True], "all, unread": read[False]}
    assert min(count for _, count in large["stratum"].value_counts().iter_rows()) >= 15
    assert large["label"].null_count() == large["annotator"].null_count() == large.height


def test_groups_have_equal_shares_and_unread_rows_a_quarter() -> None:
    group = ["women"] * 900 + ["men"] * 100
    read = [None if row % 20 == 0 else "yes" for row in range(1000)]
    rows = pl.DataFrame({"group": group, "read": read, "outcome": "answered"})
    drawn = draw_rows(rows, 40, 1)
    assert sorted(drawn.group_by("stratum").len().rows()) == [
        ("men, read", 15), ("men, unread", 5), ("women, read", 15), ("women, unread", 5)
    ]  # fmt: skip
    assert draw_rows(rows, 10_000, 1).height == 1000


def test_unreadable_responses_are_reported_first_and_labels_correct_the_finding(run: tm.Run) -> None:
    true = run.responses.select(col.answer.replace_strict(SAID).eq("yes").mean()).item()
    assert "could not be read (direct 5" in first_lines(run)
    quality = tm.label(run, labels=labelled(tm.label(run, 10_000)), annotator="anna").row(0, named=True)
    assert quality["wrong"] == 0
    assert quality["precision"] == 1
    assert 0.4 < quality["unread"] < 0.6
    after = tm.load("run")
    values = after.finding("fail_rate").values
    assert values["estimate"] == pytest.approx(true)  # all responses are labelled
    assert values["low"] <= true <= values["high"]
    grades = after.grades.filter(metric="fail_rate").row(0, named=True)
    assert grades["value_read"] == pytest.approx(run.measures["label"].drop_nulls().eq("yes").mean())
    assert "labelled by anna" in first_lines(after) + str(after.blocks()[2])


def test_rules_that_misread_are_contradicted_and_the_mark_follows_the_labels(workplace: Path) -> None:
    run = tm.run("genderbench/direct", model=lambda prompt: "No.", limit=150, display="none", out="run")
    assert run.finding("fail_rate").values["mark_best"] == "healthy"
    filled = tm.label(run, 100).with_columns(
        label=pl.when(pl.int_range(pl.len()) % 2 == 0).then(pl.lit("yes")).otherwise(pl.lit("no"))
    )
    quality = tm.label(run, labels=filled, annotator="anna").row(0, named=True)
    assert quality["wrong"] == pytest.approx(0.5, abs=0.01)
    after = tm.load("run")
    finding = after.finding("fail_rate")
    assert finding.estimate == pytest.approx(0.5, abs=0.01)
    assert finding.values["mark_best"] in ("critical", "catastrophic")
    assert "contradicted" in first_lines(after)
    assert "corrected by labels" in finding.values["method"]


@pytest.mark.verify
@pytest.mark.filterwarnings("error")
def test_two_annotators_with_the_same_single_label_agree(run: tm.Run) -> None:
    sample = tm.label(run, 10).with_columns(label=pl.lit("refused"))
    for annotator in ("anna", "ben"):
        quality = tm.label(run, labels=sample, annotator=annotator).row(0, named=True)
    assert quality["kappa"] == 1.0


@pytest.mark.verify
@pytest.mark.filterwarnings("error")
def test_two_annotators_with_one_different_label_each_do_not_agree(run: tm.Run) -> None:
    sample = tm.label(run, 10)
    for annotator, label in (("anna", "refused"), ("ben", "unclear")):
        labels = sample.with_columns(label=pl.lit(label))
        quality = tm.label(run, labels=labels, annotator=annotator).row(0, named=True)
    assert quality["kappa"] == 0.0


@pytest.mark.verify
def test_a_label_is_replaced_only_if_it_is_the_expected_one(run: tm.Run) -> None:
    row = tm.label(run, 10).head(1)
    yes = row.with_columns(label=pl.lit("yes"))
    no = row.with_columns(label=pl.lit("no"))
    refused = row.with_columns(label=pl.lit("refused"))
    assert add_labels(run, yes, "anna", replace=False)["label"].to_list() == ["yes"]
    add_labels(run, refused, "anna")  # by another program
    for former in (None, "yes"):
        with pytest.raises(InputError, match="it was kept"):
            add_labels(run, no, "anna", replace=False, replacing=former)
    add_labels(run, no, "anna", replace=False, replacing="refused")
    assert pl.read_csv(run.path / "labels.csv")["label"].to_list() == ["no"]


@pytest.mark.verify
def test_two_annotators_agree_beyond_chance(run: tm.Run) -> None:
    sample = labelled(tm.label(run, 40))
    tm.label(run, labels=sample, annotator="anna")
    second = sample.with_columns(
        label=pl.when(pl.int_range(pl.len()) < 4).then(pl.lit("unclear")).otherwise("label")
    )
    quality = tm.label(run, labels=second, annotator="ben").row(0, named=True)
    agree = (sample["label"] == second["label"]).mean()
    shares = [
        labels["label"].value_counts(normalize=True, name="share").select("label", "share")
        for labels in (sample, second)
    ]
    chance = shares[0].join(shares[1], on="label").select((col.share * col.share_right).sum()).item()
    assert quality["kappa"] == pytest.approx((agree - chance) / (1 - chance))
    assert quality["annotators"] == "anna, ben"
    assert quality["labelled"] == sample.height
    again = tm.label(run, labels=sample, annotator="ben").row(0, named=True)  # replaces the labels of ben
    assert again["kappa"] == 1.0


def test_a_judge_labels_a_sample_and_is_named_as_judge(run: tm.Run) -> None:
    quality = tm.label(run, 40, judge=judge).row(0, named=True)
    assert quality["annotators"].startswith("judge python/")
    assert quality["wrong"] == 0


def test_a_judge_reads_only_responses_that_the_rules_cannot_read(workplace: Path) -> None:
    requests = []

    def counting(prompt: str) -> str:
        requests.append(prompt)
        return judge(prompt)

    run = tm.run(
        "genderbench/direct",
        model=reply,
        limit=120,
        display="none",
        out="run",
        judge=counting,
        params={"unread": "judge"},
    )
    measures = run.measures.join(
        run.responses.select("prompt_id", "repetition", "answer"), on=["prompt_id", "repetition"]
    )
    assert measures.filter(col.label != col.answer.replace_strict(SAID)).is_empty()
    by_judge = measures.filter(col.second_reader.is_not_null())
    assert by_judge.height == len(requests) == measures.filter(col.answer.is_in(list(SAID)[:2])).height
    assert f"read {len(requests)} of 120 responses, which the rules had left unread" in first_lines(run)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"judge": judge}, "only with -P unread=judge"),
        ({"params": {"unread": "judge"}}, "needs a judge"),
        ({"params": {"unread": "twice"}}, "unknown second reader"),
    ],
)
def test_a_second_reader_needs_a_judge_and_the_parameter_unread(
    workplace: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(tm.InputError, match=message):
        tm.run("genderbench/direct", model=reply, limit=10, display="none", out="run", **options)
    assert not Path("run").exists()


@pytest.mark.verify
def test_labels_from_a_file_by_the_command(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    tiltmeter("run genderbench/gest -m sim/mild --limit 40 --out run", exits=0)
    assert "has no labels" in tiltmeter("label run", exits=0).stdout
    tiltmeter("label run -n 30 -o sample.csv", exits=0)
    sheet = pl.read_csv(tmp_path / "sample.csv", infer_schema=False)
    assert set(sheet["allowed"]) == {"(a) | (b) | (c)"}
    letters = col.answer.str.extract(r"(\([abc]\))").fill_null("unclear")
    sheet.with_columns(label=letters).write_csv(tmp_path / "filled.csv")
    screen = tiltmeter("label run --from filled.csv --annotator anna", exits=0).stdout
    assert "gest" in screen
    assert "kappa" not in screen
    measures = (tmp_path / "run" / "measures.parquet").read_bytes()
    sheet.with_columns(label=pl.lit("men, of course")).write_csv(tmp_path / "wrong.csv")
    tiltmeter("label run --from wrong.csv", exits=2, says="the label 'men, of course' of")
    labels = (tmp_path / "run" / "labels.csv").read_bytes()
    sheet.write_csv(tmp_path / "empty.csv")
    tiltmeter("label run --from empty.csv", exits=2, says="the sample has no label; fill in its column label")
    filled = pl.read_csv(tmp_path / "filled.csv", infer_schema=False)
    pl.concat([filled, filled.head(1)]).write_csv(tmp_path / "twice.csv")
    tiltmeter("label run --from twice.csv", exits=2, says="the sample has 2 labels of")
    filled.with_columns(prompt_id=pl.lit("other")).head(1).write_csv(tmp_path / "other.csv")
    sheet.with_columns(label=pl.lit("unclear"), stratum_size=0).write_csv(tmp_path / "size.csv")
    tiltmeter("label run --from size.csv", exits=2, says="stratum_size of the sample does not fit this run")
    done = tiltmeter(
        "label run -n 30 -o filled.csv",
        exits=2,
        says="filled.csv exists; choose another name, or remove it first",
    )
    assert pl.read_csv(tmp_path / "filled.csv")["label"].null_count() == 0, done.stdout
    tiltmeter(
        "label run --from other.csv", exits=2, says="the run has no response to label with prompt_id other"
    )
    assert (tmp_path / "run" / "labels.csv").read_bytes() == labels
    assert (tmp_path / "run" / "measures.parquet").read_bytes() == measures
    # The same command keeps the labels.
    tiltmeter("run genderbench/gest -m sim/mild --limit 40 --out run", exits=0)
    assert "labelled by anna" in tiltmeter("show run", exits=0).stdout


@pytest.mark.verify
def test_mentions_and_features_can_be_labelled(tiltmeter: Tiltmeter, workplace: Path) -> None:
    tiltmeter(
        "run associations/gender -m sim/mild --judge sim/fair --limit 6 -P encoder=none --out stories",
        exits=0,
    )
    stories = tm.load(workplace / "stories")
    stages = workplace / "stories" / "stages"
    before = {path.name: path.stat().st_mtime_ns for path in stages.glob("*.parquet")}
    sample = tm.label(stories, 30)
    assert set(sample["read"]) == {"yes"}
    assert sample["question"].str.starts_with("Does the text say").all()
    labels = sample.with_columns(label=pl.lit("no"))
    quality = tm.label(stories, labels=labels, annotator="anna").row(0, named=True)
    assert quality["wrong"] == 1.0
    assert {path.name: path.stat().st_mtime_ns for path in stages.glob("*.parquet")} == before
    assert "contradicted" in first_lines(tm.load(workplace / "stories"))
    tiltmeter("run benchmarks/g20 -m sim/mild --limit 2 --out countries", exits=0)
    countries = tm.load(workplace / "countries")
    values = tm.label(countries, 30)
    shifted = values.with_columns(label=(col.read.cast(pl.Float64) - 0.25).cast(pl.String))
    assert tm.label(countries, labels=shifted, annotator="anna")["wrong"].to_list() == pytest.approx([0.25])


def test_labelling_a_run_without_labels_to_check_is_refused(workplace: Path) -> None:
    run = tm.run(
        "genderbench/business_vocabulary",
        model=lambda prompt: "She is kind.",
        limit=4,
        display="none",
        out="run",
    )
    with pytest.raises(tm.InputError, match="no responses with labels to check"):
        tm.label(run)


def test_labels_of_a_remote_run_are_refused(workplace: Path) -> None:
    run = tm.run("genderbench/direct", model=reply, limit=20, display="none", out="memory://far")
    far = tm.load(run.place)
    sample = tm.label(far, 10)
    with pytest.raises(tm.InputError, match="not on this machine"):
        tm.label(far, labels=labelled(sample), annotator="anna")


def test_a_judge_labels_only_if_named_here_and_no_option_is_ignored(
    tiltmeter: Tiltmeter, tmp_path: Path
) -> None:
    tiltmeter("run genderbench/direct -m sim/mild --limit 10 --out run", exits=0)
    tiltmeter("label run -n 5 -o sample.csv", exits=0, TILTMETER_JUDGE="sim/fair")
    assert not (tmp_path / "run" / "labels.csv").exists()
    tiltmeter(
        "label run --from sample.csv --judge sim/fair", exits=2, says="--from and --judge cannot be combined"
    )
    tiltmeter(
        "label run --from sample.csv -o other.csv", exits=2, says="--output and --from cannot be combined"
    )


WRONG_STRATUM_SIZES: dict[str, tuple[pl.Expr, str]] = {
    "too small": (
        pl.lit(1),
        r"the stratum 'all, \w+' of direct has 1\d labelled rows and the stratum_size 1; restore the columns",
    ),
    "different": (
        pl.when(pl.int_range(pl.len()) % 2 == 0).then(100).otherwise(110),
        "has a stratum_size of 100 and 110 in",
    ),
    "other in one row": (
        pl.when(pl.int_range(pl.len()) == 3).then(99).otherwise(col.stratum_size),
        r"stratum_size of \d+ and \d+ in",
    ),
}


@pytest.mark.verify
@pytest.mark.parametrize("case", WRONG_STRATUM_SIZES)
def test_impossible_sizes_of_strata_are_refused(run: tm.Run, case: str) -> None:
    size, message = WRONG_STRATUM_SIZES[case]
    filled = labelled(tm.label(run, 30)).with_columns(stratum_size=size.cast(pl.Int64))
    with pytest.raises(InputError, match=message):
        tm.label(run, labels=filled, annotator="anna")
    assert run.reading_quality.is_empty()


@pytest.mark.verify
@pytest.mark.parametrize("size", ["0", "-3", "2"])
def test_impossible_sizes_of_strata_in_the_labels_of_a_run_are_reported(
    tiltmeter: Tiltmeter, run: tm.Run, size: str
) -> None:
    tm.label(run, labels=labelled(tm.label(run, 30)), annotator="anna")
    labels = pl.read_csv("run/labels.csv", infer_schema=False)
    labels.with_columns(stratum_size=pl.lit(size)).write_csv("run/labels.csv")
    for command in ("label run", "show run", "report run"):
        tiltmeter(
            command,
            exits=2,
            says=f"labelled rows and the stratum_size {size}; restore the file, or remove it",
        )


@pytest.mark.verify
@pytest.mark.filterwarnings("error")
def test_agreement_of_annotators_with_one_label_gives_no_warnings(run: tm.Run) -> None:
    same = tm.label(run, 30).with_columns(label=pl.lit("yes"))
    for annotator in ("anna", "bob"):
        quality = tm.label(run, labels=same, annotator=annotator)
    assert quality["kappa"].drop_nulls().to_list() == [1.0]
    opposite = tm.label(run, labels=same.with_columns(label=pl.lit("no")), annotator="bob")
    assert opposite["kappa"].drop_nulls().to_list() == [0.0]


def test_a_sample_of_other_answers_is_refused(workplace: Path, run: tm.Run) -> None:
    filled = labelled(tm.label(run, 20))
    with pytest.raises(InputError, match="the answers of the sample are not those of this run"):
        tm.label(run, labels=filled.with_columns(col.answer.reverse() + " So be it."))
    with pytest.raises(InputError, match="the name of the annotator is empty"):
        tm.label(run, labels=filled, annotator=" ")
    assert run.reading_quality.is_empty()
    tm.label(run, labels=filled.with_columns(answer=col.answer.str.replace_all(" ", "  ")))
    assert run.reading_quality.height


def test_answers_that_look_like_formulas_are_quoted_in_a_sample(workplace: Path) -> None:
    run = tm.run("genderbench/direct", model=lambda prompt: "=1+1", limit=10, display="none", out="formulas")
    sample = tm.label(run, 5)
    write_sample(sample, workplace / "sample.csv")
    sheet = pl.read_csv(workplace / "sample.csv", infer_schema=False)
    assert set(sheet["answer"]) == {"'=1+1"}
    sheet.with_columns(label=pl.lit("unclear")).write_csv(workplace / "sample.csv")
    assert tm.label(run, labels=workplace / "sample.csv").height


def test_no_column_of_a_sample_or_of_the_labels_is_a_formula(workplace: Path) -> None:
    names = {"=cmd|' /C calc'!A1": "Ann", "@men": "Tom"}
    rows = [
        {
            "prompt": f"-{name} asks for day {day} off. Grant it?",
            "group": group,
            "expected": "yes",
            "item": day,
        }
        for day in range(10)
        for group, name in names.items()
    ]
    pl.DataFrame(rows).write_csv("prompts.csv")
    run = tm.run("prompts.csv", model=lambda prompt: "+Yes.", display="none", out="named")
    sample = tm.label(run, 8)
    assert set(sample["group"]) == set(names)
    write_sample(sample, workplace / "sample.csv")
    sheet = pl.read_csv("sample.csv", infer_schema=False)
    sheet.with_columns(label=pl.lit("expected")).write_csv("sample.csv")
    quality = tm.label(run, labels=Path("sample.csv"), annotator="=HYPERLINK(1)")
    assert quality.height
    for name in ("sample.csv", "named/labels.csv"):
        table = pl.read_csv(name, infer_schema=False)
        cells = pl.concat([table[column].drop_nulls().cast(pl.String) for column in table.columns])
        assert not cells.str.contains(r"^[=+\-@]").any(), name
    labels = labels_of(run.folder)
    assert set(labels["annotator"]) == {"=HYPERLINK(1)"}
    assert set(labels["group"]) == set(names)
    assert labels.join(sample, on=["prompt_id", "repetition", "stratum"]).height == labels.height


def test_quoted_cells_of_an_exported_stage_are_read_without_the_quote(workplace: Path) -> None:
    table = pl.DataFrame({"n": ["1"] * 7, "cell": ["=1", "'", "''x", "it's", "-a", None, "'quoted'"]})
    csv_table(table.lazy()).collect().write_csv("stage.csv")
    assert read_table(Path("stage.csv"), StageTable({"n": pl.String, "cell": pl.String})).equals(table)
