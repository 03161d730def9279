"""`gest` in German: prompts, the sentences that are asked, and the comparison with English.

The translations are made up (`support.translations`); tests/datasets/test_translations.py has the published
ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import tiltmeter as tm
from conftest import Tiltmeter
from support.translations import GEST, TRANSLATIONS, asked, in_catalogue, library, sentences
from tiltmeter.comparing import Comparison
from tiltmeter.datasets import Library
from tiltmeter.designs.limits import ItemLimit
from tiltmeter.designs.wordings import placeholders
from tiltmeter.errors import IncompleteRun, InputError
from tiltmeter.probes import Probe, load_probe
from tiltmeter.probes._simulation import answered_attempts
from tiltmeter.runs import Run
from tiltmeter.study import NotRun, Settings

pytestmark = pytest.mark.xdist_group("languages")

COUNT = 240
SENTENCES = sentences(COUNT)
PUBLISHED = 2561
"""Sentences of GEST that are asked in German."""


def german() -> Probe:
    return load_probe("gest").variant({"language": "de"})


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return library(tmp_path_factory.mktemp("translations") / "data", COUNT)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for runs, with made-up data."""
    home = tmp_path_factory.mktemp("languages")
    library(home / "data", COUNT)
    with pytest.MonkeyPatch.context() as patched, in_catalogue(home / "data", GEST, TRANSLATIONS):
        patched.setenv("TILTMETER_DATA", str(home / "data"))
        patched.setenv("TILTMETER_RUNS", str(home / "runs"))
        yield home


def run_in(language: str, bias: float = 0.25, **more: Any) -> Run:
    params = {"language": language, **more.pop("params", {})}
    return tm.run(
        "genderbench/gest",
        model="sim/biased",
        options={"bias": bias},
        params=params,
        display="none",
        size="full",
        **more,
    )


@pytest.fixture(scope="module")
def both(place: Path) -> tuple[Run, Run]:
    """A run in each language of a model with the same bias in both."""
    return run_in("en"), run_in("de")


# -- prompts -----------------------------------------------------------------------------------------------


def test_the_wordings_of_a_language_are_those_of_english_in_other_words() -> None:
    english = load_probe("gest")
    of_language = german().wordings
    assert of_language is not None
    settings = Settings(params={"wording": "all"})
    names, _ = english._wordings_used(settings)
    assert list(of_language) == list(names)
    assert len(of_language) >= 10
    for name, templates in of_language.items():
        assert templates.keys() == names[name].keys()
        for role, text in templates.items():
            assert placeholders(text) == placeholders(names[name][role])
            assert text != names[name][role]
    assert len({templates["prompt"] for templates in of_language.values()}) == len(of_language)


def test_only_sentences_with_a_translation_are_asked_and_keep_their_number(made_up: Library) -> None:
    """Rows are matched by words and stereotype: the file has another order than GEST."""
    english = load_probe("gest").design(made_up, Settings())
    design = german().design(made_up, Settings())
    expected = asked(SENTENCES)
    assert english["item"].unique().sort().to_list() == list(range(COUNT))
    assert design["item"].unique().sort().to_list() == expected
    assert 0.5 * COUNT < len(expected) < 0.75 * COUNT
    named = design["prompt"].str.extract(r"Ich bin Satz (\d+)").cast(pl.Int64)
    assert named.to_list() == design["item"].to_list()
    pairs = english.join(design, on="prompt_id", suffix="_german")
    assert pairs.height == design.height
    assert pairs["options"].to_list() == pairs["options_german"].to_list()
    assert pairs["wording"].to_list() == pairs["wording_german"].to_list()
    assert (pairs["stereotype_id"] == pairs["stereotype_id_german"]).all()


def test_limits_draw_the_sentences_that_english_draws_as_far_as_they_are_translated(
    made_up: Library,
) -> None:
    translated = set(asked(SENTENCES))
    smaller: set[int] = set()
    for limit in (20, 60, 120):
        settings = Settings(limit=ItemLimit(limit))
        of_english = set(load_probe("gest").design(made_up, settings)["item"])
        of_german = set(german().design(made_up, settings)["item"])
        assert len(of_english) == len(of_german) == limit
        assert of_english & translated <= of_german
        assert smaller <= of_german <= translated
        smaller = of_german
    in_range = Settings(limit=ItemLimit((0, 9)))
    assert set(german().design(made_up, in_range)["item"]) == {n for n in range(10) if n in translated}


def test_the_probe_says_its_language_and_keeps_its_name() -> None:
    assert german().name == "gest"
    assert german().title == "Who said it, in German"
    assert f"{PUBLISHED:,} of 3,565" in german().remark
    assert load_probe("gest").title == "Who said it"


def test_german_answers_in_words_are_read_by_the_probe(made_up: Library) -> None:
    design = german().design(made_up, Settings(limit=ItemLimit(2)))
    replies = ["Eher Frauen.", "Weder Männer noch Frauen.", "(a)", "Das kann ich nicht beantworten."]
    attempts = design.head(4).with_columns(
        pl.Series("answer", replies), status=pl.lit("ok"), refusal=pl.lit(None, pl.String)
    )
    measured = german().measure(attempts, Settings())
    first_options = [options[0] for options in design["options"]]
    assert measured["label"].to_list() == ["female", "neither", first_options[2], None]
    assert measured["outcome"].to_list() == ["answered"] * 3 + ["refused"]


# -- mistakes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("study", "options", "sentence"),
    [
        ("genderbench/gest", {"params": {"language": "fr"}}, "no prompts in this language: known: en, de"),
        ("genderbench/direct", {"params": {"language": "de"}}, "direct has prompts in English only"),
        (
            "genderbench/gest",
            {"params": {"language": "de"}, "definition": "genderbench"},
            "the definition genderbench has English prompts only",
        ),
    ],
)
def test_a_language_that_cannot_be_had_is_refused_in_one_sentence(
    place: Path, study: str, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence) as refused:
        tm.plan(study, model="sim/fair", **options)
    assert "\n" not in str(refused.value)


def test_without_the_translations_no_request_is_sent(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    originals = tmp_path / "data" / GEST
    originals.parent.mkdir(parents=True)
    originals.write_bytes((place / "data" / GEST).read_bytes())
    monkeypatch.setenv("TILTMETER_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("TILTMETER_CACHE", str(tmp_path / "cache"))
    with pytest.warns(IncompleteRun, match="gest not run"):
        run = run_in("de", out=tmp_path / "run")
    (problem,) = run.problems
    assert f"run `tiltmeter data fetch {TRANSLATIONS}`, or set TILTMETER_DATA" in problem
    assert run.responses.is_empty()
    (reason,) = tm.plan("genderbench/gest", params={"language": "de"}).not_run.values()
    assert TRANSLATIONS in reason


# -- runs and their comparison -----------------------------------------------------------------------------


def test_the_simulated_model_answers_german_prompts(both: tuple[Run, Run]) -> None:
    _, of_german = both
    finding = of_german.finding("stereotype_rate")
    assert finding.low is not None
    assert finding.high is not None
    assert finding.low < 0.25 < finding.high
    assert of_german.design["prompt"].str.contains("Männer").all()
    assert both[0].path != of_german.path


def test_the_report_the_plan_and_the_screen_name_the_language(
    both: tuple[Run, Run], place: Path, tiltmeter: Tiltmeter
) -> None:
    _, of_german = both
    screen = tiltmeter("show", str(of_german.path)).stdout
    assert "Who said it, in German" in screen
    page = place / "page.html"
    tiltmeter("report", str(of_german.path), "-o", str(page), exits=0)
    assert "Who said it, in German" in page.read_text(encoding="utf-8")
    plan = tm.plan("genderbench/gest", model="sim/fair", params={"language": "de"})
    assert any(sentence.startswith("Who said it, in German: only the") for sentence in plan.warnings)


def stereotype_rate(comparison: Comparison) -> dict[str, Any]:
    return comparison.differences.filter("key").row(0, named=True)


def test_the_same_bias_in_both_languages_is_not_called_different(both: tuple[Run, Run]) -> None:
    comparison = tm.compare(*both)
    row = stereotype_rate(comparison)
    assert row["paired"]
    assert row["n"] == len(asked(SENTENCES))
    assert row["low"] < 0 < row["high"]
    texts = [block.text for block in comparison.blocks() if hasattr(block, "text")]
    assert "is not shown to differ between English and German" in texts[-1]
    assert f"on the {row['n']} items that both runs have" in texts[-1]
    assert any("the first run is in English, the second in German" in note for note in comparison.notes)
    assert not any("parameters differ" in note for note in comparison.notes)


def test_another_bias_in_german_is_found_and_said_by_compare_and_gate(
    both: tuple[Run, Run], place: Path, tiltmeter: Tiltmeter
) -> None:
    stronger = run_in("de", bias=0.45)
    comparison = tm.compare(both[0], stronger)
    row = stereotype_rate(comparison)
    assert row["low"] < 0.2 < row["high"]
    assert row["q"] < 0.05
    assert comparison.verdicts["worse"] == 1
    printed = tiltmeter("compare", str(both[0].path), str(stronger.path)).stdout
    assert "The bias of sim/biased differs between English and German: gest" in " ".join(printed.split())
    gated = tiltmeter("gate", str(stronger.path), "--baseline", str(both[0].path), "--fail-on", "none")
    assert "the first run is in English, the second in German" in " ".join(gated.stdout.split())
    assert gated.returncode != 0


def test_other_parameters_are_still_compared(both: tuple[Run, Run]) -> None:
    plain = run_in("de", params={"wording": "plain"})
    notes = tm.compare(both[0], plain).notes
    assert any("parameters differ: none and wording=plain" in note for note in notes)


def test_two_german_runs_are_paired_by_their_prompts_as_always(both: tuple[Run, Run]) -> None:
    comparison = tm.compare(both[1], run_in("de", bias=0.0))
    assert comparison.notes == ()
    assert stereotype_rate(comparison)["n"] == len(asked(SENTENCES))
    assert not any("between" in getattr(block, "text", "") for block in comparison.blocks())


# -- the error rate of the comparison ----------------------------------------------------------------------


class Answers:
    """The measures of one language (implements `tiltmeter.study.RunView`)."""

    def __init__(self, measures: pl.DataFrame) -> None:
        self.measures = measures

    def stage(self, table: str) -> pl.DataFrame:
        raise NotRun(table)


def drawn(design: pl.DataFrame, bias: float, of_items: np.ndarray, rng: np.random.Generator) -> Answers:
    """Draw the answers of a model whose bias varies between items around `bias`.

    `of_items` is what the items have in common in both languages; an effect of each translation comes on top.
    """
    attempts = answered_attempts(design)
    numbers = attempts["item"].to_numpy()
    of_translations = rng.normal(0, 0.1, COUNT)
    centred = of_translations - of_translations.mean()
    shift = np.clip(bias + of_items + centred, -0.6, 0.6)[numbers] / 2
    about = attempts["stereotype_id"].to_numpy()
    towards = np.where(about <= 7, -shift, np.where(about == 15, 0, shift))
    limits = np.stack([1 / 3 + towards, np.full(len(towards), 2 / 3)], axis=1)
    places = (rng.random(len(towards))[:, None] >= limits).sum(axis=1)
    labels = pl.Series(["male", "female", "neither"]).gather(places)
    return Answers(attempts.with_columns(label=labels))


def p_of_pair(designs: list[pl.DataFrame], biases: tuple[float, float], seed: int) -> float:
    rng = np.random.default_rng(seed)
    of_items = rng.normal(0, 0.15, COUNT)
    sides = [drawn(design, bias, of_items, rng) for design, bias in zip(designs, biases, strict=True)]
    settings = Settings(seed=seed, resamples=200)
    contrast = load_probe("gest").contrast(sides[0], sides[1], settings)
    assert contrast is not None
    return float(contrast.filter(metric="stereotype_rate")["p"].item())


@pytest.mark.verify
def test_a_fair_pair_is_rarely_called_different_and_20_points_are_found(made_up: Library) -> None:
    """English asks 240 sentences, German the 156 that have a translation."""
    designs = [probe.design(made_up, Settings()) for probe in (load_probe("gest"), german())]
    fair = [p_of_pair(designs, (0.2, 0.2), seed) for seed in range(400)]
    assert sum(p < 0.05 for p in fair) <= 20
    different = [p_of_pair(designs, (0.1, 0.3), seed) for seed in range(40)]
    assert sum(p < 0.05 for p in different) >= 36
