"""The account of a run: what was asked, answered, failed, and spent."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["Snapshot", "Tally"]


@dataclass(slots=True)
class Tally:
    """Counts of one `generate` call; final when it returns, growing while it runs.

    Once a run has ended by itself, `total == held + repeated + answered + failures`.
    """

    model: str
    total: int = 0
    """Requests read from the iterable."""
    held: int = 0
    """Found in the journal, so not asked (also: answered for us by another process that shares the journal)."""
    repeated: int = 0
    """Asked for again in the same run while the first asking was under way or had failed."""
    answered: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    """Requests given up, by the kind of their last error; each is a row with status "failed", asked again by the next run."""
    errors: Counter[str] = field(default_factory=Counter)
    """Attempts that failed, by kind, retried or not."""
    input_tokens: int = 0
    output_tokens: int = 0
    unmetered: int = 0
    """Answers for which the endpoint reported no token counts; `cost` is then a lower bound."""
    cost: float | None = None
    """US dollars for the answers of this run, None when the model's price is not known."""
    seconds: float = 0.0
    stopped: str | None = None
    """One sentence why the run ended before everything was asked, None when it did not."""
    interrupted: bool = False
    """Whether a signal ended the run."""

    @property
    def failures(self) -> int:
        """Requests given up, of all kinds."""
        return self.failed.total()

    @property
    def done(self) -> int:
        """Requests that need nothing more in this run."""
        return self.held + self.repeated + self.answered + self.failures

    @property
    def complete(self) -> bool:
        """Whether every request has an answer in the journal."""
        return self.stopped is None and not self.interrupted and not self.failed


class Snapshot(NamedTuple):
    """What a display is shown: the counts so far and the state of the moment."""

    tally: Tally
    in_flight: int
    width: int
    """Requests that may be in flight now (the adaptive limit)."""
    rate: float
    """Requests finished (answered or given up) a second, over the last ten seconds or so."""
    paused: float
    """Seconds the endpoint still wants to be left alone, 0 when it does not."""
