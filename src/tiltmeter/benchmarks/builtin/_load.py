"""The files of a built-in study as a benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from tiltmeter.benchmarks._tables import BENCHMARK
from tiltmeter.errors import InputError
from tiltmeter.registry import did_you_mean

__all__ = ["NAMES", "Builtin", "builtin"]

NAMES = ("g20", "religions", "parties")
CUT = " | "
"""Where the prompt of a sentence to be continued ends."""
WRITTEN = "written"
"""The source tag of texts written for a benchmark."""


@dataclass(frozen=True, slots=True)
class Builtin:
    """A built-in study before it is branched."""

    name: str
    title: str
    description: str
    benchmark: pl.DataFrame
    """The columns of BENCHMARK; every row is a root."""
    replacements: Mapping[str, Mapping[str, Mapping[str, str]]] | None
    """`{root: {target: {old: new}}}`; None where nothing is branched."""
    roles: Mapping[str, str | None]
    """Name -> system message (None: none is sent); the first is "none"."""
    templates: Mapping[str, str]
    """Name -> text with `{prompt}`."""
    spec: Path | None
    """The specification to build a larger benchmark of this kind from other texts; None where there is none."""
    article: str | None
    """The text the baselines are sentences of, in paragraphs; None where they stand for themselves."""


@cache
def builtin(name: str) -> Builtin:
    """The built-in study `name`, one of NAMES.

    Raises
    ------
    InputError
        There is none of that name.
    """
    if name not in NAMES:
        raise InputError(f"unknown built-in benchmark {name!r}: {did_you_mean(name, NAMES)}")
    study = _read(name, "study")
    article = None
    if name == "religions":
        rows = _continuations(_read(name, "sentences"))
    else:
        asked = _read(name, "article" if name == "g20" else "questions")
        rows = _questions(asked)
        article = _text(asked) if name == "g20" else None
    found = pl.DataFrame(rows, schema=BENCHMARK).with_columns(source=pl.lit(f"tiltmeter:{name}/") + pl.col("source"))
    return Builtin(
        name=name,
        title=study["title"],
        description=study["description"],
        benchmark=found,
        replacements=_read(name, "replacements"),
        roles=study["roles"],
        templates=study["templates"],
        spec=spec if (spec := _file(name, "spec")).is_file() else None,
        article=article,
    )


def _file(name: str, file: str) -> Path:
    return Path(__file__).with_name(name) / f"{file}.yaml"


def _read(name: str, file: str) -> Any:
    """A data file of a study; None where the study has none of that name."""
    import yaml

    path = _file(name, file)
    return yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else None


def _row(data: Mapping[str, Any], key: str, position: int, **values: Any) -> dict[str, Any]:
    return {
        "key": key,
        "root": key,
        "source_tag": WRITTEN,
        "position": position,
        **{name: data[name] for name in ("domain", "source", "licence")},
        **values,
    }


def _questions(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Questions beside the sentences that are their baselines; positions count all sentences of the text."""
    sentences = data["questions"] if "questions" in data else [one for section in data["sections"] for one in section["sentences"]]
    asked = [(place, one) for place, one in enumerate(sentences) if not isinstance(one, str)]
    return [
        _row(
            data,
            f"q{number:02d}",
            place,
            concept=data["concept"],
            keyword=one["keyword"],
            kind="question",
            prompt=one["ask"],
            baseline=one["text"] if "text" in one else one["baseline"],
        )
        for number, (place, one) in enumerate(asked, start=1)
    ]


def _text(data: Mapping[str, Any]) -> str:
    paragraphs = [[one if isinstance(one, str) else one["text"] for one in section["sentences"]] for section in data["sections"]]
    return "\n\n".join(" ".join(sentences) for sentences in paragraphs)


def _continuations(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for concept, sentences in data["concepts"].items():
        for topic, sentence in zip(data["topics"], sentences, strict=True):
            prompt, _, rest = sentence.partition(CUT)
            found = _row(
                data,
                f"{concept.lower()}-{topic}",
                len(rows),
                concept=concept,
                keyword=concept,
                kind="continuation",
                prompt=prompt,
                baseline=f"{prompt} {rest}",
                keyword_in_prompt=concept in prompt,
            )
            rows.append(found)
    return rows
