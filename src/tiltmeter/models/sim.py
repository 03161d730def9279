"""The simulated model (`sim/fair`, `sim/mild`, `sim/biased`): its options ("dials"), plans and random draws.

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
from typing import TYPE_CHECKING, Any, Final

from tiltmeter.errors import InputError, did_you_mean
from tiltmeter.models._answer_texts import (
    TONES,
    AnswerPlan,
    Draws,
    answer_text,
    default_form,
    judge_text,
    refusal_text,
    tone_texts,
)
from tiltmeter.models._base import Completion, Message, NamedModel, Sampling
from tiltmeter.models._options import Range, check_local, check_options, parse_number

if TYPE_CHECKING:
    from polars import DataFrame

__all__ = ["PRESETS", "TONES", "Dials", "SimulatedModel", "create", "tone_texts"]

VERSION: Final = 3
"""Part of the fingerprint: increase it when the same dials produce different texts, so that a journal does
not mix them."""

HARMS: Final = ("outcome_disparity", "stereotypical_reasoning", "representational_harms")
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
                f"the sum of the dials refusal ({self.refusal}) and unreadable ({self.unreadable}) "
                "must be at most 1"
            )

    def mapping(self) -> dict[str, float]:
        """Return the dials by name, as `Part.simulate` and `Part.true_values` accept them."""
        return asdict(self)

    def as_text(self) -> str:
        """Return the dials as they are in a fingerprint."""
        dials: list[str] = []
        for name, value in self.mapping().items():
            if name in _EFFECTS and not value:
                continue
            option = f"bias.{name}" if name in HARMS else name
            dials.append(f"{option}={value}" if name == "seed" else f"{option}={value:g}")
        return " ".join(dials)


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
        self._identity = f"sim/{VERSION} {dials.as_text()}"
        super().__init__(name, self._identity)
        self.dials = dials
        self.latency = latency
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
        plans_by_subject: dict[bytes, dict[str | None, AnswerPlan]] = {}
        distinct: dict[AnswerPlan, AnswerPlan] = {}  # equal plans share memory
        for row in plans.select("prompt", "outcomes", "odds", *optional).iter_rows(named=True):
            plan = _plan_of(row)
            subjects = plans_by_subject.setdefault(_key_of(row["prompt"], row.get("system")), {})
            subjects.setdefault(plan.about, distinct.setdefault(plan, plan))
        learned = {key: tuple(subjects.values()) for key, subjects in plans_by_subject.items()}
        self._plans = learned | self._plans
        self.fingerprint: str = f"{self._identity} planted"

    def reply(self, messages: Sequence[Message], sample: int = 0, seed: int | None = None) -> Completion:
        """Return the answer synchronously, as `complete` does in an event loop.

        The prompt is the last user message, or the first one if that is a question to a judge, which later
        messages repeat.
        """
        prompts = [content for role, content in messages if role == "user"] or [""]
        system = next((content for role, content in messages if role == "system"), None)
        plans = self._plans.get(_key_of(prompts[-1], system)) or self._plans.get(_key_of(prompts[-1])) or ()
        text = self._text(prompts[0], plans, self._draws(messages, sample, seed))
        return Completion(
            text=text,
            finish_reason="stop",
            input_tokens=sum(_count_tokens(content) for _, content in messages),
            output_tokens=_count_tokens(text),
            latency=self.latency,
        )

    def _draws(self, messages: Sequence[Message], sample: int, seed: int | None) -> Draws:
        """Return the random numbers of one answer."""
        words = b"".join(_digest(text) for message in messages for text in message)
        request = _digest(self._identity) + words + f"{seed} {sample}".encode()
        return Draws(blake2b(request, digest_size=32).digest())

    def _text(self, question: str, plans: Sequence[AnswerPlan], draws: Draws) -> str:
        """Return the text of an answer; a question to a judge has no plans."""
        fate = draws.unit()
        if fate < self.dials.refusal:
            return refusal_text(draws)
        readable = fate >= self.dials.refusal + self.dials.unreadable
        if not plans:
            judgement = judge_text(question, self.dials.verbosity, draws, readable=readable)
            if judgement:
                return judgement
        return answer_text(plans, self.dials.verbosity, draws, readable=readable)

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
    options = options or {}
    check_options(provider, options, list(_RANGES))
    numbers = {name: parse_number(name, value, _RANGES[name]) for name, value in options.items()}
    latency = numbers.pop("latency", 0.0)
    bias = numbers.pop("bias", PRESETS[model])
    dials = dict.fromkeys(HARMS, bias)
    dials |= {name.removeprefix("bias."): number for name, number in numbers.items()}
    return SimulatedModel(f"{provider}/{model}", Dials(**dials), latency=latency)


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _key_of(prompt: str, system: str | None = None) -> bytes:
    """Return the key of a prompt, with one system message or with any."""
    return _digest(prompt) if system is None else _digest(f"{_digest(prompt).hex()} {system}")


def _count_tokens(text: str) -> int:
    """Return an approximate number of words: blanks and line ends plus one, without splitting."""
    return text.count(" ") + text.count("\n") + 1


def _plan_of(row: Mapping[str, Any]) -> AnswerPlan:
    """Return the plan in a row of `SimulatedModel.learn`; raise ValueError if it is not valid."""
    outcomes = tuple(row["outcomes"] or ())
    odds = tuple(row["odds"] or ())
    if not _is_valid_plan(row["prompt"], outcomes, odds, is_story=row.get("form") == "story"):
        raise ValueError(
            "cannot plant odds: outcomes and odds must have the same length and no nulls; odds must be at "
            "least 0 and sum to 1 (in a story, at most 1 each); "
            f"look at the prompt {str(row['prompt'])[:60]!r}"
        )
    form = row.get("form") or default_form(outcomes)
    if form != "story":
        odds = tuple(accumulate(odds))
    return AnswerPlan(form, outcomes, odds, row.get("about"), row.get("place"))


def _is_valid_plan(
    prompt: str | None, outcomes: Sequence[Any], odds: Sequence[Any], *, is_story: bool
) -> bool:
    if not odds or len(odds) != len(outcomes) or None in (prompt, *outcomes, *odds):
        return False
    if any(not -_TOLERANCE <= probability <= 1 + _TOLERANCE for probability in odds):
        return False
    return is_story or abs(sum(odds) - 1) <= _TOLERANCE
