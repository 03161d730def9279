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

from tiltmeter.benchmarks.tables import BENCHMARK
from tiltmeter.errors import check_known
from tiltmeter.files.yaml import packaged_yaml

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
    data = {path.stem: packaged_yaml(path) for path in sorted(folder.glob("*.yaml"))}
    texts = data.get("article") or data.get("questions") or data["sentences"]
    rows = _continuations(texts) if "sentences" in data else _questions(texts)
    benchmark = pl.from_dicts(list(rows), BENCHMARK).with_columns(
        root=pl.coalesce("root", "key"),
        source_tag=lit("written"),
        domain=lit(texts["domain"]),
        source=lit(f"tiltmeter:{name}/{texts['source']}"),
        licence=lit(texts["licence"]),
    )
    return Builtin(name, benchmark=benchmark, replacements=data.get("replacements"), **data["study"])


def _questions(texts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield questions with the sentences that are their baselines.

    Positions count all sentences of the text.
    """
    sentences = (
        texts["questions"]
        if "questions" in texts
        else [one for section in texts["sections"] for one in section["sentences"]]
    )
    asked = [(place, one) for place, one in enumerate(sentences) if not isinstance(one, str)]
    for number, (place, one) in enumerate(asked, start=1):
        about = {
            "concept": texts["concept"],
            "keyword": one["keyword"],
            "kind": "question",
            "position": place,
        }
        yield about | {
            "key": f"q{number:02d}",
            "prompt": one["ask"],
            "baseline": one["text"] if "text" in one else one["baseline"],
        }


def _continuations(texts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    asked = [
        (concept, *pair)
        for concept, given in texts["concepts"].items()
        for pair in zip(texts["topics"], given, strict=True)
    ]
    for place, (concept, topic, sentence) in enumerate(asked):
        prompt, _, rest = sentence.partition(CUT)
        about = {
            "concept": concept,
            "keyword": concept,
            "kind": "continuation",
            "position": place,
            "keyword_in_prompt": concept in prompt,
        }
        yield about | {
            "key": f"{concept.lower()}-{topic}",
            "root": topic,
            "prompt": prompt,
            "baseline": f"{prompt} {rest}",
        }
