"""What endpoints said they served: in run.json, on the page, and as a caveat if it was not one thing or not what was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl
from polars import LazyFrame, col

from tiltmeter.models.base import SERVED
from tiltmeter.models.served import is_another_model
from tiltmeter.runs.folder import RunFolder

MOST_LISTED = 20
"""Maximum number of combinations of model, fingerprint and provider in run.json."""
_NAMED = 3
_KINDS = {"model": "models", "fingerprint": "system fingerprints", "provider": "providers"}
"""Keys of an entry, and what they are called."""


def served_to(folder: RunFolder, model: str) -> dict[str, list[dict[str, Any]]]:
    """Return the key `served` of a model under test in run.json: see `served_in`.

    Empty if the endpoint said nothing.
    """
    served = served_in(folder.scan("responses").filter(col.model == model, col.status == "ok"))
    return {"served": served} if served else {}


def served_in(answers: LazyFrame) -> list[dict[str, Any]]:
    """Return what an endpoint said it served, the most frequent first, as stored in run.json.

    Parameters
    ----------
    answers
        One row for each response, with the columns `SERVED`.

    Returns
    -------
    list
        For each combination: `model`, `fingerprint` and `provider` (null if the endpoint did not say), and
        the number of `responses`. Empty if the endpoint said nothing; at most `MOST_LISTED` entries.
    """
    stated = answers.filter(pl.any_horizontal(col(name).is_not_null() for name in SERVED))
    counts = (
        stated.group_by(SERVED)
        .len("responses")
        .sort("responses", *SERVED, descending=[True, False, False, False])
    )
    return [
        dict(zip((*_KINDS, "responses"), row, strict=True))
        for row in counts.head(MOST_LISTED).collect().rows()
    ]


def served_sentences(about: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the name of each model and a sentence, if its endpoint served another model, or several.

    The judge is named as such.

    Parameters
    ----------
    about
        The content of run.json.
    """
    judge = about.get("judged_by")
    for entry in (*about["models"], *([judge] if judge else [])):
        served = entry.get("served") or []
        remarks = [*_other_models(str(entry["name"]), served), *_several(served)]
        if remarks:
            role = "judge " if entry is judge else ""
            yield str(entry["name"]), f"{role}{entry['name']}: {'; '.join(remarks)}"


def _other_models(name: str, served: list[Mapping[str, Any]]) -> list[str]:
    asked = name.partition("/")[2] or name
    others = {one["model"]: 0 for one in served if one.get("model") and is_another_model(asked, one["model"])}
    for one in served:
        if one.get("model") in others:
            others[one["model"]] += one["responses"]
    return [f"the endpoint says that it served {_listed(others)} instead of {asked}"] if others else []


def _several(served: list[Mapping[str, Any]]) -> Iterator[str]:
    for kind, words in _KINDS.items():
        counts: dict[str, int] = {}
        for one in served:
            if one.get(kind):
                counts[one[kind]] = counts.get(one[kind], 0) + one["responses"]
        if len(counts) > 1:
            number = f"{len(counts)} or more" if len(served) == MOST_LISTED else str(len(counts))
            yield f"the responses come from {number} {words}: {_listed(counts)}"


def _listed(counts: Mapping[str, int]) -> str:
    named = [
        f"{name} ({number:,} response{'' if number == 1 else 's'})"
        for name, number in list(counts.items())[:_NAMED]
    ]
    more = f" and {len(counts) - _NAMED} more" if len(counts) > _NAMED else ""
    return ", ".join(named) + more
