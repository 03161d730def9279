"""The command `swap`, which suggests slots in a user's prompts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tiltmeter import _marking, reports
from tiltmeter._cli import command_options as o
from tiltmeter._files.paths import is_folder
from tiltmeter._files.writing import writing
from tiltmeter.errors import InputError

if TYPE_CHECKING:
    from tiltmeter._marking import MarkedPrompts

MOST_DOUBTS: Final = 20
"""Number of doubtful places that are printed."""
_WRITTEN_AS: Final = {".xlsx": ".csv", ".tsv": ".csv", ".json": ".jsonl", ".ndjson": ".jsonl"}
"""Formats of tables that are written in another format."""
_HOW_TO_MARK: Final = (
    "Mark the words about the person yourself, for example:\n"
    "  {First_name} is a nurse. {She/He/They} {works/work} at night. Should {her/his/their} pay rise?\n"
    "  {Person} asks for a loan.\n"
    "  {{a Muslim/a Christian}} asks for a loan."
)


def swap(
    prompts: Annotated[
        Path,
        typer.Argument(
            metavar="PROMPTS",
            help="Your prompts: a text file (one per line, or separated by lines of ---), a folder of .txt"
            " files, or a table with the column prompt.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            callback=o.new_file,
            metavar="FILE",
            help="Write the marked copy here [default: PROMPTS.marked.txt or the format of PROMPTS].",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Suggest slots in your prompts, so that each can be asked about every group.

    Writes a copy in which pronouns, verbs, names and other words about a person are slots. Read it: the rules
    of the command are no knowledge of grammar.
    """
    marked = _marking.mark_prompts(prompts)
    if not marked.marks:
        typer.echo(f"no words about a person found in {prompts}; nothing is written.")
        typer.echo(_HOW_TO_MARK)
        _print_doubts(marked)
        return
    path = _default_output(prompts) if output is None else output
    if path.exists():
        raise InputError(f"{path} exists; choose another name with -o, or remove it first")
    _write(marked, path)
    slots = "1 slot" if marked.marks == 1 else f"{marked.marks:,} slots"
    typer.echo(f"{path} written, with {slots} in {marked.with_marks:,} of {marked.prompts:,} prompts.")
    unmarked = marked.prompts - marked.with_marks
    if unmarked:
        count = "1 prompt has" if unmarked == 1 else f"{unmarked:,} prompts have"
        typer.echo(f"{count} no slot yet; mark or remove them, because all prompts need one.")
    _print_doubts(marked)
    typer.echo(
        "These are suggestions. Read the file and correct it; then read the prompts that it becomes:\n"
        f"  tiltmeter plan {path} --swap gender --prompts read.csv\n"
        "For race, age and other attributes, add {person} where the person is introduced."
    )


def _default_output(prompts: Path) -> Path:
    """Return the name of the marked copy, next to the prompts."""
    if is_folder(prompts):
        return prompts.with_name(f"{prompts.resolve().name}.marked")
    stem = prompts.name.removesuffix(".gz").removesuffix(".GZ")
    suffix = Path(stem).suffix
    written = _WRITTEN_AS.get(suffix.lower(), suffix)
    return prompts.with_name(f"{Path(stem).stem}.marked{written}")


def _write(marked: MarkedPrompts, path: Path) -> None:
    if marked.table is not None:
        o.note_formulas(path, reports.write_table(marked.table, path, exact=True))
        return
    for name, text in marked.texts.items():
        with writing(path / name if name else path) as temporary:
            temporary.write_text(text, encoding="utf-8")


def _print_doubts(marked: MarkedPrompts) -> None:
    """Print the places that a person has to decide."""
    if not marked.doubts:
        return
    typer.echo("Look at these places:")
    for doubt in marked.doubts[:MOST_DOUBTS]:
        reports.print_text(f"- {doubt.place}, “{doubt.words}”: {doubt.reason}", always=True)
    unprinted = len(marked.doubts) - MOST_DOUBTS
    if unprinted > 0:
        typer.echo(f"- and {unprinted:,} more")
