"""The step of a run in which the models under test are asked."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Final

from polars import Series, String

from tiltmeter.engine import Keys, Tally
from tiltmeter.errors import ProviderError, UnanswerableError
from tiltmeter.models import Model, Sampling
from tiltmeter.runs import _attempts as attempts
from tiltmeter.runs._asked_models import has_room_to_think
from tiltmeter.runs._asking import Asker
from tiltmeter.runs._first_responses import Requested, request_all
from tiltmeter.runs._folder import RunFolder
from tiltmeter.runs._long_prompts import CONTEXT, PromptsTooLong, too_long_words
from tiltmeter.runs._resolving import Resolved
from tiltmeter.study import Part

PATIENCE = 30.0
"""Seconds without an answer after which an overloaded endpoint is left for other models.

It is asked again after them.
"""
EXAMINED = 1_000
"""Number of requests that are searched for error messages at a time."""
DISPLAYS_WITHOUT_NOTES: Final = ("json", "none")
"""Kinds of display without sentences about the size of the study and slow steps."""


@dataclass(slots=True)
class Generated:
    """What became of the requests to all models.

    Attributes
    ----------
    requested
        What became of the requests to each model that answered, by its name.
    silent
        Why a model did not answer at all, by its name.
    """

    requested: dict[str, Requested] = field(default_factory=dict)
    silent: dict[str, ProviderError] = field(default_factory=dict)


def generate(
    models: Sequence[tuple[Model, Sampling]],
    parts: Sequence[Part],
    resolved: Resolved,
    folder: RunFolder,
    asker: Asker,
    *,
    fixed_length: bool,
) -> Generated:
    """Send the requests to each model in turn.

    A model whose endpoint only reports overload does not hold up the others: it is continued after them.

    Parameters
    ----------
    fixed_length
        Whether the user chose the limit of tokens of a response.

    Raises
    ------
    ProviderError
        No model answered.
    """
    generated = Generated()
    note = _note_for(asker)
    patience = PATIENCE if len(models) > 1 else None
    waiting = [(model, sampling, patience) for model, sampling in models]
    while waiting:
        model, sampling, patience = waiting.pop(0)
        attempts.teach_simulated(model, parts, folder)
        is_of_method = has_room_to_think(resolved) and sampling.max_tokens == resolved.sampling.max_tokens
        try:
            of_model = request_all(
                folder,
                resolved,
                parts,
                asker,
                model,
                sampling,
                may_raise=is_of_method and not fixed_length,
                note=note,
                patience=patience,
            )
            if model.name in generated.requested:
                earlier = generated.requested[model.name].tally
                of_model = replace(of_model, tally=of_model.tally.after(earlier))
            tally = of_model.tally
            if tally.postponed:
                waiting.append((model, sampling, None))
            elif tally.failures and not (tally.answered or tally.held or tally.interrupted):
                raise _no_answer(model, of_model.sampling, folder, asker, tally)
        except ProviderError as error:
            generated.silent[model.name] = error
            # The counts of a postponed call, without any answer.
            generated.requested.pop(model.name, None)
            continue
        generated.requested[model.name] = of_model
        if tally.interrupted:
            break
    _check_answered(generated)
    return generated


def _note_for(asker: Asker) -> Callable[[str], None]:
    """Return a function that shows a sentence, unless the display is one without notes."""
    if asker.display in DISPLAYS_WITHOUT_NOTES:
        return _show_nothing
    return partial(print, file=sys.stderr)


def _show_nothing(sentence: str) -> None:
    """Show nothing."""


def _check_answered(generated: Generated) -> None:
    """Raise ProviderError if no model answered."""
    silent = generated.silent
    if generated.requested or not silent:
        return
    if len(silent) == 1:
        raise next(iter(silent.values()))
    reasons = "; ".join(f"{name}: {error}" for name, error in silent.items())
    raise ProviderError(f"no model answered: {reasons}")


def _no_answer(
    model: Model, sampling: Sampling, folder: RunFolder, asker: Asker, tally: Tally
) -> ProviderError:
    """Return why a model did not answer at all, in the wording that `engine` uses for longer runs."""
    errors = _first_errors(model, sampling, folder, asker)
    message = errors[-1] if errors.len() else next(iter(tally.failed))
    kind, _, detail = message.partition(": ")
    none_answered = f"{model.endpoint} answered none of {tally.failures:,} requests"
    if set(tally.failed) == {CONTEXT}:
        return PromptsTooLong(f"{none_answered}: {too_long_words(errors, 'all prompts')}")
    if kind == "connection":
        return ProviderError(
            f"no server answers at {model.endpoint}: start it, or check the address ({detail})"
        )
    error_class = UnanswerableError if tally.only_permanent else ProviderError
    return error_class(f"{none_answered}, the last with {kind}: {detail}")


def _first_errors(model: Model, sampling: Sampling, folder: RunFolder, asker: Asker) -> Series:
    """Return the error messages of the first EXAMINED requests that include any.

    The first requests are spread over the design.
    """
    key_of = Keys(model.fingerprint, sampling)
    requests = attempts.requests(folder, model)
    while keys := [key_of(request.messages, request.sample) for request in islice(requests, EXAMINED)]:
        errors = asker.journal.fetch(keys)["error"].drop_nulls()
        if errors.len():
            return errors
    return Series(dtype=String)
