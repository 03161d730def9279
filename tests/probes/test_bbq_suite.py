"""All of BBQ: categories, classes of options, metrics apart, headlines, fair and biased models."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom

import tiltmeter as tm
from conftest import Tiltmeter
from support.bbq import AT_HAND, IN_LINE, OPPOSED, UNKNOWN, category, chosen, design_of, made_up, responses
from tiltmeter.blocks import Headline
from tiltmeter.datasets import Library
from tiltmeter.errors import InputError
from tiltmeter.probes._bbq._categories import categories, questions
from tiltmeter.probes._bbq._presentation import cautious_categories
from tiltmeter.probes._bbq._suite import PARTS, suite
from tiltmeter.probes._headlines import is_shown
from tiltmeter.runs import Run
from tiltmeter.runs._shared_tables import with_q
from tiltmeter.study import Settings
from tiltmeter.testing import check_probe

pytestmark = [
    pytest.mark.usefixtures("workplace"),
    pytest.mark.filterwarnings("ignore::tiltmeter.Ungraded", "ignore::tiltmeter.Underpowered"),
]
CORRECT = pl.col("logical_answer")
Answering = Callable[[pl.DataFrame, np.random.Generator], pl.DataFrame]
"""Function from a design to the attempts of a model."""
FAIR_STUDIES = 30
SCREENS = ["age", "physical_appearance", "sexual_orientation"]
"""Categories of the studies of fair and biased models."""


def classified(part: str) -> pl.DataFrame:
    return questions(Library.default().json_lines(categories()[part].data), categories()[part])


# -- the data ----------------------------------------------------------------------------------------------


def test_the_table_of_categories_has_all_58_492_prompts() -> None:
    assert tuple(categories()) == PARTS == tuple(part.name for part in suite().parts)
    assert sum(row.prompts for row in categories().values()) == 58_492


@pytest.mark.parametrize("part", AT_HAND)
def test_a_category_at_hand_has_its_prompts_and_classes(part: str) -> None:
    """The file leaves 16 questions about gender open, as many as the R script of the paper drops."""
    table = classified(part)
    assert table.height == categories()[part].prompts
    unmatched = table.filter(direction="unmatched")
    assert unmatched.height == (16 if part == "gender_identity" else 0)
    assert unmatched["in_line"].null_count() == unmatched.height
    known = table.filter(pl.col("direction") != "unmatched")
    assert known.select("in_line", "stereotyped", "unknown").null_count().sum_horizontal().item() == 0
    # An item is the same two people in both conditions, asked for the one and for the other.
    of_item = table.group_by("item").agg(
        kinds=pl.struct("condition", "polarity").n_unique(),
        people=pl.concat_list("ans0", "ans1", "ans2").list.sort().list.join("|").n_unique(),
        templates=pl.col("question_index").n_unique(),
        directions=pl.col("direction").n_unique(),
    )
    assert of_item.select(pl.exclude("item")).unique().rows() == [(4, 1, 1, 1)]
    told = known.filter(condition="disambiguated")
    assert (told["direction"] == "with").equals(told["label"] == told["in_line"])
    open_ = table.filter(condition="ambiguous")
    assert (open_["label"] == open_["unknown"]).all()


@pytest.mark.parametrize(
    ("part", "first", "second", "groups"),
    [
        (
            "race_ethnicity",
            ("Jamal Banks", "M-Black"),
            ("Cody Olson", "M-White"),
            ["Black", "African American"],
        ),
        ("race_ethnicity", ("Latino", "Latino"), ("European", "European"), ["Hispanic", "Latino"]),
        ("race_x_gender", ("Tanisha Banks", "F-Black"), ("Cody Olson", "M-White"), ["F-Black"]),
        ("race_x_gender", ("Tanisha Banks", "F-Black"), ("Amy Olson", "F-White"), ["F-Black"]),
        ("race_x_ses", ("Jamal Banks", "lowSES-M-Black"), ("Joe", "highSES-M-Black"), ["Black"]),
        ("race_x_ses", ("The poor Asian", "lowSES-Asian"), ("The rich White", "highSES-White"), ["Asian"]),
        ("ses", ("The cashier", "lowSES"), ("The surgeon", "highSES"), ["low SES"]),
        ("gender_identity", ("Ann", "trans_F"), ("Joe", "nonTrans_M"), ["Transgender women", "trans"]),
        ("age", ("The old man", "old"), ("The boy", "nonOld"), ["old"]),
        ("nationality", ("Yemeni", "MiddleEast"), ("Swiss", "Europe"), ["Saudi", "Yemeni"]),
    ],
)
def test_rows_of_the_shape_of_a_category_are_classified(
    part: str, first: tuple[str, str], second: tuple[str, str], groups: list[str]
) -> None:
    """Four of the files were not at hand: their rows are made up in the same shape."""
    rows = made_up(categories()[part].file, first, second, groups)
    table = questions(rows, categories()[part])
    assert table["stereotyped"].unique().to_list() == [0]
    assert table["unknown"].unique().to_list() == [2]
    expected = [0 if polarity == "neg" else 1 for polarity in rows["question_polarity"]]
    assert table["in_line"].to_list() == expected
    directions = table.group_by("item", maintain_order=True).agg(pl.col("direction").first())["direction"]
    assert directions.to_list() == ["with", "against", "with", "against"]
    prompts = category(part).prompts_of(rows, Random(1))
    shown = prompts.select(pl.col("options").list.get(pl.col("unknown_answer").replace_strict(
        {"a": 0, "b": 1, "c": 2}, return_dtype=pl.Int8))).to_series()  # fmt: skip
    assert shown.unique().to_list() == ["Unknown"]


@pytest.mark.parametrize(
    ("first", "second"),
    [(("man", "man"), ("boy", "boy")), (("woman", "woman"), ("girl", "girl"))],
    ids=["neither", "both"],
)
def test_a_question_that_leaves_the_group_open_counts_for_accuracy_only(
    first: tuple[str, str], second: tuple[str, str]
) -> None:
    rows = made_up("Gender_identity", first, second, ["F"])
    prompts = category("gender_identity").prompts_of(rows, Random(1))
    assert prompts["direction"].unique().to_list() == ["unmatched"]
    assert prompts["stereotypical_answer"].unique().to_list() == ["none"]
    read = prompts.with_columns(label="logical_answer", outcome=pl.lit("answered"))
    counts = category("gender_identity").counts(read).drop("item").sum().row(0, named=True)
    values = category("gender_identity").formulas({name: np.array([count]) for name, count in counts.items()})
    assert values["accuracy_ambiguous"] == values["accuracy_disambiguated"] == 1
    assert np.isnan([values["bias_ambiguous"], values["bias_disambiguated"]]).all()


def test_a_row_without_an_unknown_option_is_named() -> None:
    rows = made_up("Age", ("The old man", "old"), ("The boy", "nonOld"), ["old"])
    kinds = pl.struct(ans0="ans0", ans1="ans1", ans2="ans0")
    lists = rows["answer_info"].struct.unnest().select(kinds)
    with pytest.raises(InputError, match=r"bbq/Age.jsonl: row 1 has no option that stands for “unknown”"):
        questions(rows.with_columns(answer_info=lists.to_series()), categories()["age"])


def test_an_unknown_category_is_named() -> None:
    with pytest.raises(InputError, match=r"unknown category 'agee' of bbq.*age"):
        tm.run("bbq/agee", model="sim/fair")


@pytest.mark.verify
@pytest.mark.parametrize("part", AT_HAND)
def test_each_category_meets_the_requirements_of_probes(part: str) -> None:
    check_probe(category(part))


# -- results -----------------------------------------------------------------------------------------------


def analysed(items: int, part: str = "age", **models: pl.Expr) -> Run:
    design = design_of(part, items)
    answers = pl.concat([responses(design, name, letter) for name, letter in models.items()])
    return tm.analyse(answers, f"bbq/{part}", limit=items, display="none")


def numbers(run: Run, model: str) -> dict[str, dict[str, Any]]:
    findings = run.table("findings").filter(pl.col("wording").is_null(), model=model)
    return {row["metric"]: row for row in findings.iter_rows(named=True)}


def headline(run: Run, model: str) -> Headline:
    blocks = [block for block in run.blocks() if isinstance(block, Headline)]
    return next(block for block in blocks if block.model == model)


def part_of(share: float, salt: int) -> pl.Expr:
    """Whether a prompt is in a random part of them."""
    number = (pl.col("item") * 4 + pl.col("prompt_index")).cast(pl.Int64)
    return (number * number * (31 + salt) + number * (7_919 + 2 * salt) + salt) % 1_009 < 1_009 * share


def otherwise(condition: pl.Expr, letter: pl.Expr) -> pl.Expr:
    """The letter where a condition holds, and the correct one elsewhere."""
    return pl.when(condition).then(letter).otherwise(CORRECT)


def test_accuracy_bias_and_over_caution_are_apart() -> None:
    cautious = otherwise(part_of(0.4, 1), UNKNOWN)
    one_sided = otherwise(part_of(0.6, 2), UNKNOWN)
    run = analysed(
        120,
        right=chosen(),
        cautious=chosen(going_with=cautious, against=cautious),
        avoiding=chosen(against=one_sided),
        guided=chosen(against=otherwise(part_of(0.5, 3), IN_LINE)),
        guessing=chosen(ambiguous=otherwise(part_of(0.6, 4), IN_LINE)),
        contrary=chosen(ambiguous=OPPOSED),
    )
    right, caution = numbers(run, "right"), numbers(run, "cautious")
    avoiding, guided = numbers(run, "avoiding"), numbers(run, "guided")
    for name in ("bias_ambiguous", "bias_disambiguated", "over_caution_gap", "over_caution", "accuracy_gap"):
        assert right[name]["estimate"] == 0
    assert right["accuracy_ambiguous"]["estimate"] == right["accuracy_disambiguated"]["estimate"] == 1
    # Over-caution lowers the accuracy, and is no bias: neither of answers that name a person, nor its own.
    assert caution["over_caution"]["estimate"] == pytest.approx(0.4, abs=0.07)
    lost = 1 - caution["accuracy_disambiguated"]["estimate"]
    assert caution["over_caution"]["estimate"] == pytest.approx(lost, abs=1e-12)
    assert caution["bias_disambiguated"]["estimate"] == caution["bias_ambiguous"]["estimate"] == 0
    assert caution["over_caution_gap"]["q"] > 0.05
    # One-sided over-caution is bias, although no answer names a wrong person.
    assert avoiding["bias_disambiguated"]["estimate"] == 0
    assert avoiding["over_caution_gap"]["estimate"] == pytest.approx(0.6, abs=0.1)
    assert avoiding["over_caution_gap"]["q"] < 0.001
    assert guided["bias_disambiguated"]["estimate"] == pytest.approx(0.5, abs=0.1)
    assert guided["over_caution_gap"]["estimate"] == 0
    assert guided["accuracy_gap"]["estimate"] == pytest.approx(guided["bias_disambiguated"]["estimate"])
    assert numbers(run, "guessing")["bias_ambiguous"]["estimate"] == pytest.approx(0.6, abs=0.1)
    assert numbers(run, "contrary")["bias_ambiguous"]["estimate"] == -1


CAUSE = "over-caution, not bias, costs most of the lost accuracy"


def test_the_headline_names_over_caution_only_where_it_moves_the_accuracy() -> None:
    caution = otherwise(part_of(0.4, 1), UNKNOWN)
    slips = otherwise(part_of(0.3, 5), pl.when(CORRECT == IN_LINE).then(OPPOSED).otherwise(IN_LINE))
    mixed = pl.when(part_of(0.1, 6)).then(UNKNOWN).otherwise(slips)
    run = analysed(
        120,
        cautious=chosen(going_with=caution, against=caution),
        slipping=chosen(going_with=slips, against=slips),
        both=chosen(going_with=mixed, against=mixed),
        avoiding=chosen(against=otherwise(part_of(0.6, 2), UNKNOWN)),
        right=chosen(),
    )
    assert headline(run, "cautious").text.endswith(f"; {CAUSE}")
    assert "bias in" not in headline(run, "cautious").text
    detail = headline(run, "cautious").detail
    assert "“Age”, where the text gives the answer: 4" in detail
    assert "% of the answers are “unknown”, and 0% name the wrong person" in detail
    for model in ("slipping", "both", "avoiding", "right"):
        assert CAUSE not in headline(run, model).text
    assert headline(run, "avoiding").text.startswith("avoiding: critical or worse in 1 of 3 tests")


def test_a_published_formula_has_no_marks_and_its_score_in_the_headline() -> None:
    run = analysed(60, contrary=chosen(ambiguous=OPPOSED))
    again = tm.analyse(run, definition="helm", display="none")
    assert again.table("findings")["mark"].null_count() == again.table("findings").height
    assert headline(again, "contrary").text == (
        "contrary: HELM -0.500 for ambiguous texts and 0.000 for disambiguated texts"
    )


def test_a_run_shows_the_six_formulas_and_asks_in_dealt_wordings() -> None:
    run = tm.run("bbq", only=["religion", "sexual_orientation"], model="sim/biased", limit=60, display="none")
    assert run.table("design")["wording"].n_unique() == 10
    assert run.table("formulas").select("part", "context").rows() == [
        (part, context)
        for part in ("religion", "sexual_orientation")
        for context in ("ambiguous", "disambiguated")
    ]
    assert any(getattr(block, "title", "") == "Six formulas, these answers" for block in run.blocks())
    assert run.problems == []


# -- fair and biased models --------------------------------------------------------------------------------


def attempts_of(
    design: pl.DataFrame, chances: np.ndarray[Any, Any], rng: np.random.Generator
) -> pl.DataFrame:
    """Attempts whose answers are in line, opposed or "unknown" with these probabilities, shape (rows, 3)."""
    limits = chances.cumsum(axis=1)
    drawn = (rng.random(design.height)[:, None] >= limits).sum(axis=1).clip(0, 2)
    kind = pl.Series(np.array(["in_line", "opposed", "unknown"])[drawn])
    label = pl.when(kind == "in_line").then(IN_LINE).when(kind == "opposed").then(OPPOSED).otherwise(UNKNOWN)
    return design.drop("prompt", "system").with_columns(
        label=label, outcome=pl.lit("answered"), model=pl.lit("m"), repetition=pl.lit(0, pl.Int16)
    )


def own_answers(
    design: pl.DataFrame, rng: np.random.Generator, bias: float = 0.0, caution: float = 0.0
) -> pl.DataFrame:
    """Answers of a model: templates differ in how often it answers and slips, and whom they call to mind.

    All of these differences are symmetric, so that without `bias` no template is in line with a stereotype on
    average. `bias` is added to the tendency in line with it, and `caution` to that to say "unknown".
    """
    templates = design["question_id"].to_numpy()
    number = int(templates.max()) + 1

    def effect(spread: float) -> np.ndarray[Any, Any]:
        of_items: np.ndarray[Any, Any] = (spread * rng.standard_normal(number))[templates]
        return of_items

    is_ambiguous = (design["condition"] == "ambiguous").to_numpy()
    goes_with = (design["direction"] == "with").to_numpy()
    leaning = effect(0.4) + bias
    told = np.where(goes_with, 3.0, -3.0) + effect(0.3)
    person = np.where(is_ambiguous, leaning, leaning + told)
    silence = np.where(is_ambiguous, 1.5, -1.5) + effect(0.8) + caution
    unknown = 1 / (1 + np.exp(-silence))
    in_line = (1 - unknown) / (1 + np.exp(-2 * person))
    return attempts_of(design, np.stack([in_line, 1 - unknown - in_line, unknown], axis=1), rng)


def evenly_wrong(design: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Answers of a model that says "unknown" as often as it names the wrong person."""
    templates = design["question_id"].to_numpy()
    effect = (0.08 * rng.standard_normal(int(templates.max()) + 1)).clip(-0.19, 0.19)[templates]
    is_ambiguous = (design["condition"] == "ambiguous").to_numpy()
    goes_with = (design["direction"] == "with").to_numpy()
    unknown = np.where(is_ambiguous, 0.8, 0.2 + effect)
    wrong = np.where(is_ambiguous, 0.1, 0.2 - effect)
    in_line = np.where(goes_with, 1 - unknown - wrong, wrong)
    return attempts_of(design, np.stack([in_line, 1 - unknown - in_line, unknown], axis=1), rng)


def claims(designs: list[pl.DataFrame], seed: int, answers_of: Answering) -> dict[str, list[str]]:
    """What the first screen states as a fact about one model: biases, and over-caution as a cause."""
    rng = np.random.default_rng(seed)
    tables = []
    for part, design in zip(SCREENS, designs, strict=True):
        answers = answers_of(design, rng)
        found = category(part).analyse(answers, Settings(seed=seed, resamples=400))["findings"]
        tables.append(found.filter(pl.col("wording").is_null()))
    findings = with_q(pl.concat(tables))
    shown = [row for row in findings.filter("key").iter_rows(named=True) if is_shown(row)]
    return {
        "bias": [f"{row['part']}/{row['metric']}" for row in shown],
        "caution": cautious_categories(findings)["part"].to_list(),
    }


@pytest.mark.verify
def test_a_fair_model_is_seldom_accused_and_planted_biases_are_found() -> None:
    designs = [design_of(part, 150) for part in SCREENS]
    # With at most 5% false screens, more than this occur in fewer than one of 1,000 such tests.
    most = binom.ppf(0.999, FAIR_STUDIES, 0.05)
    fair = [claims(designs, seed, own_answers) for seed in range(FAIR_STUDIES)]
    assert sum(bool(claim["bias"]) for claim in fair) <= most
    even = [claims(designs, seed, evenly_wrong) for seed in range(FAIR_STUDIES)]
    assert sum(bool(claim["bias"] or claim["caution"]) for claim in even) <= 2 * most
    biased = [claims(designs, seed, partial(own_answers, bias=1.5)) for seed in range(10)]
    for part in SCREENS:
        assert sum(f"{part}/bias_ambiguous" in claim["bias"] for claim in biased) >= 8
    cautious = [claims(designs, seed, partial(own_answers, caution=1.5)) for seed in range(10)]
    assert sum(len(claim["caution"]) == len(SCREENS) for claim in cautious) >= 8
    assert sum(bool(claim["bias"]) for claim in cautious) <= 3


def test_the_first_screen_counts_all_responses(tiltmeter: Tiltmeter) -> None:
    done = tiltmeter("run bbq/age --model sim/mild --limit 12 --display none --out run", exits=0)
    assert "48 of 48 responses (100.0%) could be parsed" in done.stdout
