"""The tables of a run: those of the run folder, and what is joined from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
from polars import DataFrame, Float64, col

from tiltmeter import reports
from tiltmeter.errors import EXIT_INCOMPLETE, EXIT_OK, InputError
from tiltmeter.runs._counterparts import counterparts
from tiltmeter.runs._folder import RunFolder, reading
from tiltmeter.runs._validation import COLUMNS, REMEDY, check_columns, check_values
from tiltmeter.schema import NAMED

_TEXTS = {"responses": ["answer"], "measures": ["outcome", "label"], "design": ["prompt"]}
"""Columns that make an attempt readable, by the table that has them."""


class RunTables(reports.Result):
    """The tables of a finished run, read from the run folder on access.

    Attributes
    ----------
    folder
        The run folder.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    def __repr__(self) -> str:
        return f"<Run {self.place}>"

    @property
    def path(self) -> Path:
        """The run folder, or the local copy of a remote run."""
        return self.folder.path

    @property
    def place(self) -> str:
        """The location of the run: its path or its URL."""
        return self.folder.place

    @property
    def about(self) -> dict[str, Any]:
        """The content of run.json: versions, settings, data licences, counts, problems."""
        return self.folder.read_json()

    @property
    def problems(self) -> list[str]:
        """What is missing from the run, one sentence each; empty for a complete run."""
        return list(self.about["problems"])

    @property
    def exit_code(self) -> int:
        """The exit status of a command: 0 for a complete run, 3 for an incomplete one."""
        return EXIT_INCOMPLETE if self.problems else EXIT_OK

    @property
    def findings(self) -> DataFrame:
        """All numbers, one row each; the columns are those of `tiltmeter.schema.FINDINGS`."""
        return self.folder.read("findings")

    @property
    def design(self) -> DataFrame:
        """One row per prompt."""
        return self.folder.read("design")

    @property
    def responses(self) -> DataFrame:
        """One row per model and attempt, with the text of the answer."""
        return self.folder.read("responses")

    @property
    def measures(self) -> DataFrame:
        """One row per model and attempt, with factors, outcome and label."""
        return self.folder.read("measures")

    def _own_table(self, name: str) -> DataFrame:
        """Return an optional table, empty if the run lacks it; raise InputError if it is damaged."""
        if name not in self.folder.stages():
            return DataFrame(schema=COLUMNS[name])
        rows = stage_table(self, name)
        place = f"{self.place}: the table {name}"
        check_columns(name, rows.schema, place)
        if fault := check_values(rows):
            raise InputError(f"{place} is damaged: {fault}; {REMEDY}")
        return rows.fill_nan(None)

    @property
    def examples(self) -> DataFrame:
        """The answers with the largest influence on each key number; no rows if the run stored none.

        The columns are those of `tiltmeter.schema.EXAMPLES`, and `model`, `part`, `prompt`, `answer`,
        `outcome` and `label`.
        """
        return self._with_texts(self._own_table("examples"))

    def _with_texts(self, attempts: DataFrame) -> DataFrame:
        """Add `answer`, `outcome`, `label` and `prompt` to attempts."""
        for table, columns in _TEXTS.items():
            attempts = self.folder.beside(attempts, table, *columns)
        return attempts

    def counterfactual_pairs(self) -> DataFrame:
        """Return for each key number an influential answer and its counterpart.

        The counterpart is the answer to a prompt of the same item about another group. Only pairs of parsed
        answers are returned, preferably of an item that moves the number in its direction, with different
        labels (the same label if it names the person whom the answer favours), and if labels are numbers,
        with the greatest difference.

        Returns
        -------
        DataFrame
            The columns of `examples`, and `other_prompt`, `other_answer`, `other_outcome` and `other_label`.
        """
        pairs = self._candidate_pairs()
        number = ["model", "part", *NAMED]
        sign = col.influence.sign()
        is_against = sign * sign.sum().over(number) < 0
        names_person = col.label.is_in(["male", "female"])
        is_unexpected = (col.label == col.other_label) != names_person
        value = col.label.cast(Float64, strict=False)
        other_value = col.other_label.cast(Float64, strict=False)
        distance = (value - other_value).abs().fill_null(0)
        ordered = pairs.sort(is_against, is_unexpected, -distance, maintain_order=True)
        return ordered.unique(number, keep="first", maintain_order=True)

    def _candidate_pairs(self) -> DataFrame:
        """Return the pairs of each influential answer and the parsed answers of its counterparts."""
        examples = self.examples.filter(outcome="answered")
        with reading(self.path):
            prompts = counterparts(self.folder.scan("design"), examples["prompt_id"]).filter(~col.form)
        prompts = prompts.select("prompt_id", "other_id", "other_repetitions")
        pairs = examples.join(prompts, on="prompt_id", maintain_order="left_right")
        repetition = pl.min_horizontal("repetition", col.other_repetitions - 1)
        repetition = repetition.cast(examples.schema["repetition"])
        texts = self._with_texts(pairs.select("model", repetition=repetition, prompt_id="other_id"))
        pairs = pairs.hstack(texts.select(col("prompt", "answer", "outcome", "label").name.prefix("other_")))
        return pairs.filter(col.prompt != col.other_prompt, other_outcome="answered").drop(
            "other_id", "other_repetitions"
        )

    @property
    def definitional(self) -> DataFrame:
        """Associations that are not reported because the concept belongs to the identity by definition.

        No rows if there are none.

        The columns are those of `tiltmeter.schema.FINDINGS`, and `reason`.
        """
        return self._own_table("definitional")

    @property
    def grades(self) -> DataFrame:
        """How the numbers are graded (the columns of `tiltmeter.schema.GRADES`).

        No rows if the parts give no marks.
        """
        return self._own_table("grades")


def stage_table(run: RunTables, name: str) -> DataFrame:
    """Return a table of a stage of the method; raise InputError if there is none or it cannot be read."""
    with reading(run.path):
        return run.folder.any_table(name).collect()
