"""Expected texts of the tests marked `wording`, in `tests/wording`.

Screens are files `NAME.txt`; sentences are entries of files `GROUP.yaml`. `make record` (`pytest -m wording
--record`) writes them from what the tests see.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from pathlib import Path
from typing import Final

import yaml

FOLDER: Final = Path(__file__).parent.parent / "wording"


class Wording:
    """Compares texts with the expected ones, or collects the texts that are to be written.

    Parameters
    ----------
    record
        Whether texts are collected.
    """

    def __init__(self, *, record: bool) -> None:
        self._record = record
        self._screens: dict[str, str] = {}
        self._sentences: dict[str, dict[str, str]] = defaultdict(dict)

    def check_screen(self, name: str, text: str) -> None:
        """Compare a screen with the file of this name."""
        if self._record:
            self._screens[name] = text
            return
        path = FOLDER / f"{name}.txt"
        expected = path.read_text(encoding="utf-8") if path.is_file() else ""
        assert text == expected, _difference(path, expected, text)

    def check_sentence(self, group: str, name: str, text: str) -> None:
        """Compare a sentence with the entry of this name in the file of the group."""
        if self._record:
            self._sentences[group][name] = text
            return
        expected = _read(group).get(name, "")
        assert text == expected, _difference(_path_of(group), expected, text)

    def write(self, *, whole: bool) -> None:
        """Write the collected texts.

        If all tests were run (`whole`), texts that no test has any more are removed.
        """
        FOLDER.mkdir(exist_ok=True)
        for name, text in self._screens.items():
            (FOLDER / f"{name}.txt").write_text(text, encoding="utf-8")
        for group, sentences in self._sentences.items():
            earlier = {} if whole else _read(group)
            texts = dict(sorted((earlier | sentences).items()))
            text = yaml.safe_dump(texts, sort_keys=False, allow_unicode=True, width=10_000)
            _path_of(group).write_text(text, encoding="utf-8")
        if whole:
            self._remove_others()

    def _remove_others(self) -> None:
        written = {f"{name}.txt" for name in self._screens} | {f"{group}.yaml" for group in self._sentences}
        for path in FOLDER.iterdir():
            if path.name not in written:
                path.unlink()


def _path_of(group: str) -> Path:
    return FOLDER / f"{group}.yaml"


def _read(group: str) -> dict[str, str]:
    path = _path_of(group)
    sentences: dict[str, str] = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return sentences


def _difference(path: Path, expected: str, text: str) -> str:
    lines = difflib.unified_diff(expected.splitlines(), text.splitlines(), "expected", "now", lineterm="")
    difference = "\n".join(lines)
    advice = "if this is intended, run `make record` and review the change"
    return f"the text differs from {path.name}; {advice}\n{difference}"
