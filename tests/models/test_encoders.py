"""Sentence encoders: the real MiniLM against published distances, tiny ones for everything else."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from support.tiny_models import save_chat_model, save_encoder
from tiltmeter.errors import InputError, ProviderError
from tiltmeter.models import text_models
from tiltmeter.models.text_models import SentenceEncoder

TEXTS = ["kind", "brave and calm", "kind", "", "works at the hospital", "a " * 400]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.mark.verify
def test_distances_are_those_published(minilm: Path, shared: Path, tmp_path: Path) -> None:
    golden = shared / "golden" / "saged"
    texts, expected = pl.read_csv(golden / "extract_input.csv"), pl.read_csv(golden / "extract_embedding_distance.csv")
    store = tmp_path / "vectors.sqlite"
    for _ in range(2):  # computed, then kept
        encoder = SentenceEncoder(minilm, store=store)
        baseline, answers = encoder.encode(texts["baseline"].to_list()), encoder.encode(texts["LLM"].to_list())
        difference = answers - baseline
        cosine, l1, l2 = 1 - (answers * baseline).sum(axis=1), np.abs(difference).sum(axis=1), np.linalg.norm(difference, axis=1)
        for name, values in {"cosine": cosine, "l1": l1, "l2": l2}.items():
            column = expected[f"LLM_{name}_distance_wrt_baseline"].to_numpy()
            assert len(column) == 126
            np.testing.assert_allclose(values, column, rtol=0, atol=1e-4)


def test_like_meanings_lie_close(minilm: Path) -> None:
    near, same, far = SentenceEncoder(minilm, store=None).encode(["felt nervous", "was anxious", "won the race"])
    assert near @ same > 0.6 > 0.3 > near @ far


def test_rows_are_of_length_one_and_in_order(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SentenceEncoder, "batch_size", 2)
    encoder = SentenceEncoder(tiny, store=tmp_path / "vectors.sqlite")
    made = encoder.encode(TEXTS)
    assert (made.shape, made.dtype) == ((6, 16), np.float32)
    np.testing.assert_allclose(np.linalg.norm(made, axis=1), 1, atol=1e-6)
    assert (made[0] == made[2]).all()
    for text, row in zip(TEXTS, made, strict=True):
        np.testing.assert_allclose(SentenceEncoder(tiny, store=None).encode([text])[0], row, atol=1e-6)
    assert encoder.encode([]).shape == (0, 16)


def test_what_is_kept_needs_no_weights(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = SentenceEncoder(tiny, store=tmp_path / "vectors.sqlite").encode(TEXTS)
    moved = shutil.copytree(tiny, tmp_path / "moved")
    again = SentenceEncoder(moved, store=tmp_path / "vectors.sqlite")
    monkeypatch.setattr(text_models, "pick_device", None)  # loading would need it
    assert (again.encode(TEXTS) == first).all()
    with pytest.raises(TypeError):
        again.encode(["new"])


def test_names_tell_weights_apart(tiny: Path, tmp_path: Path) -> None:
    name = SentenceEncoder(tiny, store=None).name
    assert SentenceEncoder(shutil.copytree(tiny, tmp_path / tiny.name), store=None).name == name
    other = shutil.copytree(tiny, tmp_path / "other" / tiny.name)
    (other / "1_Pooling" / "config.json").write_text((tiny / "1_Pooling" / "config.json").read_text() + " ")
    assert SentenceEncoder(other, store=None).name != name, "the pooling is part of an encoder"


def test_what_is_no_encoder_says_so(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no folder"):
        SentenceEncoder(tmp_path / "nowhere", store=None)
    with pytest.raises(InputError, match="use auto, cpu, cuda"):
        SentenceEncoder(tiny, store=None, device="tpu")
    with pytest.raises(ProviderError, match="torch sees no such device"):
        SentenceEncoder(tiny, store=None, device="cuda:63").encode(["a"])
    damaged = shutil.copytree(tiny, tmp_path / "damaged")
    (damaged / "model.safetensors").write_bytes(b"x" * 100)
    with pytest.raises(InputError, match="cannot be loaded as a sentence encoder"):
        SentenceEncoder(damaged, store=None).encode(["a"])
    chat = save_chat_model(tmp_path / "chat")
    (chat / "modules.json").write_text("{")
    with pytest.raises(InputError, match=r"modules\.json cannot be read"):
        SentenceEncoder(chat, store=None)
