"""What is missing from the responses of a run, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from polars import col

from tiltmeter.runs.folder import RunFolder
from tiltmeter.study import Study

NAMED = 20
"""Parts named in one sentence."""

Became = Mapping[str, dict[str, Any]]
"""What became of each part, by name."""


def count_responses(folder: RunFolder, became: Became, models: Sequence[str], *, by_prompt: bool = False) -> None:
    """Add `responses` to what became of each part that was run: of each model how many there are (`found`) and should be (`wanted`).

    Parameters
    ----------
    by_prompt
        Count prompts that have a response: of answers from elsewhere, one to each prompt is enough.
    """
    unit, of_part = ("prompts", "prompts") if by_prompt else ("responses", "attempts")
    parts = folder.scan("design").select("prompt_id", "part")
    there = folder.scan("responses").filter(col.status == "ok").select("model", "prompt_id")
    counts = (there.unique() if by_prompt else there).join(parts, on="prompt_id").group_by("model", "part").len().collect()
    found = {(model, part): int(count) for model, part, count in counts.iter_rows()}
    for name, one in became.items():
        if one["status"] == "run":
            wanted = one[of_part]
            one["responses"] = {
                model: {"found": min(found.get((model, name), 0), wanted), "wanted": wanted, "unit": unit} for model in models
            }


def _counts(became: Became, model: str) -> dict[str, dict[str, Any]]:
    return {part: one["responses"][model] for part, one in became.items() if "responses" in one}


def is_whole(became: Became, model: str) -> bool:
    """Whether every response of a model is there."""
    return all(one["found"] == one["wanted"] for one in _counts(became, model).values())


def what_is_missing(study: Study, became: Became, model: str, happened: str) -> str:
    """One sentence that names the parts, and the harms, of which a model has nothing, and the parts of which it has not everything.

    Parameters
    ----------
    happened
        The beginning, for instance "interrupted after {found} of {wanted} {unit}".
    """
    counts = _counts(became, model)
    unit = next((one["unit"] for one in counts.values()), "")
    found, wanted = (sum(one[which] for one in counts.values()) for which in ("found", "wanted"))
    measured = [part for part, one in counts.items() if one["found"]]
    absent = [part for part in counts if part not in measured]
    partly = [
        f"{part} ({counts[part]['found']:,} of {counts[part]['wanted']:,} {unit})"
        for part in measured
        if counts[part]["found"] < counts[part]["wanted"]
    ]
    sentences = [happened.format(found=f"{found:,}", wanted=f"{wanted:,}", unit=unit)]
    if absent:
        several = f" ({len(absent)} of {len(study.parts)} {study.noun})" if len(study.parts) > 1 else ""
        sentences.append(f"not measured: {_few(absent)}{several}")
    measured_harms = {harm for part in study.parts if part.name in measured for harm in part.harms}
    harms = dict.fromkeys(harm.replace("_", " ") for part in study.parts for harm in part.harms if harm not in measured_harms)
    if harms and measured_harms:
        sentences.append(f"nothing at all about: {', '.join(harms)}")
    if partly and len(counts) > 1:
        sentences.append(f"measured in part: {_few(partly)}")
    return f"{model}: {'; '.join(sentences)}"


def close_parts(became: Became, reason: str) -> None:
    """Say of each part without any response that it was not run."""
    for one in became.values():
        if one.get("responses") and not any(of["found"] for of in one["responses"].values()):
            one.update(status="not run", reason=reason)


def unread(folder: RunFolder) -> list[str]:
    """Of each part of which some responses were not read because the judge was stopped, how many."""
    attempt = ["model", "prompt_id", "repetition"]
    answered = folder.scan("responses").filter(col.status == "ok").select(attempt)
    measures = folder.scan("measures").join(answered, on=attempt, how="semi")
    counts = measures.group_by("model", "part", maintain_order=True).agg((col.outcome == "failed").sum(), pl.len()).collect()
    return [
        f"{model}, {part}: the judge has not read {left:,} of {every:,} responses"
        for model, part, left, every in counts.iter_rows()
        if left
    ]


def measured_title(study: Study, became: Became) -> str:
    """The title of a run, which says how many parts were measured where these are not all."""
    return study.title_of(sum(one["status"] == "run" for one in became.values()))


def _few(names: Sequence[str]) -> str:
    left = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {left} more" if left > 0 else "")
