"""Import of responses and texts generated elsewhere: they are matched with prompts, measured and analysed.

No model is called, except for a judge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import polars as pl
from polars import DataFrame, Expr, Series, String, col, lit, when

from tiltmeter._files.paths import is_file, sha256
from tiltmeter._files.tables import UserTable
from tiltmeter.errors import InputError, ProviderError
from tiltmeter.importing._batch_outputs import is_batch_output, read_batch_output
from tiltmeter.importing._doubtful_rows import (
    errors_as_failures,
    print_notes,
    surplus_rows,
    without_keys,
)
from tiltmeter.importing._evaluation_logs import (
    is_inspect_log,
    is_probe_log,
    match_probe_log,
    read_inspect_log,
    read_probe_log,
)
from tiltmeter.importing._own_data import OwnData
from tiltmeter.importing._released_answers import STUDY as BBQ, is_released, match_released, read_released
from tiltmeter.importing._response_tables import (
    Source,
    TableInMemory,
    read_responses,
)
from tiltmeter.models import Model, Sampling
from tiltmeter.probes._definitions import GENDERBENCH
from tiltmeter.reports._files import as_written
from tiltmeter.runs._asking import Asking
from tiltmeter.runs._folder import RunFolder
from tiltmeter.runs._opened_run import Run
from tiltmeter.runs._opening import folder_to_fill
from tiltmeter.runs._problems import close_parts, count_responses, is_whole, what_is_missing
from tiltmeter.runs._resolving import Resolved
from tiltmeter.runs._study_run import RunInProgress, default_folder
from tiltmeter.schema import DESIGN, RESPONSES, beside, conform

_ATTEMPT: Final = ["model", "prompt_id", "repetition"]


def analyse_responses(
    paths: Sequence[Source],
    resolved: Resolved,
    *,
    model: str,
    own: OwnData | None = None,
    judge: tuple[Model, Sampling] | None = None,
    asking: Asking | None = None,
    out: str | Path | None = None,
    command: str | None = None,
) -> Run:
    """Measure and analyse responses, texts or decisions from files or tables.

    Parameters
    ----------
    paths
        CSV, JSONL, Parquet or Excel tables with a column `answer` and either `prompt_id` (as written by
        `tiltmeter plan --prompts`) or `prompt` (the text); optionally `model` and `repetition`. Or outputs of
        a provider's batch, whose `custom_id` is a `prompt_id`. Or GenderBench probe logs (`*.jsonl` with
        lines that contain `probe_state`): these are matched with the items of the original and keep their own
        prompts (wording "log"), whatever definition is used. Or Inspect logs (`.eval`, `.json`): those of
        Tiltmeter's tasks are matched by the ids of their samples, and others by the text of the prompt;
        samples that ended with an error are failed attempts.
    resolved
        The study; for own data, only its settings are used.
    model
        Name of the model if the table has no column `model`.
    own
        Texts or decisions that are not responses to prompts of a study.
    judge
        The model that judges answers, for methods that use one; None: no model is called.

    Raises
    ------
    InputError
        A file cannot be read, lacks a column, matches no prompt of the study, or answers one twice. The
        message names the file or column.
    """
    if not model.strip():
        raise InputError("the name of the model is empty; give one with --model")
    if own is not None:
        paths = own.sources
    # Everything is read before anything is written.
    resolved = replace(resolved, inputs={**resolved.inputs, **_digests_of(paths)})
    logs = [] if own is not None else [path for path in paths if is_probe_log(path)]
    released = [] if own is not None else _released(paths, resolved)
    if (logs or released) and "wording" in resolved.settings.params:
        kind = "is a probe log, which has its own wording" if logs else "has answers to another wording"
        raise InputError(f"{(logs or released)[0]} {kind}; remove -P wording=")
    # Probe logs contain the items of the published definition.
    definition_of_items = GENDERBENCH if logs else resolved.settings.definition
    designed = replace(resolved, settings=replace(resolved.settings, definition=definition_of_items))
    if own is not None:
        designed = resolved = replace(resolved, study=own.study)
        names = _models_in([own.models], model)
    else:
        _refuse_of_other_definition(paths, resolved.settings.definition.name)
        tables = _read_files(paths, logs, released, resolved.settings.params.get("column"))
        columns = [conform(table, {"model": String})["model"] for table in tables.values()]
        names = _models_in(columns, model)
    document: dict[str, Any] = {"models": [{"name": name} for name in names]}
    document["responses"] = [str(path) for path in paths]
    if own is not None:
        document["columns"] = own.columns
    document = resolved.as_document() | document
    folder = folder_to_fill(out or default_folder(document, [path.stem for path in paths]))
    with folder.filling(document), (asking or Asking()).open() as asker:
        run = RunInProgress(folder, resolved, asker, judge)
        run.make_design(designed)
        if own is not None:
            if run.problems:  # a part has no design
                raise ProviderError("; ".join(run.problems))
            design = folder.read("design")
            for part in run.parts:
                print_notes(*part.size_warnings(design, resolved.settings, resolved.settings.level))
            answers = own.responses(design, model)
        else:
            answers, unmatched = _match_files(folder, tables, (logs, released), model, resolved.study.name)
            run.problems += unmatched
        with folder.table("responses", RESPONSES) as add:
            add(answers)
        models = answers["model"].unique(maintain_order=True).to_list()
        if own is None:
            run.problems = [*_missing(run, models), *run.problems]
        run.analyse(run.parts)
        about = {} if own is not None else {"items": definition_of_items.name}
        return run.finish([{"name": name} for name in models], command, **about)


def _models_in(columns: Sequence[Series], model: str) -> list[str]:
    """Return the names of the models in columns of tables, in order; `model` is that of rows without one."""
    names = pl.concat(columns).fill_null(model)
    return names.unique(maintain_order=True).to_list()


def _digests_of(paths: Sequence[Source]) -> dict[str, str]:
    """Return the digests of the contents of files and tables, by their names."""
    digests = {}
    for path in paths:
        if isinstance(path, TableInMemory):
            digests[str(path)] = path.sha256
        elif path.is_file():
            digests[str(path)] = sha256(path)
    return digests


def _released(paths: Sequence[Source], resolved: Resolved) -> list[Source]:
    """Return the files with released answers, if the study is that of their questions."""
    if resolved.study.name.partition("/")[0] != BBQ:
        return []
    return [path for path in paths if is_released(path)]


def _read_files(
    paths: Sequence[Source], logs: Sequence[Path], released: Sequence[Source], columns: str | None
) -> dict[Source, DataFrame]:
    """Return the rows of files of responses; error messages in tables are failures, with a note.

    `columns` names the columns of released answers.
    """
    if columns is not None and not released:
        raise InputError("-P column= names columns of released answers, and no file has any; leave it out")
    tables = {}
    for path in paths:
        rows = read_released(path, columns) if path in released else _rows_of_file(path)
        tables[path] = without_keys(path, rows)
    for path in paths:
        if path not in logs:
            tables[path], note = errors_as_failures(path, tables[path])
            print_notes(note)
    return tables


def _rows_of_file(path: Source) -> DataFrame:
    if is_probe_log(path):
        return read_probe_log(path)
    if is_batch_output(path):
        return read_batch_output(path)
    return read_inspect_log(path) if is_inspect_log(path) else read_responses(path)


def _match_files(
    folder: RunFolder,
    tables: Mapping[Source, DataFrame],
    with_own_prompts: tuple[Sequence[Path], Sequence[Source]],
    model: str,
    study: str,
) -> tuple[DataFrame, list[str]]:
    """Return the responses of files, and a sentence for each file with unmatched rows.

    `with_own_prompts` are the probe logs and the released answers, which have other prompts than the design.
    """
    logs, released = with_own_prompts
    placed: dict[Source, DataFrame] = {
        path: match_probe_log(path, tables[path], folder.read("design")) for path in logs
    }
    for path in released:
        placed[path] = match_released(path, tables[path], folder.read("design"))
    if placed:
        _keep_texts(folder, list(placed.values()))
    design = folder.read("design")
    rows_of_files = [(path, placed.get(path, table)) for path, table in tables.items()]
    matched = match_prompts(rows_of_files, design, model)
    print_notes(matched.note)
    sentences = []
    for path, count in matched.lost.items():
        rows = tables[path]
        reasons = _why_unmatched(rows, design)
        sentences.append(
            f"{path}: {count:,} of {rows.height:,} rows match no prompt of {study} and were omitted{reasons}"
        )
    return matched.responses, sentences


def _why_unmatched(table: DataFrame, design: DataFrame) -> str:
    """Return how the unmatched prompt ids of a table differ from those of the design, in brackets.

    Empty if the table has no ids.
    """
    place = col.prompt_id.str.replace("/[^/]*$", "")
    unmatched = table.drop_nulls("prompt_id").join(design, on="prompt_id", how="anti").select(place=place)
    reworded = unmatched.join(design.select(place=place), on="place", how="semi").height
    counts = {
        "with the same item in another wording": reworded,
        "about other items": unmatched.height - reworded,
    }
    reasons = [f"{count:,} {reason}" for reason, count in counts.items() if count]
    return f" ({', '.join(reasons)})" if reasons else ""


def _refuse_of_other_definition(paths: Sequence[Source], definition: str) -> None:
    """Raise InputError for the responses of a run under another definition.

    The ids of its prompts may stand for other items here.
    """
    for path in paths:
        if not isinstance(path, Path) or path.name != "responses.parquet":
            continue
        if not is_file(path.with_name("run.json")):
            continue
        about = RunFolder(path.parent).read_json()
        if about["definition"] != definition:
            raise InputError(
                f"{path} belongs to a run under the definition {about['definition']}, and {definition} asks"
                " other prompts under the same ids; score the whole run on its own prompts:"
                f" tiltmeter analyse {path.parent} --definition {definition}"
            )


def _missing(run: RunInProgress, models: Sequence[str]) -> list[str]:
    """Return a sentence about missing responses for each model, and close parts without any response."""
    count_responses(run.folder, run.became, models, by_prompt=True)
    counted = "the files answer {found} of {wanted} {unit}"
    remedy = "; if the responses were generated with --limit, use the same --limit here"
    sentences = [
        what_is_missing(run.resolved.study, run.became, name, counted) + remedy
        for name in models
        if not is_whole(run.became, name)
    ]
    close_parts(run.became, "the files contain no response to its prompts")
    return sentences


def _keep_texts(folder: RunFolder, logs: Sequence[DataFrame]) -> None:
    """Replace the prompts of the design by those in the logs."""
    texts = pl.concat([log.select("prompt_id", asked="prompt") for log in logs])
    design = beside(folder.read("design"), texts.unique("prompt_id", keep="first"), "prompt_id")
    wording = when(col.asked.is_not_null()).then(lit("log")).otherwise("wording")
    with folder.table("design", DESIGN) as add:
        add(design.with_columns(prompt=pl.coalesce("asked", "prompt"), wording=wording).drop("asked"))


class Matched(NamedTuple):
    """Responses of files with the prompts that they answer."""

    responses: DataFrame
    """A table with the columns RESPONSES."""
    lost: Mapping[Source, int]
    """The number of unmatched rows for each file with any."""
    note: str | None
    """A sentence about prompts with more responses than the design asks for; None if there are none."""


def match_prompts(tables: Sequence[tuple[Source, DataFrame]], design: DataFrame, model: str) -> Matched:
    """Match responses to prompts, and sort them by model (in order of appearance), design and repetition.

    Rows without a repetition are numbered consecutively over all files. Texts of prompts may differ in line
    ends and in blanks at the ends of lines. Answers to identical prompts (the data contains some twice) are
    assigned to them in turn.

    Parameters
    ----------
    tables
        Files and their rows (columns `ROWS`, and any others of RESPONSES; without a `status`, all responses
        are "ok").
    model
        Name of the model for rows without one.

    Raises
    ------
    InputError
        No row of a file matches a prompt, or two rows are the same attempt.
    """
    paths = [path for path, _ in tables]
    numbered = [
        UserTable.of(path, table).rows.with_columns(file=lit(number))
        for number, (path, table) in enumerate(tables)
    ]
    rows = pl.concat(numbered, how="diagonal").with_columns(col.model.fill_null(model))
    logs = [number for number, path in enumerate(paths) if is_inspect_log(path)]
    is_log = col.file.is_in(logs)
    # A log has the very texts that were sent.
    placed = _with_prompt_ids(_with_prompts_of(design, rows, ~is_log), design)
    texts = design.select("prompt_id", asked="prompt")
    matched = placed.join(texts, on="prompt_id", maintain_order="left")
    _refuse_other_prompts(paths, matched, design, is_log)
    is_unnumbered = col.repetition.is_null()
    in_turn = pl.int_range(pl.len()).over("model", "prompt_id", is_unnumbered)
    matched = matched.with_columns(
        repetition=when(is_unnumbered).then(in_turn).otherwise("repetition"), in_turn=is_unnumbered
    )
    counts = dict(matched.group_by("file").len().iter_rows())
    _refuse_unmatched_files(tables, counts)
    _refuse_repeated_attempts(paths, matched)
    models = pl.Enum(matched["model"].unique(maintain_order=True))
    prompts = pl.Enum(design["prompt_id"])
    ordered = matched.sort(col.model.cast(models), col.prompt_id.cast(prompts), "repetition")
    answers = conform(ordered, RESPONSES).with_columns(col.status.fill_null("ok"))
    answers = _with_shared_prompts(answers, design)
    repetitions = design.select("prompt_id", wanted="repetitions")
    counted = beside(matched.filter("in_turn"), repetitions, "prompt_id")
    surplus = counted.filter(col.repetition >= col.wanted)
    lost = {
        path: table.height - counts[number]
        for number, (path, table) in enumerate(tables)
        if table.height > counts[number]
    }
    return Matched(answers, lost, surplus_rows([str(path) for path in paths], surplus))


def _with_shared_prompts(answers: DataFrame, design: DataFrame) -> DataFrame:
    """Return the responses with those to prompts of other parts that have the same text.

    A run asks such a prompt once. Only prompts to which a model has no response of its own get one.
    """
    request = ("prompt", "system", "first_sample")
    shared = design.select("prompt_id", *request).filter(pl.len().over(request) > 1)
    if shared.is_empty():
        return answers
    answered = answers.select("model", "prompt_id").unique(maintain_order=True)
    sources = answered.join(shared, on="prompt_id", maintain_order="left")
    sources = sources.unique(["model", *request], keep="first", maintain_order=True)
    copied = sources.rename({"prompt_id": "source"}).join(
        shared, on=request, nulls_equal=True, maintain_order="left"
    )
    copied = copied.join(answered, on=["model", "prompt_id"], how="anti", maintain_order="left")
    copies = copied.select("model", "source", own_id="prompt_id").join(
        answers, left_on=["model", "source"], right_on=["model", "prompt_id"], maintain_order="left_right"
    )
    every = pl.concat([answers, conform(copies.rename({"own_id": "prompt_id"}), RESPONSES)])
    models = pl.Enum(answers["model"].unique(maintain_order=True))
    prompts = pl.Enum(design["prompt_id"])
    return every.sort(col.model.cast(models), col.prompt_id.cast(prompts), "repetition", maintain_order=True)


def _with_prompt_ids(rows: DataFrame, design: DataFrame) -> DataFrame:
    """Return rows in which a missing `prompt_id` is that of the prompt with the same text.

    If several prompts have this text, they take turns: each takes one row of an attempt, or as many rows
    without a repetition as it has repetitions.
    """
    every = col.prompt_id.repeat_by("repetitions").explode()
    ids_of_texts = design.group_by("prompt").agg(each="prompt_id", every=every)
    ids = when(col.repetition.is_null()).then("every").otherwise("each")
    turn = pl.int_range(pl.len()).over("model", "prompt", "repetition", col.prompt_id.is_null())
    with_ids = beside(rows, ids_of_texts, "prompt")
    return with_ids.with_columns(prompt_id=pl.coalesce("prompt_id", ids.list.get(turn % ids.list.len())))


def _refuse_other_prompts(
    paths: Sequence[Source], matched: DataFrame, design: DataFrame, is_log: Expr
) -> None:
    """Raise InputError if a row has the id of a prompt, and the text of another one.

    In a table, the text may be shortened.
    """
    is_whole_text = is_log | col.prompt.is_in(design["prompt"].implode())
    differing = matched.filter((col.asked != col.prompt) & is_whole_text)
    if not differing.is_empty():
        raise InputError(
            f"{paths[differing['file'][0]]}: the prompt {differing['prompt_id'][0]} differs from that of this"
            " study; the file was made with another seed, definition or wording: use the same ones here; if"
            " only its text was edited, remove the column prompt"
        )


def _refuse_unmatched_files(tables: Sequence[tuple[Source, DataFrame]], counts: Mapping[int, int]) -> None:
    """Raise InputError for a file of which no row matches a prompt.

    Parameters
    ----------
    counts
        The number of matched rows by the number of the file.
    """
    for number, (path, table) in enumerate(tables):
        if number not in counts:
            column = "prompt_id" if table["prompt_id"].is_not_null().any() else "prompt"
            raise InputError(
                f"{path}: no {column} of the table matches a prompt of this study; compare with"
                " `tiltmeter plan STUDY --prompts FILE`, or add --limit full if all items were asked"
            )


def _refuse_repeated_attempts(paths: Sequence[Source], matched: DataFrame) -> None:
    """Raise InputError if two rows are the same attempt: model, prompt and repetition."""
    repeated = matched.filter(~pl.struct(_ATTEMPT).is_first_distinct())
    if repeated.is_empty():
        return
    name, prompt, repetition = repeated.select(_ATTEMPT).row(0)
    path = paths[repeated["file"][0]]
    first = paths[matched.join(repeated.head(1), on=_ATTEMPT)["file"][0]]
    occurrence = "twice" if first == path else f"as {first} does"
    raise InputError(
        f"{path} answers the prompt {prompt} for {name!r}, repetition {repetition}, {occurrence};"
        " remove one of the answers, or remove the repetitions to count all answers"
    )


def _with_prompts_of(design: DataFrame, rows: DataFrame, edited: Expr) -> DataFrame:
    """Return rows with the prompts of the design in place of those that differ only in line ends and blanks.

    Spreadsheets write other line ends, and programs omit blanks at the ends of lines or write an apostrophe
    before a formula. Texts of the design that differ only in these are matched exactly.

    Parameters
    ----------
    edited
        Which rows may differ.
    """
    plain = (
        as_written("prompt")
        .str.normalize("NFC")
        .str.strip_prefix("\ufeff")
        .str.replace_all("\r\n?", "\n")
        .str.replace_all(r"(?m)[ \t\x{A0}]+$", "")
        .str.strip_chars()
    )
    prompts = design.select("prompt").unique()
    texts = prompts.with_columns(plain=plain).filter(col.plain.is_unique()).rename({"prompt": "asked"})
    compared = beside(rows.with_columns(plain=plain), texts, "plain")
    differs = edited & col.asked.is_not_null() & ~col.prompt.is_in(prompts["prompt"].implode())
    corrected = compared.with_columns(prompt=when(differs).then("asked").otherwise("prompt"))
    return corrected.drop("plain", "asked")
