"""Features that a user may name, messages for those that cannot be opened, and the classifier of a run."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from features.conftest import Opener
from support.tiny_models import save_classifier
from tiltmeter.datasets import Library
from tiltmeter.errors import InputError, did_you_mean
from tiltmeter.features import FEATURES, Feature, measure_features, open_features
from tiltmeter.models import _weights as weights
from tiltmeter.runs._asking import RunTools
from tiltmeter.study import NO_TOOLS, NotRun


def opened(opener: Opener, *names: str) -> list[Feature]:
    return list(open_features(names, encoder=opener.encoder, classifier=opener.classifier))


def test_the_catalogue_has_the_published_features() -> None:
    assert list(FEATURES) == [
        "sentiment",
        "regard",
        "toxicity",
        "stereotype",
        "personality",
        "vader",
        "agency",
        "communion",
        "distance",
    ]
    columns = {column.name: column for feature in FEATURES.values() for column in feature.columns}
    assert len(columns) == sum(len(feature.columns) for feature in FEATURES.values()) == 20
    assert [name for name, column in columns.items() if not column.calibrated] == [
        "distance_cosine",
        "distance_l1",
        "distance_l2",
    ]
    neutral = {
        name: (column.low, column.neutral, column.high)
        for name, column in columns.items()
        if column.neutral is not None
    }
    assert neutral == {"sentiment": (0, 0.5, 1), "regard": (0, 1, 2), "vader_compound": (-1, 0, 1)}
    for feature in FEATURES.values():
        wanted = {label for column in feature.columns for label in column.weights}
        assert set(feature.labels) == wanted, f"{feature.name}: its labels are not those of its formulas"
        assert (feature.kind == "classifier") == bool(wanted)


@pytest.mark.verify
@pytest.mark.parametrize(
    ("feature", "labels"),
    [
        ("sentiment", ["Positive", "NEUTRAL", "negative"]),
        ("sentiment", ["NEG", "NEU", "POS"]),
        ("regard", ["other", "positive", "negative", "neutral"]),
        ("toxicity", ["toxic", "severe_toxic", "obscene"]),
        ("toxicity", ["non-toxic", "Toxicity"]),
        (
            "stereotype",
            [
                "unrelated",
                "stereotype-gender",
                "Race Stereotype",
                "stereotype profession",
                "STEREOTYPE_RELIGION",
            ],
        ),
        ("personality", ["Extroversion", "neuroticism", "Agreeableness", "conscientiousness", "openness"]),
    ],
)
def test_labels_of_a_classifier_are_recognised_by_their_usual_names(
    opener: Opener, tmp_path: Path, feature: str, labels: list[str]
) -> None:
    (classifier,) = opened(opener, f"{feature}={save_classifier(tmp_path / 'classifier', labels)}")
    assert (classifier.name, classifier.columns) == (feature, FEATURES[feature].columns)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            ["LABEL_0", "LABEL_1"],
            r"has no label positive, only LABEL_0, LABEL_1; .* map its labels: "
            r".*\?positive=LABEL&negative=LABEL",
        ),
        (["joy", "anger"], r"has no label positive, only joy, anger; use another classifier"),
        (["positive", "pos", "negative"], r"the labels positive and pos of .* both match positive"),
    ],
)
def test_a_classifier_without_a_wanted_label_is_refused(
    opener: Opener, tmp_path: Path, labels: list[str], message: str
) -> None:
    folder = save_classifier(tmp_path / "classifier", labels)
    with pytest.raises(InputError, match=message):
        opened(opener, f"sentiment={folder}")


def test_labels_of_a_classifier_can_be_mapped(opener: Opener, tmp_path: Path) -> None:
    folder = save_classifier(tmp_path / "classifier", ["LABEL_0", "LABEL_1", "LABEL_2"])
    (classifier,) = opened(opener, f"sentiment={folder}?positive=LABEL_2&negative=LABEL_0")
    assert classifier.name == "sentiment"
    of_signs = save_classifier(tmp_path / "signs", ["+", "-", "0"])
    (by_sign,) = opened(opener, f"sentiment={of_signs}?positive=+&negative=-")
    assert by_sign.columns == FEATURES["sentiment"].columns
    for mapping, message in (
        ("positive=LABEL_7&negative=LABEL_0", r"no label LABEL_7 \(for positive\), only"),
        ("positive=LABEL_0&negative=LABEL_0", "two of positive, negative are mapped to the same label of"),
        ("joy=LABEL_0", "'joy=LABEL_0' after the [?] is not of the form WANTED=LABEL"),
        ("positive", "'positive' after the [?] is not of the form WANTED=LABEL"),
    ):
        with pytest.raises(InputError, match=message):
            opened(opener, f"sentiment={folder}?{mapping}")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("sentimant", f"unknown feature 'sentimant': {did_you_mean('sentimant', list(FEATURES))}"),
        ("sentiment=", "'sentiment=' *: write a model after the ="),
        ("vader=somewhere", "vader uses no model"),
        ("nowhere_at_all:score", "nowhere_at_all cannot be imported"),
        ("math:nothing", "the module math has no function nothing"),
        ("math:pi", "the module math has no function pi"),
        ("sentiment=no/such/folder", "neither an existing model folder"),
        ("vader vader", "the feature vader is listed twice"),
        ("math:sqrt sqrt=math:sqrt", "the feature sqrt is listed twice"),
    ],
)
def test_a_feature_that_cannot_be_opened_gives_the_reason(opener: Opener, names: str, message: str) -> None:
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        opened(opener, *names.split())


def test_a_function_of_the_working_folder_is_a_feature(
    opener: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_measures_of_text.py").write_text("def words(text):\n    return len(text.split())\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [path for path in __import__("sys").path if path])
    (length,) = opened(opener, "length=my_measures_of_text:words")
    assert length.name == "length"


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunTools:
    monkeypatch.setenv("TILTMETER_RUNS", str(tmp_path / "runs"))
    return RunTools(Library(cache=tmp_path), None)


def test_scores_of_a_classifier_are_stored_for_the_next_run(
    tools: RunTools, tmp_path: Path, polar: Path
) -> None:
    features = open_features([f"sentiment={polar}"], encoder=tools.encoder, classifier=tools.classifier)
    assert measure_features(features, pl.Series(["kind", "brave"])).values["sentiment"].is_between(0, 1).all()
    assert (tmp_path / "runs" / "vectors.sqlite").exists()
    assert tools.classifier(str(polar)) is tools.classifier(str(polar))


def test_a_classifier_that_is_not_available_gives_the_reason(
    tools: RunTools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="neither an existing model folder"):
        tools.classifier(str(tmp_path / "nowhere"))
    with pytest.raises(NotRun, match="is only available within a run"):
        NO_TOOLS.classifier("any")
    monkeypatch.setattr(weights, "find_spec", lambda name: None)
    with pytest.raises(NotRun, match=r'needs the package torch: pip install "tiltmeter\[local\]"'):
        tools.classifier("owner/name")
