"""Language models of the catalogue, by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.data_sources import catalogue, record
from tiltmeter.datasets import Library, load_catalogue, local_models
from tiltmeter.datasets.library import MODELS
from tiltmeter.errors import InputError, ProviderError
from tiltmeter.models import create_model

NAME = "SmolLM2-135M-Instruct"


def test_the_models_are_in_the_catalogue() -> None:
    entries = {entry.name: entry for entry in load_catalogue().entries}
    for name, file in MODELS.items():
        assert file.startswith(f"{name}/")
        assert file.endswith(".gguf")
        assert entries[file].on_demand


def test_a_copy_of_the_user_is_used_and_named_by_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file stands for the weights, which are not loaded."""
    content = b"GGUF and so on"
    listed = catalogue(record(MODELS[NAME], content))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / Path(MODELS[NAME]).name).write_bytes(content)
    library = Library(listed, folders=[tmp_path / "mine"], cache=tmp_path / "cache")
    monkeypatch.setattr(Library, "default", lambda progress=None: library)
    model = create_model(f"hf/{NAME}", options={"dtype": "float32"})
    assert model.name == f"hf/{NAME}"
    assert library.entry(MODELS[NAME]).sha256 in model.fingerprint
    (tmp_path / "mine" / Path(MODELS[NAME]).name).write_bytes(b"GGUF and something else")
    other = Library(listed, folders=[tmp_path / "mine"], cache=tmp_path / "cache")
    monkeypatch.setattr(Library, "default", lambda progress=None: other)
    with pytest.raises(InputError, match="replace it with the original"):
        create_model(f"hf/{NAME}")


def test_a_folder_of_that_name_takes_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / NAME).mkdir()
    with pytest.raises(InputError, match="contains no weights"):
        create_model(f"hf/{NAME}")


def test_without_a_source_it_says_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILTMETER_OFFLINE", "1")
    monkeypatch.setenv("TILTMETER_CACHE", str(tmp_path))
    with pytest.raises(ProviderError, match=r"network access is disabled .*set TILTMETER_DATA to a folder that contains SmolLM2"):
        create_model(f"hf/{NAME}")


def test_options_are_those_of_local_models() -> None:
    from tiltmeter.models import huggingface

    assert local_models.OPTIONS == huggingface.OPTIONS
