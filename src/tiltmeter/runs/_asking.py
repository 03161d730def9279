"""Requests to models, the judge, and the other tools of a stage.

Models are asked through an engine, with a journal, limits, prices and a progress display.
"""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl
from polars import DataFrame, String, col

from tiltmeter._sanitising import printable, redacted
from tiltmeter.datasets import Library
from tiltmeter.engine import Keys, Limits, Prices, Request, Tally, open_display
from tiltmeter.errors import InputError, ProviderError, TiltmeterError
from tiltmeter.models import Classifier, Encoder, Message, Model, Sampling
from tiltmeter.models._base import SERVED
from tiltmeter.runs._places import journal_of_runs, runs_root
from tiltmeter.runs._served import served_in
from tiltmeter.study import NotRun, find_encoder

if TYPE_CHECKING:
    from tiltmeter.engine import Engine, Journal

_DECLINED = ("bad_request", "not_found", "server", "bad_response")
"""Kinds of failures that may be the rejection of a JSON schema; routers report that no endpoint was found,
some servers fail."""

LONGEST = 300
"""Maximum number of characters quoted from the message of an unexpected error."""
VECTORS = "vectors.sqlite"
"""File for vectors and scores, in the same folder as the default journal."""
_log = logging.getLogger("tiltmeter.judge")


@dataclass(frozen=True, slots=True)
class Asking:
    """The user's settings for requests to models.

    Attributes
    ----------
    limits
        Limits on concurrency, rates and retries; None: the defaults.
    journal
        Response cache (a path or a database URL); None: the cache shared by all runs.
    display
        The kind of progress display.
    engine, engine_options
        The engine and its `-E key=value` options; see `tiltmeter.engine.open_engine`.
    accepts
        Whether to request the other responses to a part although its first ones show a fault (see
        `tiltmeter.runs._first_responses`), or its responses are expensive; or a function that answers such a
        question about a sentence.
    max_cost
        US dollars for responses from which on no further request is sent; None: no limit.
    """

    limits: Limits | None = None
    journal: str | None = None
    display: str | None = "none"
    engine: str | None = None
    engine_options: Mapping[str, str] | None = None
    accepts: bool | Callable[[str], bool] = False
    max_cost: float | None = None

    @contextmanager
    def open(self) -> Iterator[Asker]:
        """Open an `Asker` with these settings within the block."""
        from tiltmeter.engine import open_engine

        with ExitStack() as stack:
            yield Asker(self, stack.enter_context(open_engine(self.engine, self.engine_options)), stack)

    def check_prices(self, models: Sequence[str]) -> None:
        """Raise InputError if the cost is limited and the price of a model is not known."""
        if self.max_cost is None:
            return
        prices = Prices.load()
        for model in models:
            if prices.price(model) is None:
                raise InputError(
                    f"--max-cost needs the price of {model}, which is not known: write a file with the lines"
                    f" 'models:' and '  {model}: {{input: DOLLARS, output: DOLLARS}}' (per million tokens),"
                    " and name it in the environment variable TILTMETER_PRICES"
                )


class Asker:
    """Sends requests to models through an engine and stores the answers in the journal.

    The journal is opened on first use.
    """

    def __init__(self, asking: Asking, engine: Engine, stack: ExitStack) -> None:
        self.engine = engine
        self._asking, self._stack = asking, stack
        self.spent = 0.0
        """US dollars for the responses requested so far; 0 without a limit of costs."""

    @property
    def display(self) -> str | None:
        """The kind of progress display."""
        return self._asking.display

    @property
    def max_cost(self) -> float | None:
        """US dollars from which on no further request is sent."""
        return self._asking.max_cost

    @property
    def cost_words(self) -> str:
        """The cost so far and its limit, for the sentence about requests that were not sent."""
        limit = self.max_cost or 0.0
        digits = 2 if limit >= 0.1 else 6
        return f"the cost reached the limit (${self.spent:,.{digits}f} of ${limit:,.{digits}f}, --max-cost)"

    @property
    def can_ask(self) -> bool:
        """Whether a function answers questions about sentences (see `accepts`)."""
        return callable(self._asking.accepts)

    def accepts(self, sentence: str) -> bool:
        """Return whether to go on although the first responses show the fault in this sentence."""
        answer = self._asking.accepts
        return answer(sentence) if callable(answer) else answer

    @cached_property
    def journal(self) -> Journal:
        """The response cache."""
        from tiltmeter.engine import open_journal  # loads SQLAlchemy

        return self._stack.enter_context(open_journal(journal_of_runs(self._asking.journal)))

    @cached_property
    def prices(self) -> Prices:
        """The prices of models."""
        return Prices.load()

    def ask(
        self,
        model: Model,
        requests: Iterable[Request],
        sampling: Sampling,
        count: int,
        label: str,
        patience: float | None = None,
    ) -> Tally:
        """Send requests to a model, show the progress, and return the counts and costs.

        Parameters
        ----------
        count
            Number of requests.
        label
            Label of the progress display.
        patience
            Seconds without an answer after which an overloaded endpoint is left, to be asked again later; see
            `Engine.generate`.
        """
        limits = self._asking.limits or Limits()
        budget = None if self.max_cost is None else self.max_cost - self.spent
        with open_display(self._asking.display, count, label) as progress:
            tally = self.engine.generate(
                model,
                requests,
                sampling,
                journal=self.journal,
                limits=limits,
                progress=progress,
                prices=self.prices,
                patience=patience,
                budget=budget,
            )
        self.spent += tally.charged
        if tally.done >= count:
            tally.over_cost = False  # the last of the responses reached the limit
        return tally


class RunJudge:
    """A judge whose answers are cached in the journal of the run: repeated questions cost nothing.

    Parameters
    ----------
    sampling
        Default sampling, which a stage may override.
    """

    def __init__(self, model: Model, sampling: Sampling, asker: Asker) -> None:
        self.model = model
        self.sampling = sampling
        self._asker = asker
        self.tallies: list[Tally] = []
        self._accepted: set[str] = set()
        """Schemas that the endpoint has accepted, as JSON."""
        self._rejects_schemas = False
        self._served: dict[str, list[str | None]] = {}
        """What the endpoint said about who answered, by the key of the request."""

    @property
    def served(self) -> list[dict[str, Any]]:
        """What the endpoint said it served; see `served_in`."""
        rows = list(self._served.values())
        return served_in(DataFrame(rows, schema=dict.fromkeys(SERVED, String), orient="row").lazy())

    @property
    def name(self) -> str:
        """The name of the judge, `provider/model`."""
        return self.model.name

    @property
    def interrupted(self) -> bool:
        """Whether the judge was stopped; from then on, only cached answers are returned."""
        return any(tally.interrupted or tally.stopped or tally.over_cost for tally in self.tallies)

    @property
    def is_done(self) -> bool:
        """Whether every question so far was answered."""
        return not (self.interrupted or any(tally.failures for tally in self.tallies))

    def ask(
        self,
        conversations: Sequence[tuple[Message, ...]],
        *,
        schema: Mapping[str, Any] | None = None,
        sampling: Mapping[str, Any] | None = None,
    ) -> DataFrame:
        """See `tiltmeter.study.Judge`."""
        in_words = replace(self.sampling, **(sampling or {}))
        if schema is None or not conversations or not getattr(self.model, "structured", False):
            return self._ask(conversations, in_words)
        with_schema = _structured(in_words, schema)
        if not self._takes(schema, conversations, with_schema, in_words):
            return self._ask(conversations, in_words)
        answers = self._ask(conversations, with_schema)
        is_declined = answers["error"].str.starts_with("bad_request:").fill_null(False)
        if not is_declined.any():
            return answers
        # The endpoint accepts schemas, but not for these conversations.
        if not self.interrupted:
            self.tallies[-1].failed.pop("bad_request", None)
        declined = is_declined.arg_true()
        repeated = self._ask([conversations[i] for i in declined], in_words).with_columns(row=declined)
        return answers.with_row_index("row").update(repeated, on="row", include_nulls=True).drop("row")

    def _takes(
        self,
        schema: Mapping[str, Any],
        conversations: Sequence[tuple[Message, ...]],
        with_schema: Sampling,
        in_words: Sampling,
    ) -> bool:
        """Return whether the endpoint accepts this schema.

        It is known, or found in the journal, or tried with the first conversation only.
        """
        name = json.dumps(schema, sort_keys=True)
        if self._rejects_schemas or name in self._accepted:
            return not self._rejects_schemas
        if "ok" in self._cached(conversations, with_schema)["status"]:
            self._accepted.add(name)
        elif "ok" in self._cached(conversations, in_words)["status"]:
            self._rejects_schemas = True  # found in an earlier run
        else:
            self._try(name, conversations[0], with_schema)
        return not self._rejects_schemas

    def _try(self, name: str, conversation: tuple[Message, ...], with_schema: Sampling) -> None:
        """Ask one question with the schema of this name, and note whether the endpoint accepts it."""
        tallies_before = len(self.tallies)
        try:
            first = self._ask([conversation], with_schema)
        except ProviderError:
            first = self._cached([conversation], with_schema)
            if not _is_declined(first):
                raise
        if first["status"][0] == "ok":
            self._accepted.add(name)
        elif _is_declined(first):
            self._rejects_schemas = True
            # The question is repeated without a schema, so nothing is missing.
            del self.tallies[tallies_before:]
            reason = first["error"][0]
            _log.warning(
                "judge %s rejects JSON schemas (%s); the prompt alone asks for JSON", self.name, reason
            )

    def _ask(self, conversations: Sequence[tuple[Message, ...]], sampling: Sampling) -> DataFrame:
        """Ask questions, unless the judge was stopped, and return the answers in the journal."""
        if conversations and not self.interrupted:
            requests = (Request(messages) for messages in conversations)
            label = f"judge {self.name}"
            try:
                tally = self._asker.ask(self.model, requests, sampling, len(conversations), label)
                self.tallies.append(tally)
            except ProviderError as error:
                raise ProviderError(
                    f"judge {self.name}: {error}; answers received so far are kept for the next run"
                ) from error
        return self._cached(conversations, sampling)

    def _cached(self, conversations: Sequence[tuple[Message, ...]], sampling: Sampling) -> DataFrame:
        """Return the rows of the journal, one for each conversation."""
        key_of = Keys(self.model.fingerprint, sampling)
        rows = self._asker.journal.fetch([key_of(messages, 0) for messages in conversations])
        for key, *served in rows.filter(status="ok").select("key", *SERVED).iter_rows():
            self._served[key] = served
        return rows.select("key", "status", col.text.alias("answer"), "error")


def _is_declined(answers: DataFrame) -> bool:
    """Return whether the endpoint rejected the first question as such."""
    kind = str(answers["error"][0]).partition(":")[0]
    return answers["status"][0] == "failed" and kind in _DECLINED


def _structured(sampling: Sampling, schema: Mapping[str, Any]) -> Sampling:
    """Return sampling that requires answers of this JSON schema."""
    json_schema = {"name": "answer", "strict": True, "schema": dict(schema)}
    response_format = {"type": "json_schema", "json_schema": json_schema}
    return replace(sampling, extra={**sampling.extra, "response_format": response_format})


class RunTools:
    """The tools of one run or build, and its problems.

    Attributes
    ----------
    problems
        What is missing, one sentence each.
    may_find_more
        Whether a stage with a problem may produce more when it is run again.
    tracebacks
        Tracebacks of unexpected errors in single parts.
    """

    def __init__(self, library: Library, judge: RunJudge | None = None, engine: Engine | None = None) -> None:
        from tiltmeter.engine import Engine

        self.judge = judge
        self._library, self._engine = library, engine or Engine()
        self.problems: list[str] = []
        self.may_find_more = False
        self.tracebacks: list[str] = []
        self._owner = ""
        self._encoders: dict[str, Encoder] = {}
        self._classifiers: dict[str, Classifier] = {}

    @contextmanager
    def isolated(
        self, label: str, consequence: str, errors: list[TiltmeterError], place: str
    ) -> Iterator[None]:
        """Run the block for one part of one model: its problems name them, and errors become problems.

        Interruptions propagate.

        Parameters
        ----------
        label
            Model and part, as shown to readers.
        consequence
            The consequence of an error, such as "not measured".
        errors
            List to which expected errors are appended.
        place
            The file that stores tracebacks.
        """
        self._owner = f"{label}: "
        try:
            yield
        except NotRun as reason:
            self.problem(f"{consequence}: {reason}")
        except TiltmeterError as error:
            self.problem(f"{consequence}: {error}")
            errors.append(error)
        except (Exception, pl.exceptions.PanicException) as error:
            message = printable(redacted(str(error)), one_line=True)[:LONGEST]
            self.problem(
                f"{consequence}: {type(error).__name__}: {message} (traceback: {place}); correct the"
                " function or plugin that raised it, or report the error, and run the same command again:"
                " the responses are kept"
            )
            lines = redacted("".join(traceback.format_exception(error)))
            self.tracebacks.append(f"{label}: {consequence}\n{lines}")
        finally:
            self._owner = ""

    def encoder(self, name: str) -> Encoder:
        """See `tiltmeter.study.Tools`."""
        if name not in self._encoders:
            encoder = find_encoder(name, self._library)
            self._encoders[name] = self._engine.encoder(encoder, store=runs_root() / VECTORS)
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
