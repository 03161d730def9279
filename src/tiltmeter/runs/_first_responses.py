"""The first responses of a model to each part, examined before the other responses are paid for.

After FIRST responses to a part, spread over its prompts, the part is stopped if nearly none of them can be
used: requests fail, the model is cut off before it answers, or its responses are empty or cannot be read.
Refusals are results and never stop a part. If the model was cut off while it was thinking, and the limit of
tokens is that of the method, the limit is raised once, and the first responses are requested again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from zlib import crc32

import numpy as np
import polars as pl
from polars import DataFrame, Int16, Int64, Series, String, UInt32, col
from pydantic import TypeAdapter, ValidationError

from tiltmeter._files.paths import is_file
from tiltmeter.engine import Keys, Prices, Request, Tally
from tiltmeter.errors import ProviderError
from tiltmeter.models import Model, Sampling
from tiltmeter.models._thinking_models import with_room_to_think
from tiltmeter.runs import _attempts as of_study
from tiltmeter.runs._asking import Asker
from tiltmeter.runs._faults import FAILED, THINKING, Fault, fault_of, reasons, sentences
from tiltmeter.runs._folder import ACCEPTED, RunFolder
from tiltmeter.runs._resolving import Resolved
from tiltmeter.study import Part

FIRST = 20
"""Number of responses to a part after which it can be stopped; a part that needs no more is not examined."""
FEWEST = 10
"""Number of first responses without which nothing is concluded (the others are still being repeated)."""
PATIENCE = 60.0
"""Seconds without an answer after which first responses of an overloaded endpoint are left for later.

Most rate limits are shorter.
"""
CUT_SHORT = 0.1
"""Share of first responses that were cut off while thinking, from which on the limit of tokens is raised."""

_REJECTIONS = ("bad_request", "context_length")
"""Kinds of failures that may be the rejection of a limit of tokens."""
_ATTEMPTS = {"row": UInt32, "repetition": Int16, "part": String}
"""Columns of `first_attempts`."""
_ACCEPTED = TypeAdapter(dict[str, list[str]])
"""Content of the file ACCEPTED."""
_SUMMED = (
    "total",
    "held",
    "repeated",
    "answered",
    "failed",
    "permanent",
    "errors",
    "input_tokens",
    "output_tokens",
    "unmetered",
    "seconds",
)
"""Counts of a tally that are added up."""


@dataclass(frozen=True, slots=True)
class Requested:
    """What became of the requests to one model.

    Attributes
    ----------
    tally
        Counts of all requests.
    sampling
        The sampling of the responses; its limit of tokens may have been raised.
    stopped, accepted
        Faults of the parts that were stopped, and of those that a person wanted to go on.
    failed_in_stopped
        Failed requests of the parts that were stopped, by the kind of their error.
    """

    tally: Tally
    sampling: Sampling
    stopped: Sequence[Fault] = ()
    accepted: Sequence[Fault] = ()
    failed_in_stopped: Counter[str] = field(default_factory=Counter)

    @property
    def tally_of_others(self) -> Tally:
        """The counts without the failures of the parts that were stopped."""
        return replace(
            self.tally,
            failed=self.tally.failed - self.failed_in_stopped,
            permanent=self.tally.permanent - self.failed_in_stopped,
        )


# -- which responses are the first -------------------------------------------------------------------------


def first_attempts(folder: RunFolder, seed: int) -> DataFrame:
    """Return the first attempts of each part that needs more than FIRST.

    One is drawn from each of FIRST equal sections of its design.

    Returns
    -------
    DataFrame
        `row` (number of the prompt in the design), `repetition`, `part`.
    """
    design = folder.scan("design").select("part", col.repetitions.cast(Int64)).with_row_index("row").collect()
    drawn = [_drawn(str(part), rows, seed) for (part,), rows in design.group_by("part", maintain_order=True)]
    return pl.concat([DataFrame(schema=_ATTEMPTS), *drawn])


def _drawn(part: str, rows: DataFrame, seed: int) -> DataFrame:
    """Return the first attempts of one part, whose prompts are `rows`."""
    ends = rows["repetitions"].cum_sum()
    attempts = int(ends[-1])
    if attempts <= FIRST:
        return DataFrame(schema=_ATTEMPTS)
    edges = np.linspace(0, attempts, FIRST + 1)
    drawn = np.random.default_rng([seed, crc32(part.encode())]).uniform(edges[:-1], edges[1:])
    positions = np.unique(drawn.astype(np.int64))
    prompts = ends.search_sorted(Series(positions), side="right")
    chosen = rows[prompts]
    begins = ends.gather(prompts) - chosen["repetitions"]
    repetitions = Series(positions) - begins
    columns = {"row": chosen["row"], "repetition": repetitions, "part": chosen["part"]}
    return DataFrame(columns, schema=_ATTEMPTS)


# -- requests ----------------------------------------------------------------------------------------------


class FirstResponses:
    """The first responses of one model to the parts of a study.

    Parameters
    ----------
    parts
        The parts that can be run.
    """

    def __init__(
        self, folder: RunFolder, resolved: Resolved, parts: Sequence[Part], asker: Asker, model: Model
    ) -> None:
        self._folder = folder
        self._resolved = resolved
        self._parts = parts
        self._asker = asker
        self._model = model
        attempts = of_study.attempts_at(folder, model, first_attempts(folder, resolved.settings.seed))
        # One request of each part in turn: if one part is rejected, others are answered before the engine
        # gives the model up.
        self._attempts = attempts.sort(pl.int_range(pl.len()).over("part"), maintain_order=True)
        sizes = folder.scan("design").group_by("part").agg(col.repetitions.cast(Int64).sum()).collect()
        self._wanted: dict[str, int] = dict(sizes.iter_rows())

    @property
    def are_examined(self) -> bool:
        """Whether any part is large enough to be examined."""
        return self._attempts.height > 0

    def request(self, sampling: Sampling, patience: float | None = None) -> Tally:
        """Request the first responses that are not in the journal.

        Requests that have to be repeated for long are left for later.

        Parameters
        ----------
        patience
            Seconds without an answer after which the whole model is to be left (`Tally.postponed`), because
            others wait; None: the requests that are left after PATIENCE are sent with the others.
        """
        if (self._responses(sampling)["status"] == "ok").all():
            return Tally(self._model.name)
        requests = of_study.requests_of(self._attempts)
        label = f"{self._model.name}: first responses"
        tally = self._asker.ask(
            self._model, requests, sampling, len(requests), label, patience=patience or PATIENCE
        )
        tally.postponed &= patience is not None
        if tally.done < tally.total:
            tally.failed.clear()
            tally.permanent.clear()
        return tally

    def rest(self, sampling: Sampling, stopped: Collection[str], tally: Tally) -> Iterator[Request]:
        """Yield the requests that remain after the first ones.

        These are the requests of parts that go on, and the answered first ones of the others, which cost
        nothing.

        Parameters
        ----------
        stopped
            Parts that do not go on.
        tally
            The counts of the first requests. If all were finished, those that failed are not repeated.
        """
        status = self._responses(sampling)["status"]
        answered = self._attempts.filter((status == "ok") & self._attempts["part"].is_in(list(stopped)))
        yield from of_study.requests_of(answered)
        failed: set[Request] = set()
        if tally.done == tally.total:
            failed.update(of_study.requests_of(self._attempts.filter(status == "failed")))
        for request in of_study.requests(self._folder, self._model, stopped):
            if request not in failed:
                yield request

    def count_rest(self, stopped: Collection[str]) -> int:
        """Return the number of requests that `rest` yields if none has failed."""
        of_stopped = self._attempts.filter(col.part.is_in(list(stopped))).height
        return of_stopped + sum(count for part, count in self._wanted.items() if part not in stopped)

    def failures(self, sampling: Sampling, parts: Collection[str]) -> Counter[str]:
        """Return the number of failed first requests of some parts, by the kind of their error."""
        of_parts = self._responses(sampling).filter(self._attempts["part"].is_in(list(parts)))
        return Counter(of_parts["error"].drop_nulls().str.extract("^([^:]*)").to_list())

    def rejects(self, sampling: Sampling) -> bool:
        """Return whether most of the failed first requests were rejected, perhaps for their limit of tokens.

        A server that is down or overloaded, a wrong key and an account without credit say nothing about the
        requests.
        """
        failed = self.failures(sampling, list(self._wanted))
        return 2 * sum(failed[kind] for kind in _REJECTIONS) > failed.total()

    def is_all(self, stopped: Collection[str]) -> bool:
        """Return whether these are all parts of the design."""
        return set(stopped) == set(self._wanted)

    def examine(self, sampling: Sampling) -> tuple[list[Fault], bool]:
        """Return the faults of parts that need further responses.

        The second value says whether the model was cut off while it was thinking.
        """
        faults: list[Fault] = []
        short_of_tokens = False
        params, limit = self._resolved.study.params, sampling.max_tokens
        first = self._responses(sampling)
        for part in self._parts:
            is_of_part = self._attempts["part"] == part.name
            responses = first.filter(is_of_part & (first["status"] != "missing"))
            kinds = self._kinds(part, responses) if responses.height >= FEWEST else None
            if kinds is None:
                continue
            fault = fault_of(responses, kinds, part.name, self._wanted[part.name], limit, params)
            is_cut = int((kinds == THINKING).sum()) >= CUT_SHORT * responses.height
            if (fault is not None or is_cut) and self._lacks_responses(part.name, sampling):
                if fault is not None:
                    faults.append(fault)
                short_of_tokens |= is_cut
        return faults, short_of_tokens

    def _responses(self, sampling: Sampling) -> DataFrame:
        """Return the first responses in the journal (columns RESPONSES), one row per first attempt."""
        key_of = Keys(self._model.fingerprint, sampling)
        return of_study.responses_of(self._attempts, self._model.name, key_of, self._asker.journal)

    def _kinds(self, part: Part, responses: DataFrame) -> Series | None:
        """Return why each response cannot be used.

        None if the part cannot read them, which its stage "measures" reports.
        """
        answers = of_study.with_factors(self._folder, part.name, responses.lazy())
        try:
            outcomes = part.early_outcomes(answers, self._resolved.settings.of_part(part.name))
        except (Exception, pl.exceptions.PanicException):  # the part may be a plugin
            return None
        return reasons(responses, outcomes) if outcomes.len() == responses.height else None

    def _lacks_responses(self, part: str, sampling: Sampling) -> bool:
        """Return whether a part has requests without a response in the journal."""
        key_of = Keys(self._model.fingerprint, sampling)
        other_parts = [name for name in self._wanted if name != part]
        requests = of_study.requests(self._folder, self._model, other_parts)
        keys = {key_of(request.messages, request.sample) for request in requests}
        return len(self._asker.journal.held(list(keys))) < len(keys)


def request_all(
    folder: RunFolder,
    resolved: Resolved,
    parts: Sequence[Part],
    asker: Asker,
    model: Model,
    sampling: Sampling,
    *,
    may_raise: bool,
    note: Callable[[str], None],
    patience: float | None = None,
) -> Requested:
    """Request all responses of a model that are not in the journal, the first ones of each part first.

    Parameters
    ----------
    parts
        The parts that can be run.
    may_raise
        Whether the limit of tokens may be raised for a model that is cut off while it is thinking.
    note
        Shows a sentence.
    patience
        Seconds without an answer after which an overloaded endpoint is left, to be asked again later; see
        `Engine.generate`.

    Raises
    ------
    ProviderError
        The model gave no response, and none can be expected.
    InputError
        The journal or the folder cannot be written.
    """
    first = FirstResponses(folder, resolved, parts, asker, model)
    if getattr(model, "recorded", False) or not first.are_examined:
        requests, count = of_study.requests(folder, model), of_study.count_attempts(folder)
        return Requested(asker.ask(model, requests, sampling, count, model.name, patience), sampling)
    tally = first.request(sampling, patience)
    if tally.postponed:
        return Requested(tally, sampling)
    faults, short_of_tokens = first.examine(sampling)
    spent = Tally(model.name)  # of the first requests with a limit of tokens that is not used
    if short_of_tokens and may_raise and is_finished(tally):
        raised = with_room_to_think(sampling)
        note(_raised_words(model.name, sampling, raised, first.count_rest(()), asker.prices))
        later, later_faults = _with_room(first, raised, model.name, patience)
        if later.postponed:
            return Requested(_sum(tally, later), sampling)
        if _has_new_failures(later, faults, later_faults) and first.rejects(raised):
            note(
                f"{model.name} does not accept {raised.max_tokens:,} tokens per response:"
                f" the limit stays at {sampling.max_tokens:,}"
            )
            spent = later
        else:
            spent = tally
            tally = later
            sampling = raised
            faults = later_faults
        spent.total -= spent.failures  # a failure with another limit is none of this run
        spent.failed.clear()
        spent.permanent.clear()
    if not is_finished(tally):
        return Requested(_sum(spent, tally), sampling)
    accepted, stopped, interrupted = _decided(model.name, faults, folder, asker, note)
    names = [fault.part for fault in stopped]
    if interrupted:
        tally.interrupted = True
    elif not first.is_all(names):
        requests, count = first.rest(sampling, names, tally), first.count_rest(names)
        later = asker.ask(model, requests, sampling, count, model.name, patience)
        tally = _with_first(later, tally)
    return Requested(_sum(spent, tally), sampling, stopped, accepted, first.failures(sampling, names))


def _has_new_failures(later: Tally, faults: Sequence[Fault], later_faults: Sequence[Fault]) -> bool:
    """Return whether other parts fail with a raised limit of tokens, or the model as a whole."""
    parts = [fault.part for fault in faults]
    has_failed_part = any(fault.kind == FAILED and fault.part not in parts for fault in later_faults)
    return has_failed_part or later.stopped is not None


def _with_room(
    first: FirstResponses, raised: Sampling, model: str, patience: float | None
) -> tuple[Tally, list[Fault]]:
    """Request the first responses with a raised limit of tokens.

    Return the counts and the faults that are left.

    If none of them is answered and none can be expected to be, the counts have the reason in `stopped`.
    """
    try:
        tally = first.request(raised, patience)
    except ProviderError as error:
        return Tally(model, stopped=str(error)), []
    return tally, first.examine(raised)[0]


def is_finished(tally: Tally) -> bool:
    """Return whether requests were not interrupted, given up for the whole model, or ended by their cost."""
    return not (tally.interrupted or tally.over_cost) and tally.stopped is None


def _with_first(later: Tally, first: Tally) -> Tally:
    """Return the counts of a model from those of its first and its later requests.

    The later requests found the first ones in the journal.
    """
    counts = _sum(first, later)
    counts.total = later.total + first.failures
    counts.held = later.held - first.answered
    counts.repeated = later.repeated
    return counts


def _sum(first: Tally, second: Tally) -> Tally:
    """Return the sums of two tallies; how a run ended is that of the second."""
    sums = {name: getattr(first, name) + getattr(second, name) for name in _SUMMED}
    summed = Tally(second.model, **sums)
    costs = [tally.cost for tally in (first, second) if tally.cost is not None]
    summed.cost = sum(costs) if costs else None
    summed.stopped = second.stopped
    summed.interrupted = second.interrupted
    summed.postponed = second.postponed
    summed.over_cost = second.over_cost
    summed.permanent_example = second.permanent_example or first.permanent_example
    return summed


def _decided(
    model: str, faults: Sequence[Fault], folder: RunFolder, asker: Asker, note: Callable[[str], None]
) -> tuple[list[Fault], list[Fault], bool]:
    """Return the accepted faults, those for which the part is stopped, and whether the run is interrupted.

    A person accepts faults now, or did so when the run was begun. Ctrl-C at the question interrupts the run.
    """
    earlier = _accepted_before(folder)
    of_model = earlier.get(model, [])
    accepted = [fault for fault in faults if fault.part in of_model]
    new = [fault for fault in faults if fault.part not in of_model]
    if not new:
        return accepted, [], False
    try:
        if not asker.accepts("\n".join(f"{model}: {sentence}" for sentence in sentences(new))):
            return accepted, new, False
    except KeyboardInterrupt:
        return accepted, new, True
    document = earlier | {model: [*of_model, *(fault.part for fault in new)]}
    folder.write_text(ACCEPTED, json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    for sentence in sentences(new):
        note(f"{model}: all responses are requested, as accepted, although {sentence}")
    return [*accepted, *new], [], False


def _accepted_before(folder: RunFolder) -> dict[str, list[str]]:
    """Return the parts that a person accepted when the run was begun, by model.

    Empty if there is no such file or it is not valid.
    """
    path = folder.path / ACCEPTED
    if not is_file(path):
        return {}
    try:
        return _ACCEPTED.validate_json(path.read_bytes())
    except (ValidationError, OSError):
        return {}


def _raised_words(model: str, sampling: Sampling, raised: Sampling, requests: int, prices: Prices) -> str:
    """Return a sentence about the raised limit of tokens and what it can cost."""
    before, after = sampling.max_tokens or 0, raised.max_tokens or 0
    dollars = prices.cost(model, 0, requests * (after - before))
    cost = f", at most ${dollars:,.2f} more for {requests:,} responses" if dollars else ""
    return (
        f"{model} thinks before it answers, and {before:,} tokens were not enough for both: the limit is"
        f" raised to {after:,} tokens per response{cost} (--max-tokens sets another limit)"
    )
