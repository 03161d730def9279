"""What endpoints said they served.

It is in run.json and on the page, and a caveat if it was not the requested model, or not only one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl
from polars import LazyFrame, col

from tiltmeter.models._base import SERVED
from tiltmeter.models._served import is_another_model
from tiltmeter.runs._folder import RunFolder

MOST_LISTED = 20
"""Maximum number of combinations of model, fingerprint and provider in run.json."""
_NAMED = 3
"""Maximum number of names in a sentence."""
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
    counts = stated.group_by(SERVED).len("responses")
    ordered = counts.sort("responses", *SERVED, descending=[True, False, False, False])
    keys = (*_KINDS, "responses")
    return [dict(zip(keys, row, strict=True)) for row in ordered.head(MOST_LISTED).collect().rows()]


def served_sentences(about: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the name of each model and a sentence, if its endpoint served another model, or several.

    The judge is named as such.

    Parameters
    ----------
    about
        The content of run.json.
    """
    entries = [("", entry) for entry in about["models"]]
    if judge := about.get("judged_by"):
        entries.append(("judge ", judge))
    for role, entry in entries:
        name, served = str(entry["name"]), entry.get("served") or []
        remarks = [*_other_models(name, served), *_several(served)]
        if remarks:
            yield name, f"{role}{name}: {'; '.join(remarks)}"


def _counts(served: list[Mapping[str, Any]], kind: str) -> dict[str, int]:
    """Return the number of responses for each value of a kind (see `_KINDS`) that the endpoint named."""
    counts: dict[str, int] = {}
    for combination in served:
        value = combination.get(kind)
        if value:
            counts[value] = counts.get(value, 0) + combination["responses"]
    return counts


def _other_models(name: str, served: list[Mapping[str, Any]]) -> list[str]:
    """Return a remark if the endpoint served other models than the requested one."""
    requested = name.partition("/")[2] or name
    counts = _counts(served, "model")
    foreign = {model: count for model, count in counts.items() if is_another_model(requested, model)}
    if not foreign:
        return []
    return [f"the endpoint says that it served {_listed(foreign)} instead of {requested}"]


def _several(served: list[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a remark for each kind of which the endpoint named several."""
    for kind, words in _KINDS.items():
        counts = _counts(served, kind)
        if len(counts) > 1:
            number = f"{len(counts)} or more" if len(served) == MOST_LISTED else str(len(counts))
            yield f"the responses come from {number} {words}: {_listed(counts)}"


def _listed(counts: Mapping[str, int]) -> str:
    """Return names with their numbers of responses, at most _NAMED of them."""
    names = []
    for name, count in list(counts.items())[:_NAMED]:
        names.append(f"{name} ({count:,} response{'' if count == 1 else 's'})")
    omitted = f" and {len(counts) - _NAMED} more" if len(counts) > _NAMED else ""
    return ", ".join(names) + omitted
