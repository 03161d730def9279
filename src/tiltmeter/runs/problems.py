"""Missing responses of a run, described in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from polars import Expr, col

from tiltmeter.runs.folder import RunFolder
from tiltmeter.study import Study

NAMED = 20
"""Maximum number of parts named in one sentence."""

Became = Mapping[str, dict[str, Any]]
"""Status of each part, by name."""


def count_responses(
    folder: RunFolder, became: Became, models: Sequence[str], *, by_prompt: bool = False
) -> None:
    """Add `responses` to the status of each part that was run: for each model the number present (`found`) and required (`wanted`).

    Parameters
    ----------
    by_prompt
        Count prompts with at least one response, which is enough for responses generated elsewhere.
    """
    unit, of_part = ("prompts", "prompts") if by_prompt else ("responses", "attempts")
    parts = folder.scan("design").select("prompt_id", "part")
    there = folder.scan("responses").filter(status="ok").select("model", "prompt_id")
    counts = (
        (there.unique() if by_prompt else there)
        .join(parts, on="prompt_id")
        .group_by("model", "part")
        .len()
        .collect()
    )
    found = {(model, part): int(count) for model, part, count in counts.iter_rows()}
    for name, one in became.items():
        if one["status"] == "run":
            wanted = one[of_part]
            one["responses"] = {
                model: {"found": min(found.get((model, name), 0), wanted), "wanted": wanted, "unit": unit}
                for model in models
            }


def _counts(became: Became, model: str) -> dict[str, dict[str, Any]]:
    return {part: one["responses"][model] for part, one in became.items() if "responses" in one}


def is_whole(became: Became, model: str) -> bool:
    """Return whether all responses of a model are present."""
    return all(one["found"] == one["wanted"] for one in _counts(became, model).values())


def what_is_missing(study: Study, became: Became, model: str, happened: str) -> str:
    """Return one sentence that names the parts and harms without responses of a model, and the parts with missing responses.

    Parameters
    ----------
    happened
        The beginning of the sentence, for instance "interrupted after {found} of {wanted} {unit}".
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
        sentences.append(f"not measured: {few(absent)}{several}")
    measured_harms = {harm for part in study.parts if part.name in measured for harm in part.harms}
    harms = dict.fromkeys(
        harm.replace("_", " ") for part in study.parts for harm in part.harms if harm not in measured_harms
    )
    if harms and measured_harms:
        sentences.append(f"no results for: {', '.join(harms)}")
    if partly and len(counts) > 1:
        sentences.append(f"partly measured: {few(partly)}")
    return f"{model}: {'; '.join(sentences)}"


def close_parts(became: Became, reason: str) -> None:
    """Mark each part without any response as not run."""
    for one in became.values():
        if one.get("responses") and not any(of["found"] for of in one["responses"].values()):
            one.update(status="not run", reason=reason)


def unread(folder: RunFolder) -> list[str]:
    """Return a sentence for each part with responses that the judge did not read because it was stopped."""
    attempt = ["model", "prompt_id", "repetition"]
    measures = folder.scan("measures").join(
        folder.scan("responses").filter(status="ok").select(attempt), on=attempt, how="semi"
    )
    counts = (
        measures.group_by("model", "part", maintain_order=True)
        .agg((col.outcome == "failed").sum(), pl.len())
        .collect()
    )
    return [
        f"{model}, {part}: the judge has not read {left:,} of {every:,} responses"
        for model, part, left, every in counts.iter_rows()
        if left
    ]


def unconstrained(folder: RunFolder, *chosen: Expr) -> list[str]:
    """Return a sentence for each model with answers that were not constrained, although the run was to constrain them.

    Parameters
    ----------
    *chosen
        Conditions on the columns `model` and `part` of the measures.
    """
    measures = folder.scan("measures")
    if measures.collect_schema().get("constrained") != pl.Boolean:
        return []
    counts = measures.filter(~col.constrained, *chosen).group_by("model", maintain_order=True).len().collect()
    rest = (
        "answers were not constrained; they are read by the rules unless they are exactly an allowed answer"
    )
    return [f"{model}: {count:,} {rest}" for model, count in counts.iter_rows()]


def measured_title(study: Study, became: Became) -> str:
    """Return the title of a run, with the number of measured parts if some were not measured."""
    return study.title_of(sum(one["status"] == "run" for one in became.values()), "measured")


def few(names: Sequence[str]) -> str:
    """Return names separated by commas, at most NAMED of them."""
    left = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {left} more" if left > 0 else "")
