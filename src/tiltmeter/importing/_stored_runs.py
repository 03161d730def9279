"""Analysis of the responses of a finished run under another definition or with other settings.

The responses are to the prompts of that run. No model is called, except for a judge.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import polars as pl
from polars import DataFrame, String, col

from tiltmeter._files.paths import is_file, sha256
from tiltmeter.datasets import Library
from tiltmeter.errors import InputError
from tiltmeter.models import Model, Sampling
from tiltmeter.runs._asking import Asking
from tiltmeter.runs._counterparts import factors_of
from tiltmeter.runs._folder import LABELS_FILE, STAGES
from tiltmeter.runs._opened_run import Run
from tiltmeter.runs._opening import folder_to_fill
from tiltmeter.runs._problems import close_parts, count_responses, is_whole, what_is_missing
from tiltmeter.runs._resolving import Resolved
from tiltmeter.runs._study_run import RunInProgress, default_folder
from tiltmeter.runs._two_definitions import TABLE, side_by_side
from tiltmeter.schema import RESPONSES
from tiltmeter.study import NotRun, Part, Settings

OWN_TEXTS: Final = "texts"
"""Name of the studies of the user's own texts."""
DECISIONS: Final = "decisions"
"""Name of the study of decisions."""
_POSITION: Final = ["part", "item", "prompt_index"]


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
    table `definitions` (see `tiltmeter.runs._two_definitions`), and its run.json says how the prompts differ.

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
    digests = {str(path): sha256(path) for path in tables}
    resolved = dataclasses.replace(resolved, inputs={**resolved.inputs, **digests})
    names = [str(model["name"]) for model in about["models"]]
    scored: dict[str, str | None] = {"run": source.path.name, "definition": str(about["definition"])}
    document = resolved.as_document() | {"models": [{"name": name} for name in names], "scored": scored}
    folder = folder_to_fill(out or default_folder(document, [source.path.name, settings.definition.name]))
    if folder.place == source.place:
        raise InputError(
            f"{source.place} holds the responses; choose another folder for the new analysis with --out"
        )
    with folder.filling(document), (asking or Asking()).open() as asker:
        run = RunInProgress(folder, resolved, asker, judge)
        run.take_design(source)
        with folder.table("responses", RESPONSES) as add:
            add(source.responses.join(run.folder.read("design"), on="prompt_id", how="semi"))
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
        findings = folder.read("findings")
        if not source.findings.is_empty() and _definitions_differ(source.findings, findings):
            table = side_by_side(source.findings, source.grades, findings, Run(folder).grades)
            table.write_parquet(folder.path / STAGES / f"{TABLE}.parquet")
            scored["prompts"] = _other_prompts(source, resolved)
        return run.finish([_without_costs(model) for model in about["models"]], command, scored=scored)


def refuse_own_texts(source: Run) -> None:
    """Raise InputError if a run is about the user's own texts or decisions.

    Its study cannot be recreated without their files.
    """
    method, _, name = str(source.about["study"]).partition("/")
    command = source.about.get("command")
    example = f", as in: {command}" if command else ""
    if method == DECISIONS:
        raise InputError(
            f"{source.place} is a run of decisions, which are no responses to prompts: analyse the file with"
            f" the decisions again, with the other settings{example}"
        )
    if name == OWN_TEXTS:
        raise InputError(
            f"{source.place} is a run of your own texts ({method}), which are not prompts of a study: analyse"
            f" the file with the texts again, with the other settings{example}"
        )


def _definitions_differ(findings: DataFrame, others: DataFrame) -> bool:
    """Return whether a part has findings under another definition, or another version of it."""
    versions = findings.select("part", "definition").unique()
    other_versions = others.select("part", "definition").unique()
    return not other_versions.join(versions, on=["part", "definition"], how="anti").is_empty()


def _copy_labels(source: Run, place: Path) -> None:
    """Copy the labels of a run, which correct its findings, to another folder."""
    labels = source.path / LABELS_FILE
    if is_file(labels):
        (place / LABELS_FILE).write_bytes(labels.read_bytes())


def _without_costs(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of a model in run.json without its costs; the new run sent no requests."""
    return {name: value for name, value in model.items() if name != "tally"}


# -- how the prompts of a run differ from those of a definition ---------------------------------------------


def _other_prompts(source: Run, resolved: Resolved) -> str | None:
    """Return a sentence about the prompts of the definition; None if they are those of the run."""
    library = Library.default()
    settings = resolved.settings
    design = source.design
    reworded: dict[str, int] = {}
    changed_parts = []
    for part in resolved.study.parts:
        prompts = design.filter(part=part.name)
        if prompts.is_empty():
            continue
        wording = _other_wording(part, prompts, library, settings)
        if wording is not None:
            phrase, count = wording
            reworded[phrase] = reworded.get(phrase, 0) + count
        changed = _changed(part, prompts, library, settings)
        if changed:
            changed_parts.append(f"{part.name} ({changed:,} of {prompts.height:,} prompts)")
    differences = [
        f"{phrase} ({count:,} of {design.height:,} prompts of this run are not)"
        for phrase, count in reworded.items()
    ]
    if changed_parts:
        differences.append(f"with other items or texts in {', '.join(changed_parts)}")
    if _is_constrained_only_here(settings):
        differences.append("with free answers (those of this run were constrained)")
    if not differences:
        return None
    return (
        f"{settings.definition.name} would ask other prompts: {'; '.join(differences)}. Here its readers,"
        " formulas and tiers are applied to the prompts of this run, so the numbers describe these prompts"
    )


def _is_constrained_only_here(settings: Settings) -> bool:
    """Return whether answers were constrained, which published definitions never do."""
    return settings.params.get("answers") == "constrained" and not settings.definition.is_default


def _other_wording(
    part: Part, prompts: DataFrame, library: Library, settings: Settings
) -> tuple[str, int] | None:
    """Return the default wording of a definition, and the number of prompts in others; None without any."""
    params = {name: value for name, value in settings.params.items() if name != "wording"}
    designed = _designed(part, library, dataclasses.replace(settings.of_part(part.name), params=params))
    if designed is None:
        return None
    wordings = designed["wording"].unique(maintain_order=True)
    if wordings.len() == 1:
        phrase = f"in the wording {wordings[0]}"
        reworded = prompts.filter(col.wording != wordings[0])
    else:
        phrase = f"each item in one of {wordings.len()} wordings"
        dealt = designed.select(*_POSITION, designed_wording="wording")
        joined = prompts.join(dealt, on=_POSITION, how="left")
        reworded = joined.filter(col.wording.ne_missing(col.designed_wording))
    return None if reworded.is_empty() else (phrase, reworded.height)


def _changed(part: Part, prompts: DataFrame, library: Library, settings: Settings) -> int:
    """Return the number of prompts whose item, or whose text in the same wording, differs by definition."""
    designed = _designed_in_wordings_of(part, prompts, library, settings)
    if designed is None:
        return 0
    factors = [name for name in factors_of(prompts.schema) if name in designed.columns and name != "wording"]
    item = pl.struct("item", *factors).struct.json_encode()
    items = designed.select(*_POSITION, designed_item=item).unique(_POSITION, keep="first")
    texts = designed.select(*_POSITION, "wording", designed_prompt="prompt")
    compared = (
        prompts.select(*_POSITION, "wording", "prompt", content=item)
        .join(items, on=_POSITION, how="left")
        .join(texts, on=[*_POSITION, "wording"], how="left")
    )
    has_other_text = (col.prompt != col.designed_prompt).fill_null(False)
    return compared.filter(col.content.ne_missing(col.designed_item) | has_other_text).height


def _designed_in_wordings_of(
    part: Part, prompts: DataFrame, library: Library, settings: Settings
) -> DataFrame | None:
    """Return the prompts of a part in the wording of those of the run, or in its own if it lacks this one."""
    wordings = prompts["wording"].unique().to_list()
    wording = settings.params.get("wording", "dealt" if len(wordings) > 1 else str(wordings[0]))
    of_part = settings.of_part(part.name)
    in_wording = dataclasses.replace(of_part, params={**settings.params, "wording": wording})
    designed = _designed(part, library, in_wording)
    return _designed(part, library, of_part) if designed is None else designed


def _designed(part: Part, library: Library, settings: Settings) -> DataFrame | None:
    """Return the prompts of a part, or None if they cannot be created with these settings."""
    # The texts do not depend on how answers are requested.
    params = {name: value for name, value in settings.params.items() if name != "answers"}
    try:
        return part.design(library, dataclasses.replace(settings, params=params)).cast({"wording": String})
    except (NotRun, InputError):
        return None
