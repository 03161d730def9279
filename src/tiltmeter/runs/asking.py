"""How models are asked: the engine, the journal, limits, prices and the progress shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tiltmeter.engine import Engine, Limits, Prices, Request, Tally, open_display, open_engine
from tiltmeter.models import Model, Sampling
from tiltmeter.runs.places import runs_root

if TYPE_CHECKING:
    from tiltmeter.engine import Journal


@dataclass(frozen=True, slots=True)
class Asking:
    """How models are asked, as a user says it.

    Attributes
    ----------
    limits
        How many requests at a time, how often again; None: as usual.
    journal
        Where paid-for answers are kept (a path or a database URL); None: where those of all runs are.
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
        from tiltmeter.engine import open_journal

        return self._stack.enter_context(open_journal(self._asking.journal or str(runs_root() / "journal.sqlite")))

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
