"""Progress of a `generate` call: the counts and their display (rich, plain, json or none).

The display is always on standard error.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from time import monotonic
from typing import Any, Final, NamedTuple

from tiltmeter._sanitising import printable
from tiltmeter.errors import InputError

NOTEBOOK: Final = "notebook"
"""A line below a cell that is updated in place; used by `tiltmeter.run` in notebooks."""
NOTEBOOK_INTERVAL: Final = 0.5
PLAIN_INTERVAL: Final = 5.0
JSON_INTERVAL: Final = 1.0
"""Seconds between two lines, by kind of display."""
_BAR = 20
_DETAILS = ("remaining", "cost", "failed", "paused", "rate", "errors", "held", "in_flight", "tokens")
"""Details shown after the bar and the count if they fit, in order of importance."""
_JSON_COUNTS = (
    "done",
    "held",
    "answered",
    "failed",
    "errors",
    "input_tokens",
    "output_tokens",
    "unmetered",
    "cost",
)
"""Counts of a `Tally` in a line of JSON."""
_LONGEST_TIME = "  99:59:59 to go"


@dataclass(slots=True)
class Tally:
    """Counts of one `generate` call, updated while it runs and final when it returns.

    After a complete run, `total == held + repeated + answered + failures`.
    """

    model: str
    total: int = 0
    """Requests read from the iterable."""
    held: int = 0
    """Requests found in the journal, and therefore not sent (including those answered by another process with
    the same journal)."""
    repeated: int = 0
    """Duplicates of requests in the same run that were in progress or had failed."""
    answered: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    """Requests given up, by the kind of their last error; each is a row with status "failed", which the next
    run retries."""
    permanent: Counter[str] = field(default_factory=Counter)
    """Those among `failed` that fail again if they are repeated: the request, the key or the quota has to be
    changed first."""
    permanent_example: str | None = None
    """The first error among `permanent`, in words."""
    errors: Counter[str] = field(default_factory=Counter)
    """Failed attempts by kind, retried or not."""
    input_tokens: int = 0
    output_tokens: int = 0
    unmetered: int = 0
    """Answers for which the endpoint reported no token counts; `cost` is then a lower bound."""
    cost: float | None = None
    """US dollars for the answers of this run; None if the price of the model is not known."""
    charged: float = 0.0
    """US dollars that count against the limit of costs, 0 without one; counts that the endpoint did not
    report are estimated."""
    seconds: float = 0.0
    stopped: str | None = None
    """The reason why the run ended early, as one sentence; None if it did not."""
    interrupted: bool = False
    """Whether a signal ended the run."""
    postponed: bool = False
    """Whether the run ended because the endpoint only reported overload, to be continued after others (see
    `patience` of `generate`)."""

    over_cost: bool = False
    """Whether the run ended because its cost reached the limit (see `budget` of `generate`)."""

    @property
    def failures(self) -> int:
        """Requests given up, of all kinds."""
        return self.failed.total()

    @property
    def done(self) -> int:
        """Requests that are finished in this run."""
        return self.held + self.repeated + self.answered + self.failures

    @property
    def complete(self) -> bool:
        """Whether every request has an answer in the journal."""
        is_cut_short = self.interrupted or self.postponed or self.over_cost
        return self.stopped is None and not is_cut_short and not self.failed

    @property
    def only_permanent(self) -> bool:
        """Whether requests failed, and all of them would fail again if they were repeated."""
        return bool(self.failed) and self.permanent == self.failed

    def after(self, earlier: Tally) -> Tally:
        """Return the counts of a postponed call and of this one, which continued it."""
        names = ("answered", "input_tokens", "output_tokens", "unmetered", "seconds", "errors")
        sums = {name: getattr(earlier, name) + getattr(self, name) for name in names}
        cost = None if self.cost is None or earlier.cost is None else earlier.cost + self.cost
        # The answers of the earlier call are in the journal, except for those with another limit of tokens.
        looked_up = min(self.held, earlier.answered)
        requested_again = earlier.answered - looked_up
        return replace(
            self, **sums, cost=cost, held=self.held - looked_up, total=self.total + requested_again
        )


class Snapshot(NamedTuple):
    """The current counts and state, for a display."""

    tally: Tally
    in_flight: int
    width: int
    """Requests that may be in flight now (the adaptive limit)."""
    rate: float
    """Requests finished (answered or given up) per second, over about the last ten seconds."""
    paused: float
    """Remaining seconds of a pause that the endpoint requested; 0 if there is none."""


class Display(AbstractContextManager["Display"]):
    """A context manager that shows the progress of one `generate` call.

    `update` is called from the event loop several times per second and once after the end. It must return
    quickly and must not keep a reference to the snapshot, whose tally continues to change.
    """

    def update(self, snapshot: Snapshot) -> None:
        """Show the current state; this display shows nothing."""

    def note(self, sentence: str) -> None:
        """Show a sentence at once; this display shows nothing."""

    def close(self) -> None:
        """Show the final state and release the terminal."""

    def __exit__(self, *exception: object) -> None:
        self.close()


def in_notebook() -> bool:
    """Return whether this process is a notebook kernel (not IPython in a terminal)."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return getattr(shell, "kernel", None) is not None


def open_display(kind: str | None, total: int, label: str) -> Display:
    """Return a display of this kind (None: rich on a terminal, plain elsewhere).

    Parameters
    ----------
    total
        Expected number of requests.
    label
        Description of the work, shown first.

    Raises
    ------
    InputError
        There is no such kind.
    """
    label = printable(label, one_line=True)
    if kind in (None, "rich"):
        kind = "rich" if sys.stderr.isatty() else "plain"
    line = partial(_plain_line, label, total)
    write = partial(print, file=sys.stderr, flush=True)
    match kind:
        case "rich":
            return _RichDisplay(total, label)
        case "plain":
            return _PlainDisplay(line, write, PLAIN_INTERVAL)
        case "json":
            return _LineDisplay(partial(_json_line, label, total), write, JSON_INTERVAL)
        case "notebook":
            return _LineDisplay(line, _notebook_line(label), NOTEBOOK_INTERVAL)
        case "none":
            return Display()
    raise InputError(f"--display {kind!r} is not known: use one of rich, plain, json, none")


class _LineDisplay(Display):
    """A display that prints a line after each interval, and the last one at the end."""

    def __init__(self, line: Callable[[Snapshot], str], show: Callable[[str], None], interval: float) -> None:
        self._line = line
        self._show = show
        self._interval = interval
        self._next = monotonic() + interval
        self._latest = ""

    def update(self, snapshot: Snapshot) -> None:
        self._latest = self._line(snapshot)
        if monotonic() >= self._next:
            self._next = monotonic() + self._interval
            self.close()

    def close(self) -> None:
        if self._latest:
            self._show(self._latest)
        self._latest = ""


class _PlainDisplay(_LineDisplay):
    def note(self, sentence: str) -> None:
        self._show(sentence)


def _notebook_line(label: str) -> Callable[[str], None]:
    """Show a line below the current cell, and return a function that replaces it, from any thread."""
    ipython: Any = import_module("IPython.display")
    handle: Any = ipython.display(ipython.Pretty(f"{label}: starting"), display_id=True)
    return lambda line: None if handle is None else handle.update(ipython.Pretty(line))


class _RichDisplay(Display):
    """A progress bar with the count and the details that fit; a long label is printed above it."""

    def __init__(self, total: int, label: str) -> None:
        from rich.cells import cell_len
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._total = total
        console = Console(stderr=True, emoji=False)
        count = len(_progress_count(total, total)) + len(_LONGEST_TIME)
        self._room = console.width - _BAR - 2
        beside = cell_len(label) + 1
        columns = [BarColumn(bar_width=_BAR), TextColumn("{task.fields[details]}", markup=False)]
        if beside + count <= self._room:
            columns.insert(0, TextColumn("{task.description}", markup=False))
            self._room -= beside
        else:
            console.print(label, markup=False, highlight=False, soft_wrap=True)
        self._progress = Progress(*columns, console=console, refresh_per_second=4)
        self._task = self._progress.add_task(label, total=total, details=_progress_count(0, total))
        self._progress.start()

    def update(self, snapshot: Snapshot) -> None:
        parts = _progress_parts(snapshot, self._total)
        details = _progress_count(snapshot.tally.done, self._total)
        for name in _DETAILS:
            if name in parts and len(details) + 2 + len(parts[name]) <= self._room:
                details += f"  {parts[name]}"
        self._progress.update(self._task, completed=snapshot.tally.done, details=details)

    def note(self, sentence: str) -> None:
        self._progress.console.print(sentence, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        self._progress.stop()


def _plain_line(label: str, total: int, snapshot: Snapshot) -> str:
    """Return the progress as text."""
    count = _progress_count(snapshot.tally.done, total)
    details = _progress_parts(snapshot, total).values()
    return ", ".join([f"{label}: {count} done", *details])


def _json_line(label: str, total: int, snapshot: Snapshot) -> str:
    """Return the progress as a JSON object."""
    tally = snapshot.tally
    values: dict[str, Any] = {"label": label, "model": tally.model, "total": total}
    for name in _JSON_COUNTS:
        values[name] = getattr(tally, name)
    values["rate"] = None if math.isnan(snapshot.rate) else round(snapshot.rate, 3)
    values["eta"] = _seconds_remaining(snapshot, total)
    values["in_flight"] = snapshot.in_flight
    values["limit"] = snapshot.width
    values["paused"] = round(snapshot.paused, 3)
    return json.dumps(values, allow_nan=False)


def _progress_count(done: int, total: int) -> str:
    return f"{done:,}/{total:,}"


def _seconds_remaining(snapshot: Snapshot, total: int) -> float | None:
    """Return the remaining seconds at the current rate, or None if they cannot be estimated."""
    if not snapshot.rate > 0:
        return None
    requests = max(0, total - snapshot.tally.done)
    return round(requests / snapshot.rate, 1)


def _progress_parts(snapshot: Snapshot, total: int) -> dict[str, str]:
    """Return the details to show after the count, by name."""
    tally = snapshot.tally
    parts = {}
    if tally.held:
        parts["held"] = f"{tally.held:,} from the journal"
    if not math.isnan(snapshot.rate):
        parts["rate"] = f"{snapshot.rate:,.1f}/s"
    seconds = _seconds_remaining(snapshot, total)
    if seconds:
        parts["remaining"] = f"{_clock(seconds)} to go"
    if snapshot.in_flight:
        parts["in_flight"] = f"{snapshot.in_flight} of {snapshot.width} in flight"
    if snapshot.paused:
        parts["paused"] = f"paused {snapshot.paused:.0f} s"
    if tally.input_tokens or tally.output_tokens:
        parts["tokens"] = f"{tally.input_tokens:,} tokens in, {tally.output_tokens:,} out"
    if tally.cost:
        at_least = "at least " if tally.unmetered else ""
        parts["cost"] = f"{at_least}${tally.cost:,.4f}"
    if tally.failed:
        parts["failed"] = f"failed ({_by_kind(tally.failed)})"
    if tally.errors:
        parts["errors"] = f"errors ({_by_kind(tally.errors)})"
    return parts


def _by_kind(counts: Counter[str]) -> str:
    """Return counts with their kinds, the most frequent first."""
    return ", ".join(f"{kind} {count:,}" for kind, count in counts.most_common())


def _clock(seconds: float) -> str:
    minutes, seconds_of_minute = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{seconds_of_minute:02}"
    return f"{minutes}:{seconds_of_minute:02}"
