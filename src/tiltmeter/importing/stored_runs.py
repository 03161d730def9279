"""Analysis of the responses of a finished run under another definition or with other settings, on the prompts of that run.

No model is called, except for a judge.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
from polars import DataFrame, String, col

from tiltmeter.datasets import Library
from tiltmeter.errors import InputError
from tiltmeter.files.paths import is_file, sha256
from tiltmeter.models import Model, Sampling
from tiltmeter.runs.asking import Asking
from tiltmeter.runs.counterparts import factors_of
from tiltmeter.runs.folder import LABELS_FILE, STAGES
from tiltmeter.runs.opened_run import Run
from tiltmeter.runs.opening import folder_to_fill
from tiltmeter.runs.problems import close_parts, count_responses, is_whole, what_is_missing
from tiltmeter.runs.resolving import Resolved
from tiltmeter.runs.study_run import RunInProgress, default_folder
from tiltmeter.runs.two_definitions import TABLE, side_by_side
from tiltmeter.schema import RESPONSES
from tiltmeter.study import NotRun, Part, Settings

OWN_TEXTS = "texts"
"""Name of the studies of the user's own texts."""
_PLACE = ["part", "item", "prompt_index"]


def analyse_run(
    source: Run,
    resolved: Resolved,
    *,
    judge: tuple[Model, Sampling] | None = None,
    asking: Asking | None = None,
    out: str | Path | None = None,
    command: str | None = None,
) -> Run:
    """Measure and analyse the responses of a run again, on its own prompts.

    All responses are read and scored, also those to prompts that the definition of `resolved` would not ask.
    If this definition, or its version, differs from that of the findings of the run, the new run has the
    table `definitions` (see `tiltmeter.runs.two_definitions`), and its run.json says how the prompts differ.

    Parameters
    ----------
    source
        The run with the responses.
    resolved
        The study of the run, with the definition and the settings of the new analysis.
    judge
        The model that judges answers. Its answers in the journal are not requested again.
    out
        The new run folder; default: `default_folder`.
    command
        The command line, stored in run.json.

    Raises
    ------
    InputError
        `resolved` is another study, the responses were read by a judge and none is given, or the new folder
        cannot be written.
    """
    about, settings = source.about, resolved.settings
    if resolved.study.name != about["study"]:
        raise InputError(
            f"{source.place} is a run of {about['study']}, not of {resolved.study.name}; leave out --study"
        )
    if settings.judge is not None and judge is None:
        raise InputError(
            f"the responses of {source.place} were read by the judge {settings.judge}; name it with --judge"
            f" {settings.judge} (its answers in the journal are not requested again)"
        )
    tables = [source.folder.table_path(name) for name in ("design", "responses")]
    resolved = dataclasses.replace(
        resolved, inputs={**resolved.inputs, **{str(path): sha256(path) for path in tables}}
    )
    names = [str(model["name"]) for model in about["models"]]
    scored: dict[str, str | None] = {"run": source.path.name, "definition": str(about["definition"])}
    document = resolved.as_document() | {"models": [{"name": name} for name in names], "scored": scored}
    folder = folder_to_fill(out or default_folder(document, [source.path.name, settings.definition]))
    if folder.place == source.place:
        raise InputError(
            f"{source.place} holds the responses; choose another folder for the new analysis with --out"
        )
    with folder.filling(document), (asking or Asking()).open() as asker:
        run = RunInProgress(folder, resolved, asker, judge)
        run.take_design(source)
        with folder.table("responses", RESPONSES) as add:
            add(source.responses)
        _copy_labels(source, folder.path)
        count_responses(folder, run.became, names)
        unit = "the run holds {found} of {wanted} {unit}"
        missing = [
            what_is_missing(resolved.study, run.became, name, unit)
            for name in names
            if not is_whole(run.became, name)
        ]
        run.problems = [*missing, *run.problems]
        close_parts(run.became, "the run has no response to its prompts")
        run.analyse(run.parts)
        found = folder.read("findings")
        if not source.findings.is_empty() and _definitions_differ(source.findings, found):
            table = side_by_side(source.findings, source.grades, found, Run(folder).grades)
            table.write_parquet(folder.path / STAGES / f"{TABLE}.parquet")
            scored["prompts"] = _unlike(source, resolved)
        return run.finish([_without_costs(model) for model in about["models"]], command, scored=scored)


def refuse_own_texts(source: Run) -> None:
    """Raise InputError if a run is about the user's own texts: its study cannot be recreated without their files."""
    method, _, name = str(source.about["study"]).partition("/")
    if name == OWN_TEXTS:
        command = source.about.get("command")
        example = f", as in: {command}" if command else ""
        raise InputError(
            f"{source.place} is a run of your own texts ({method}), which are not prompts of a study: analyse"
            f" the file with the texts again, with the other settings{example}"
        )


def _definitions_differ(findings: DataFrame, others: DataFrame) -> bool:
    """Return whether a part has findings under another definition, or another version of it."""
    versions = [table.select("part", "definition").unique() for table in (findings, others)]
    return versions[1].join(versions[0], on=["part", "definition"], how="anti").height > 0


def _copy_labels(source: Run, place: Path) -> None:
    """Copy the labels of a run, which correct its findings, to another folder."""
    labels = source.path / LABELS_FILE
    if is_file(labels):
        (place / LABELS_FILE).write_bytes(labels.read_bytes())


def _without_costs(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of a model in run.json without the costs of its requests, which the new run did not send."""
    return {name: value for name, value in model.items() if name != "tally"}


# -- how the prompts of a run differ from those of a definition ---------------------------------------------


def _unlike(source: Run, resolved: Resolved) -> str | None:
    """Return one sentence that says which other prompts the definition would ask, or None if it would ask the same."""
    library = Library.default()
    design = source.design
    settings = resolved.settings
    reworded: dict[str, int] = {}
    items = []
    for part in resolved.study.parts:
        prompts = design.filter(part=part.name)
        if prompts.is_empty():
            continue
        if (wording := _other_wording(part, prompts, library, settings)) is not None:
            phrase, count = wording
            reworded[phrase] = reworded.get(phrase, 0) + count
        if changed := _changed(part, prompts, library, settings):
            items.append(f"{part.name} ({changed:,} of {prompts.height:,} prompts)")
    asked = [
        f"{phrase} ({count:,} of {design.height:,} prompts of this run are not)"
        for phrase, count in reworded.items()
    ]
    asked += [f"with other items or texts in {', '.join(items)}"] if items else []
    asked += (
        ["with free answers (those of this run were constrained)"]
        if _is_constrained_only_here(settings)
        else []
    )
    if not asked:
        return None
    return (
        f"{settings.definition} would ask other prompts: {'; '.join(asked)}. Here its readers, formulas and"
        " tiers are applied to the prompts of this run, so the numbers describe these prompts"
    )


def _is_constrained_only_here(settings: Settings) -> bool:
    """Return whether answers were constrained, which published definitions never do."""
    return settings.params.get("answers") == "constrained" and settings.definition != "default"


def _other_wording(
    part: Part, prompts: DataFrame, library: Library, settings: Settings
) -> tuple[str, int] | None:
    """Return the wording that a definition uses by default and the number of prompts in others; None if all are asked alike."""
    params = {name: value for name, value in settings.params.items() if name != "wording"}
    usual = _designed(part, library, dataclasses.replace(settings.of_part(part.name), params=params))
    if usual is None:
        return None
    names = usual["wording"].unique(maintain_order=True)
    if names.len() == 1:
        reworded = prompts.filter(col.wording != names[0]).height
        return (f"in the wording {names[0]}", reworded) if reworded else None
    dealt = usual.select(*_PLACE, there="wording")
    reworded = prompts.join(dealt, on=_PLACE, how="left").filter(col.wording.ne_missing(col.there)).height
    return (f"each item in one of {names.len()} wordings", reworded) if reworded else None


def _changed(part: Part, prompts: DataFrame, library: Library, settings: Settings) -> int:
    """Return the number of prompts whose item, or whose text in the same wording, differs under the definition."""
    names = prompts["wording"].unique().to_list()
    wording = settings.params.get("wording", "dealt" if len(names) > 1 else str(names[0]))
    of_part = settings.of_part(part.name)
    designed = _designed(
        part, library, dataclasses.replace(of_part, params={**settings.params, "wording": wording})
    )
    if designed is None:  # the part has no such wording
        designed = _designed(part, library, of_part)
    if designed is None:
        return 0
    factors = [name for name in factors_of(prompts.schema) if name in designed.columns and name != "wording"]
    content = pl.struct("item", *factors).struct.json_encode()
    items = designed.select(*_PLACE, content_there=content).unique(_PLACE, keep="first")
    texts = designed.select(*_PLACE, "wording", text_there="prompt")
    here = prompts.select(*_PLACE, "wording", "prompt", content=content)
    both = here.join(items, on=_PLACE, how="left").join(texts, on=[*_PLACE, "wording"], how="left")
    is_other = col.content.ne_missing(col.content_there) | (col.prompt != col.text_there).fill_null(False)
    return both.filter(is_other).height


def _designed(part: Part, library: Library, settings: Settings) -> DataFrame | None:
    """Return the prompts of a part, or None if they cannot be created with these settings."""
    params = {
        name: value for name, value in settings.params.items() if name != "answers"
    }  # texts do not depend on it
    try:
        return part.design(library, dataclasses.replace(settings, params=params)).cast({"wording": String})
    except (NotRun, InputError):
        return None
