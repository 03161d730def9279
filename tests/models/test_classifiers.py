"""Text classifiers: scores as transformers gives them, kept by model and text."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lazy_loader
import numpy as np
import pytest

from support.tiny_models import save_chat_model, save_classifier
from tiltmeter.errors import InputError
from tiltmeter.models import text_models
from tiltmeter.models.text_models import TextClassifier

torch: Any = lazy_loader.load("torch")  # importing it takes seconds, and every worker reads this module

TEXTS = ["kind", "brave and calm", "kind", "", "works at the hospital", "one two three " * 60]
LABELS = ["anger", "joy", "fear"]


def expected(folder: Path, text: str) -> Any:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    words, net = AutoTokenizer.from_pretrained(folder), AutoModelForSequenceClassification.from_pretrained(folder)
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
    tmp_path: Path, problem: str | None, labels: list[str], wanted: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TextClassifier, "batch_size", 2)
    folder = save_classifier(tmp_path / "classifier", labels, problem)
    classifier = TextClassifier(folder, store=None)
    scores = classifier.scores(TEXTS)
    assert (list(classifier.labels), scores.shape, scores.dtype) == (labels, (6, len(labels)), np.float32)
    for text, row in zip(TEXTS, scores, strict=True):
        np.testing.assert_allclose(row, wanted(expected(folder, text)).numpy(), atol=1e-5)
    assert classifier.scores([]).shape == (0, len(labels))


def test_each_text_is_scored_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, store = save_classifier(tmp_path / "classifier", LABELS), tmp_path / "kept.sqlite"
    first = TextClassifier(folder, store=store).scores(TEXTS)
    again = TextClassifier(shutil.copytree(folder, tmp_path / "moved"), store=store)
    monkeypatch.setattr(text_models, "pick_device", None)  # loading would need it
    assert (again.scores(TEXTS) == first).all()
    with pytest.raises(TypeError):
        again.scores(["new"])


def test_what_is_no_classifier_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is no text classifier: its config\.json names LlamaForCausalLM"):
        TextClassifier(save_chat_model(tmp_path / "chat"), store=None)
    with pytest.raises(InputError, match="there is no folder"):
        TextClassifier(tmp_path / "nowhere", store=None)
    folder = save_classifier(tmp_path / "classifier", LABELS)
    (folder / "model.safetensors").write_bytes(b"x" * 100)
    with pytest.raises(InputError, match="cannot be loaded as a text classifier"):
        TextClassifier(folder, store=None).scores(["a"])
    (folder / "config.json").write_text("{}")
    with pytest.raises(InputError, match=r"its config\.json names nothing"):
        TextClassifier(folder, store=None)
