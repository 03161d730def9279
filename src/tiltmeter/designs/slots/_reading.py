"""Reading of a user's prompts: tables, folders and text files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from polars import DataFrame

from tiltmeter._files.paths import is_folder
from tiltmeter._files.tables import ROW, UserTable, read_user_table
from tiltmeter._files.yaml import content_of
from tiltmeter._sanitising import not_utf8
from tiltmeter.errors import InputError

TEXT_FILES: Final = (".txt", ".md")
"""Extensions of files that contain prompts as plain text."""
NO_PROMPTS: Final = "{path} contains no prompts; write one in each line, or separate them by lines of ---"
_SEPARATOR: Final = re.compile(r"^-{3,}[ \t]*$", re.MULTILINE)
_LINE: Final = re.compile(r"[^\n]+")


def read_prompts(path: str | Path) -> DataFrame:
    """Read prompts.

    Parameters
    ----------
    path
        A table with the column `prompt` (CSV, JSONL, Excel, Parquet, ...); a folder of `.txt` files with one
        prompt each; or a `.txt` or `.md` file, whose prompts are separated by lines of `---`, or without such
        a line by line breaks.

    Returns
    -------
    DataFrame
        The column `prompt`, and the other columns of a table; for a folder, `file` has the file names.

    Raises
    ------
    InputError
        There is no such file, it cannot be read, or it has no prompts.
    """
    source = Path(path)
    if is_folder(source):
        return _prompts_of_folder(source)
    if source.suffix.lower() in TEXT_FILES:
        text = read_text(source)
        prompts = [text[start:end] for start, end in prompt_spans(text)]
        if not prompts:
            raise InputError(NO_PROMPTS.format(path=source))
        return DataFrame({"prompt": prompts})
    return read_user_prompts(source).rows.drop(ROW)


def read_user_prompts(path: Path) -> UserTable:
    """Read a table with the column `prompt`.

    Raises
    ------
    InputError
        There is no such file, it cannot be read, or it has no prompts.
    """
    table = read_user_table(path)
    table.demand(["prompt"])
    table.refuse_empty(["prompt"])
    return table


def read_text(path: Path) -> str:
    """Return the text of a file, without a byte order mark and with line breaks of one character."""
    content = content_of(path, "prompts")
    encoding = not_utf8(content)
    if encoding:
        raise InputError(f"{path} cannot be read: {encoding}")
    return content.decode("utf-8-sig").replace("\r\n", "\n")


def prompt_spans(text: str) -> Sequence[tuple[int, int]]:
    """Return the start and end of each prompt in a text, without surrounding blanks.

    Examples
    --------
    >>> prompt_spans("one prompt")
    [(0, 10)]
    """
    separators = list(_SEPARATOR.finditer(text))
    if not separators:
        pieces = [line.span() for line in _LINE.finditer(text)]
    else:
        starts = [0, *(separator.end() for separator in separators)]
        ends = [*(separator.start() for separator in separators), len(text)]
        pieces = list(zip(starts, ends, strict=True))
    spans = []
    for start, end in pieces:
        prompt = text[start:end].strip()
        if prompt:
            first = text.index(prompt, start)
            spans.append((first, first + len(prompt)))
    return spans


def _prompts_of_folder(folder: Path) -> DataFrame:
    files = prompt_files(folder)
    prompts = [read_text(file).strip() for file in files]
    for file, prompt in zip(files, prompts, strict=True):
        if not prompt:
            raise InputError(f"{file} is empty; write a prompt into it or remove it")
    return DataFrame({"prompt": prompts, "file": [file.name for file in files]})


def prompt_files(folder: Path) -> Sequence[Path]:
    """Return the `.txt` files of a folder in the order of their names."""
    files = sorted(file for file in folder.glob("*.txt") if file.is_file())
    if not files:
        raise InputError(f"the folder {folder} has no .txt files; write each prompt into one")
    return files
