"""Suggested slots in a file, folder or table of prompts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from polars import DataFrame, Series, String

from tiltmeter._files.paths import is_folder
from tiltmeter._files.tables import ROW, UserTable
from tiltmeter._marking._suggestions import Suggestions, suggest
from tiltmeter.designs.slots._reading import (
    NO_PROMPTS,
    TEXT_FILES,
    prompt_files,
    prompt_spans,
    read_text,
    read_user_prompts,
)
from tiltmeter.errors import InputError


@dataclass(frozen=True, slots=True)
class PlacedDoubt:
    """A place in a file that a person has to decide: "line 3", the words there, and why."""

    place: str
    words: str
    reason: str


@dataclass(slots=True)
class MarkedPrompts:
    """Prompts with suggested slots.

    Attributes
    ----------
    texts
        Contents of text files by name; a single file has the name "".
    table
        The table, if the prompts were in one.
    prompts
        Number of prompts.
    with_marks
        Number of prompts with suggested slots.
    marks
        Number of suggested slots.
    """

    texts: dict[str, str] = field(default_factory=dict)
    table: DataFrame | None = None
    prompts: int = 0
    with_marks: int = 0
    marks: int = 0
    doubts: list[PlacedDoubt] = field(default_factory=list)

    def count(self, suggestions: Suggestions, places: Iterable[str]) -> None:
        """Add the suggestions of a prompt, with the places of its doubts."""
        self.prompts += 1
        self.marks += len(suggestions.marks)
        self.with_marks += bool(suggestions.marks)
        for doubt, place in zip(suggestions.doubts, places, strict=True):
            self.doubts.append(PlacedDoubt(place, doubt.words, doubt.reason))


def mark_prompts(source: Path) -> MarkedPrompts:
    """Suggest slots for the prompts of a file, folder or table, as `read_prompts` reads them.

    Raises
    ------
    InputError
        There is no such file, it cannot be read, or it has no prompts.
    """
    marked = MarkedPrompts()
    if is_folder(source):
        for file in prompt_files(source):
            text = read_text(file)
            marked.texts[file.name] = _marked_text(marked, text, [(0, len(text))], f"{file.name}, ")
    elif source.suffix.lower() in TEXT_FILES:
        text = read_text(source)
        spans = prompt_spans(text)
        if not spans:
            raise InputError(NO_PROMPTS.format(path=source))
        marked.texts[""] = _marked_text(marked, text, spans, "")
    else:
        table = read_user_prompts(source)
        marked.table = _marked_table(marked, table)
    return marked


def _marked_text(marked: MarkedPrompts, text: str, spans: Sequence[tuple[int, int]], file: str) -> str:
    """Return a text with slots in its prompts; nothing between the prompts changes."""
    pieces: list[str] = []
    previous_end = 0
    for start, end in spans:
        suggestions = suggest(text[start:end])
        lines = [text.count("\n", 0, start + doubt.start) + 1 for doubt in suggestions.doubts]
        marked.count(suggestions, [f"{file}line {line}" for line in lines])
        pieces += [text[previous_end:start], suggestions.marked()]
        previous_end = end
    return "".join([*pieces, text[previous_end:]])


def _marked_table(marked: MarkedPrompts, table: UserTable) -> DataFrame:
    prompts: list[str] = []
    for row, prompt in table.rows.select(ROW, "prompt").iter_rows():
        suggestions = suggest(prompt)
        marked.count(suggestions, [f"row {row}"] * len(suggestions.doubts))
        prompts.append(suggestions.marked())
    return table.rows.drop(ROW).with_columns(Series("prompt", prompts, dtype=String))
