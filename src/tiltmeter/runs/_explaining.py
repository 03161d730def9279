"""The way of one attempt through a run, from its prompt to the findings that count it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import polars as pl
from polars import DataFrame, Expr, LazyFrame, col, lit, when

from tiltmeter import reports
from tiltmeter.benchmarks._tables import BASELINES
from tiltmeter.blocks import Block, Column, Heading, Kind, Response, Responses, Table, Text, columns_of
from tiltmeter.errors import InputError, check_known
from tiltmeter.readers.outcomes import READING_RULE
from tiltmeter.runs._counterparts import factors_of
from tiltmeter.runs._evidence import resting_on
from tiltmeter.runs._folder import RunFolder, reading, without_foreign
from tiltmeter.runs._reading_quality import labels_of
from tiltmeter.schema import MEASURES, NAMED, RESPONSES, metric_name

MOST_ROWS = 20
"""Maximum number of rows shown of one table of a stage, and of findings."""
OF_ALL_ATTEMPTS: Final = ("undetected_rate_attempts", "undetected_rate_items", "missing")
"""Metrics that count every attempt, whatever its outcome."""
_OF_RESPONSE = (
    "status",
    "error",
    "finish_reason",
    "refusal",
    "thinking",
    "input_tokens",
    "output_tokens",
    "request_id",
)
"""Columns of a response besides its text."""
_ATTEMPT = ("model", "part", "attempt", "prompt_id", "repetition")
_OF_PROMPT = ("descriptor", "cluster", "echo")
"""Further columns of stages that repeat the prompt, which the table of the prompt shows."""
_REPEATED = ("shown",)
"""Tables that repeat the rows of another for readers."""
_MEANINGS: Mapping[str, str] = {
    "answered": "the response has an answer that was read",
    "refused": "the model declines in words",
    "unreadable": "there is text, but no rule found an answer, or several answers contradict each other",
    "empty": "there is no text",
    "failed": "no response came",
}
"""What each outcome means if the response does not say more."""


@dataclass(frozen=True)
class Explanation(reports.Result):
    """The way of one attempt through a run.

    Attributes
    ----------
    prompt
        The row of the design.
    response
        The row of the responses.
    measure
        The row of the measures; empty if the response was not measured.
    reason
        Why the attempt has its outcome, in words.
    labels
        Labels of the attempt (columns LABELS).
    stages
        The rows of the attempt in the tables of the method, by name.
    findings
        One row per finding of the part and model: the columns of `NAMED`, `estimate`, `key`, `selected`
        (whether the finding's evidence selects the attempt), `counted`, and `why`.
    """

    title: str
    prompt: Mapping[str, Any]
    response: Mapping[str, Any]
    measure: Mapping[str, Any]
    reason: str
    labels: DataFrame
    stages: Mapping[str, DataFrame]
    findings: DataFrame

    def __repr__(self) -> str:
        return f"<Explanation {self.title}>"

    def frame(self) -> DataFrame:
        """Return `findings`."""
        return self.findings

    def blocks(self) -> list[Block]:
        """Return the blocks that show each step (see `tiltmeter.blocks`)."""
        texts = Response(
            self.prompt["prompt"],
            self.response["answer"],
            self.measure.get("outcome"),
            self.measure.get("label"),
            prompt_id=self.response["prompt_id"],
        )
        response = {name: self.response[name] for name in _OF_RESPONSE}
        blocks: list[Block] = [
            Heading(self.title),
            _fields("Prompt", _described(self.prompt)),
            _fields("Response", response),
            Responses("Prompt and response", [texts]),
            _fields("Reading", self._reading()),
        ]
        if self.labels.height:
            blocks.append(_rows("Labels", self.labels.select("annotator", "about", "read", "label")))
        repeated = {*self.prompt, *_OF_PROMPT}
        for name, rows in self.stages.items():
            if rows.height and name not in _REPEATED:
                blocks.append(_rows(f"Stage table {name}", rows.select(pl.exclude(repeated))))
        return [*blocks, *self._counting()]

    def _reading(self) -> dict[str, Any]:
        """Return the outcome with its reason, the label with its rule, and the other measures."""
        common = {*RESPONSES, *MEASURES, *self.prompt, READING_RULE, "attempt"}
        measures = {name: value for name, value in self.measure.items() if name not in common}
        outcome = self.measure.get("outcome")
        return {
            "outcome": "not measured" if outcome is None else f"{outcome}: {self.reason}",
            "label": self.measure.get("label"),
            "rule of the reader": self.measure.get(READING_RULE),
            **measures,
        }

    def _counting(self) -> list[Block]:
        """Return how many findings count the attempt, and the most important of them."""
        counted = self.findings.filter("counted")
        of_all = f"{counted.height:,} of {self.findings.height:,} findings of this part and model"
        blocks: list[Block] = [Text(f"This attempt is counted in {of_all}.")]
        if counted.height:
            key_first = counted.sort(~col.key, maintain_order=True)
            blocks.append(_findings("Findings that count it", key_first))
        excluded = self.findings.filter(~col.counted & col.key)
        if excluded.height:
            blocks.append(_findings("Key findings that do not count it", excluded))
        return blocks


def explained_attempt(
    folder: RunFolder,
    findings: DataFrame,
    prompt_id: str,
    model: str | None,
    repetition: int | None,
    *,
    place: str,
) -> Explanation:
    """Follow one attempt through the tables of a run.

    Parameters
    ----------
    folder, findings
        The run folder and its findings.
    prompt_id
        Identifier of the prompt, or of the attempt: "gender/17/0/plain#3".
    model
        Name of the model; None: the only one of the run.
    repetition
        Number of the response, from 0; None: that of `prompt_id`, or 0.
    place
        Name of the run for errors.

    Raises
    ------
    InputError
        The run has no such prompt, model or repetition, or has several models and none is given.
    """
    prompt_id, repetition = _attempt_of(prompt_id, repetition)
    design = folder.scan("design").filter(prompt_id=prompt_id).collect()
    if design.is_empty():
        raise InputError(
            f"{place} has no prompt {prompt_id!r};"
            " `tiltmeter show RUN --metric METRIC` prints the ids of prompts"
        )
    prompt = without_foreign(design).row(0, named=True)
    model = _only_model(folder, model, place)
    attempt = {"model": model, "prompt_id": prompt_id, "repetition": repetition}
    responses = folder.scan("responses").filter(**attempt).collect()
    if responses.is_empty():
        raise InputError(
            f"{place} has no response {repetition + 1} of {model} to the prompt {prompt_id!r};"
            " --repetition counts from 0"
        )
    response = responses.row(0, named=True)
    measures = folder.scan("measures").filter(**attempt)
    measured = without_foreign(measures.collect())
    measure = measured.row(0, named=True) if measured.height else {}
    stages = _stage_rows(folder, attempt, prompt["part"])
    labels = labels_of(folder)
    of_part = findings.filter(model=model, part=prompt["part"])
    return Explanation(
        title=f"{prompt_id}, response {repetition + 1} of {model}",
        prompt=prompt,
        response=response,
        measure=measure,
        reason=_reason(measure.get("outcome"), response, stages),
        labels=labels.filter(**attempt) if labels.height else labels,
        stages=stages,
        findings=_counted_findings(folder, of_part, measures, prompt, measure.get("outcome")),
    )


def _only_model(folder: RunFolder, model: str | None, place: str) -> str:
    """Return the model that the user named, or the only one of the run; raise InputError if there is none."""
    models = folder.models("responses")
    if model is None and len(models) > 1:
        raise InputError(
            f"{place} has responses of several models; choose one with --model: {', '.join(models)}"
        )
    model = models[0] if model is None else model
    check_known(model, models, f"{place} has no model {model!r}")
    return model


def _attempt_of(prompt_id: str, repetition: int | None) -> tuple[str, int]:
    """Return the prompt id and the repetition of "PROMPT_ID" or "PROMPT_ID#REPETITION"."""
    name, mark, number = prompt_id.rpartition("#")
    if mark and number.isdecimal() and repetition is None:
        return name, int(number)
    return prompt_id, repetition or 0


def _reason(outcome: str | None, response: Mapping[str, Any], stages: Mapping[str, DataFrame]) -> str:
    """Return why an attempt has its outcome.

    The tables of the method's stages may say it in a column `problem`.
    """
    if outcome == "failed":
        if response["error"]:
            return str(response["error"])
        return "it was not requested yet" if response["status"] == "missing" else "the judge has not read it"
    if outcome == "refused" and response["refusal"] is not None:
        return f"the provider reports a refusal: {response['refusal']}"
    if outcome == "empty" and response["finish_reason"] == "length":
        has_thinking = response["thinking"] is not None
        place = "within the model's thinking" if has_thinking else "before an answer began"
        return f"it was cut off {place}: --max-tokens sets how long a response with its thinking may be"
    if outcome == "empty" and response["thinking"]:
        return "there is only thinking, no answer"
    if outcome == "unreadable" and (problems := _problems(stages)):
        return "; ".join(problems)
    return _MEANINGS.get(outcome or "", "")


def _problems(stages: Mapping[str, DataFrame]) -> list[str]:
    """Return the distinct problems that the tables of the stages name, such as those of `lists`."""
    columns = [rows["problem"].drop_nulls() for rows in stages.values() if "problem" in rows.columns]
    return list(dict.fromkeys(str(problem) for column in columns for problem in column))


def _stage_rows(folder: RunFolder, attempt: Mapping[str, Any], part: str) -> dict[str, DataFrame]:
    """Return the rows of an attempt in the tables of the method, with the concept of each phrase."""
    prompt_id, repetition = attempt["prompt_id"], attempt["repetition"]
    stages = folder.stages()
    of_attempt = {}
    for name, table in stages.items():
        columns = set(table.collect_schema())
        rows = table
        if columns >= {"model", "part"}:
            rows = rows.filter(model=attempt["model"], part=part)
        if "attempt" in columns:
            of_attempt[name] = rows.filter(attempt=f"{prompt_id}#{repetition}")
        elif columns >= {"prompt_id", "repetition"}:
            of_attempt[name] = rows.filter(prompt_id=prompt_id, repetition=repetition)
    if "mentions" in of_attempt and "concepts" in stages:
        concepts = stages["concepts"].select("phrase", "concept").unique("phrase", keep="first")
        mentions = of_attempt["mentions"]
        of_attempt["mentions"] = mentions.join(concepts, on="phrase", how="left", maintain_order="left")
    return {name: _informative(rows) for name, rows in of_attempt.items()}


def _informative(rows: LazyFrame) -> DataFrame:
    """Return rows without the columns that identify the attempt and those that are null in all rows."""
    table = rows.collect()
    return table.select(name for name in table.columns if name not in _ATTEMPT and table[name].count())


def _counted_findings(
    folder: RunFolder,
    findings: DataFrame,
    measures: LazyFrame,
    prompt: Mapping[str, Any],
    outcome: str | None,
) -> DataFrame:
    """Return the findings of a part and model, with whether they count an attempt, and why not."""
    conditions = findings["evidence"].drop_nulls().unique(maintain_order=True)
    holds = {evidence: _selects(folder, evidence, measures) for evidence in conditions}
    is_about_prompt = _is_about(prompt)
    selected = lit(False)
    if holds:
        evidence_holds = col.evidence.replace_strict(holds, default=False, return_dtype=pl.Boolean)
        selected = evidence_holds & is_about_prompt
    counts_every_attempt = col.metric.is_in(OF_ALL_ATTEMPTS)
    is_of_baselines = (col.study == "benchmarks") & (col.context == BASELINES).fill_null(value=False)
    counted = selected & ~is_of_baselines & (lit(outcome == "answered") | counts_every_attempt)
    why = (
        when(counted)
        .then(lit(None))
        .when(is_of_baselines)
        .then(lit("it rests on baseline texts, not on responses"))
        .when(selected)
        .then(lit(f"its outcome is {outcome}; only answered responses count"))
        .when(col.evidence.is_null())
        .then(lit("the finding does not record its responses"))
        .when(~is_about_prompt)
        .then(lit("it is about another context or group"))
        .otherwise(pl.format("it counts responses with {}", "evidence"))
    )
    return findings.select(*NAMED, "estimate", "key", selected=selected, counted=counted, why=why)


def _selects(folder: RunFolder, evidence: str, measures: LazyFrame) -> bool:
    """Return whether the evidence of a finding selects any of these measures."""
    with reading(folder.path):
        count: int = resting_on(folder, evidence, measures).select(pl.len()).collect().item()
    return count > 0


def _is_about(prompt: Mapping[str, Any]) -> Expr:
    """Return whether a finding has the context and a group of a prompt, as far as its factors name them."""
    is_same_context = is_same_group = lit(True)
    context = prompt.get("context")
    if context is not None:
        is_same_context = col.context.is_null() | (col.context == context)
    identities = [prompt.get("identity_1"), prompt.get("identity_2")]
    groups = [identity for identity in identities if identity is not None]
    if groups:
        is_same_group = col.group.is_null() | col.group.is_in(groups)
    return is_same_context & is_same_group


# -- blocks ------------------------------------------------------------------------------------------------


def _described(prompt: Mapping[str, Any]) -> dict[str, Any]:
    """Return what identifies a prompt, and its factors."""
    factors = {name: prompt[name] for name in factors_of(prompt) if name != "wording"}
    return {name: prompt[name] for name in ("part", "item", "prompt_index", "wording")} | factors


def _fields(title: str, values: Mapping[str, Any]) -> Table:
    """Return a table with one row per value that is not null."""
    texts = {name: _as_text(value) for name, value in values.items() if value is not None}
    return Table(title, [Column("field", list(texts), "name"), Column("value", list(texts.values()), "text")])


def _as_text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _rows(title: str, rows: DataFrame) -> Table:
    """Return a table of at most MOST_ROWS rows."""
    texts = rows.head(MOST_ROWS)
    kinds: dict[str, Kind] = {
        name: "text" if kind == pl.String else "name" for name, kind in texts.schema.items()
    }
    omitted = rows.height - texts.height
    note = f"{omitted:,} more rows are in the table." if omitted else ""
    return Table(title, columns_of(texts, kinds), note=note)


def _findings(title: str, rows: DataFrame) -> Table:
    """Return a table of findings with the names that are not empty."""
    first = rows.head(MOST_ROWS)
    names = ("group", "group_2", "concept", "context", "wording")
    columns = [Column("metric", first.select(metric_name()).to_series().to_list(), "name")]
    columns += [Column.of(first, name, kind="name") for name in names if first[name].count()]
    columns.append(Column.of(first, "estimate", "value", "number"))
    if first["why"].count():
        columns.append(Column.of(first, "why", kind="text"))
    omitted = rows.height - first.height
    note = f"{omitted:,} more are in `frame()` or --format json." if omitted else ""
    return Table(title, columns, lead=len(columns) - 1, note=note)
