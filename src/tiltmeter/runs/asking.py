"""How models are asked: the engine, the journal, limits, prices and the progress shown; the judge, and the other tools of a stage."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl
from polars import DataFrame, col

from tiltmeter.datasets import ENCODERS, DataUnavailable, Library, encoder_folder
from tiltmeter.engine import Engine, Keys, Limits, Prices, Request, Tally, open_display, open_engine, open_journal
from tiltmeter.errors import ProviderError, TiltmeterError
from tiltmeter.models import Message, Model, Sampling
from tiltmeter.runs.places import journal_of_runs, runs_root
from tiltmeter.sanitising import printable, redacted
from tiltmeter.study import Classifier, Encoder, NotRun

if TYPE_CHECKING:
    from tiltmeter.engine import Journal

_DECLINED = ("bad_request", "not_found", "server", "bad_response")
"""Kinds of failures with which endpoints reject a JSON schema; routers say that no endpoint of theirs was found, some servers break."""

LONGEST = 300
"""Characters of an unexpected error's own message that are quoted."""
VECTORS = "vectors.sqlite"
"""Where vectors and scores are kept, beside the default journal."""
_log = logging.getLogger("tiltmeter.judge")


@dataclass(frozen=True, slots=True)
class Asking:
    """How models are asked, as a user says it.

    Attributes
    ----------
    limits
        How many requests at a time, how often again; None: as usual.
    journal
        Response cache (a path or a database URL); None: the cache of all runs.
    display
        The kind of progress shown.
    engine, engine_options
        What carries the work out, and its `-E key=value`; see `tiltmeter.engine.open_engine`.
    """

    limits: Limits | None = None
    journal: str | None = None
    display: str | None = "none"
    engine: str | None = None
    engine_options: Mapping[str, str] | None = None

    @contextmanager
    def open(self) -> Iterator[Asker]:
        """What asks in this way, until the block ends."""
        with ExitStack() as stack:
            yield Asker(self, stack.enter_context(open_engine(self.engine, self.engine_options)), stack)


class Asker:
    """Puts requests to models through an engine and keeps the answers in the journal, which is opened when it is first used."""

    def __init__(self, asking: Asking, engine: Engine, stack: ExitStack) -> None:
        self.engine = engine
        self._asking, self._stack = asking, stack

    @cached_property
    def journal(self) -> Journal:
        """Holds the answers."""
        return self._stack.enter_context(open_journal(journal_of_runs(self._asking.journal)))

    @cached_property
    def _prices(self) -> Prices:
        return Prices.load()

    def ask(self, model: Model, requests: Iterable[Request], sampling: Sampling, count: int, label: str) -> Tally:
        """Ask a model, showing the progress; returns what it took.

        Parameters
        ----------
        count
            How many requests there are.
        label
            What is being done, for the progress.
        """
        limits = self._asking.limits or Limits()
        with open_display(self._asking.display, count, label) as progress:
            return self.engine.generate(
                model, requests, sampling, journal=self.journal, limits=limits, progress=progress, prices=self._prices
            )


class RunJudge:
    """A judge whose answers are kept in the journal of the run: asked again, it costs nothing.

    Parameters
    ----------
    sampling
        What it is asked with, unless a stage says otherwise.
    """

    def __init__(self, model: Model, sampling: Sampling, asker: Asker) -> None:
        self.model, self.sampling, self._asker = model, sampling, asker
        self.tallies: list[Tally] = []
        self._accepted: set[str] = set()
        """Schemas the endpoint has taken, as JSON."""
        self._rejects_schemas = False

    @property
    def name(self) -> str:
        """`provider/model`."""
        return self.model.name

    @property
    def interrupted(self) -> bool:
        """Whether a stop was asked for; from then on only what the journal holds is given."""
        return any(tally.interrupted or tally.stopped for tally in self.tallies)

    @property
    def is_done(self) -> bool:
        """Whether every question so far was asked and answered."""
        return not (self.interrupted or any(tally.failures for tally in self.tallies))

    def ask(
        self,
        conversations: Sequence[tuple[Message, ...]],
        *,
        schema: Mapping[str, Any] | None = None,
        sampling: Mapping[str, Any] | None = None,
    ) -> DataFrame:
        """See `tiltmeter.study.Judge`."""
        in_words = replace(self.sampling, **dict(sampling or {}))
        if schema is None or not conversations or not getattr(self.model, "structured", False):
            return self._ask(conversations, in_words)
        with_schema = _structured(in_words, schema)
        if not self._takes(schema, conversations, with_schema, in_words):
            return self._ask(conversations, in_words)
        given = self._ask(conversations, with_schema)
        declined = given["error"].str.starts_with("bad_request:").fill_null(False)
        if not declined.any():
            return given
        # The endpoint takes schemas, but not for these conversations.
        if not self.interrupted:
            self.tallies[-1].failed.pop("bad_request", None)
        again = self._ask([conversations[i] for i in declined.arg_true()], in_words)
        again = again.with_columns(row=declined.arg_true())
        return given.with_row_index("row").update(again, on="row", include_nulls=True).drop("row")

    def _takes(
        self, schema: Mapping[str, Any], conversations: Sequence[tuple[Message, ...]], with_schema: Sampling, in_words: Sampling
    ) -> bool:
        """Whether the endpoint takes this schema: known from before, from the journal, or tried with the first conversation alone."""
        name = json.dumps(schema, sort_keys=True)
        if self._rejects_schemas or name in self._accepted:
            return not self._rejects_schemas
        if "ok" in self._held(conversations, with_schema)["status"]:
            self._accepted.add(name)
        elif "ok" in self._held(conversations, in_words)["status"]:
            self._rejects_schemas = True  # an earlier run found out
        else:
            self._try(name, conversations[0], with_schema)
        return not self._rejects_schemas

    def _try(self, name: str, conversation: tuple[Message, ...], with_schema: Sampling) -> None:
        before = len(self.tallies)
        try:
            first = self._ask([conversation], with_schema)
        except ProviderError:
            first = self._held([conversation], with_schema)
            if not _is_declined(first):
                raise
        if first["status"][0] == "ok":
            self._accepted.add(name)
        elif _is_declined(first):
            self._rejects_schemas = True
            del self.tallies[before:]  # it is asked again in words, so nothing is missing
            _log.warning("judge %s rejects JSON schemas (%s); it is asked for JSON in words", self.name, first["error"][0])

    def _ask(self, conversations: Sequence[tuple[Message, ...]], sampling: Sampling) -> DataFrame:
        if conversations and not self.interrupted:
            requests = (Request(messages) for messages in conversations)
            try:
                self.tallies.append(self._asker.ask(self.model, requests, sampling, len(conversations), f"judge {self.name}"))
            except ProviderError as error:
                raise ProviderError(f"judge {self.name}: {error}; answers given so far are kept for the next run") from error
        return self._held(conversations, sampling)

    def _held(self, conversations: Sequence[tuple[Message, ...]], sampling: Sampling) -> DataFrame:
        """What the journal holds, a row for each conversation."""
        key_of = Keys(self.model.fingerprint, sampling)
        found = self._asker.journal.fetch([key_of(messages, 0) for messages in conversations])
        return found.select("key", "status", col.text.alias("answer"), "error")


def _is_declined(first: DataFrame) -> bool:
    return first["status"][0] == "failed" and str(first["error"][0]).partition(":")[0] in _DECLINED


def _structured(sampling: Sampling, schema: Mapping[str, Any]) -> Sampling:
    wanted = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": dict(schema)}}
    return replace(sampling, extra={**sampling.extra, "response_format": wanted})


class RunTools:
    """The tools of one run or build, and what is missing from it.

    Attributes
    ----------
    problems
        What is missing, in sentences.
    may_find_more
        Whether a stage that noted a problem may find more when it is tried again.
    tracebacks
        Of unexpected errors in single parts.
    """

    def __init__(self, library: Library, judge: RunJudge | None = None, engine: Engine | None = None) -> None:
        self.judge = judge
        self._library, self._engine = library, engine or Engine()
        self.problems: list[str] = []
        self.may_find_more = False
        self.tracebacks: list[str] = []
        self._owner = ""
        self._encoders: dict[str, Encoder] = {}
        self._classifiers: dict[str, Classifier] = {}

    @contextmanager
    def isolated(self, whose: str, what: str, errors: list[TiltmeterError], place: str) -> Iterator[None]:
        """Work on one part of one model: `problem` is about these, and an error is one, too. An interruption is passed on.

        Parameters
        ----------
        whose
            Model and part, as a reader sees them.
        what
            What did not happen where it fails: "not measured".
        errors
            Where errors with a sentence of their own are collected.
        place
            The file in which tracebacks are kept.
        """
        self._owner = f"{whose}: "
        try:
            yield
        except NotRun as reason:
            self.problem(f"{what}: {reason}")
        except TiltmeterError as error:
            self.problem(f"{what}: {error}")
            errors.append(error)
        except (Exception, pl.exceptions.PanicException) as error:
            said = printable(redacted(str(error)), one_line=True)[:LONGEST]
            self.problem(
                f"{what}: {type(error).__name__}: {said} (traceback: {place}); correct the function or plugin it comes from, or report it,"
                " and run the same command again: the responses are kept"
            )
            self.tracebacks.append(f"{whose}: {what}\n{redacted(''.join(traceback.format_exception(error)))}")
        finally:
            self._owner = ""

    def encoder(self, name: str) -> Encoder:
        """See `tiltmeter.study.Tools`."""
        if name not in self._encoders:
            try:
                place = str(encoder_folder(self._library)) if name in ENCODERS else name
            except DataUnavailable as error:
                raise NotRun(f"{error.reason}; {error.remedy}") from error
            self._encoders[name] = self._engine.encoder(place, store=runs_root() / VECTORS)
        return self._encoders[name]

    def classifier(self, name: str) -> Classifier:
        """See `tiltmeter.study.Tools`."""
        if name not in self._classifiers:
            try:
                self._classifiers[name] = self._engine.classifier(name, store=runs_root() / VECTORS)
            except ProviderError as error:
                raise NotRun(str(error)) from error
        return self._classifiers[name]

    def problem(self, sentence: str, *, final: bool = False) -> None:
        """See `tiltmeter.study.Tools`."""
        self.problems.append(self._owner + sentence)
        self.may_find_more |= not final
