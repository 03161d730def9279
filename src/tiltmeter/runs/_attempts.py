"""The attempts of a study: the prompts of its design, their requests, and their responses in the journal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import polars as pl
from polars import DataFrame, Int64, LazyFrame, String, col, lit

from tiltmeter._plugins.functions import explained
from tiltmeter._sanitising import printable, redacted
from tiltmeter.datasets import Library
from tiltmeter.engine import Keys, Request
from tiltmeter.errors import InputError
from tiltmeter.models import Message, Model, Sampling
from tiltmeter.models._base import ALLOWED
from tiltmeter.runs._folder import RunFolder, without_foreign
from tiltmeter.runs._resolving import Resolved
from tiltmeter.runs._stage_store import check_replaced
from tiltmeter.schema import DESIGN, RESPONSES, conform
from tiltmeter.study import NotRun, Part, Settings

if TYPE_CHECKING:
    from tiltmeter.engine import Journal

CHUNK = 4_096
"""Maximum number of prompts in memory."""
_PATCHED = ("source_prompt", "source_span", "answer_opening")
"""Columns of a design for models whose hidden states are replaced (see `tiltmeter.models.Message`)."""
TEXTS_OF_REQUEST = ("system", "prompt", *_PATCHED, ALLOWED)
"""Columns of a design that a request consists of."""


class Unanalysable(NotRun):
    """A part whose responses could not be analysed, with the reason."""

    def __init__(self, part: str, error: Exception) -> None:
        message = printable(redacted(" ".join(str(error).split())), one_line=True)
        is_input = isinstance(error, InputError)
        reason = message if is_input else f"{type(error).__name__}: {message}; correct its analysis"
        super().__init__(f"its responses could not be analysed, so none is asked for: {reason}")
        self.for_study = InputError(message if is_input else f"{part}: {self}")
        """What to raise if no part of the study can be analysed."""


# -- the design --------------------------------------------------------------------------------------------


def make_design(
    resolved: Resolved,
    library: Library,
    folder: RunFolder,
    check: Callable[[Part, DataFrame, Settings], None] | None = None,
) -> dict[str, dict[str, Any]]:
    """Write the table `design`.

    Return the status of each part: its numbers of prompts and attempts, or why it is not run.

    Parameters
    ----------
    check
        Raises NotRun for a part whose design cannot be used.

    Raises
    ------
    InputError
        No part can be run, and the responses of one could not be analysed.
    """
    status_of: dict[str, dict[str, Any]] = {}
    unanalysable: Unanalysable | None = None
    with folder.table("design", DESIGN) as add:
        for part in resolved.study.parts:
            status: dict[str, Any] = {"title": part.title, "harms": list(part.harms)}
            status_of[part.name] = status
            try:
                settings = resolved.settings.of_part(part.name)
                with explained(type(part), "make its prompts", NotRun):
                    design = part.design(library, settings)
                if check is not None:
                    check(part, design, settings)
            except NotRun as reason:
                status.update(status="not run", reason=str(reason))
                if isinstance(reason, Unanalysable):
                    unanalysable = reason
            else:
                add(design)
                attempts = int(design["repetitions"].sum())
                status.update(status="run", prompts=design.height, attempts=attempts)
    if unanalysable is not None and all(status["status"] != "run" for status in status_of.values()):
        raise unanalysable.for_study
    check_replaced(resolved)
    return status_of


def count_attempts(folder: RunFolder) -> int:
    """Return the number of answers that the design requires from each model."""
    return int(folder.scan("design").select(col.repetitions.cast(Int64).sum()).collect().item())


def share_missing(folder: RunFolder, model: Model, sampling: Sampling, journal: Journal) -> float:
    """Return the share of the requests to a model whose responses are not in the journal.

    A request that several parts need counts once.
    """
    key_of = Keys(model.fingerprint, sampling)
    keys = {key_of(request.messages, request.sample) for request in requests(folder, model)}
    return 1 - len(journal.held(list(keys))) / max(1, len(keys))


def with_factors(folder: RunFolder, part: str, answers: LazyFrame, *, prompts: bool = False) -> DataFrame:
    """Return the responses to the prompts of a part, with the factors of these prompts.

    Columns of other parts are left out.

    Parameters
    ----------
    answers
        The columns of RESPONSES, for any parts.
    prompts
        Whether to add the prompts.
    """
    texts = ["system", *_PATCHED]
    if not prompts:
        texts.append("prompt")
    design = folder.scan("design").drop(texts, strict=False).filter(part=part)
    joined = answers.join(design, on="prompt_id", how="inner", maintain_order="left")
    return without_foreign(joined.collect())


def _complete_design(folder: RunFolder, model: object = None) -> LazyFrame:
    """Return the design with all columns that a request consists of.

    Allowed answers are null if the model does not accept them.
    """
    design = folder.scan("design")
    columns = set(design.collect_schema())
    if not getattr(model, "constrains", False):
        columns.discard(ALLOWED)
    missing = [name for name in (*_PATCHED, ALLOWED) if name not in columns]
    return design.with_columns(lit(None, String).alias(name) for name in missing)


def _chunks(table: LazyFrame) -> Iterator[DataFrame]:
    for start in count(0, CHUNK):
        chunk = table.slice(start, CHUNK).collect()
        if chunk.is_empty():
            return
        yield chunk


def _each_attempt(design: DataFrame) -> DataFrame:
    """Return one row per attempt, with the column `repetition`."""
    repetitions = pl.int_ranges(0, "repetitions", dtype=pl.Int16)
    return design.with_columns(repetition=repetitions).explode("repetition")


# -- requests ----------------------------------------------------------------------------------------------


def requests(folder: RunFolder, model: object, without: Collection[str] = ()) -> Iterator[Request]:
    """Yield a request for every attempt of the design in order.

    At most CHUNK prompts are in memory at a time. If the model has the attribute `constrains`, the requests
    contain the allowed answers.

    Parameters
    ----------
    without
        Parts whose requests are left out.
    """
    design = _complete_design(folder, model).filter(~col.part.is_in(list(without)))
    for chunk in _chunks(design.select(*TEXTS_OF_REQUEST, "repetitions", "first_sample")):
        for *texts, repetitions, first in chunk.iter_rows():
            messages = _messages(*texts)
            for sample in range(first, first + repetitions):
                yield Request(messages, sample)


def attempts_at(folder: RunFolder, model: object, places: DataFrame) -> DataFrame:
    """Return single attempts of the design, with all columns of the design and the column `repetition`.

    Parameters
    ----------
    places
        The columns `row` (number of the prompt in the design) and `repetition`.
    """
    numbered = _complete_design(folder, model).with_row_index("row")
    rows = numbered.filter(col.row.is_in(places["row"].implode())).collect()
    repetitions = places.select("row", "repetition")
    return rows.join(repetitions, on="row", how="inner", maintain_order="left").drop("row")


def requests_of(attempts: DataFrame) -> list[Request]:
    """Return the requests of single attempts (see `attempts_at`)."""
    rows = attempts.select(*TEXTS_OF_REQUEST, "first_sample", "repetition").iter_rows()
    return [Request(_messages(*texts), first + repetition) for *texts, first, repetition in rows]


def _messages(
    system: str | None,
    prompt: str,
    source: str | None,
    span: str | None,
    opening: str | None,
    allowed: str | None,
) -> tuple[Message, ...]:
    texts = (
        ("system", system),
        ("source", source),
        ("span", span),
        ("user", prompt),
        ("assistant", opening),
        (ALLOWED, allowed),
    )
    return tuple(Message(role, text) for role, text in texts if text is not None)


def refuse_unpatchable(folder: RunFolder, models: Sequence[Model]) -> None:
    """Raise InputError if the design requires hidden states to be replaced and a model does not support it.

    Only models in this process do.
    """
    unpatchable = [model.name for model in models if not getattr(model, "patches", False)]
    if not unpatchable:
        return
    if _complete_design(folder).select(col.source_prompt.is_not_null().any()).collect().item():
        raise InputError(
            f"the open-box setting replaces hidden states, which {unpatchable[0]} does not support;"
            " use a local model (hf/NAME or a folder)"
        )


def teach_simulated(model: Model, parts: Sequence[Part], folder: RunFolder) -> None:
    """Give a simulated model the answers that each part plans for its prompts.

    Do nothing for other models, which see only prompts.
    """
    learn, dials = getattr(model, "learn", None), getattr(model, "dials", None)
    if learn is None or dials is None:
        return
    for part in parts:
        with explained(type(part), "simulate responses"):
            design = folder.scan("design").filter(part=part.name).collect()
            answers = part.simulate(design, dials.mapping())
            if answers is not None:
                learn(answers)


# -- responses ---------------------------------------------------------------------------------------------


def responses_of(attempts: DataFrame, model: str, key_of: Keys, journal: Journal) -> DataFrame:
    """Return the responses to single attempts (see `attempts_at`) in the journal.

    Returns
    -------
    DataFrame
        The columns of RESPONSES, one row for each attempt.
    """
    keys = [key_of(request.messages, request.sample) for request in requests_of(attempts)]
    stored = journal.fetch(keys).rename({"text": "answer", "key": "request_id"})
    return conform(attempts.hstack(stored).with_columns(model=lit(model)), RESPONSES)


def collect(folder: RunFolder, models: Sequence[tuple[Model, Sampling]], journal: Journal) -> None:
    """Write the table `responses` from the journal.

    It has one row per model and attempt, in the order of the design.
    """
    with folder.table("responses", RESPONSES) as add:
        for model, sampling in models:
            key_of = Keys(model.fingerprint, sampling)
            design = _complete_design(folder, model).select(*DESIGN, *_PATCHED, ALLOWED)
            for chunk in _chunks(design):
                add(responses_of(_each_attempt(chunk), model.name, key_of, journal))


def free_answers(
    folder: RunFolder, model: Model, sampling: Sampling, journal: Journal, part: str
) -> DataFrame:
    """Return the free answers of a model in the journal to the prompts of a part with allowed answers.

    Returns
    -------
    DataFrame
        The columns of RESPONSES, and the factors of the part.
    """
    key_of = Keys(model.fingerprint, sampling)
    design = _complete_design(folder).filter(part=part).collect()
    responses = responses_of(_each_attempt(design), model.name, key_of, journal).filter(status="ok")
    factors = design.drop(*TEXTS_OF_REQUEST)
    return without_foreign(responses.join(factors, on="prompt_id", how="inner", maintain_order="left"))
