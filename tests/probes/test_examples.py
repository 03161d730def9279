"""Examples of a finding: without each of them the estimate would differ by exactly the stated influence."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tiltmeter.datasets import Library
from tiltmeter.designs.limits import ItemLimit
from tiltmeter.probes import Probe
from tiltmeter.probes._definitions import GENDERBENCH
from tiltmeter.probes._listing import PROBES
from tiltmeter.schema import EXAMPLES
from tiltmeter.study import Settings

Attempts = Callable[[str], pl.DataFrame]

PLAIN = {"wording": "plain"}
"""In one wording: each of several would be analysed apart as well, without use here.

`test_wordings_are_taken_together` is about several.
"""
SETTINGS = {
    "default": Settings(limit=ItemLimit(8), resamples=2, params=PLAIN),
    "genderbench": Settings(limit=ItemLimit(8), resamples=2, definition=GENDERBENCH),
}
# By the original definition where the default one also subtracts the lift of noise from a maximum.
BY_DEFAULT = (
    "bbq", "direct", "diversity_med_qa", "gest", "gest_creative", "hiring_an", "hiring_bloomberg",
    "inventories", "jobs_lum", "relationship_levy",
)  # fmt: skip
DEFINITION_OF = dict.fromkeys(BY_DEFAULT, "default") | dict.fromkeys(
    ("discrimination_tamkin", "dreaddit", "isear"), "genderbench"
)


@pytest.fixture(scope="module")
def attempts(library: Library) -> Attempts:
    """A small design of a probe, one row per attempt."""

    @cache
    def expanded(name: str) -> pl.DataFrame:
        design = PROBES.load(name).design(library, SETTINGS[DEFINITION_OF[name]]).drop("prompt", "system")
        answers: pl.DataFrame = design.with_columns(
            repetition=pl.int_ranges(0, "repetitions", dtype=pl.Int16)
        ).explode("repetition")
        return answers

    return expanded


def answered(prompt: pl.DataFrame, probe: Probe, seed: int) -> pl.DataFrame:
    """Draw labels at random, with shares that depend on the seed; some answers refuse."""
    rng = np.random.default_rng(seed)
    labels_of_probe = ["a", "b", "c"] if probe.name == "bbq" else list(probe.labels)
    drawn = rng.choice(
        len(labels_of_probe) + 1, size=prompt.height, p=rng.dirichlet(np.ones(len(labels_of_probe) + 1))
    )
    labels = pl.Series([[*labels_of_probe, None][number] for number in drawn], dtype=pl.String)
    outcome = pl.when(pl.col("label").is_null()).then(pl.lit("refused")).otherwise(pl.lit("answered"))
    return prompt.with_columns(label=labels, model=pl.lit("drawn")).with_columns(outcome=outcome)


def estimates(probe: Probe, measures: pl.DataFrame, settings: Settings) -> dict[str, float | None]:
    analysed_tables = probe.analyse(measures, settings)["findings"].filter("key", pl.col("wording").is_null())
    return dict(analysed_tables.select("metric", "estimate").iter_rows())


@pytest.mark.verify
@pytest.mark.parametrize("name", DEFINITION_OF)
def test_influence_is_the_difference_of_two_analyses(name: str, attempts: Attempts) -> None:
    probe, settings = PROBES.load(name), SETTINGS[DEFINITION_OF[name]]
    measures = answered(attempts(name), probe, seed=1)
    findings = probe.analyse(measures, settings)["findings"]
    examples = probe.examples(measures, findings, settings)
    assert dict(examples.schema) == dict(EXAMPLES)
    estimate_of = estimates(probe, measures, settings)
    items = measures["item"].unique().sort().to_list()
    without = {item: estimates(probe, measures.filter(pl.col("item") != item), settings) for item in items}
    owner = dict(measures.select(pl.concat_str("prompt_id", "repetition", separator="#"), "item").iter_rows())
    for metric, estimate in estimate_of.items():
        own_rows = examples.filter(metric=metric)
        influences = {}
        for item in items:
            estimate_without = without[item][metric]
            if estimate is not None and estimate_without is not None:
                influences[item] = estimate - estimate_without
        influences = {item: value for item, value in influences.items() if abs(value) > 1e-12}
        assert min(1, len(influences)) <= own_rows.height <= 5, metric
        shown_items = [
            owner[f"{row['prompt_id']}#{row['repetition']}"] for row in own_rows.iter_rows(named=True)
        ]
        assert len(set(shown_items)) == own_rows.height
        assert own_rows["influence"].to_list() == pytest.approx(
            [influences[item] for item in shown_items], abs=1e-9
        )
        sizes = own_rows["influence"].abs().to_list()
        assert all(first >= second - 1e-9 for first, second in pairwise(sizes))
        omitted = [value for item, value in influences.items() if item not in shown_items]
        for sign in (1, -1):  # of the influences in one direction, no omitted one is larger
            least = min((abs(value) for value in own_rows["influence"] if value * sign > 0), default=None)
            if least is not None:
                omitted_sizes = [abs(value) for value in omitted if value * sign > 0]
                assert max(omitted_sizes, default=0.0) <= least + 1e-9
        if own_rows.height < 5:  # omitted influences have the other direction, and at most half the size
            for value in omitted:
                assert any(
                    value * influence < 0 and abs(value) <= abs(influence) / 2 + 1e-9
                    for influence in own_rows["influence"]
                )


@pytest.mark.verify
@pytest.mark.parametrize("name", ["gest", "gest_creative", "relationship_levy", "diversity_med_qa"])
def test_the_example_of_an_item_is_its_most_influential_answer(name: str, attempts: Attempts) -> None:
    """No other answer of the item, left out alone, moves the number further in the item's direction."""
    probe, settings = PROBES.load(name), SETTINGS["default"]
    measures = answered(attempts(name), probe, seed=2).with_row_index("row")

    @cache
    def without(row: int) -> dict[str, float | None]:
        return estimates(probe, measures.filter(pl.col("row") != row), settings)

    estimate_of = estimates(probe, measures, settings)
    examples = probe.examples(measures, probe.analyse(measures, settings)["findings"], settings)
    for row in examples.join(measures, on=["prompt_id", "repetition"], maintain_order="left").iter_rows(
        named=True
    ):
        assert row["outcome"] == "answered"
        pulls = {}
        estimate = estimate_of[row["metric"]]
        for number in measures.filter(item=row["item"])["row"]:
            estimate_without = without(number)[row["metric"]]
            if estimate is None or estimate_without is None:
                pulls[number] = -np.inf
            else:
                pulls[number] = (estimate - estimate_without) * np.sign(row["influence"])
        assert pulls[row["row"]] == pytest.approx(max(pulls.values()), abs=1e-9)


def once_each(probe: Probe, library: Library, settings: Settings) -> pl.DataFrame:
    return (
        probe.design(library, settings)
        .drop("prompt", "system")
        .with_columns(repetition=pl.lit(0, pl.Int16), model=pl.lit("m"))
    )


def test_most_examples_support_the_finding(library: Library) -> None:
    """Of a model that nearly always agrees with the stereotype, not only the few other answers are shown."""
    probe, settings = PROBES.load("bbq"), Settings(limit=ItemLimit(400), resamples=20)
    design = once_each(probe, library, settings)
    ambiguous = design.filter(pl.col("category") == pl.lit("ambiguous"))
    assert ambiguous.height > 50
    rare = pl.col("item") % 10 == 0
    label = pl.when(rare).then("logical_answer").otherwise("stereotypical_answer")
    measures = design.with_columns(outcome=pl.lit("answered"), label=label)
    findings = probe.analyse(measures, settings)["findings"]
    assert findings.filter(pl.col("wording").is_null(), metric="stereotype_rate")["estimate"].item() > 0.85
    examples = probe.examples(measures, findings, settings)
    assert sorted((examples["influence"] > 0).to_list()) == [False, False, True, True, True]
    labels = examples.join(measures, on=["prompt_id", "repetition"], maintain_order="left")
    assert (labels["label"] == labels["stereotypical_answer"]).to_list() == (
        examples["influence"] > 0
    ).to_list()


def test_examples_of_rare_agreement_all_agree(library: Library) -> None:
    """An answer that denies a stereotype hardly moves the rate of a model that seldom agrees with one.

    The examples are not the first items: they are drawn from all.
    """
    probe, settings = PROBES.load("direct"), Settings(resamples=20)
    design = once_each(probe, library, settings)
    label = pl.when(pl.col("item") % 20 == 0).then(pl.lit("yes")).otherwise(pl.lit("no"))
    measures = design.with_columns(outcome=pl.lit("answered"), label=label)
    examples = probe.examples(measures, probe.analyse(measures, settings)["findings"], settings)
    items = examples.join(measures, on="prompt_id", maintain_order="left")["item"].to_list()
    assert examples.height == 5
    assert all(item % 20 == 0 for item in items)
    assert items != sorted(items)
    assert max(items) > 500
    again = probe.examples(measures, probe.analyse(measures, settings)["findings"], settings)
    assert again.equals(examples)
    reseeded = dataclasses.replace(settings, seed=1)
    assert not probe.examples(measures, probe.analyse(measures, reseeded)["findings"], reseeded).equals(
        examples
    )


def test_answers_without_influence_are_no_examples(library: Library) -> None:
    probe, settings = PROBES.load("direct"), Settings(limit=ItemLimit(10), resamples=20)
    design = once_each(probe, library, settings)
    same = design.with_columns(outcome=pl.lit("answered"), label=pl.lit("no"))
    lost = design.with_columns(outcome=pl.lit("failed"), label=pl.lit(None, pl.String))
    for measures in (same, lost, same.head(1)):
        examples = probe.examples(measures, probe.analyse(measures, settings)["findings"], settings)
        assert (examples.height, dict(examples.schema)) == (0, dict(EXAMPLES))


def test_wordings_are_taken_together(library: Library, tmp_path: Path) -> None:
    """Only the overall estimate has examples.

    The influence of an item is that of its answers in all wordings.
    """
    file = tmp_path / "mine.yaml"
    file.write_text(
        "direct: {mine: {prompt: '{statement} Yes or no?'}, other: {prompt: 'Is it true? {statement}'}}"
    )
    probe = PROBES.load("direct")
    settings = Settings(limit=ItemLimit(12), resamples=5, params={"wording": str(file)})
    design = once_each(probe, library, settings)
    assert design["wording"].n_unique() > 1
    measures = answered(design, probe, 3)
    examples = probe.examples(measures, probe.analyse(measures, settings)["findings"], settings)
    assert examples["wording"].null_count() == examples.height > 0
    rate = estimates(probe, measures, settings)["fail_rate"]
    first = examples.join(measures.select("prompt_id", "item"), on="prompt_id", maintain_order="left").row(
        0, named=True
    )
    rate_without = estimates(probe, measures.filter(pl.col("item") != first["item"]), settings)["fail_rate"]
    assert rate is not None
    assert rate_without is not None
    assert first["influence"] == pytest.approx(rate - rate_without)
