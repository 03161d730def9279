"""Options shared by several commands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from tiltmeter.errors import InputError
from tiltmeter.files.paths import is_file
from tiltmeter.sanitising import redacted

StudyName = Annotated[
    str,
    typer.Argument(
        metavar="STUDY",
        help="A built-in study (genderbench, genderbench/gest, associations/race), STUDY.yaml, PROBE.py:NAME or PROMPTS.csv.",
        show_default=False,
    ),
]
ModelNames = Annotated[
    list[str],
    typer.Option(
        "--model",
        "-m",
        metavar="PROVIDER/NAME",
        envvar="TILTMETER_MODEL",
        help="Model under test; repeat for several.",
        show_default=False,
    ),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Base URL of the endpoint (OpenAI-compatible, or Anthropic's for anthropic/...); all models must be of one provider.",
    ),
]
ModelOptions = Annotated[
    list[str] | None,
    typer.Option(
        "-M",
        metavar="KEY=VALUE",
        help="Model option: a sampling parameter, a vendor option, or, for simulated models (sim/...), a bias setting; repeatable.",
    ),
]
Params = Annotated[
    list[str] | None,
    typer.Option("-P", metavar="KEY=VALUE", help="Study parameter, such as wording=all; repeatable."),
]
Replace = Annotated[
    list[str] | None,
    typer.Option(
        "--replace",
        metavar="TABLE=FILE",
        help="Use your own table (CSV or Parquet) instead of a stage's output; repeatable.",
    ),
]
Definition = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        envvar="TILTMETER_DEFINITION",
        help="Definition of the method: default, or the published one: genderbench (probes), paper or badf-code (associations), "
        "saged (benchmarks).",
    ),
]
Size = Annotated[
    str | None,
    typer.Option(
        metavar="quick|standard|full",
        envvar="TILTMETER_SIZE",
        help="quick: about 2,000 calls for the probes; standard: enough items to decide most marks of an unbiased model; full: all items "
        "[default: standard; full for published definitions]. --limit overrides it.",
    ),
]
Limit = Annotated[
    str | None,
    typer.Option(
        metavar="N|A-B|0.1",
        envvar="TILTMETER_LIMIT",
        help="Items of each part of the study (each probe, for instance): a number, a range or a share. 100,gest=600: 100 "
        "items, but 600 of the part gest; standard,gest=600: as --size standard, but 600 of gest.",
    ),
]
Repeats = Annotated[
    int | None,
    typer.Option(
        "--repeats",
        "--epochs",
        min=1,
        max=1_000,
        metavar="R",
        envvar="TILTMETER_REPEATS",
        help="Responses per prompt [default: that of each part of the study].",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=2**63 - 1,
        metavar="S",
        envvar="TILTMETER_SEED",
        help="Random seed for items and resampling [default: 123, the seed of GenderBench].",
    ),
]
SystemMessage = Annotated[
    str | None,
    typer.Option(metavar="TEXT", envvar="TILTMETER_SYSTEM_MESSAGE", help="System message or persona."),
]
Out = Annotated[
    str | None,
    typer.Option(
        metavar="DIR|URL",
        envvar="TILTMETER_OUT",
        help="Run folder or its URL [default: runs/STUDY--MODEL--...].",
    ),
]
Display = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        envvar="TILTMETER_DISPLAY",
        help="Progress display: rich, plain, json or none [default: rich on a terminal, else plain].",
    ),
]
RunCode = Annotated[
    bool,
    typer.Option(
        "--run-code",
        help="Run code that study.yaml of the run names (FILE.py:NAME, MODULE:FUNCTION). Read it first.",
    ),
]
MaxTokens = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=10_000_000,
        show_default=False,
        help="Maximum length of a response [default: the method's].",
    ),
]
JudgeName = Annotated[
    str | None,
    typer.Option(
        "--judge",
        metavar="PROVIDER/NAME",
        envvar="TILTMETER_JUDGE",
        help="Judge model that annotates responses, for methods that use one.",
    ),
]
JudgeBaseUrl = Annotated[str | None, typer.Option(metavar="URL", help="Base URL of the judge's endpoint.")]
JudgeOptions = Annotated[
    list[str] | None,
    typer.Option("-J", metavar="KEY=VALUE", help="Option of the judge, like -M for the model."),
]
RequestsPerMinute = Annotated[float | None, typer.Option(min=0, help="Maximum requests per minute.")]
MaxConnections = Annotated[
    int,
    typer.Option(
        min=1,
        metavar="C",
        envvar="TILTMETER_MAX_CONNECTIONS",
        help="Maximum number of concurrent requests; adapted to rate limits.",
    ),
]
Journal = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="TILTMETER_JOURNAL",
        help="Response cache: a file or a database URL [default: runs/journal.sqlite].",
    ),
]
EngineName = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="local|ray|ray://HOST:PORT",
        envvar="TILTMETER_ENGINE",
        help="Execution engine [default: local].",
    ),
]
EngineOptions = Annotated[
    list[str] | None,
    typer.Option(
        "-E", metavar="KEY=VALUE", help="Engine option, for --engine ray: workers=2-8, gpus=0.5, cpus=1, ..."
    ),
]
MOST = 1_000_000
"""Largest number of rows to print."""
Format = Annotated[str, typer.Option("--format", "-f", metavar="table|json", help="Output format.")]


def key_values(flag: str, pairs: Sequence[str] | None) -> dict[str, str]:
    """Convert `["a=1", "b=2"]` to a mapping; raises InputError for a pair without "=" or a repeated key."""
    found: dict[str, str] = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InputError(f"{flag} {pair!r} is not KEY=VALUE")
        if key in found:
            raise InputError(f"{flag} {key}= is given twice")
        found[key] = value
    return found


def local_only(path: Path | None) -> Path | None:
    """Return `path` if it is local.

    Raises InputError for a URL, which would otherwise create a folder named "s3:".
    """
    if path is not None and len(path.parts) > 1 and path.parts[0].endswith(":") and len(path.parts[0]) > 2:
        raise InputError(
            f"{path.parts[0]}//... is not a local path; write to a local file and copy it there (only --out of a run accepts a URL)"
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
    """Raise InputError if one base URL is given for several providers, because it would receive the keys of all of them."""
    providers = list(dict.fromkeys(model.partition("/")[0] for model in models))
    if base_url is not None and len(providers) > 1:
        raise InputError(
            f"--base-url would send the requests and keys of {' and '.join(providers)} to one endpoint; run one command per provider"
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
