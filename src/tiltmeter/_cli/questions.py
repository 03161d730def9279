"""Questions to the person at the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from tiltmeter._sanitising import printable


def is_on_terminal() -> bool:
    """Return whether a person can answer a question."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def ask_columns(paths: Sequence[Path], name: str | None) -> tuple[str | None, str | None]:
    """Ask for the columns of the texts and of their groups, if a table of texts leaves them open.

    Parameters
    ----------
    name
        The column with the name of the person whom a text is about, if there is one.

    Returns
    -------
    The names of both columns; None for both if the file says enough, or is no table of texts.
    """
    from tiltmeter import importing

    if len(paths) != 1 or not importing.may_hold_own_texts(paths[0]):
        return None, None
    named = importing.TextColumns(text=None, identity=(), name=name)
    possible = importing.possible_columns(paths[0], named)
    if possible is None or possible.are_unique:
        return None, None
    text = _chosen("Which column has the texts?", possible.texts)
    others = [*possible.groups, *possible.common]
    if not others:
        return None, None
    return text, _chosen("Which column has the group that each text is about?", others)


def _chosen(question: str, names: Sequence[str]) -> str:
    """Return the name that a person chooses by its number; the only one without a question."""
    if len(names) == 1:
        return names[0]
    typer.echo(question, err=True)
    for number, name in enumerate(names, 1):
        typer.echo(f"  {number}  {printable(name, one_line=True)}", err=True)
    number = 0
    while number not in range(1, len(names) + 1):
        number = typer.prompt(f"Number, 1 to {len(names)}", type=int, err=True)
    return names[number - 1]
