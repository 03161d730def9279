"""Missing responses of a run, described in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from polars import Expr, col

from tiltmeter.runs._folder import RunFolder
from tiltmeter.study import Study

NAMED = 20
"""Maximum number of parts named in one sentence."""

Became = Mapping[str, dict[str, Any]]
"""Status of each part, by name."""


def count_responses(
    folder: RunFolder, became: Became, models: Sequence[str], *, by_prompt: bool = False
) -> None:
    """Add `responses` to the status of each part that was run.

    It has, for each model, the numbers of responses that are present (`found`) and required (`wanted`).

    Parameters
    ----------
    by_prompt
        Count prompts with at least one response, which is enough for responses generated elsewhere.
    """
    parts = folder.scan("design").select("prompt_id", "part")
    responses = folder.scan("responses").filter(status="ok").select("model", "prompt_id")
    unit, key = "responses", "attempts"
    if by_prompt:
        responses = responses.unique()
        unit, key = "prompts", "prompts"
    counts = responses.join(parts, on="prompt_id").group_by("model", "part").len().collect()
    count_of = {(model, part): int(count) for model, part, count in counts.iter_rows()}
    for name, status in became.items():
        if status["status"] != "run":
            continue
        wanted = status[key]
        status["responses"] = {
            model: {"found": min(count_of.get((model, name), 0), wanted), "wanted": wanted, "unit": unit}
            for model in models
        }


def _counts(became: Became, model: str) -> dict[str, dict[str, Any]]:
    """Return the counts of the responses of a model, by part."""
    return {part: status["responses"][model] for part, status in became.items() if "responses" in status}


def is_whole(became: Became, model: str) -> bool:
    """Return whether all responses of a model are present."""
    return all(counts["found"] == counts["wanted"] for counts in _counts(became, model).values())


def what_is_missing(study: Study, became: Became, model: str, happened: str) -> str:
    """Return one sentence about the missing responses of a model.

    It names the parts and harms without responses, and the parts with missing responses.

    Parameters
    ----------
    happened
        The beginning of the sentence, for instance "interrupted after {found} of {wanted} {unit}".
    """
    counts_of = _counts(became, model)
    unit = next((counts["unit"] for counts in counts_of.values()), "")
    present = sum(counts["found"] for counts in counts_of.values())
    required = sum(counts["wanted"] for counts in counts_of.values())
    clauses = [happened.format(found=f"{present:,}", wanted=f"{required:,}", unit=unit)]
    measured = [part for part, counts in counts_of.items() if counts["found"]]
    absent = [part for part in counts_of if part not in measured]
    if absent:
        several = f" ({len(absent)} of {len(study.parts)} {study.noun})" if len(study.parts) > 1 else ""
        clauses.append(f"not measured: {few(absent)}{several}")
    harms = _harms_without_results(study, measured)
    if harms:
        clauses.append(f"no results for: {', '.join(harms)}")
    partly = []
    for part in measured:
        counts = counts_of[part]
        if counts["found"] < counts["wanted"]:
            partly.append(f"{part} ({counts['found']:,} of {counts['wanted']:,} {unit})")
    if partly and len(counts_of) > 1:
        clauses.append(f"partly measured: {few(partly)}")
    return f"{model}: {'; '.join(clauses)}"


def _harms_without_results(study: Study, measured: Sequence[str]) -> list[str]:
    """Return the harms that no measured part measures; none if no harm is measured at all."""
    measured_harms = {harm for part in study.parts if part.name in measured for harm in part.harms}
    if not measured_harms:
        return []
    harms = dict.fromkeys(harm for part in study.parts for harm in part.harms)
    return [harm.replace("_", " ") for harm in harms if harm not in measured_harms]


def close_parts(became: Became, reason: str) -> None:
    """Mark each part without any response as not run."""
    for status in became.values():
        responses = status.get("responses")
        if responses and not any(counts["found"] for counts in responses.values()):
            status.update(status="not run", reason=reason)


def unread(folder: RunFolder) -> list[str]:
    """Return a sentence for each part with responses that the judge did not read because it was stopped."""
    attempt = ["model", "prompt_id", "repetition"]
    answered = folder.scan("responses").filter(status="ok").select(attempt)
    measures = folder.scan("measures").join(answered, on=attempt, how="semi")
    by_part = measures.group_by("model", "part", maintain_order=True)
    counts = by_part.agg((col.outcome == "failed").sum(), pl.len()).collect()
    return [
        f"{model}, {part}: the judge has not read {missing:,} of {total:,} responses"
        for model, part, missing, total in counts.iter_rows()
        if missing
    ]


def unconstrained(folder: RunFolder, *chosen: Expr) -> list[str]:
    """Return a sentence for each model with free answers in a run that was to constrain them.

    Parameters
    ----------
    *chosen
        Conditions on the columns `model` and `part` of the measures.
    """
    measures = folder.scan("measures")
    if measures.collect_schema().get("constrained") != pl.Boolean:
        return []
    counts = measures.filter(~col.constrained, *chosen).group_by("model", maintain_order=True).len().collect()
    return [
        f"{model}: {count:,} answers were not constrained; they are read by the rules unless they are exactly"
        " an allowed answer"
        for model, count in counts.iter_rows()
    ]


def measured_title(study: Study, became: Became) -> str:
    """Return the title of a run, with the number of measured parts if some were not measured."""
    measured = sum(status["status"] == "run" for status in became.values())
    return study.title_of(measured, "measured")


def few(names: Sequence[str]) -> str:
    """Return names separated by commas, at most NAMED of them."""
    listed = ", ".join(names[:NAMED])
    omitted = len(names) - NAMED
    return f"{listed} and {omitted} more" if omitted > 0 else listed
