"""Sentences about missing responses: why they are missing, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tiltmeter.engine import Tally
from tiltmeter.errors import ProviderError, UnanswerableError
from tiltmeter.runs._faults import problems_of
from tiltmeter.runs._first_responses import Requested
from tiltmeter.runs._folder import RunFolder
from tiltmeter.runs._long_prompts import CONTEXT, PromptsTooLong, too_long
from tiltmeter.runs._problems import what_is_missing
from tiltmeter.study import Study

_AGAIN = "run the same command again to"


def missing_responses(
    folder: RunFolder,
    study: Study,
    became: Mapping[str, dict[str, Any]],
    name: str,
    requested: Requested | None,
    error: ProviderError | None,
    cost_words: str,
) -> list[str]:
    """Return sentences about the missing responses of one model.

    Parameters
    ----------
    became
        Status of each part, by name.
    requested
        What became of its requests; None if there were none, or if none was answered.
    error
        Why none was answered.
    cost_words
        The cost of the run and its limit, if they ended it.
    """
    if error is not None:
        return [f"{name}: nothing measured: {error}{_remedy_of(error)}"]
    if requested is None:
        not_started = "not started, because the run was interrupted"
        return [f"{what_is_missing(study, became, name, not_started)}; {_AGAIN} resume"]
    tally = requested.tally_of_others
    is_cut_short = bool(tally.interrupted or tally.stopped or tally.over_cost)
    failed = _failed(tally, "{wanted}")
    problems = []
    if is_cut_short:
        first = "correct this, then " if tally.stopped and tally.only_permanent else ""
        words = what_is_missing(study, became, name, _cut_short(tally, failed, cost_words))
        again = f"{_AGAIN} resume"
        if tally.over_cost:
            again += ", with a higher limit or the same for the further responses"
        problems.append(f"{words}; {first}{again}")
    elif failed:
        problems.append(what_is_missing(study, became, name, failed) + _advice(tally))
    problems += problems_of(name, requested.stopped)
    if is_cut_short or failed:
        stopped_parts = [fault.part for fault in requested.stopped]
        problems += too_long(folder, study, name, without=stopped_parts)
    return problems


def _remedy_of(error: ProviderError) -> str:
    """Return what to do about a model that did not answer at all, as the end of a sentence."""
    if isinstance(error, PromptsTooLong):
        return ""
    if isinstance(error, UnanswerableError):
        return f"; correct this, then {_AGAIN} retry"
    return f"; {_AGAIN} retry"


def _cut_short(tally: Tally, failed: str, cost_words: str) -> str:
    """Return that a model was interrupted or stopped, with placeholders for `what_is_missing`."""
    happened = "interrupted" if tally.interrupted else "stopped early"
    words = f"{happened} after {{found}} of {{wanted}} {{unit}}"
    if tally.over_cost:
        words += f", because {cost_words}"
    if tally.stopped:
        reason = tally.stopped.replace("{", "{{").replace("}", "}}")
        words += f": {reason}"
    return f"{words}; {failed}" if failed else words


def _failed(tally: Tally, total: str) -> str:
    """Return a phrase with the number of failed answers by kind; empty if none failed.

    `total` is the number of requests in words.
    """
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in sorted(tally.failed.items()))
    return f"{tally.failures:,} of {total} answers failed ({kinds})" if kinds else ""


def _advice(tally: Tally) -> str:
    """Return what to do about failed answers, as the end of a sentence.

    Only failures that may pass are to be repeated. Prompts that are too long have a sentence of their own.
    """
    recurring = tally.permanent.total() - tally.permanent[CONTEXT]
    advice = ""
    if recurring and tally.permanent_example:
        advice = (
            f"; {recurring:,} of them will fail again unless the cause is corrected"
            f" ({tally.permanent_example})"
        )
    if tally.only_permanent:
        return advice
    return f"{advice}; run the same command again to retry {'the others' if tally.permanent else 'them'}"


def judge_problems(tally: Tally, cost_words: str) -> Iterator[str]:
    """Yield sentences about the missing answers of a judge; see `missing_responses`."""
    if tally.over_cost:
        yield f"stopped early, because {cost_words}; {_AGAIN} resume, with a higher limit"
    if tally.interrupted:
        yield f"interrupted; {_AGAIN} resume"
    if tally.stopped:
        yield f"stopped early: {tally.stopped}"
    if failed := _failed(tally, f"{tally.total:,}"):
        yield f"{failed}{_advice(tally)}"
