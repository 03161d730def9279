"""What the gate says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tiltmeter.errors import EXIT_GATE, EXIT_OK

__all__ = ["FAILING", "Check", "Verdict", "made_check", "shown_number"]

FAILING = ("failed", "undecided")


@dataclass(frozen=True, slots=True)
class Check:
    """One rule held against one number."""

    rule: str
    """`fail-on critical`, `max gest/stereotype_rate=0.1`, `baseline NAME`."""
    status: str
    """"passed", "failed", "undecided" (there is no number or mark to decide by: does not pass) or "skipped" (the same, allowed)."""
    reason: str
    """One sentence with the number and its interval."""
    study: str
    model: str
    metric: str
    subject: str | None = None
    concept: str | None = None
    context: str | None = None
    estimate: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def part(self) -> str:
        """The part of the study the number belongs to."""
        return self.study.rpartition("/")[2]

    @property
    def number(self) -> str:
        """Which number: `part/metric (subject, concept, context)`."""
        narrowed = ", ".join(one for one in (self.subject, self.concept, self.context) if one)
        return f"{self.part}/{self.metric}" + (f" ({narrowed})" if narrowed else "")

    def opened_by(self, run: str) -> str:
        """The command that shows the answers behind the number."""
        import shlex

        chosen = {name: getattr(self, name) for name in ("metric", "part", "model", "subject", "concept", "context")}
        words = [word for name, value in chosen.items() if value is not None for word in (f"--{name}", value)]
        return shlex.join(["tiltmeter", "show", run, *words])


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a run passes, and all that was looked at."""

    run: str
    """Where it lives."""
    about: dict[str, Any]
    """The content of its run.json."""
    checks: Sequence[Check]
    problems: Sequence[str] = ()
    """Why nothing the run says could pass: it is incomplete, empty, or its model gave no answers."""
    notes: Sequence[str] = ()
    """What decides nothing but should be known."""
    barred: int = EXIT_OK
    """Exit status of the problems."""

    @property
    def failures(self) -> list[Check]:
        """The checks that do not pass, those with a number first."""
        return sorted((one for one in self.checks if one.status in FAILING), key=lambda one: FAILING.index(one.status))

    @property
    def is_checked(self) -> bool:
        """Whether anything was looked at that was not skipped; a gate that looks at nothing does not pass."""
        return any(one.status != "skipped" for one in self.checks)

    @property
    def exit_code(self) -> int:
        """0 passed, 1 a check failed or nothing was checked, 3 the run is incomplete or empty, 4 a model gave no answers at all."""
        if self.barred != EXIT_OK:
            return self.barred
        return EXIT_OK if self.is_checked and not self.failures else EXIT_GATE

    @property
    def passed(self) -> bool:
        """Whether the exit status is 0."""
        return self.exit_code == EXIT_OK

    @property
    def headline(self) -> str:
        """The outcome in one line."""
        counts = {status: sum(one.status == status for one in self.checks) for status in ("passed", "failed", "undecided", "skipped")}
        said = ", ".join(f"{count:,} {status}" for status, count in counts.items() if count)
        if not self.is_checked:
            said = f"nothing could be checked, {said}" if said else "nothing could be checked"
        if self.problems:
            return f"gate not passed: the run cannot be judged ({said})"
        return f"gate {'passed' if self.passed else 'failed'}: {said}"


def made_check(rule: str, status: str, reason: str, row: Mapping[str, Any]) -> Check:
    """The check of a row of FINDINGS."""
    names = ("study", "model", "metric", "subject", "concept", "context", "estimate", "low", "high")
    return Check(rule, status, reason, **{name: row[name] for name in names})


def shown_number(value: float, against: float | None = None) -> str:
    """A number in as few digits, from three on, as tell it from the limit it is held against."""
    for digits in range(3, 17):
        text = f"{value:.{digits}g}"
        if against is None or value == against or float(text) != against:
            return text
    return repr(value)
