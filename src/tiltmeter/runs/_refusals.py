"""Refusals of constrained answers compared with those of free answers to the same prompts.

A list of allowed answers can change how often a model refuses. A run with `-P answers=constrained` therefore
looks up which of its prompts the model has answered freely before, with the same sampling. This costs no
request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
from polars import DataFrame, Expr, LazyFrame, col

from tiltmeter import stats
from tiltmeter._files.paths import is_file
from tiltmeter._sanitising import printable, redacted
from tiltmeter.models import Model, Sampling
from tiltmeter.runs._asking import LONGEST
from tiltmeter.runs._attempts import free_answers
from tiltmeter.runs._folder import RunFolder
from tiltmeter.schema import REFUSED
from tiltmeter.study import MeasuredPart, Part, Settings

if TYPE_CHECKING:
    from tiltmeter.engine import Journal

MARGIN = 0.1
"""Largest difference of the shares of refusals for which constrained answers need no caveat."""
FREE = "free_answers"
"""Key of the status of a part.

Its value has, by model, the number of free and of constrained answers to the same prompts, and of refusals
among them; or the key `error` with the reason why the free answers could not be read.
"""
COMMAND = "-P answers=constrained"


class ChangedRefusals(NamedTuple):
    """A model and a part whose constrained answers may have more or fewer refusals than free ones."""

    model: str
    part: str | None
    """None if the sentence is about several parts."""
    sentence: str


def count_free_refusals(
    folder: RunFolder,
    became: Mapping[str, dict[str, Any]],
    models: Sequence[tuple[Model, Sampling]],
    parts: Sequence[Part],
    settings: Settings,
    journal: Journal,
) -> None:
    """Add the counts FREE to the status of each part with constrained answers.

    They are counted for models with free answers in the journal.

    Free answers are read by the rules alone, also if a judge reads the unread answers of the run: this costs
    no request. The constrained answers that are compared are on the list, so that no judge reads them. If a
    part cannot read the free answers, the reason is added.
    """
    if settings.params.get("answers") != "constrained" or not is_file(folder.table_path("measures")):
        return
    constrained = _constrained_answers(folder).select("model", "part", "prompt_id", "outcome").collect()
    for part in parts:
        if not (isinstance(part, MeasuredPart) and getattr(part, "allowed_answers", None)):
            continue
        for model, sampling in models:
            if not getattr(model, "constrains", False):
                continue
            constrained_here = constrained.filter(model=model.name, part=part.name)
            free_in_journal = free_answers(folder, model, sampling, journal, part.name)
            # Only prompts with both kinds of answers are compared.
            free = free_in_journal.join(constrained_here, on="prompt_id", how="semi")
            restricted = constrained_here.join(free, on="prompt_id", how="semi")
            if free.height:
                counts = _counts(part, free, restricted, settings.of_part(part.name))
                became[part.name].setdefault(FREE, {})[model.name] = counts


def _counts(
    part: MeasuredPart, free: DataFrame, constrained: DataFrame, settings: Settings
) -> dict[str, Any]:
    """Return the numbers of free and of constrained answers and of refusals among them.

    If the part cannot read the free answers, return its error.
    """
    try:
        outcomes = part.measure(free, settings)["outcome"]
    except (Exception, pl.exceptions.PanicException) as error:
        # The part may be a plugin; the findings do not depend on old answers.
        message = " ".join(str(error).split())
        reason = printable(redacted(message), one_line=True)[:LONGEST]
        return {"error": f"{type(error).__name__}: {reason}"}
    return {
        "answers": free.height,
        "refused": int((outcomes == REFUSED).sum()),
        "constrained": constrained.height,
        "constrained_refused": int((constrained["outcome"] == REFUSED).sum()),
    }


def _constrained_answers(folder: RunFolder) -> LazyFrame:
    """Return the measures of constrained answers."""
    measures = folder.scan("measures")
    is_marked = measures.collect_schema().get("constrained") == pl.Boolean
    return measures.filter("constrained" if is_marked else False)


def changed_refusals(folder: RunFolder, about: Mapping[str, Any], *chosen: Expr) -> Iterator[ChangedRefusals]:
    """Yield each model and part with more or fewer refusals among constrained answers than among free ones.

    Parts for which this cannot be known are included. The refusals of a part with free answers differ unless
    Newcombe's 95% interval of the difference lies within MARGIN of zero, or neither answers contain a
    refusal. The parts of a model without free answers are named together in one sentence.

    Parameters
    ----------
    about
        The content of run.json.
    *chosen
        Conditions on the columns `model` and `part` of the measures.
    """
    refused = (col.outcome == REFUSED).sum().alias("refused")
    owners = _constrained_answers(folder).filter(*chosen).group_by("model", "part", maintain_order=True)
    models_asked = {model["name"] for model in about["models"] if "fingerprint" in model}
    shares: dict[str, dict[str, str]] = {}
    for model, part, size, count in owners.agg(pl.len(), refused).collect().iter_rows():
        free = about["parts"].get(part, {}).get(FREE, {}).get(model)
        if free is None:
            shares.setdefault(model, {})[part] = f"{part} {count / size:.0%} of {size:,}"
        elif "error" in free:
            reason = (
                "its refusals are not compared with those of free answers,"
                f" which could not be read ({free['error']})"
            )
            yield ChangedRefusals(model, part, f"{model}, {part}: {reason}")
        else:
            sentence = _compared(free)
            if sentence is not None:
                yield ChangedRefusals(model, part, f"{model}, {part}: {sentence}")
    for model, of_parts in shares.items():
        only_part = next(iter(of_parts)) if len(of_parts) == 1 else None
        sentence = _not_compared(list(of_parts.values()), is_asked=model in models_asked)
        yield ChangedRefusals(model, only_part, f"{model}: {sentence}")


def _compared(counts: Mapping[str, int]) -> str | None:
    """Return a sentence about the difference of the refusals of a part; None if it needs none."""
    size, refused = counts["constrained"], counts["constrained_refused"]
    free_size, free_refused = counts["answers"], counts["refused"]
    if refused == free_refused == 0:
        return None
    difference = stats.rate_difference(refused, size, free_refused, free_size)
    low, high = float(difference.low), float(difference.high)
    if low >= -MARGIN and high <= MARGIN:
        return None
    estimate = float(difference.estimate)
    points = f"{100 * estimate:+.0f} points, 95% interval {100 * low:+.0f} to {100 * high:+.0f}"
    return (
        f"{refused / size:.0%} of {size:,} constrained answers are refusals, and"
        f" {free_refused / free_size:.0%} of {free_size:,} free answers to the same prompts ({points})"
    )


def _not_compared(shares: Sequence[str], *, is_asked: bool) -> str:
    """Return a sentence about parts without free answers, with the share of refusals of each.

    Parameters
    ----------
    is_asked
        Whether the run asked the model. Otherwise its responses come from files.
    """
    if is_asked:
        missing = "which the response cache does not contain"
        advice = f"run the same command without {COMMAND}, and then again with it"
    else:
        missing = "which these files do not contain"
        advice = (
            f"analyse free answers of the model to the same prompts without {COMMAND},"
            " and compare both runs (tiltmeter compare)"
        )
    return (
        f"refusals ({', '.join(shares)} constrained answers) are not compared with those of free answers,"
        f" {missing}: {advice}"
    )
