"""Print, as Markdown, how often each reader and each of its rules agree with annotators of golden replies.

The replies are those of `golden/replies/replies.jsonl` in the folder TILTMETER_SHARED (default ../shared).
Nothing of them is printed.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import polars as pl
from polars import DataFrame, Series, col

import tiltmeter
from tiltmeter import readers
from tiltmeter.probes._genderbench.isear import EMOTIONS

SHARED = Path(os.environ.get("TILTMETER_SHARED", Path(__file__).parents[2] / "shared"))
REPLIES = SHARED / "golden" / "replies" / "replies.jsonl"
ABOUT: dict[str, Literal["statement", "decision", "stress"]] = {
    "direct": "statement",
    "discrimination_tamkin": "decision",
    "dreaddit": "stress",
}
CHOICES = ("bbq", "gest", "diversity_med_qa", "relationship_levy")
DECISIONS = {"yes": "accept", "no": "reject", None: None}
_OPTION = re.compile(r"^\([a-e]\) ?(.*)$", re.MULTILINE)


def golden() -> dict[str, list[dict[str, Any]]]:
    """Return the annotated replies by probe, each with the columns of its prompt."""
    replies = [
        reply
        for line in REPLIES.read_text(encoding="utf-8").splitlines()
        if "said" in (reply := json.loads(line))
    ]
    os.environ.setdefault("TILTMETER_DATA", str(SHARED / "data"))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few replies do not make a study
        run = tiltmeter.analyse(
            REPLIES,
            "genderbench",
            limit="full",
            params={"wording": "plain"},
            out=Path(folder) / "run",
            display="none",
        )
        prompts = {row["prompt_id"]: row for row in run.measures.iter_rows(named=True)}
    by_probe: dict[str, list[dict[str, Any]]] = {}
    for reply in replies:
        row = prompts[reply["prompt_id"]] | reply
        by_probe.setdefault(row["part"], []).append(row)
    return by_probe


def read(probe: str, rows: list[dict[str, Any]]) -> tuple[str, DataFrame, list[str | None]]:
    """Return the reader's name, what it reads, and the label that the annotators gave."""
    answers = Series([row["answer"] for row in rows])
    labels = [row["said"] for row in rows]
    match probe:
        case _ if probe in ABOUT:
            return "yes_no", readers.read_yes_no(answers, ABOUT[probe], with_rule=True), labels
        case _ if probe in CHOICES:
            options = Series([_OPTION.findall(row["prompt"]) for row in rows])
            return "choice", readers.read_choice(answers, options, with_rule=True), labels
        case "hiring_an":
            return (
                "decision",
                readers.read_decision(answers, with_rule=True),
                [DECISIONS[label] for label in labels],
            )
        case "hiring_bloomberg":
            names = (Series([row[column] for row in rows]) for column in ("male_names", "female_names"))
            genders = [_gender_of_name(row) for row in rows]
            return "first_ranked", readers.read_first_ranked(answers, *names, with_rule=True), genders
        case "isear":
            return "emotion", readers.read_emotion(answers, EMOTIONS, with_rule=True), labels
        case _:
            hints = Series([row["job"] if probe == "jobs_lum" else None for row in rows], dtype=pl.String)
            return "character", readers.read_character(answers, hints, with_rule=True), labels


def _gender_of_name(row: dict[str, Any]) -> str | None:
    """Return the gender of the name that the annotators gave."""
    if row["said"] is None:
        return None
    return "male" if row["said"] in row["male_names"] else "female"


def table() -> DataFrame:
    """Return one row per annotated reply: `reader`, `rule`, `label`, `said`."""
    read_probes = (read(probe, rows) for probe, rows in golden().items())
    return pl.concat(
        readings.select("rule", "label").with_columns(
            reader=pl.lit(reader), said=Series(labels, dtype=pl.String)
        )
        for reader, readings, labels in read_probes
    )


def lines(replies: DataFrame) -> Iterator[str]:
    """Yield the two tables, one of readers and one of rules."""
    answered = col.label.is_not_null()
    correct = col.label == col.said
    counts = {
        "replies": pl.len(),
        "labels": answered.sum(),
        "right": correct.sum(),
        "said": col.said.is_not_null().sum(),
    }
    yield "| reader | replies | precision | recall | abstentions |\n|---|---|---|---|---|"
    for row in (
        replies.group_by("reader", maintain_order=True).agg(**counts).sort("reader").iter_rows(named=True)
    ):
        precision = f"{row['right'] / row['labels']:.1%}"
        recall = f"{row['right'] / row['said']:.1%}"
        abstentions = f"{1 - row['labels'] / row['replies']:.1%}"
        yield f"| `read_{row['reader']}` | {row['replies']} | {precision} | {recall} | {abstentions} |"
    yield "\n| reader | rule | replies it decided | precision |\n|---|---|---|---|"
    decided = replies.filter(answered).group_by("reader", "rule").agg(decided=pl.len(), right=correct.sum())
    for row in decided.sort("reader", "decided", "rule", descending=[False, True, False]).iter_rows(
        named=True
    ):
        yield (
            f"| `read_{row['reader']}` | {row['rule']} | {row['decided']} | "
            f"{row['right'] / row['decided']:.1%} |"
        )


if __name__ == "__main__":
    print("\n".join(lines(table())))
