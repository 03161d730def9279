"""Built-in benchmarks, with original texts, questions and roles that need no external data.

Each subfolder is one study: `study.yaml` (title, roles, templates), its texts, and, if it is branched to
other groups, the table `replacements.yaml`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
from polars import DataFrame, lit

from tiltmeter._files.yaml import packaged_yaml
from tiltmeter.benchmarks._tables import BENCHMARK
from tiltmeter.errors import check_known

__all__ = ["NAMES", "Builtin", "builtin"]

NAMES = ("g20", "religions", "parties")
CUT = " | "
"""Mark in a sentence at the end of the prompt to be continued."""


@dataclass(frozen=True, slots=True)
class Builtin:
    """A built-in study before branching."""

    name: str
    title: str
    description: str
    benchmark: DataFrame
    """The columns of BENCHMARK; every row is a root, or sentences on the same topic have the same root."""
    replacements: Mapping[str, Mapping[str, Mapping[str, str]]] | None
    """`{root: {target: {old: new}}}`; None if nothing is branched."""
    roles: Mapping[str, str | None]
    """Name -> system message (None: no system message); the first is "none"."""
    templates: Mapping[str, str]
    """Name -> text with `{prompt}`."""


@cache
def builtin(name: str) -> Builtin:
    """Read the built-in study `name`, one of NAMES.

    Raises
    ------
    InputError
        There is no study with that name.
    """
    check_known(name, NAMES, f"unknown benchmark {name!r}", " (for a benchmark file, use -P benchmark=FILE)")
    folder = Path(__file__).with_name(name)
    files = {path.stem: packaged_yaml(path) for path in sorted(folder.glob("*.yaml"))}
    if "sentences" in files:
        texts = files["sentences"]
        rows = _continuations(texts)
    else:
        texts = files.get("article") or files["questions"]
        rows = _questions(texts)
    benchmark = pl.from_dicts(list(rows), BENCHMARK).with_columns(
        root=pl.coalesce("root", "key"),
        source_tag=lit("written"),
        domain=lit(texts["domain"]),
        source=lit(f"tiltmeter:{name}/{texts['source']}"),
        licence=lit(texts["licence"]),
    )
    return Builtin(name, benchmark=benchmark, replacements=files.get("replacements"), **files["study"])


def _questions(texts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield questions with the sentences that are their baselines.

    Positions count all sentences of the text.
    """
    if "questions" in texts:
        sentences = texts["questions"]
    else:
        sentences = [sentence for section in texts["sections"] for sentence in section["sentences"]]
    # A sentence without a question is a string.
    number = 0
    for position, sentence in enumerate(sentences):
        if isinstance(sentence, str):
            continue
        number += 1
        yield {
            "key": f"q{number:02d}",
            "concept": texts["concept"],
            "keyword": sentence["keyword"],
            "kind": "question",
            "position": position,
            "prompt": sentence["ask"],
            "baseline": sentence["text"] if "text" in sentence else sentence["baseline"],
        }


def _continuations(texts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield prompts to be continued, with the sentences that are their baselines."""
    position = 0
    for concept, sentences in texts["concepts"].items():
        for topic, sentence in zip(texts["topics"], sentences, strict=True):
            prompt, _, continuation = sentence.partition(CUT)
            yield {
                "key": f"{concept.lower()}-{topic}",
                "root": topic,
                "concept": concept,
                "keyword": concept,
                "kind": "continuation",
                "position": position,
                "prompt": prompt,
                "baseline": f"{prompt} {continuation}",
                "keyword_in_prompt": concept in prompt,
            }
            position += 1
