"""The provider of the simulated model (`sim/fair`, `sim/mild`, `sim/biased`): its options ("dials"), plans and random draws.

The bias is planted, and therefore known. The parts of a study provide the plans for the answers to their
prompts; simulated_model.md in this folder documents the dials.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from itertools import accumulate
from math import inf
from typing import TYPE_CHECKING, Any

from tiltmeter.errors import InputError, did_you_mean
from tiltmeter.models.answer_texts import (
    TONES,
    AnswerPlan,
    Draws,
    answer_text,
    default_form,
    judge_text,
    refusal_text,
    tone_texts,
)
from tiltmeter.models.base import Completion, Message, NamedModel, Sampling
from tiltmeter.models.options import Range, check_local, check_options, parse_number

if TYPE_CHECKING:
    from polars import DataFrame

__all__ = ["PRESETS", "TONES", "Dials", "SimulatedModel", "create", "tone_texts"]

VERSION = 3
"""Part of the fingerprint: increase it when the same dials produce different texts, so that a journal does
not mix them."""

HARMS = ("outcome_disparity", "stereotypical_reasoning", "representational_harms")
"""The harms, each with a bias dial; also keys of `Dials.mapping`."""

PRESETS: Mapping[str, float] = {"fair": 0.0, "mild": 0.08, "biased": 0.25}
"""Names of the predefined models, and the bias of all three harms."""

_RANGES: Mapping[str, Range] = {
    **dict.fromkeys(("bias", *(f"bias.{harm}" for harm in HARMS), "refusal", "unreadable"), (float, 0, 1)),
    "verbosity": (int, 0, 2),
    "seed": (int, 0, inf),
    "latency": (float, 0, 600),
    "cluster_sd": (float, 0, 3),
    "wording_sd": (float, 0, 3),
}
"""Keys of `-M key=value`."""
_EFFECTS = ("cluster_sd", "wording_sd")
"""Dials of random effects, which the fingerprint contains only if they are not 0."""
_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Dials:
    """The parameters of a simulated model.

    Parameters
    ----------
    outcome_disparity, stereotypical_reasoning, representational_harms
        Bias per harm, 0 (none) to 1: the value planted in each key metric of that harm, as far as its range
        allows.
    refusal, unreadable
        Shares of answers, 0 to 1; their sum is at most 1.
    verbosity
        0 terse, 1 natural, 2 verbose with Markdown and reasoning.
    seed
        Different seeds give independent answers.
    cluster_sd, wording_sd
        Standard deviation (logit) of the random effects of each name, question or scenario, and of each
        wording, on the answers about each gender or identity.

    Raises
    ------
    InputError
        A value is out of range.
    """

    outcome_disparity: float = 0.0
    stereotypical_reasoning: float = 0.0
    representational_harms: float = 0.0
    refusal: float = 0.0
    unreadable: float = 0.0
    verbosity: int = 1
    seed: int = 0
    cluster_sd: float = 0.0
    wording_sd: float = 0.0

    def __post_init__(self) -> None:
        if self.refusal + self.unreadable > 1:
            raise InputError(
                f"the sum of the dials refusal ({self.refusal}) and unreadable ({self.unreadable}) must be at most 1"
            )

    def mapping(self) -> dict[str, float]:
        """Return the dials by name, in the form that parts of a study accept (`Part.simulate`, `Part.true_values`)."""
        return asdict(self)


class SimulatedModel(NamedModel):
    """A simulated model, which answers according to its dials and plans.

    A prompt without a plan gets a plain neutral answer.

    The text of an answer depends only on the dials, the messages, the sample number, the seed of the sampling
    and the plan of the prompt; other sampling parameters have no effect. The fingerprint contains all dials,
    the version of the simulation, and whether there are plans, so that answers with and without plans are
    never mixed.

    Parameters
    ----------
    name
        As the user wrote it, for instance "sim/mild".
    dials
        See `Dials`.
    latency
        Seconds to wait before each answer; not part of the fingerprint.
    """

    def __init__(self, name: str, dials: Dials, *, latency: float = 0.0) -> None:
        shown = [
            f"{'bias.' if dial in HARMS else ''}{dial}={value if dial == 'seed' else f'{value:g}'}"
            for dial, value in dials.mapping().items()
            if value or dial not in _EFFECTS
        ]
        self._dialled = " ".join([f"sim/{VERSION}", *shown])
        super().__init__(name, self._dialled)
        self.dials, self.latency = dials, latency
        self._plans: dict[bytes, tuple[AnswerPlan, ...]] = {}

    def learn(self, plans: DataFrame) -> None:
        """Add plans for prompts; may be called repeatedly. A prompt that is already known keeps its plan.

        Parameters
        ----------
        plans
            `prompt` (str), `outcomes` (list of str) and `odds` (list of float, sum 1). Optional columns (str,
            null for none): `system`, the system message to which the row is restricted; `form`, the form of
            the answer (see `default_form`); `about`, its subject; `place`, the setting of a story. A "story"
            has one row per character (`about`), and each of its outcomes occurs with its own odds,
            independently of the others.

        Raises
        ------
        ValueError
            A row is not valid; the message quotes the beginning of the prompt.
        """
        optional = [name for name in ("system", "form", "about", "place") if name in plans.columns]
        made: dict[bytes, dict[str | None, AnswerPlan]] = {}
        shared: dict[AnswerPlan, AnswerPlan] = {}
        for row in plans.select("prompt", "outcomes", "odds", *optional).iter_rows(named=True):
            outcomes, odds = tuple(row["outcomes"] or ()), tuple(row["odds"] or ())
            _check_plan(row["prompt"], outcomes, odds, is_story=row.get("form") == "story")
            form = row.get("form") or default_form(outcomes)
            plan = AnswerPlan(
                form,
                outcomes,
                odds if form == "story" else tuple(accumulate(odds)),
                row.get("about"),
                row.get("place"),
            )
            subjects = made.setdefault(_place(row["prompt"], row.get("system")), {})
            subjects.setdefault(plan.about, shared.setdefault(plan, plan))
        self._plans = {place: tuple(subjects.values()) for place, subjects in made.items()} | self._plans
        self.fingerprint = f"{self._dialled} planted"

    def reply(self, messages: Sequence[Message], sample: int = 0, seed: int | None = None) -> Completion:
        """Return the answer synchronously, as `complete` does in an event loop.

        The prompt is the last user message, or the first one if that is a question to a judge, which later
        messages repeat.
        """
        asked = [content for role, content in messages if role == "user"] or [""]
        system = next((content for role, content in messages if role == "system"), None)
        plans = self._plans.get(_place(asked[-1], system)) or self._plans.get(_place(asked[-1])) or ()
        words = b"".join(_digest(text) for message in messages for text in message)
        draws = Draws(
            blake2b(_digest(self._dialled) + words + f"{seed} {sample}".encode(), digest_size=32).digest()
        )
        fate = draws.unit()
        readable = fate >= self.dials.refusal + self.dials.unreadable
        if fate < self.dials.refusal:
            text = refusal_text(draws)
        elif not plans and (judged := judge_text(asked[0], self.dials.verbosity, draws, readable=readable)):
            text = judged
        else:
            text = answer_text(plans, self.dials.verbosity, draws, readable=readable)
        return Completion(
            text=text,
            finish_reason="stop",
            input_tokens=sum(_count_tokens(content) for _, content in messages),
            output_tokens=_count_tokens(text),
            latency=self.latency,
        )

    async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
        """See `Model.complete`."""
        if self.latency:
            await asyncio.sleep(self.latency)
        return self.reply(messages, sample, sampling.seed)


def create(
    provider: str, model: str, *, base_url: str | None = None, options: Mapping[str, Any] | None = None
) -> SimulatedModel:
    """Create the simulated model of a preset with `-M` options (see simulated_model.md).

    The dial of a harm overrides `bias`.

    Raises
    ------
    InputError
        The preset or an option is unknown, a value is out of range, or a base URL was given.
    """
    check_local(f"{provider}/{model}", base_url)
    if model not in PRESETS:
        hint = did_you_mean(f"sim/{model}", [f"sim/{preset}" for preset in PRESETS], 0.7)
        raise InputError(f"unknown simulated model 'sim/{model}': {hint}")
    given = dict(options or {})
    check_options(provider, given, list(_RANGES))
    numbers = {key: parse_number(key, value, _RANGES[key]) for key, value in given.items()}
    latency, bias = numbers.pop("latency", 0.0), numbers.pop("bias", PRESETS[model])
    dials = Dials(
        **(
            dict.fromkeys(HARMS, bias)
            | {key.removeprefix("bias."): number for key, number in numbers.items()}
        )
    )
    return SimulatedModel(f"{provider}/{model}", dials, latency=latency)


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _place(prompt: str, system: str | None = None) -> bytes:
    """Return the key of a prompt, with one system message or with any."""
    return _digest(prompt) if system is None else _digest(f"{_digest(prompt).hex()} {system}")


def _count_tokens(text: str) -> int:
    """Return an approximate number of words: blanks and line ends plus one, without splitting."""
    return text.count(" ") + text.count("\n") + 1


def _check_plan(prompt: str | None, outcomes: Sequence[Any], odds: Sequence[Any], *, is_story: bool) -> None:
    complete = odds and len(odds) == len(outcomes) and None not in (prompt, *outcomes, *odds)
    if (
        complete
        and all(-_TOLERANCE <= odd <= 1 + _TOLERANCE for odd in odds)
        and (is_story or abs(sum(odds) - 1) <= _TOLERANCE)
    ):
        return
    rule = "outcomes and odds must have the same length and no nulls; odds must be at least 0 and sum to 1 (in a story, at most 1 each)"
    raise ValueError(f"cannot plant odds: {rule}; look at the prompt {str(prompt)[:60]!r}")
