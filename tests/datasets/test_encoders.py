"""The folder of an encoder of the catalogue, from files of several sources."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.minilm import minilm_folder
from tiltmeter.datasets import ENCODERS, DataUnavailable, Library, encoder_folder, load_catalogue

NAME = ENCODERS[0]
FILES = [
    Path(entry.name).relative_to(NAME)
    for entry in load_catalogue().entries
    if entry.name.startswith(f"{NAME}/")
]


@pytest.fixture
def package() -> Path:
    """The unpacked package the encoder is published in."""
    return minilm_folder().parent


def test_an_unpacked_package_is_used_where_it_lies(package: Path, tmp_path: Path) -> None:
    library = Library(folders=[package.parent], cache=tmp_path / "cache")
    assert encoder_folder(library) == package / "model"
    assert not (tmp_path / "cache").exists()
    assert {entry.name for entry in library.used} == {f"{NAME}/{file}" for file in FILES}


def test_files_of_several_places_are_brought_together(package: Path, tmp_path: Path) -> None:
    user_folder, cache = tmp_path / "mine", tmp_path / "cache"
    for file in FILES:
        root = user_folder if file.name == "model.safetensors" else cache / "datasets"
        (root / NAME / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(package / "model" / file, root / NAME / file)
    library = Library(folders=[user_folder], cache=cache)
    folder = encoder_folder(library)
    assert sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file()) == sorted(FILES)
    assert (folder / "model.safetensors").read_bytes() == (
        user_folder / NAME / "model.safetensors"
    ).read_bytes()
    (folder / "config.json").write_text("{}")
    encoder_folder(Library(folders=[user_folder], cache=cache))
    assert (folder / "config.json").read_bytes() == (package / "model" / "config.json").read_bytes(), (
        "what was damaged is repaired"
    )


def test_an_encoder_that_cannot_be_had_says_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILTMETER_OFFLINE", "1")
    with pytest.raises(DataUnavailable, match=f"set TILTMETER_DATA to a folder that contains {NAME}/"):
        encoder_folder(Library(cache=tmp_path))
