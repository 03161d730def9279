"""A run as a dataset folder of the Hugging Face hub: its tables unchanged beside a card, still a run folder that Tiltmeter opens."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from tiltmeter.errors import InputError
from tiltmeter.exports._card import HOW_TO_SPEAK, front_matter, sources
from tiltmeter.exports._formats import Wanted
from tiltmeter.exports._markdown import fenced, markdown_table, text
from tiltmeter.exports._paper import findings_paper, limits, summary
from tiltmeter.exports._tables import findings_of
from tiltmeter.runs import Run, RunFolder
from tiltmeter.runs._folder import reading

__all__ = ["write_dataset"]

_CARD = "README.md"
_STAGES = "stages"
_OWN = ("findings", "responses", "measures", "design")
_ABOUT = {
    "findings": "one row per number: estimate, interval, p, q, mark, what was counted and how it is defined",
    "responses": "one row per model and attempt, with the answer",
    "measures": "one row per model and attempt: what was read from the answer",
    "design": "one row per prompt, with the factors that vary",
    "examples": "the answers that moved each key number most",
}


def write_dataset(wanted: Wanted) -> list[str]:
    """A folder with a card (README.md), run.json, study.yaml, and every table as Parquet, byte for byte that of the run.

    `datasets.load_dataset(FOLDER, "findings")` opens it, and so does `tiltmeter.load(FOLDER)`.
    """
    target = wanted.path
    try:
        if target.exists() and not _replaceable(target):
            raise InputError(f"{target} exists and is no dataset that Tiltmeter wrote; give a new folder with -o")
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".dataset.") as aside:
            made = Path(aside) / "new"
            _fill(made, wanted)
            if target.exists():
                target.replace(Path(aside) / "old")
            made.replace(target)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror or error}; give a folder in a place you may write to") from error
    return [str(target)]


def _replaceable(target: Path) -> bool:
    """An empty folder, or one that holds nothing but an earlier export."""
    if not target.is_dir():
        return False
    names = {one.relative_to(target).as_posix() for one in target.rglob("*")}
    ours = {_CARD, "run.json", "study.yaml", _STAGES}
    strange = {name for name in names - ours if not name.removeprefix(f"{_STAGES}/").endswith(".parquet")}
    card = target / _CARD
    return not names or (not strange and card.is_file() and "\n- tiltmeter\n" in card.read_text(encoding="utf-8", errors="replace"))


def _tables(folder: RunFolder) -> dict[str, Path]:
    """Tables by the name of their configuration, the findings first as the default."""
    own = {name: folder.table_path(name) for name in _OWN}
    return own | {path.stem: path for path in sorted((folder.path / _STAGES).glob("*.parquet")) if path.stem not in own}


def _fill(made: Path, wanted: Wanted) -> None:
    folder = wanted.run.folder
    folder.whole()
    made.mkdir()
    configs = {}
    for name, path in _tables(folder).items():
        place = path.relative_to(folder.path)
        (made / place).parent.mkdir(exist_ok=True)
        if _rows(folder, name):  # the hub opens no table without rows
            configs[name] = place.as_posix()
        shutil.copyfile(path, made / place)
    for name in ("run.json", "study.yaml"):
        shutil.copyfile(folder.path / name, made / name)
    (made / _CARD).write_text(_card(wanted, configs), encoding="utf-8", newline="\n")


def _rows(folder: RunFolder, table: str) -> int:
    """How many rows a table has; raises InputError where it is damaged."""
    with reading(folder.path):
        lazy = folder.scan(table) if table in _OWN else folder.stages()[table]
        counted: int = lazy.select(pl.len()).collect().item()
    return counted


def _card(wanted: Wanted, configs: Mapping[str, str]) -> str:
    about = wanted.run.about
    metadata = {
        "pretty_name": f"Tiltmeter: {about['title']}",
        "license": "other",
        "license_name": "as-stated-for-each-source",
        "license_link": _CARD,
        "tags": ["tiltmeter", "bias", "fairness", "evaluation"],
        "configs": [
            {"config_name": name, "data_files": place} | ({"default": True} if name == "findings" else {})
            for name, place in configs.items()
        ],
    }
    facts = "".join(f"- {name}: {text(said)}\n" for name, said in summary(about).items())
    tables = "".join(f"- `{name}`: {_ABOUT.get(name, 'a table of the method')}\n" for name in configs)
    key = findings_paper(findings_of(wanted))
    notes = "".join(f"\nNote: {text(note)}\n" for note in [*key.notes, *limits(about)])
    return (
        f"{front_matter(metadata)}\n# Tiltmeter: {text(about['title'])}\n\n{facts}\n"
        "Prompts, answers and findings of a measurement of bias. Answers are what models said, unedited; they may be offensive.\n"
        f"{HOW_TO_SPEAK}\n\n## Tables\n\n{tables}\n## Key findings\n\n{markdown_table(key)}{notes}\n{sources(about)}\n"
        "## Licence\n\nPrompts carry the licences of the data they were made of; answers are subject to the terms of the models that gave"
        " them.\n" + _again(wanted.run, about)
    )


def _again(run: Run, about: Mapping[str, Any]) -> str:
    command = about.get("command")
    return f"\n## How to repeat it\n\n{fenced(str(command))}\n" if command else ""
