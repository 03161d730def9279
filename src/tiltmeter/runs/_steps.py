"""The five steps, each from table to table, for one run folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from tiltmeter import stats
from tiltmeter.errors import InputError, TiltmeterError
from tiltmeter.models import Message, Model, Sampling
from tiltmeter.runs._failures import Failures, raise_if_all
from tiltmeter.runs._folder import RunFolder
from tiltmeter.runs._resolve import Resolved
from tiltmeter.runs._sound import check_findings
from tiltmeter.runs._stages import ColumnTypes
from tiltmeter.runs._tools import RunTools
from tiltmeter.study import DESIGN, EXAMPLES, FINDINGS, OUTCOMES, RESPONSES, NotRun, Part

if TYPE_CHECKING:
    from tiltmeter.datasets import Library
    from tiltmeter.engine import Journal, Request

__all__ = ["analyse", "between", "collect", "count_attempts", "learn", "make_design", "measure", "needs_patching", "requests"]

MEASURES = {
    **dict.fromkeys(("model", "prompt_id"), pl.String),
    "repetition": pl.Int16,
    "part": pl.String,
    "item": pl.Int32,
    **dict.fromkeys(("outcome", "label"), pl.String),
}
Measured = Mapping[tuple[str, str], Sequence[str]]
"""The columns that each model's part has in the table `measures` from its own `measure`; a part that failed is left out."""
CHUNK = 4_096
"""Prompts held in memory at once."""


def make_design(resolved: Resolved, library: Library, folder: RunFolder) -> dict[str, dict[str, Any]]:
    """Write the table `design`; returns what became of each part: its prompts and attempts, or why it is not run."""
    became: dict[str, dict[str, Any]] = {}
    with folder.table("design", DESIGN) as add:
        for part in resolved.study.parts:
            try:
                design = part.design(library, resolved.settings.of_part(part.name))
            except NotRun as reason:
                became[part.name] = {"title": part.title, "harms": list(part.harms), "status": "not run", "reason": str(reason)}
                continue
            add(design)
            asked = {"prompts": design.height, "attempts": int(design["repetitions"].sum())}
            became[part.name] = {"title": part.title, "harms": list(part.harms), "status": "run", **asked}
    return became


def count_attempts(folder: RunFolder) -> int:
    """How many answers the design asks of each model."""
    return int(folder.scan("design").select(pl.col("repetitions").cast(pl.Int64).sum()).collect().item())


def learn(model: Model, parts: Sequence[Part], folder: RunFolder) -> None:
    """Tell a simulated model how to lean on this design; any other model is left alone (it sees prompts only)."""
    teach, dials = getattr(model, "learn", None), getattr(model, "dials", None)
    if teach is None or dials is None:
        return
    for part in parts:
        key = part.simulate(_part_of(folder.scan("design"), part).collect(), dials.mapping())
        if key is not None:
            teach(key)


def requests(folder: RunFolder) -> Iterator[Request]:
    """Every attempt of the design in order, a few thousand prompts in memory at a time."""
    from tiltmeter.engine import Request

    for chunk in _chunks(_asked(folder.scan("design")).select(*_TEXTS, "repetitions", "first_sample")):
        for *texts, repetitions, first in chunk.iter_rows():
            messages = _messages(*texts)
            for sample in range(first, first + repetitions):
                yield Request(messages, sample)


def collect(folder: RunFolder, models: Sequence[tuple[Model, Sampling]], journal: Journal) -> None:
    """Write the table `responses` from the journal: one row per model and attempt, in the order of the design."""
    from tiltmeter.engine import Keys

    with folder.table("responses", RESPONSES) as add:
        for model, sampling in models:
            key_of = Keys(model.fingerprint, sampling)
            for chunk in _chunks(_asked(folder.scan("design")).select(*DESIGN, *_PATCHED)):
                asked = _attempts(chunk)
                keys = [
                    key_of(_messages(*texts), first + repetition)
                    for *texts, first, repetition in asked.select(*_TEXTS, "first_sample", "repetition").iter_rows()
                ]
                found = journal.fetch(keys).rename({"text": "answer"})
                rows = pl.concat([asked.select("prompt_id", "repetition"), found], how="horizontal").with_columns(model=pl.lit(model.name))
                add(rows.select(pl.col(name).cast(kind) for name, kind in RESPONSES.items()))


def measure(folder: RunFolder, resolved: Resolved, parts: Sequence[Part], tools: RunTools, failures: Failures) -> Measured:
    """Write the table `measures`: one row per attempt with its factors, outcome and label. A part that fails is left out, and noted.

    Raises
    ------
    InputError, ProviderError
        Every part of every model failed, each with such an error: it holds for the whole command.
    """
    names = folder.scan("responses").select(pl.col("model").unique(maintain_order=True)).collect()["model"].to_list()
    done: dict[tuple[str, str], Sequence[str]] = {}
    errors: list[TiltmeterError] = []
    tried, types = 0, ColumnTypes("measures")
    with folder.table("measures", MEASURES) as add:
        for name in names:
            for part in parts:
                design = _part_of(folder.scan("design").drop("prompt", "system", *_PATCHED, strict=False), part)
                answers = folder.scan("responses").filter(pl.col("model") == name, pl.col("status") != "missing")
                asked = answers.join(design, on="prompt_id", how="inner", maintain_order="left").collect()
                if asked.is_empty():
                    continue
                tried += 1
                made: list[pl.DataFrame] = []
                with failures.isolated(f"{name}, {part.name}", "not measured", errors), tools.of(name, part.name):
                    rows, own = measured(part, asked, resolved, tools)
                    types.check(rows)
                    made.append(rows)
                    done[name, part.name] = own
                for rows in made:  # outside the block: that a table cannot be written is not the part's failure
                    add(rows)
    raise_if_all(errors, tried)
    return done


def measured(part: Part, asked: pl.DataFrame, resolved: Resolved, tools: RunTools) -> tuple[pl.DataFrame, list[str]]:
    """The measures of one part beside its factors, without the texts; and the names of the columns that are measures."""
    made = part.measure(_without_empty(asked), resolved.settings, tools)
    if made.height != asked.height:
        raise InputError(f"measuring gave {made.height:,} rows for {asked.height:,} responses; it must give one row each")
    shown = [name for name in asked.columns if name in ("model", "prompt_id", "repetition") or name not in RESPONSES]
    return pl.concat([asked.select(shown), made], how="horizontal"), made.columns


def between(resolved: Resolved, parts: Sequence[Part], tools: RunTools, done: Measured, failures: Failures) -> list[Part]:
    """What kinds of parts do once for all their parts and all models together; gives the parts that can be analysed.

    Raises
    ------
    InputError, ProviderError
        It holds for the whole command.
    """
    left = [part for part in parts if any(part.name == name for _, name in done)]
    for kind in dict.fromkeys(type(part) for part in left):
        mine = [part for part in left if type(part) is kind]
        finished = False
        errors: list[TiltmeterError] = []
        with failures.isolated(", ".join(part.name for part in mine), "not analysed", errors):
            kind.between(resolved.settings, tools)
            finished = True
        raise_if_all(errors, 1)
        if not finished:
            left = [part for part in left if part not in mine]
    return left


def analyse(folder: RunFolder, resolved: Resolved, parts: Sequence[Part], tools: RunTools, done: Measured, failures: Failures) -> set[str]:
    """Write the table `findings` and the stage table `examples`, with q-values over all tested metrics of a model (Benjamini-Hochberg).

    A part that fails is left out, and noted; it is also noted if no answer could be used. Gives the parts that were analysed.

    Raises
    ------
    InputError, ProviderError
        Every part of every model failed, each with such an error: it holds for the whole command.
    """
    measures = folder.scan("measures")
    names = measures.select(pl.col("model").unique(maintain_order=True)).collect()["model"].to_list()
    errors: list[TiltmeterError] = []
    analysed: set[str] = set()
    tried = 0
    with folder.table("findings", FINDINGS) as add:
        for name in names:
            found: list[pl.DataFrame] = []
            for part in parts:
                if (name, part.name) not in done:
                    continue
                tried += 1
                whose = f"{name}, {part.name}"
                mine = _without_empty(_part_of(measures.filter(pl.col("model") == name), part).collect(), done[name, part.name])
                findings = None
                with failures.isolated(whose, "not analysed", errors), tools.of(name, part.name):
                    findings = _shaped(part.analyse(mine, resolved.settings, tools), name)
                    found.append(findings)
                if findings is None:
                    continue
                analysed.add(part.name)
                failures.problems += _unused(whose, mine)
                with failures.isolated(whose, "no examples of answers"), tools.of(name, part.name):
                    if (examples := part.examples(mine, findings, resolved.settings)) is not None:
                        tools.keep("examples", examples.select(pl.col(column).cast(kind) for column, kind in EXAMPLES.items()))
            if found:
                add(with_q(pl.concat(found)).select(list(FINDINGS)))
    raise_if_all(errors, tried)
    return analysed


def _shaped(findings: pl.DataFrame, model: str) -> pl.DataFrame:
    """Findings of one part as the table has them; raises InputError where they are not what a run can keep."""
    shaped = findings.with_columns(model=pl.lit(model)).select(pl.col(column).cast(kind) for column, kind in FINDINGS.items())
    if fault := check_findings(shaped):
        raise InputError(f"its findings cannot be kept: {fault}")
    return shaped


def _unused(whose: str, measures: pl.DataFrame) -> list[str]:
    """A sentence where answers came, but none could be used. (That requests failed is told of the model as a whole.)"""
    counts = dict(measures.group_by("outcome").len().iter_rows())
    if counts.get("answered") or not set(counts) - {"failed"}:
        return []
    ended = ", ".join(f"{counts[one]:,} {one}" for one in OUTCOMES if one in counts)
    return [
        f"{whose}: none of {measures.height:,} responses could be used ({ended}), so its metrics have no value; look at the responses, and"
        " change the model's settings, the prompts or the features"
    ]


def with_q(findings: pl.DataFrame) -> pl.DataFrame:
    """Findings of one model with `q`: the family is every metric of the model as a whole that was tested.

    A part that tests very many things at once has a family of its own, and brings its q-values.
    """
    family = pl.col("context").is_null() & pl.col("p").is_not_null() & pl.col("q").is_null()
    p = findings.select(pl.when(family).then(pl.col("p")).cast(pl.Float64)).to_series().fill_null(float("nan")).to_numpy()
    return findings.with_columns(q=pl.coalesce("q", pl.Series(stats.benjamini_hochberg(p)).fill_nan(None)))


def _part_of(table: pl.LazyFrame, part: Part) -> pl.LazyFrame:
    return table.filter(pl.col("part") == part.name)


def _without_empty(frame: pl.DataFrame, own: Sequence[str] = ()) -> pl.DataFrame:
    """Without columns that belong to other parts (all null and not of its `own`), so that a part sees its own factors only."""
    core = {*DESIGN, *RESPONSES, "outcome", "label", "stratum", *own}
    return frame.select(name for name in frame.columns if name in core or frame.is_empty() or frame[name].null_count() < frame.height)


def _chunks(table: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    start = 0
    while True:
        chunk = table.slice(start, CHUNK).collect()
        if chunk.height:
            yield chunk
        if chunk.height < CHUNK:
            return
        start += CHUNK


def _attempts(prompts: pl.DataFrame) -> pl.DataFrame:
    return prompts.with_columns(repetition=pl.int_ranges(0, "repetitions", dtype=pl.Int16)).explode("repetition")


_PATCHED = ("source_prompt", "source_span", "answer_opening")
"""Columns of a design for models whose hidden states are replaced (see `tiltmeter.models.Message`)."""
_TEXTS = ("system", "prompt", *_PATCHED)


def _asked(design: pl.LazyFrame) -> pl.LazyFrame:
    """The design with all columns a request is made of."""
    lacking = [name for name in _PATCHED if name not in design.collect_schema()]
    return design.with_columns(pl.lit(None, pl.String).alias(name) for name in lacking)


def _messages(system: str | None, prompt: str, source: str | None, span: str | None, opening: str | None) -> tuple[Message, ...]:
    given = (("system", system), ("source", source), ("span", span), ("user", prompt), ("assistant", opening))
    return tuple(Message(role, text) for role, text in given if text is not None)


def needs_patching(folder: RunFolder) -> bool:
    """Whether the design asks for hidden states to be replaced, which only models that run in this process can do."""
    design = folder.scan("design")
    return "source_prompt" in design.collect_schema() and bool(design.select(pl.col("source_prompt").is_not_null().any()).collect().item())
