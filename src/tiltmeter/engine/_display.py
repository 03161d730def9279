"""How a run shows its progress: rich, plain, json or not at all; always on standard error."""

from __future__ import annotations

import json
import math
import sys
from abc import ABC, abstractmethod
from collections import Counter
from contextlib import AbstractContextManager
from importlib import import_module
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TextIO

from tiltmeter._text import printable
from tiltmeter.errors import InputError

if TYPE_CHECKING:
    from rich.progress import TaskID

    from tiltmeter.engine._tally import Snapshot

__all__ = ["KINDS", "NOTEBOOK", "Display", "in_notebook", "open_display"]

KINDS: Final = ("rich", "plain", "json", "none")
NOTEBOOK: Final = "notebook"
"""One line that changes in place below a cell; for `tiltmeter.run`, since no command runs there."""
NOTEBOOK_INTERVAL: Final = 0.5
PLAIN_INTERVAL: Final = 5.0
JSON_INTERVAL: Final = 1.0
_BAR: Final = 20
_FIRST: Final = ("left", "cost", "failed", "paused", "rate", "errors", "held", "in_flight", "tokens")
"""What is shown beside the bar and the count, as far as it fits, the most important first."""
_LONGEST_TIME: Final = "  99:59:59 to go"


class Display(AbstractContextManager["Display"], ABC):
    """Shows the progress of one `generate` call; used as a context manager around it.

    `update` is called from the event loop several times a second and once after the end: it has to return quickly, and must
    keep no reference to the snapshot, whose tally goes on changing.
    """

    @abstractmethod
    def update(self, snapshot: Snapshot) -> None:
        """Show how things stand."""

    def close(self) -> None:
        """Show the final state and give the terminal back."""
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def in_notebook() -> bool:
    """Whether this is the kernel of a notebook (not IPython in a terminal)."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return shell is not None and getattr(shell, "kernel", None) is not None


def open_display(kind: str | None, total: int | None, label: str, stream: TextIO | None = None) -> Display:
    """A display of this kind (None: rich on a terminal, plain elsewhere).

    Parameters
    ----------
    total
        Requests there will be; None where it is not known beforehand (then there is no ETA).
    label
        What is being done, shown first.
    stream
        Where to, standard error by default.

    Raises
    ------
    InputError
        There is no such kind.
    """
    stream = stream or sys.stderr
    if kind is None:
        kind = "rich" if stream.isatty() else "plain"
    if kind == NOTEBOOK:
        return _Notebook(total, label)
    if kind not in KINDS:
        raise InputError(f"--display {kind!r} is not known: use one of {', '.join(KINDS)}")
    if kind == "rich" and not stream.isatty():
        kind = "plain"
    if kind == "rich":
        return _Rich(total, label, stream)
    if kind == "none":
        return _Nothing()
    return (_Json if kind == "json" else _Plain)(total, label, stream)


class _Nothing(Display):
    def update(self, snapshot: Snapshot) -> None:
        return


class _Lines(Display):
    """Displays that write a line now and then, and one at the end."""

    interval: float

    def __init__(self, total: int | None, label: str, stream: TextIO) -> None:
        self._total, self._label, self._stream = total, printable(label, one_line=True), stream
        self._next = 0.0
        self._latest = ""

    def update(self, snapshot: Snapshot) -> None:
        self._latest = self._line(snapshot)
        now = monotonic()
        if self._next == 0.0:
            self._next = now + self.interval
        elif now >= self._next:
            self._next = now + self.interval
            self.close()

    def close(self) -> None:
        if self._latest:
            print(self._latest, file=self._stream, flush=True)
        self._latest = ""

    @abstractmethod
    def _line(self, snapshot: Snapshot) -> str: ...


class _Plain(_Lines):
    interval = PLAIN_INTERVAL

    def _line(self, snapshot: Snapshot) -> str:
        return _plain_line(self._label, snapshot, self._total)


class _Notebook(Display):
    """A line of text that is replaced; `update` is called from another thread, where only a known place can be written to."""

    def __init__(self, total: int | None, label: str) -> None:
        self._total, self._label = total, printable(label, one_line=True)
        self._next, self._latest = 0.0, ""
        self._ipython: Any = import_module("IPython.display")

    def __enter__(self) -> Self:
        self._shown: Any = self._ipython.display(self._ipython.Pretty(f"{self._label}: begins"), display_id=True)
        return self

    def update(self, snapshot: Snapshot) -> None:
        self._latest = _plain_line(self._label, snapshot, self._total)
        if (now := monotonic()) >= self._next:
            self._next = now + NOTEBOOK_INTERVAL
            self.close()

    def close(self) -> None:
        if self._latest and self._shown is not None:
            self._shown.update(self._ipython.Pretty(self._latest))
        self._latest = ""


class _Json(_Lines):
    interval = JSON_INTERVAL

    def _line(self, snapshot: Snapshot) -> str:
        tally = snapshot.tally
        values: dict[str, Any] = {
            "label": self._label,
            "model": tally.model,
            "total": self._total,
            "done": tally.done,
            "held": tally.held,
            "answered": tally.answered,
            "failed": dict(tally.failed),
            "errors": dict(tally.errors),
            "rate": None if math.isnan(snapshot.rate) else round(snapshot.rate, 3),
            "eta": _eta(snapshot, self._total),
            "in_flight": snapshot.in_flight,
            "limit": snapshot.width,
            "paused": round(snapshot.paused, 3),
            "input_tokens": tally.input_tokens,
            "output_tokens": tally.output_tokens,
            "unmetered": tally.unmetered,
            "cost": tally.cost,
        }
        return json.dumps(values, allow_nan=False)


class _Rich(Display):
    def __init__(self, total: int | None, label: str, stream: TextIO) -> None:
        from rich.cells import cell_len
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import BarColumn, Progress, TextColumn

        self._total, self._label = total, printable(label, one_line=True)
        self._console = Console(file=stream, emoji=False)
        most = 0 if total is None else len(_done(total, total)) + len(_LONGEST_TIME)
        self._above = cell_len(self._label) + _BAR + most + 3 > self._console.width
        """Whether the label is so long that it stands above the bar."""
        self._room = _BAR + 2 + (0 if self._above else cell_len(self._label) + 1)
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=_BAR), TextColumn("{task.fields[details]}", markup=False))
        self._progress = Progress(*(columns[1:] if self._above else columns), console=self._console, refresh_per_second=4)
        self._task: TaskID = self._progress.add_task(escape(self._label), total=total, details=_done(0, total))

    def __enter__(self) -> Self:
        if self._above:
            self._console.print(self._label, markup=False, highlight=False, soft_wrap=True)
        self._progress.start()
        return self

    def update(self, snapshot: Snapshot) -> None:
        details = _fitting(snapshot, self._total, self._console.width - self._room)
        self._progress.update(self._task, completed=snapshot.tally.done, details=details)

    def close(self) -> None:
        self._progress.stop()


def _done(done: int, total: int | None) -> str:
    return f"{done:,}" + (f"/{total:,}" if total is not None else "")


def _fitting(snapshot: Snapshot, total: int | None, width: int) -> str:
    """The count, then of the rest what fits, the most important first."""
    parts = _parts(snapshot, total)
    shown = _done(snapshot.tally.done, total)
    for name in _FIRST:
        if name in parts and len(shown) + 2 + len(parts[name]) <= width:
            shown += f"  {parts[name]}"
    return shown


def _plain_line(label: str, snapshot: Snapshot, total: int | None) -> str:
    return f"{label}: {_done(snapshot.tally.done, total)} done, {', '.join(_parts(snapshot, total).values())}"


def _eta(snapshot: Snapshot, total: int | None) -> float | None:
    """Seconds to go at the present rate, None when it cannot be told."""
    if total is None or not snapshot.rate > 0:
        return None
    return round(max(0, total - snapshot.tally.done) / snapshot.rate, 1)


def _parts(snapshot: Snapshot, total: int | None) -> dict[str, str]:
    """What there is to say beside the count, by name."""
    tally = snapshot.tally
    eta = _eta(snapshot, total)
    parts = {
        "held": f"{tally.held:,} from the journal" if tally.held else "",
        "rate": "" if math.isnan(snapshot.rate) else f"{snapshot.rate:,.1f}/s",
        "left": f"{_clock(eta)} to go" if eta else "",
        "in_flight": f"{snapshot.in_flight} of {snapshot.width} in flight",
        "paused": f"paused {snapshot.paused:.0f} s" if snapshot.paused else "",
        "tokens": f"{tally.input_tokens:,}+{tally.output_tokens:,} tokens",
        "cost": f"{'at least ' if tally.unmetered else ''}${tally.cost:,.4f}" if tally.cost else "",
        **{name: f"{name} {_kinds(counts)}" if counts else "" for name, counts in (("failed", tally.failed), ("errors", tally.errors))},
    }
    return {name: words for name, words in parts.items() if words}


def _kinds(counts: Counter[str]) -> str:
    return "(" + ", ".join(f"{kind} {count:,}" for kind, count in counts.most_common()) + ")"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
