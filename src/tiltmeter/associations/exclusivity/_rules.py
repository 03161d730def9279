"""Which concepts belong to one identity by definition or universal fact ("male", "observes Ramadan"): they tell nothing about a model.

Asked once per concept, of a list of terms or of a judge; what was answered and why is a table (EXCLUSIVE), and dropping is a rule.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from tiltmeter._wording import fill, wordings
from tiltmeter.associations._tables import EXCLUSIVE, JUDGEMENTS
from tiltmeter.associations.exclusivity._labels import APART
from tiltmeter.associations.exclusivity._verdict import Names, Verdict
from tiltmeter.associations.unifying._terms import load_terms
from tiltmeter.errors import InputError
from tiltmeter.models import Message
from tiltmeter.registry import did_you_mean
from tiltmeter.study import Judge

__all__ = ["RULES", "drop_exclusive", "exclusive_by_judge"]

RULES = {"default": "any", "paper": "own", "badf-code": "own"}
"""By definition: whether a row goes when its concept is exclusive to any identity, or (as in the original, which asks of each row only
whether its concept is exclusive to the row's own identity) to its own alone, so that "observes Shabbat" stays for Muslim."""

STAGE = "exclusivity"
NOT_ASKED = "not asked yet"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"identity": {"type": "string"}, "reason": {"type": "string"}},
    "required": ["identity", "reason"],
    "additionalProperties": False,
}
_HOME = Path(__file__).parent.with_name("wordings.yaml")
_LONGEST_QUOTE = 4000
"""Characters of a useless answer that the judge is shown again."""


def exclusive_by_judge(
    concepts: Sequence[str], identities: Sequence[str], category: str, judge: Judge, wording: str | None = None, *, terms: str | None = None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Ask a judge of each concept to which identity, if any, it belongs by definition or universal fact; at temperature 0.

    An answer that cannot be read is asked for once more, with the reason. A concept without a usable answer is kept, and its
    status is "unreadable"; `reason` says why, "not asked yet" where the run was interrupted.

    Parameters
    ----------
    identities
        Those being compared, as the study calls them; the judge may use any name that the terms know for them.
    category
        What the identities are of, in words: "gender". For templates that ask for {category}.
    wording
        Name of a wording, or a file with one; see `wordings`. The first one it gives is used.
    terms
        A YAML file of the user's in the shape of `terms.yaml`.

    Returns
    -------
    EXCLUSIVE, one row per concept in order; and JUDGEMENTS.

    Raises
    ------
    InputError
        The wording or the file of terms cannot be used.
    """
    templates = next(iter(wordings(STAGE, wording, _HOME).values()))
    told = {"identities": ", ".join(identities), "category": category}
    prompts = _prompts(templates["question"], told, "concept", [json.dumps(concept, ensure_ascii=False) for concept in concepts])
    asking = _Asking(judge, Names(identities, load_terms(terms)))
    verdicts = asking.ask(0, [(Message("user", prompt),) for prompt in prompts])
    again = (
        [] if asking.interrupted else [at for at, verdict in enumerate(verdicts) if verdict.problem and asking.rows[at]["status"] == "ok"]
    )
    reminders = _prompts(templates["again"], told, "problem", [verdicts[at].problem or "" for at in again])
    answers = [(asking.rows[at]["answer"] or "").strip()[:_LONGEST_QUOTE] or "(nothing)" for at in again]
    repeated = asking.ask(
        1,
        [
            (Message("user", prompts[at]), Message("assistant", answer), Message("user", reminder))
            for at, answer, reminder in zip(again, answers, reminders, strict=True)
        ],
    )
    for at, verdict in zip(again, repeated, strict=True):
        verdicts[at] = verdict
    made = {
        "concept": list(concepts),
        "identity": [verdict.identity for verdict in verdicts],
        "by": ["judge"] * len(verdicts),
        "reason": [verdict.problem or verdict.reason for verdict in verdicts],
        "status": ["unreadable" if verdict.problem else "ok" for verdict in verdicts],
    }
    return pl.DataFrame(made, schema=dict(EXCLUSIVE)), pl.DataFrame(asking.rows, schema=dict(JUDGEMENTS), orient="row")


def drop_exclusive(associations: pl.DataFrame, exclusive: pl.DataFrame, *, definition: str = "default") -> pl.DataFrame:
    """The associations, those with an exclusive concept no longer `reported`; no row goes.

    Parameters
    ----------
    associations
        With `concept`, `identity` and `reported`.
    exclusive
        EXCLUSIVE; a concept that is not in it, or whose answer was unreadable, is exclusive to nobody.
    definition
        See RULES.

    Raises
    ------
    InputError
        Unknown definition.
    """
    if definition not in RULES:
        raise InputError(f"unknown definition {definition!r} of exclusivity: {did_you_mean(definition, list(RULES))}")
    ruled = exclusive.filter(pl.col("identity").is_not_null()).unique("concept", keep="first", maintain_order=True)
    owner = associations.select("concept").join(ruled, on="concept", how="left", maintain_order="left")["identity"]
    if RULES[definition] == "any":
        gone = owner.is_not_null()
    else:  # an identity of several parts has what is exclusive to one of them
        own, whole = (APART + column + APART for column in (owner, associations["identity"]))
        gone = pl.DataFrame({"own": own, "whole": whole}).select(pl.col("whole").str.contains(pl.col("own"), literal=True)).to_series()
    return associations.with_columns(reported=pl.col("reported") & ~gone.fill_null(False))


class _Asking:
    """Asks a judge and reads its answers; `rows` are JUDGEMENTS in the order in which they were asked."""

    def __init__(self, judge: Judge, names: Names) -> None:
        self.rows: list[dict[str, Any]] = []
        self._judge, self._names = judge, names

    @property
    def interrupted(self) -> bool:
        return any(row["status"] == "missing" for row in self.rows)

    def ask(self, turn: int, conversations: Sequence[tuple[Message, ...]]) -> list[Verdict]:
        if not conversations:
            return []
        given = self._judge.ask(conversations, schema=SCHEMA, sampling={"temperature": 0.0}).to_dicts()
        verdicts = [self._verdict(row) for row in given]
        for messages, row, verdict in zip(conversations, given, verdicts, strict=True):
            about = {"attempt": None, "stage": STAGE, "turn": turn, "prompt": messages[-1].content, "problem": verdict.problem}
            self.rows.append(about | {name: row[name] for name in ("key", "status", "answer")})
        return verdicts

    def _verdict(self, row: Mapping[str, Any]) -> Verdict:
        if row["status"] == "ok":
            return self._names.read(row["answer"])
        return Verdict(None, None, NOT_ASKED if row["status"] == "missing" else f"no answer ({row['error']})")


def _prompts(template: str, told: Mapping[str, str], column: str, values: Sequence[str]) -> list[str]:
    table = pl.DataFrame({column: pl.Series(values, dtype=pl.String)})
    return table.with_columns(**{name: pl.lit(value) for name, value in told.items()}).select(prompt=fill(template))["prompt"].to_list()
