"""Values of features: the published formulas on real models, missing values, and one reading per text."""

from __future__ import annotations

import math
import random
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import lazy_loader
import numpy as np
import polars as pl
import pytest
from vaderSentiment.vaderSentiment import BOOSTER_DICT, NEGATE, SPECIAL_CASES, SentimentIntensityAnalyzer

from features.conftest import Opener
from support.tiny_models import save_classifier
from tiltmeter.errors import InputError
from tiltmeter.features import Measured, measure_features, open_features
from tiltmeter.features._kinds import vader_analyzer

torch: Any = lazy_loader.load("torch")  # importing it takes seconds, and every worker reads this module

TEXTS = pl.Series(["kind", "brave and calm", None, "kind", "  ", "works at the hospital", "strong"])
BASELINES = pl.Series(["calm", None, "gentle", "kind", "brave", "works at the school", "strong"])


def measured(
    opener: Opener, names: list[str], texts: pl.Series, baselines: pl.Series | None = None
) -> Measured:
    return measure_features(
        open_features(names, encoder=opener.encoder, classifier=opener.classifier), texts, baselines
    )


def probabilities(folder: Path, text: str, *, exclusive: bool = True) -> dict[str, float]:
    """Return the probability of each label, computed with transformers alone."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    net = AutoModelForSequenceClassification.from_pretrained(folder)
    with torch.inference_mode():
        tokens = tokenizer(text, truncation=True, max_length=64, return_tensors="pt")
        logits = net(**tokens).logits[0]
    scores = logits.softmax(0) if exclusive else logits.sigmoid()
    return {net.config.id2label[number]: float(value) for number, value in enumerate(scores)}


@pytest.fixture(scope="module")
def user_module() -> ModuleType:
    """A module that a user wrote."""
    module = ModuleType("own_measures")

    def length(text: str) -> int | None:
        if text == "strong":
            raise LookupError("no such\nword")
        return None if text == "kind" else len(text)

    def parts(text: str) -> dict[str, float]:
        words = float(len(text.split()))
        if text == "calm":
            return {"words": words, "odd": math.nan}
        return {"words": words, "letters": len(text) / 2}

    module.__dict__.update(
        length=length, parts=parts, said=lambda text: "7", short=lambda text: bool(len(text) < 5)
    )
    sys.modules["own_measures"] = module
    return module


@pytest.mark.verify
def test_features_of_classifiers_follow_the_published_formulas(opener: Opener, tmp_path: Path) -> None:
    polar = save_classifier(tmp_path / "polar", ["negative", "other", "positive"])
    toxic = save_classifier(tmp_path / "toxic", ["insult", "toxic"], "multi_label_classification")
    measures = measured(
        opener, [f"sentiment={polar}", f"regard={polar}", f"toxicity={toxic}"], TEXTS, BASELINES
    )
    names = ["sentiment", "regard", "toxicity"]
    assert [column.name for column in measures.columns] == names
    assert measures.baselines is not None
    assert measures.values.schema == measures.baselines.schema == dict.fromkeys(names, pl.Float64)
    for table, texts in ((measures.values, TEXTS), (measures.baselines, BASELINES)):
        assert table.height == 7
        for text, (sentiment, regard, toxicity) in zip(texts, table.iter_rows(), strict=True):
            if text is None or not text.strip():
                assert (sentiment, regard, toxicity) == (None, None, None)
                continue
            shares = probabilities(polar, text)
            regarded = shares["positive"] - shares["negative"] + 1
            expected = regarded / 2, regarded, probabilities(toxic, text, exclusive=False)["toxic"]
            assert (sentiment, regard, toxicity) == pytest.approx(expected, abs=1e-5)
    assert measures.values["sentiment"].n_unique() == 5
    assert (measures.problems, measures.reasons, measures.truncated) == ({}, {}, {})


@pytest.mark.verify
def test_every_model_reads_every_distinct_text_once(opener: Opener, polar: Path) -> None:
    measured(opener, [f"sentiment={polar}", "distance"], TEXTS, BASELINES)
    distinct = {text for text in [*TEXTS, *BASELINES] if text is not None and text.strip()}
    assert [model.seen for model in opener.opened.values()] == [dict.fromkeys(distinct, 1)] * 2


def test_a_text_on_which_the_classifier_fails_is_missing_and_counted(
    opener: Opener, polar: Path, tmp_path: Path
) -> None:
    """Add a word to the tokenizer and not to the model, which then fails on every batch with the word."""
    from transformers import AutoTokenizer

    together = measured(opener, [f"sentiment={polar}"], TEXTS)
    tokenizer = AutoTokenizer.from_pretrained(polar)
    tokenizer.add_tokens(["zyx"])
    tokenizer.save_pretrained(polar)
    texts = pl.concat([pl.Series(["a zyx story"]), TEXTS, pl.Series(["zyx", "zyx"])])
    measures = measured(Opener(tmp_path), [f"sentiment={polar}"], texts)
    assert measures.values["sentiment"].to_list() == pytest.approx(
        [None, *together.values["sentiment"], None, None], abs=1e-6
    )
    assert measures.problems == {"sentiment": 2}
    assert measures.reasons["sentiment"].startswith("IndexError: ")


def test_a_score_that_is_not_finite_is_missing_and_counted(opener: Opener, polar: Path) -> None:
    from transformers import BertForSequenceClassification

    net = BertForSequenceClassification.from_pretrained(polar)
    with torch.no_grad():
        net.classifier.bias[0] = math.inf
    net.save_pretrained(polar)
    measures = measured(opener, [f"sentiment={polar}"], TEXTS)
    assert measures.values["sentiment"].to_list() == [None] * 7
    assert (measures.problems, measures.reasons) == (
        {"sentiment": 4},
        {"sentiment": "the model returned a number that is not finite or more than 1e+15"},
    )


def test_a_model_that_cannot_be_loaded_ends_the_measurement(opener: Opener, polar: Path) -> None:
    (polar / "model.safetensors").write_bytes(b"x" * 100)
    with pytest.raises(InputError, match="cannot be loaded as a text classifier"):
        measured(opener, [f"sentiment={polar}"], TEXTS)


@pytest.mark.verify
def test_distances_equal_the_published_ones(opener: Opener, shared: Path) -> None:
    golden = shared / "golden" / "saged"
    texts = pl.read_csv(golden / "extract_input.csv")
    expected = pl.read_csv(golden / "extract_embedding_distance.csv")
    measures = measured(opener, ["distance"], texts["LLM"], texts["baseline"])
    assert measures.baselines is not None
    for table, author in ((measures.values, "LLM"), (measures.baselines, "baseline")):
        published = expected.select(
            f"{author}_{name}_distance_wrt_baseline" for name in ("cosine", "l1", "l2")
        ).to_numpy()
        assert published.shape == (126, 3)
        values = table.select("distance_cosine", "distance_l1", "distance_l2").to_numpy()
        np.testing.assert_allclose(values, published, rtol=0, atol=1e-4)


def test_distances_need_a_text_and_its_baseline(opener: Opener) -> None:
    measures = measured(opener, ["distance"], TEXTS, BASELINES)
    missing = [False, True, True, False, True, False, False]
    assert measures.values["distance_cosine"].is_null().to_list() == missing
    assert measures.values.row(6) == pytest.approx((0, 0, 0), abs=1e-6)
    assert measures.values["distance_l2"][0] > 0.1
    assert measures.baselines is not None
    assert measures.baselines["distance_l1"].to_list() == [0, None, 0, 0, 0, 0, 0]
    with pytest.raises(
        InputError, match="the feature distance compares texts with baselines, but there are none"
    ):
        measured(opener, ["distance"], TEXTS)


def test_texts_longer_than_the_window_are_counted(opener: Opener, polar: Path) -> None:
    long = ["one two three " * times for times in (30, 31, 200, 200)]
    texts = pl.Series([*long, "kind", "good " * 2001])
    measures = measured(opener, [f"sentiment={polar}", "vader", "distance"], texts, pl.Series(["kind"] * 6))
    assert measures.values["sentiment"].null_count() == 0
    # The classifier reads 64 tokens, MiniLM 256.
    assert measures.truncated == {"sentiment": 4, "vader": 1, "distance": 2}
    faces = pl.Series(["\U0001f600" * 2_000, "\U0001f600" * 100_000])
    assert measured(opener, ["vader"], faces).truncated == {"vader": 1}


def test_vader_scores_equal_those_of_the_package(opener: Opener) -> None:
    texts = pl.Series(["This is GREAT!!!", "not bad at all, but sad :(", "", None, "Der Himmel", "..."])
    measures = measured(opener, ["vader"], texts)
    for text, row in zip(texts, measures.values.iter_rows(), strict=True):
        expected = SentimentIntensityAnalyzer().polarity_scores(text) if text else {}
        assert row == (expected.get("compound"), expected.get("pos"), expected.get("neg"))


def test_the_analyzer_that_reads_neighbours_only_scores_as_the_package_of_vader() -> None:
    package, analyzer = SentimentIntensityAnalyzer(), vader_analyzer()
    draw = random.Random(1)
    particles = ("but", "BUT", "no", "least", "at", "very", "never", "so", "this", "or", "nor", "kind of")
    rules = [*BOOSTER_DICT, *NEGATE, *SPECIAL_CASES, *particles]
    frequent = [*rules, "good", "GOOD!", "bad?", "sad", "fine", "fine", "x", "the", "\U0001f600", ":("]
    words = [*frequent, *frequent, *list(package.lexicon)[::20]]
    for _ in range(2_000):
        text = " ".join(draw.choices(words, k=draw.randint(0, 40)))
        assert analyzer.polarity_scores(text) == package.polarity_scores(text), text


@pytest.mark.usefixtures("user_module")
def test_functions_of_users_are_features(opener: Opener) -> None:
    names = ["own_measures:length", "p=own_measures:parts", "own_measures:said", "own_measures:short"]
    measures = measured(opener, names, TEXTS, BASELINES)
    assert [column.name for column in measures.columns] == ["length", "p_words", "p_letters", "said", "short"]
    assert measures.values["length"].to_list() == [None, 14, None, None, None, 21, None]
    assert measures.values["p_letters"].to_list() == [2, 7, None, 2, None, 10.5, 3]
    assert measures.values["short"].to_list() == [1, 0, None, 1, None, 0, 0]
    assert measures.baselines is not None
    assert measures.baselines["p_words"].to_list() == [None, None, 1, 1, 1, 4, 1]
    assert measures.problems == {"length": 1, "p": 1, "said": 8}, "None is no failure"
    assert re.fullmatch(
        r"LookupError: no such word \(test_measure.py, line \d+\)", measures.reasons["length"]
    )
    assert measures.reasons["p"] == "ValueError: p_odd is nan, not a finite number"
    assert measures.reasons["said"] == "TypeError: returned '7', not a number"


@pytest.mark.usefixtures("user_module")
def test_features_without_any_text_are_missing(opener: Opener, polar: Path) -> None:
    features = ["vader", f"sentiment={polar}", "distance", "own_measures:length"]
    for texts in (
        pl.Series([], dtype=pl.String),
        pl.Series([None, " "], dtype=pl.String),
        pl.Series([None, None]),
    ):
        measures = measured(opener, features, texts, texts)
        assert measures.values.rows() == [(None,) * 8] * len(texts)
        assert measures.values.width == 8
        assert measures.problems == {}


def test_agency_and_communion_count_whole_words_in_any_form(opener: Opener) -> None:
    sentences = [
        "She leads, ambitious and CONFIDENT.",
        "He supports his communities.",
        "disconfident supporting-cast",
        "1, 2!",
        None,
    ]
    texts = pl.Series(sentences)
    measures = measured(opener, ["agency", "communion"], texts)
    assert measures.values["agency"].to_list() == [2 / 5, 0.0, 0.0, None, None]
    assert measures.values["communion"].to_list() == [0.0, 2 / 4, 0.0, None, None]
    assert measures.problems == {"agency": 1, "communion": 1}
    assert measures.reasons["agency"] == "the text contains no words"
