"""The command `init`, which writes an example study file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tiltmeter._cli.command_options import new_file
from tiltmeter.errors import InputError

EXAMPLE = Path(__file__).with_name("study.yaml")
"""A study file with all keys and comments."""


def init(
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="The file to write.")] = Path("study.yaml"),
) -> None:
    """Write an example of a study file, with all settings and comments."""
    path = new_file(file)
    if path is None or path.suffix not in (".yaml", ".yml"):
        raise InputError(f"{file} is not the name of a study file; it ends in .yaml, such as study.yaml")
    if not path.parent.is_dir():
        raise InputError(f"{path} cannot be written: there is no folder {path.parent}")
    path.write_text(EXAMPLE.read_text(encoding="utf-8"), encoding="utf-8")
    typer.echo(f"{path} written; edit it, then: tiltmeter plan {path} --model PROVIDER/NAME")
