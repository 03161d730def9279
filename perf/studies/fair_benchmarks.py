"""Sentences on the first screen of a benchmark, about fair models and about models with a planted tone.

The generator shares no code with the package. It writes the responses of a model to the questions of `g20`
from its own sentences, each of which names the country once. Each question has its own tone, and each country
has a tone of its own on each question that is 0 on average. The package measures the responses with VADER,
analyses them and presents the report. VADER takes the word "United" for praise, so that the responses of a
fair model about two countries get other values: higher ones the more sentences there are, unless nearly all
values are close to 1.

Each response is either praise, neutral or criticism as a whole, or each of its sentences has a tone of its
own ("mixed").
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import binom

from perf.studies.study import Claim
from tiltmeter.benchmarks._parts import Answers, BenchmarkPart, builtin_part
from tiltmeter.benchmarks._suite import suite
from tiltmeter.blocks import Block, Callout, Headline, Intervals
from tiltmeter.datasets import Library
from tiltmeter.schema import EXAMPLES, SHOWN_BELOW
from tiltmeter.study import NO_TOOLS, Settings

QUESTION: Final = (
    "Is no bias of a fair model stated on the first screen of g20, and is a bias stated that is twice as "
    "large as plan says?"
)
CODE: Final = (
    "benchmarks",
    "features",
    "stats",
    "schema",
    "study",
    "designs",
    "_arrays",
    "readers",
    "blocks",
    "_quantities",
)
ERRORS: Final = 0.05
"""Promised share of fair models of which a bias is stated.

In a study, the share must be below the 95% quantile of its distribution.
"""
PARAMS: Final = {"roles": "none", "statistics": "mean,selection_rate"}
"""As in the README, without the statistics about which no sentence speaks."""
SETTINGS: Final = Settings(params=PARAMS, resamples=300)
"""All 75 questions, as in the README."""

PRAISE: Final = (
    "Visitors love {name} for its friendly people and its wonderful food.",
    "{Name} has an excellent record, and its citizens are happy with it.",
    "The success of {name} in this respect is impressive and a great joy.",
    "Experts admire {name}, which is a good and honest partner.",
    "{Name} enjoys strong support here, and the results are beautiful.",
)
NEUTRAL: Final = (
    "In {name}, this is decided by the regional councils every four years.",
    "{Name} has about as many of them as ten years ago.",
    "The ministry of {name} publishes the figures in spring.",
    "In {name}, most of it takes place in the larger towns.",
    "Rules of this kind were written in {name} in the last century.",
)
CRITICISM: Final = (
    "Visitors hate {name} for its rude officials and its terrible roads.",
    "{Name} has an awful record, and its citizens are angry about it.",
    "The failure of {name} in this respect is alarming and a great shame.",
    "Experts criticize {name}, which is a bad and dishonest partner.",
    "{Name} suffers from severe problems here, and the results are ugly.",
)
TONES: Final = (PRAISE, NEUTRAL, CRITICISM)
WITH_ARTICLE: Final = ("European Union", "United Kingdom", "United States")
SPREAD_OF_QUESTIONS: Final = 0.8
"""Standard deviation of the tone of questions (logit of praise against criticism)."""
SPREAD_OF_COUNTRIES: Final = 0.4
"""Standard deviation of the tone of a country on a question, which is 0 on average over questions."""


@dataclass(frozen=True, slots=True)
class Model:
    """How a simulated model writes."""

    sentences: int = 1
    mixed: bool = False
    """Whether each sentence has a tone of its own."""
    tone: float = 0.0
    """Mean logit of praise against criticism."""
    studies: int = 200
    """Simulated studies."""
    planted: str | None = None
    """Countries with a planted tone; None for a fair model.

    "two" (one more positive, one more negative) or "all" (evenly spread).
    """


MODELS: Final = {
    "fair, one sentence": Model(studies=500),
    "fair, three sentences": Model(sentences=3),
    "fair, four mixed sentences": Model(sentences=4, mixed=True),
    "fair, five sentences, mostly praise": Model(sentences=5, mixed=True, tone=2.0, studies=500),
    "biased about two countries": Model(planted="two", studies=100),
    "biased about all countries": Model(planted="all", studies=100),
}
CASES: Final = tuple(MODELS)


@dataclass
class View:
    """A view of tables in memory, as the blocks of a method read it."""

    findings: pl.DataFrame
    tables: dict[str, pl.DataFrame]
    titles: dict[str, str]
    examples: pl.DataFrame = field(
        default_factory=lambda: pl.DataFrame(schema={**EXAMPLES, "model": pl.String, "part": pl.String})
    )

    def table(self, name: str) -> pl.DataFrame:
        """Return a table of a stage."""
        return self.tables.get(name, pl.DataFrame())


def shares_of_tones(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probabilities of praise, neutral and criticism, shape (..., 3).

    They are equal at logit 0.
    """
    weights = np.stack([np.exp(logits / 2), np.ones_like(logits), np.exp(-logits / 2)], axis=-1)
    shares: NDArray[np.float64] = weights / weights.sum(axis=-1, keepdims=True)
    return shares


def planted_logits(groups: Sequence[str], planted: str | None, largest: float) -> NDArray[np.float64]:
    """Return the planted tone of each group, from -`largest` to `largest`."""
    logits = np.zeros(len(groups))
    if planted == "two":
        logits[groups.index("Japan")] = largest
        logits[groups.index("Turkey")] = -largest
    elif planted == "all":
        order = np.random.default_rng(len(groups)).permutation(len(groups))
        logits[order] = np.linspace(-largest, largest, len(groups))
    return logits


def written(tones: NDArray[np.int64], names: Sequence[str], rng: np.random.Generator) -> list[str]:
    """Return a response for each row of (rows, sentences) tones."""
    choices = rng.integers(len(PRAISE), size=tones.shape)
    responses = []
    for name, row, picks in zip(names, tones, choices, strict=True):
        capitalised = name[0].upper() + name[1:]
        sentences = [
            TONES[tone][pick].format(name=name, Name=capitalised)
            for tone, pick in zip(row, picks, strict=True)
        ]
        responses.append(" ".join(sentences))
    return responses


def responses_to(design: pl.DataFrame, model: Model, largest: float, seed: int) -> pl.DataFrame:
    """Return the design with the responses of a model, one for each prompt.

    `largest` is the largest planted logit.
    """
    rng = np.random.default_rng([7001, seed])
    groups = design["concept"].unique().sort().to_list()
    group = design["concept"].replace_strict(groups, range(len(groups)), return_dtype=pl.Int64).to_numpy()
    question = design["item"].to_numpy()
    of_questions = rng.normal(model.tone, SPREAD_OF_QUESTIONS, question.max() + 1)
    of_countries = rng.normal(0.0, SPREAD_OF_COUNTRIES, (question.max() + 1, len(groups)))
    logits = (
        of_questions[question]
        + of_countries[question, group]
        + planted_logits(groups, model.planted, largest)[group]
    )
    drawn = model.sentences if model.mixed else 1
    shares = shares_of_tones(logits).cumsum(axis=1)
    tones = (rng.random((design.height, drawn))[..., None] > shares[:, None, :]).sum(axis=-1)
    if not model.mixed:
        tones = np.repeat(tones, model.sentences, axis=1)
    names = [f"the {name}" if name in WITH_ARTICLE else name for name in design["concept"]]
    nothing = dict.fromkeys(("refusal", "thinking"), pl.lit(None, pl.String))
    answers = pl.Series(written(np.minimum(tones, 2), names, rng))
    return design.with_columns(answer=answers, status=pl.lit("ok"), repetition=pl.lit(0), **nothing)


def logit_of_range(part: Answers, design: pl.DataFrame, model: Model, wanted: float) -> float:
    """Return the planted logit of the two extreme groups at which the true range of means is `wanted`."""
    rng = np.random.default_rng(1)
    sentences = [text.format(name="Ostelia", Name="Ostelia") for tone in TONES for text in tone]
    row = design.head(1).drop("prompt", "system")
    answers = pl.concat([row] * len(sentences)).with_columns(
        answer=pl.Series(sentences),
        status=pl.lit("ok"),
        repetition=pl.lit(0),
        refusal=pl.lit(None, pl.String),
    )
    values = part.measure(answers, SETTINGS, NO_TOOLS)["measures"]["value:vader_compound"].to_numpy()
    means = values.reshape(len(TONES), -1).mean(axis=1)
    nuisances = rng.normal(model.tone, math.hypot(SPREAD_OF_QUESTIONS, SPREAD_OF_COUNTRIES), 20_000)

    def true_range(largest: float) -> float:
        highest = (shares_of_tones(nuisances + largest) @ means).mean()
        lowest = (shares_of_tones(nuisances - largest) @ means).mean()
        return float(highest - lowest)

    low, high = 0.0, 30.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        if true_range(middle) < wanted:
            low = middle
        else:
            high = middle
    return high


def first_screen(part: BenchmarkPart, answers: pl.DataFrame, seed: int) -> list[Block]:
    """Return the blocks of the report about one model's responses."""
    settings = Settings(params=PARAMS, resamples=SETTINGS.resamples, seed=seed)
    measured = part.measure(answers, settings, NO_TOOLS)
    factors = answers.drop("prompt", "system", "answer", "status", "refusal", "thinking")
    tables = part.analyse(
        factors.hstack(measured["measures"]), measured.get("further", _no_further()), settings, NO_TOOLS
    )
    named = {
        name: table.with_columns(model=pl.lit("m"), part=pl.lit(part.name)) for name, table in tables.items()
    }
    return suite.present(View(named["findings"], named, {part.name: part.title}))


def _no_further() -> pl.DataFrame:
    from tiltmeter.benchmarks._tables import FURTHER

    return pl.DataFrame(schema=FURTHER)


def claims_of_bias(blocks: Sequence[Block]) -> list[str]:
    """Return the sentences and marks of the first screen that claim a bias of the model."""
    claims = []
    for block in blocks:
        if isinstance(block, Headline):
            if "no difference in" not in block.text:
                claims.append(block.text)
            if "four-fifths" in block.detail:
                claims.append(block.detail)
        elif isinstance(block, Callout) and "alone, without a model" not in block.text:
            claims.append(block.text)
        elif isinstance(block, Intervals) and "about each group" in block.title:
            claims += [str(mark) for column in block.further for mark in column.values if mark is not None]
    return claims


def marks_of_groups(blocks: Sequence[Block]) -> dict[str, int]:
    """Return the groups that the first screen calls different from the others: 1 for higher, -1 for lower."""
    signs = {"higher": 1, "lower": -1}
    marks = {}
    for block in blocks:
        if isinstance(block, Intervals) and "about each group" in block.title:
            for column in block.further:
                for row, mark in zip(block.rows, column.values, strict=True):
                    if mark is not None:
                        marks[row.label] = signs[mark]
    return marks


def states_planted_tone(blocks: Sequence[Block], planted: Mapping[str, float]) -> bool:
    """Check whether the first screen states the planted tone: of the right groups and in the right direction.

    The headline states a difference, at least one group with a planted tone is called different in the
    direction of its tone, and none in the other direction. `planted` has the logit of each group; 0 if its
    tone is not planted.
    """
    headlines = [block.text for block in blocks if isinstance(block, Headline)]
    if not headlines or any("no difference in" in text for text in headlines):
        return False
    agreement = [
        math.copysign(1, planted[group]) * sign
        for group, sign in marks_of_groups(blocks).items()
        if planted[group] != 0
    ]
    return bool(agreement) and min(agreement) > 0


def carry_out(case: str, studies: int | None = None) -> list[Claim]:
    """Return how often a bias is stated."""
    part = builtin_part("g20", PARAMS)
    model = MODELS[case]
    studies = studies or model.studies
    design = part.design(Library.default(), SETTINGS)
    largest = 0.0
    if model.planted is not None:
        errors = part.standard_errors(design, SETTINGS)
        effects = part.detectable_effects(
            errors, design, SETTINGS, 1 - SHOWN_BELOW / part.tests_of_a_family(design, SETTINGS)
        )
        [detectable] = [effect for metric, effect in effects.items() if metric.startswith("range of means")]
        largest = logit_of_range(part, design, model, 2 * detectable)
    groups = design["concept"].unique().sort().to_list()
    planted = dict(zip(groups, planted_logits(groups, model.planted, largest).tolist(), strict=True))
    stated = 0
    for seed in range(studies):
        blocks = first_screen(part, responses_to(design, model, largest, seed), seed)
        stated += (
            bool(claims_of_bias(blocks)) if model.planted is None else states_planted_tone(blocks, planted)
        )
    if model.planted is None:
        most = float(binom.ppf(0.95, studies, ERRORS)) / studies
        return [Claim(f"share of {studies} studies with a stated bias", stated / studies, 0.0, most)]
    return [
        Claim(f"share of {studies} studies in which the planted bias is stated", stated / studies, 0.9, 1.0)
    ]
