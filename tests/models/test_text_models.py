"""Sentence encoders: the real MiniLM against published distances, tiny ones for all else.

Text classifiers as transformers has them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lazy_loader
import numpy as np
import polars as pl
import pytest

from support.tiny_models import save_chat_model, save_classifier, save_encoder
from tiltmeter.errors import InputError, ProviderError
from tiltmeter.models import _text_models as text_models
from tiltmeter.models._text_models import SentenceEncoder, TextClassifier

torch: Any = lazy_loader.load("torch")  # importing it takes seconds, and every worker reads this module

LABELS = ["anger", "joy", "fear"]
TEXTS = ["kind", "brave and calm", "kind", "", "works at the hospital", "one two three " * 130]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.mark.verify
def test_distances_are_those_published(minilm: Path, shared: Path, tmp_path: Path) -> None:
    golden = shared / "golden" / "saged"
    texts, expected = (
        pl.read_csv(golden / "extract_input.csv"),
        pl.read_csv(golden / "extract_embedding_distance.csv"),
    )
    store = tmp_path / "vectors.sqlite"
    for _ in range(2):  # computed, then kept
        encoder = SentenceEncoder(minilm, store=store)
        baseline, answers = (
            encoder.encode(texts["baseline"].to_list()),
            encoder.encode(texts["LLM"].to_list()),
        )
        difference = answers - baseline
        distances = {
            "cosine": 1 - (answers * baseline).sum(axis=1),
            "l1": np.abs(difference).sum(axis=1),
            "l2": np.linalg.norm(difference, axis=1),
        }
        for name, values in distances.items():
            column = expected[f"LLM_{name}_distance_wrt_baseline"].to_numpy()
            assert len(column) == 126
            np.testing.assert_allclose(values, column, rtol=0, atol=1e-4)


def test_like_meanings_lie_close(minilm: Path) -> None:
    near, same, far = SentenceEncoder(minilm, store=None).encode(
        ["felt nervous", "was anxious", "won the race"]
    )
    assert near @ same > 0.6 > 0.3 > near @ far


def test_rows_are_of_length_one_and_in_order(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SentenceEncoder, "batch_size", 2)
    encoder = SentenceEncoder(tiny, store=tmp_path / "vectors.sqlite")
    vectors = encoder.encode(TEXTS)
    assert (vectors.shape, str(vectors.dtype)) == ((6, 16), "float32")
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert (vectors[0] == vectors[2]).all()
    for text, row in zip(TEXTS, vectors, strict=True):
        np.testing.assert_allclose(SentenceEncoder(tiny, store=None).encode([text])[0], row, atol=1e-6)
    assert encoder.encode([]).shape == (0, 16)


def test_cached_vectors_need_no_weights(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    classifier, store = save_classifier(tmp_path / "classifier", LABELS), tmp_path / "kept.sqlite"
    vectors, scores = (
        SentenceEncoder(tiny, store=store).encode(TEXTS),
        TextClassifier(classifier, store=store).scores(TEXTS),
    )
    encode = SentenceEncoder(shutil.copytree(tiny, tmp_path / "moved"), store=store).encode
    score = TextClassifier(shutil.copytree(classifier, tmp_path / "moved too"), store=store).scores
    monkeypatch.setattr(text_models, "pick_device", None)  # loading would need it
    for again, first in ((encode, vectors), (score, scores)):
        assert (again(TEXTS) == first).all()
        with pytest.raises(TypeError):
            again(["new"])


def test_names_tell_weights_apart(tiny: Path, tmp_path: Path) -> None:
    name = SentenceEncoder(tiny, store=None).name
    assert SentenceEncoder(shutil.copytree(tiny, tmp_path / tiny.name), store=None).name == name
    copy = shutil.copytree(tiny, tmp_path / "other" / tiny.name)
    (copy / "1_Pooling" / "config.json").write_text((tiny / "1_Pooling" / "config.json").read_text() + " ")
    assert SentenceEncoder(copy, store=None).name != name, "the pooling is part of an encoder"


def test_a_folder_without_an_encoder_is_refused(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neither an existing model folder"):
        SentenceEncoder(tmp_path / "nowhere", store=None)
    with pytest.raises(InputError, match="use auto, cpu, cuda"):
        SentenceEncoder(tiny, store=None, device="tpu")
    with pytest.raises(ProviderError, match="torch finds only"):
        SentenceEncoder(tiny, store=None, device="cuda:63").encode(["a"])
    damaged = shutil.copytree(tiny, tmp_path / "damaged")
    (damaged / "model.safetensors").write_bytes(b"x" * 100)
    with pytest.raises(InputError, match="cannot be loaded as a sentence encoder"):
        SentenceEncoder(damaged, store=None).encode(["a"])
    chat = save_chat_model(tmp_path / "chat")
    (chat / "modules.json").write_text("{")
    with pytest.raises(InputError, match=r"modules\.json cannot be read"):
        SentenceEncoder(chat, store=None)


def expected(folder: Path, text: str) -> Any:
    import transformers as hf

    words, net = (
        hf.AutoTokenizer.from_pretrained(folder),
        hf.AutoModelForSequenceClassification.from_pretrained(folder),
    )
    with torch.inference_mode():
        return net(**words(text, truncation=True, max_length=64, return_tensors="pt")).logits[0]


@pytest.mark.parametrize(
    ("problem", "labels", "wanted"),
    [
        (None, LABELS, lambda logits: logits.softmax(0)),
        (None, ["LABEL_0", "LABEL_1"], lambda logits: logits.softmax(0)),
        ("single_label_classification", LABELS, lambda logits: logits.softmax(0)),
        ("multi_label_classification", LABELS, lambda logits: logits.sigmoid()),
        (None, ["toxic"], lambda logits: logits.sigmoid()),
        ("regression", ["score"], lambda logits: logits),
    ],
)
def test_scores_are_what_the_problem_asks_for(
    tmp_path: Path,
    problem: str | None,
    labels: list[str],
    wanted: Callable[[Any], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(TextClassifier, "batch_size", 2)
    folder = save_classifier(tmp_path / "classifier", labels, problem)
    classifier = TextClassifier(folder, store=None)
    scores = classifier.scores(TEXTS)
    assert (list(classifier.labels), scores.shape, str(scores.dtype)) == (labels, (6, len(labels)), "float32")
    for text, row in zip(TEXTS, scores, strict=True):
        np.testing.assert_allclose(row, wanted(expected(folder, text)).numpy(), atol=1e-5)
    assert classifier.scores([]).shape == (0, len(labels))


def test_a_folder_without_a_classifier_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"is not a text classifier: its config\.json names LlamaForCausalLM"
    ):
        TextClassifier(save_chat_model(tmp_path / "chat"), store=None)
    with pytest.raises(InputError, match="neither an existing model folder"):
        TextClassifier(tmp_path / "nowhere", store=None)
    folder = save_classifier(tmp_path / "classifier", LABELS)
    (folder / "model.safetensors").write_bytes(b"x" * 100)
    with pytest.raises(InputError, match="cannot be loaded as a text classifier"):
        TextClassifier(folder, store=None).scores(["a"])
    (folder / "config.json").write_text("{}")
    with pytest.raises(InputError, match=r"its config\.json names nothing"):
        TextClassifier(folder, store=None)
