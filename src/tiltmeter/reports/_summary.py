"""What a reader is told first of a model: marks by harm, what was found otherwise, and how sure all that is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tiltmeter.reports._harms import HARMS, harm_title
from tiltmeter.study import MARKS

__all__ = ["CLEAR", "summary"]

CLEAR = 0.05
"""A number counts as clearly different from "no bias" up to this share of false discoveries."""
_BY_SEVERITY = {mark: i for i, mark in enumerate(reversed(MARKS))}


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The short story of one model.

    Parameters
    ----------
    rows
        Its key findings with `title` (that of the part); those of one wording only are left out.

    Returns
    -------
    Mapping with `harms` (`title`, `asks`, `counts` of each mark, `worst`: the graded row to look at first or None), `graded` (marks in
    all), `sure` (those of which the whole interval lies in one tier), `ungraded`, `answered` and `n` (attempts), and `others`: for each
    study without marks `title`, and either `count` and `chance`, or how many of the `tested` are `unlikely` to be chance.
    """
    graded = [row for row in rows if row["mark"] is not None and row["context"] is None]
    marked = [row for row in graded if row["mark"] != "ungraded"]
    by_study: dict[str, dict[str, Any]] = {}
    for row in graded:
        whole = by_study.setdefault(row["study"], row)
        if row["n"] > whole["n"]:
            by_study[row["study"]] = row
    return {
        "harms": [_harm(harm, [row for row in graded if row["harm"] == harm]) for harm in _in_order(graded)],
        "graded": len(marked),
        "sure": sum(row["mark"] == row["mark_low"] == row["mark_high"] for row in marked),
        "ungraded": len(graded) - len(marked),
        "answered": sum(row["answered"] for row in by_study.values()),
        "n": sum(row["n"] for row in by_study.values()),
        "others": _others([row for row in rows if row["mark"] is None and row["concept"] is None]),
    }


def _in_order(rows: Sequence[dict[str, Any]]) -> list[str]:
    found = dict.fromkeys(str(row["harm"]) for row in rows)
    return [harm for harm in HARMS if harm in found] + [harm for harm in found if harm not in HARMS]


def _harm(harm: str, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    marks = [row["mark"] for row in rows]
    bad = [row for row in rows if row["mark"] in MARKS[1:]]
    return {
        "title": harm_title(harm),
        "asks": HARMS[harm].asks if harm in HARMS else "",
        "counts": {mark: marks.count(mark) for mark in (*MARKS, "ungraded") if mark in marks},
        "worst": min(bad, key=lambda row: (_BY_SEVERITY[row["mark"]], -(row["normalised"] or 0))) if bad else None,
    }


def _others(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Studies that give no marks: how many associations, or how many of the tested differences are clear."""
    found = []
    for study in dict.fromkeys(row["study"] for row in rows):
        mine = [row for row in rows if row["study"] == study]
        counts = [row for row in mine if row["low"] is None and row["subject"] is None and row["context"] is None]
        chances = [chance for row in mine if (chance := row["p"] if row["q"] is None else row["q"]) is not None]
        told = {"title": mine[0]["title"], "count": None, "chance": None, "tested": len(chances)}
        if counts:
            told |= {"count": counts[0]["estimate"], "chance": counts[0]["null"]}
        found.append(told | {"unlikely": sum(chance <= CLEAR for chance in chances)})
    return found
