"""Refusals of constrained answers compared with those of free answers to the same prompts, which may be in the journal.

A list of allowed answers can change how often a model refuses. A run with `-P answers=constrained` therefore looks up which of its prompts
the model has answered freely before, with the same sampling. This costs no request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl
from polars import LazyFrame, col

from tiltmeter import stats
from tiltmeter.engine import Journal
from tiltmeter.models import Model, Sampling
from tiltmeter.paths import is_file
from tiltmeter.runs import pipeline
from tiltmeter.runs.folder import RunFolder
from tiltmeter.study import REFUSED, MeasuredPart, Part, Settings

MARGIN = 0.1
"""Largest difference of the shares of refusals for which constrained answers need no caveat."""
FREE = "free_answers"
"""Key of the status of a part: by model, the number of free and of constrained answers to the same prompts, and of refusals among them."""


class ChangedRefusals(NamedTuple):
    """A model and a part whose constrained answers have more or fewer refusals than free ones, or may have, and a sentence."""

    model: str
    part: str
    sentence: str


def count_free_refusals(
    folder: RunFolder,
    became: Mapping[str, dict[str, Any]],
    models: Sequence[tuple[Model, Sampling]],
    parts: Sequence[Part],
    settings: Settings,
    journal: Journal,
) -> None:
    """Add the counts FREE to the status of each part with constrained answers, for models with free answers in the journal."""
    if settings.params.get("answers") != "constrained" or not is_file(folder.table_path("measures")):
        return
    constrained = _constrained_answers(folder).select("model", "part", "prompt_id", "outcome").collect()
    for part in parts:
        if not (isinstance(part, MeasuredPart) and getattr(part, "allowed_answers", None)):
            continue
        for model, sampling in models:
            if not getattr(model, "constrains", False):
                continue
            restricted = constrained.filter(model=model.name, part=part.name)
            answers = pipeline.free_answers(folder, model, sampling, journal, part.name).join(restricted, on="prompt_id", how="semi")
            restricted = restricted.join(answers, on="prompt_id", how="semi")
            if answers.height:
                outcomes = part.measure(answers, settings.of_part(part.name))["outcome"]
                became[part.name].setdefault(FREE, {})[model.name] = {
                    "answers": answers.height,
                    "refused": int((outcomes == REFUSED).sum()),
                    "constrained": restricted.height,
                    "constrained_refused": int((restricted["outcome"] == REFUSED).sum()),
                }


def _constrained_answers(folder: RunFolder) -> LazyFrame:
    """Return the measures of constrained answers."""
    measures = folder.scan("measures")
    is_marked = measures.collect_schema().get("constrained") == pl.Boolean
    return measures.filter("constrained" if is_marked else False)


def changed_refusals(folder: RunFolder, parts: Mapping[str, Mapping[str, Any]]) -> Iterator[ChangedRefusals]:
    """Yield each model and part whose constrained answers refuse more or less often than its free answers, or may do so.

    With free answers, this is the case unless Newcombe's 95% interval of the difference lies within MARGIN of zero. Without them, it is the
    case if more than MARGIN of the constrained answers are refusals, at 95% confidence.

    Parameters
    ----------
    parts
        The status of each part, as stored in run.json.
    """
    refused = (col.outcome == REFUSED).sum().alias("refused")
    owners = _constrained_answers(folder).group_by("model", "part", maintain_order=True)
    for model, part, size, count in owners.agg(pl.len(), refused).collect().iter_rows():
        free = parts.get(part, {}).get(FREE, {}).get(model)
        sentence = _without_free(size, count) if free is None else _compared(free)
        if sentence is not None:
            yield ChangedRefusals(model, part, f"{model}, {part}: {sentence}")


def _compared(counts: Mapping[str, int]) -> str | None:
    size, refused = counts["constrained"], counts["constrained_refused"]
    difference = stats.rate_difference(refused, size, counts["refused"], counts["answers"])
    low, high = float(difference.low), float(difference.high)
    if low >= -MARGIN and high <= MARGIN:
        return None
    points = f"{100 * float(difference.estimate):+.0f} points, 95% interval {100 * low:+.0f} to {100 * high:+.0f}"
    return (
        f"{refused / size:.0%} of {size:,} constrained answers are refusals, and {counts['refused'] / counts['answers']:.0%} of "
        f"{counts['answers']:,} free answers to the same prompts ({points})"
    )


def _without_free(size: int, refused: int) -> str | None:
    low, _ = stats.wilson_interval(refused, size, 0.95)
    if float(low) <= MARGIN:
        return None
    return (
        f"{refused / size:.0%} of {size:,} constrained answers are refusals; how many of its free answers are is not known: run the same "
        "command without -P answers=constrained, and then again with it"
    )
