"""What a part may use while a run is carried out: the judge (through the engine and the journal), encoders, tables of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import polars as pl

from tiltmeter.errors import ProviderError
from tiltmeter.models import Message, Model, Sampling
from tiltmeter.runs._remote_place import runs_root
from tiltmeter.runs._stages import StageTables
from tiltmeter.study import Classifier, Encoder, Judge, NotRun

if TYPE_CHECKING:
    from tiltmeter.datasets import Library
    from tiltmeter.engine import Engine, Journal, Limits, Prices, Tally

__all__ = ["RunJudge", "RunTools"]

UNSTRUCTURED = "bad_request"
"""The kind of failure with which an endpoint declines a response format it does not know."""


class RunJudge:
    """A judge whose answers are kept in the journal of the run: asked again, it costs nothing.

    Parameters
    ----------
    sampling
        What it is asked with, unless a stage says otherwise.
    display
        The kind of progress shown.
    engine
        What carries the asking out; default: this process.
    """

    def __init__(
        self,
        model: Model,
        sampling: Sampling,
        *,
        journal: Journal,
        limits: Limits,
        prices: Prices,
        display: str | None = "none",
        engine: Engine | None = None,
    ) -> None:
        from tiltmeter.engine import LocalEngine

        self.model, self.sampling, self._engine = model, sampling, engine or LocalEngine()
        self.tallies: list[Tally] = []
        self._journal, self._limits, self._prices, self._display = journal, limits, prices, display

    @property
    def name(self) -> str:
        """`provider/model`."""
        return self.model.name

    @property
    def interrupted(self) -> bool:
        """Whether somebody asked to stop; from then on only what the journal holds is given."""
        return any(tally.interrupted or tally.stopped for tally in self.tallies)

    def ask(
        self,
        conversations: Sequence[tuple[Message, ...]],
        *,
        schema: Mapping[str, Any] | None = None,
        sampling: Mapping[str, Any] | None = None,
    ) -> pl.DataFrame:
        """See `tiltmeter.study.Judge`."""
        asked_with = dataclasses.replace(self.sampling, **dict(sampling or {}))
        if schema is None or not getattr(self.model, "structured", False):
            return self._ask(conversations, asked_with)
        given = self._ask(conversations, _structured(asked_with, schema))
        declined = given["error"].str.starts_with(f"{UNSTRUCTURED}:").fill_null(False)
        if not declined.any():
            return given
        # An endpoint that knows no schema may still answer in JSON when asked in words.
        again = self._ask([conversations[i] for i in declined.arg_true()], asked_with)
        kept = given.with_row_index("row").filter(~declined)
        placed = again.with_columns(row=declined.arg_true())
        return pl.concat([kept, placed.select(kept.columns)]).sort("row").drop("row")

    def _ask(self, conversations: Sequence[tuple[Message, ...]], sampling: Sampling) -> pl.DataFrame:
        from tiltmeter.engine import Keys, Request, open_display

        if conversations and not self.interrupted:
            with open_display(self._display, len(conversations), f"judge {self.name}") as progress:
                requests = (Request(messages) for messages in conversations)
                try:
                    tally = self._engine.generate(
                        self.model, requests, sampling, journal=self._journal, limits=self._limits, progress=progress, prices=self._prices
                    )
                except ProviderError as error:
                    raise ProviderError(f"judge {self.name}: {error}; answers given so far are kept for the next run") from error
            self.tallies.append(tally)
        key_of = Keys(self.model.fingerprint, sampling)
        found = self._journal.fetch([key_of(messages, 0) for messages in conversations])
        return found.select("key", "status", pl.col("text").alias("answer"), "error")


def _structured(sampling: Sampling, schema: Mapping[str, Any]) -> Sampling:
    wanted = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": dict(schema)}}
    return dataclasses.replace(sampling, extra={**sampling.extra, "response_format": wanted})


class RunTools:
    """The tools of one run; `of` says for whom they are used."""

    def __init__(self, stages: StageTables, library: Library, judge: RunJudge | None, engine: Engine | None = None) -> None:
        from tiltmeter.engine import LocalEngine

        self._stages, self._library, self._judge, self._engine = stages, library, judge, engine or LocalEngine()
        self.problems: list[str] = []
        """What parts said is missing."""
        self._model: str | None = None
        self._part: str | None = None
        self._encoders: dict[str, Encoder] = {}
        self._classifiers: dict[str, Classifier] = {}

    @property
    def judge(self) -> Judge | None:
        """See `tiltmeter.study.Tools`."""
        return self._judge

    @contextmanager
    def of(self, model: str, part: str) -> Iterator[None]:
        """Work on one part of one model; what is kept of it is kept only if the block ends without error."""
        self._model, self._part = model, part
        try:
            with self._stages.all_or_nothing():
                yield
        finally:
            self._model = self._part = None

    def encoder(self, name: str) -> Encoder:
        """See `tiltmeter.study.Tools`."""
        from tiltmeter.datasets import DataUnavailable
        from tiltmeter.datasets.encoders import ENCODERS, encoder_folder

        if name not in self._encoders:
            try:
                place = str(encoder_folder(self._library)) if name in ENCODERS else name
            except DataUnavailable as error:
                raise NotRun(f"{error.reason}; {error.remedy}") from error
            self._encoders[name] = self._engine.encoder(place, store=runs_root() / "vectors.sqlite")
        return self._encoders[name]

    def classifier(self, name: str) -> Classifier:
        """See `tiltmeter.study.Tools`."""
        if name not in self._classifiers:
            try:
                self._classifiers[name] = self._engine.classifier(name, store=runs_root() / "vectors.sqlite")
            except ProviderError as error:
                raise NotRun(str(error)) from error
        return self._classifiers[name]

    def problem(self, sentence: str) -> None:
        """See `tiltmeter.study.Tools`."""
        self.problems.append(": ".join([", ".join(one for one in (self._model, self._part) if one), sentence]))

    def keep(self, table: str, rows: pl.DataFrame) -> None:
        """See `tiltmeter.study.Tools`."""
        self._stages.add(table, rows, self._model, self._part)

    def kept(self, table: str) -> pl.DataFrame:
        """See `tiltmeter.study.Tools`."""
        rows = self._stages.scan(table)
        for column, owner in (("model", self._model), ("part", self._part)):
            if owner is not None:
                rows = rows.filter(pl.col(column).is_null() | (pl.col(column) == owner))
        return rows.collect()
