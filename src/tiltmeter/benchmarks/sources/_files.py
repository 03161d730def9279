"""Local files and folders as sources: text, Markdown, HTML, PDF, and JSON of the shape {group: {title: [sentences]}}."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from tiltmeter.benchmarks.sources._documents import KINDS, UnreadableError, read_document
from tiltmeter.benchmarks.sources._pages import Pages, check_places, row, table
from tiltmeter.benchmarks.sources._text import paragraphs
from tiltmeter.errors import InputError
from tiltmeter.registry import did_you_mean

__all__ = ["read_files"]

_TAG = "local"
_Groups = dict[str, dict[str, list[str]]]


def read_files(paths: Mapping[str, Sequence[str]], *, domain: str, licence: str | None = None) -> Pages:
    """Read files, or all files in folders, for each concept; a file that several concepts name is read once.

    Parameters
    ----------
    paths
        Concept -> files and folders. Of a JSON file {group: {title: [sentences]}} a concept gets the group of its own name (case,
        hyphens and underscores do not matter), or the one named behind a "#": "religions.json#sikhism".
    licence
        Of these files, noted with each.

    Returns
    -------
    Pages; the source of a file is its path as it was given, of a text in a JSON file that path, "#", its group, "/", its title.
    A file that cannot be read is a row with status "failed".

    Raises
    ------
    InputError
        There is no such file or folder, a folder holds no readable kind of file, a JSON file is not of that shape or has no such
        group, or the extra `benchmarks` is not installed.
    """
    check_places(paths, "files or folders")
    document, groups = lru_cache(maxsize=None)(_document), lru_cache(maxsize=None)(_groups)
    rows: list[dict[str, Any]] = []
    texts: dict[str, str] = {}
    for concept, given in paths.items():
        for place in dict.fromkeys(map(str, given)):
            name, mark, group = place, "", ""
            if not Path(place).exists():
                name, mark, group = place.rpartition("#") if "#" in place else (place, "", "")
            for path in _files(name, concept):
                if path.suffix.lower() == ".json":
                    found = _of_group(str(path), groups(path), group if mark else None, concept)
                else:
                    found = [(str(path), *document(path))]
                for source, title, text, problem in found:
                    status = "ok" if text else "failed" if problem else "empty"
                    why = problem or (None if text else "it holds no text")
                    rows.append(row(domain, concept, source, _TAG, title, licence=licence, status=status, problem=why))
                    if text:
                        texts[source] = text
    return Pages(table(rows).unique(["concept", "source"], keep="first", maintain_order=True), texts)


def _files(name: str, concept: str) -> list[Path]:
    path = Path(name)
    if path.is_file():
        if path.suffix.lower() not in (*KINDS, ".json"):
            raise InputError(f"{name} (a source of {concept!r}) is of an unknown kind: give {', '.join((*KINDS, '.json'))}")
        return [path]
    if not path.is_dir():
        raise InputError(f"there is no file or folder {name}, which is given as a source of {concept!r}")
    found = sorted(one for one in path.rglob("*") if one.suffix.lower() in (*KINDS, ".json") and one.is_file())
    if not found:
        raise InputError(f"the folder {name} (a source of {concept!r}) holds no file that can be read ({', '.join((*KINDS, '.json'))})")
    return found


def _document(path: Path) -> tuple[str, str, str | None]:
    """Title, text, and what is wrong or was not read."""
    try:
        document = read_document(path.read_bytes(), KINDS[path.suffix.lower()])
    except OSError as error:
        return path.stem, "", f"it cannot be read: {error.strerror}"
    except UnreadableError as error:
        return path.stem, "", str(error)
    return document.title or path.stem, document.text, document.note


def _groups(path: Path) -> _Groups:
    try:
        loaded = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        raise InputError(f"{path} is no JSON that can be read") from None
    whole = isinstance(loaded, dict) and all(
        isinstance(titles, dict) and all(_is_texts(texts) for texts in titles.values()) for titles in loaded.values()
    )
    if not whole:
        raise InputError(f"{path} is not of the shape {{group: {{title: [sentences]}}}}, which JSON sources must have")
    return {
        group: {title: [texts] if isinstance(texts, str) else texts for title, texts in titles.items()} for group, titles in loaded.items()
    }


def _is_texts(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(one, str) for one in value))


def _of_group(path: str, groups: _Groups, wanted: str | None, concept: str) -> list[tuple[str, str, str, str | None]]:
    """Source, title and text of each title of the concept's group."""
    by_name = {_bare(group): group for group in groups}
    group = groups.keys() & {wanted} if wanted else None
    chosen = group.pop() if group else by_name.get(_bare(wanted or concept))
    if chosen is None:
        hint = did_you_mean(wanted or concept, list(groups))
        raise InputError(f"{path} has no group {wanted or concept!r} for the concept {concept!r}: {hint} (name it so: {path}#GROUP)")
    # Each text stays a paragraph: it was cut into sentences already.
    return [(f"{path}#{chosen}/{title}", title.replace("_", " "), paragraphs(texts), None) for title, texts in groups[chosen].items()]


def _bare(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).casefold()
