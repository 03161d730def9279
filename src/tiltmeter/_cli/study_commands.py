"""The command `init`, which writes an example of a study file, or of prompts with slots."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tiltmeter._cli.command_options import new_file
from tiltmeter.errors import InputError

EXAMPLE = Path(__file__).with_name("study.yaml")
"""A study file with all keys and comments."""
PROMPTS = Path(__file__).with_name("prompts.txt")
"""Twenty short CVs with slots."""


def init(
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="The file to write.")] = Path("study.yaml"),
) -> None:
    """Write an example of a study file (FILE.yaml), or of 20 prompts with slots (FILE.txt)."""
    path = new_file(file)
    if path is None or path.suffix not in (".yaml", ".yml", ".txt"):
        raise InputError(
            f"{file} is the name of neither a study file nor of prompts; it ends in .yaml, such as"
            " study.yaml, or in .txt, such as prompts.txt"
        )
    if not path.parent.is_dir():
        raise InputError(f"{path} cannot be written: there is no folder {path.parent}")
    is_of_prompts = path.suffix == ".txt"
    example = PROMPTS if is_of_prompts else EXAMPLE
    path.write_text(example.read_text(encoding="utf-8"), encoding="utf-8")
    swap = " --swap gender" if is_of_prompts else ""
    typer.echo(f"{path} written; edit it, then: tiltmeter plan {path}{swap} --model PROVIDER/NAME")
