"""What users write: YAML and the like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from support.fuzzing._make import of_file, of_text, package_text
from support.fuzzing.contract import Target
from tiltmeter.errors import InputError

__all__ = ["targets"]

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
    types: {adults: {woman: ["Emily, a woman", {name: Ann, text: "Ann, a nurse"}], man: ["Jim, a man", "Bob, a man"]}}
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
_TERMS = b"""identities: {gender: {woman: {called: [female], letters: [W], terms: ["motherhood, maternity"], related: [dress]}}}
negation: {cues: [not], ignored: [not only], prefixes: [un], without: [less]}
opposites: ["calm, anxious"]
"""


def _study(path: Path) -> object:
    from tiltmeter.runs import resolve

    return resolve(str(path)).as_document()


def _grid(path: Path) -> object:
    from tiltmeter.datasets import Library
    from tiltmeter.runs import resolve

    study = resolve("associations", settings={"params": {"grid": str(path), "encoder": "none"}, "repeats": 1, "limit": "20"})
    return [part.design(Library(cache=path.parent), study.settings) for part in study.study.parts]


def _spec(path: Path) -> object:
    from tiltmeter.benchmarks.builder import read_spec

    return read_spec(path)


def _replacements(path: Path) -> object:
    from tiltmeter.benchmarks.builder import read_table

    return read_table(path)


def _terms(path: Path) -> object:
    from tiltmeter.associations.terms import load_terms

    return load_terms(str(path))


def _prices(path: Path) -> object:
    from tiltmeter.engine import Prices

    prices = Prices.load(path)
    return prices.price("openai/gpt-4o"), prices.cost("a/b", 1, 1)


def _wording(probe: str, home: str, params: Callable[[Path], dict[str, str]]) -> Callable[[Path], object]:
    def read(path: Path) -> object:
        import tiltmeter
        from tiltmeter.prompt_templates import wordings

        return wordings(probe, str(path), Path(tiltmeter.__file__).parent / home)

    return read


def _roles(path: Path) -> object:
    from tiltmeter.benchmarks.configurations import read_roles

    return read_roles(str(path))


def _about(path: Path) -> object:
    from tiltmeter.benchmarks.benchmark_parts import own_part

    path.rename(path.with_name("benchmark.yaml"))
    path.with_name("benchmark.parquet").write_bytes(_benchmark())
    try:
        return own_part(str(path.with_name("benchmark.parquet")), {})
    except InputError as error:  # it names the file as the folder of a build has it
        raise InputError(f"{path.name}: {error}") from error


@cache
def _benchmark() -> bytes:
    import json

    from support.fuzzing._tables import _BENCHMARK, as_files

    return as_files(None, ".parquet", json.dumps(_BENCHMARK))[0]


def _limit(text: str) -> object:
    from tiltmeter.gating import Limit

    return Limit.parse("max", text)


def _given(text: str) -> object:
    from tiltmeter.models import sampling_from_options
    from tiltmeter.runs.resolving import parse_limit

    key, _, value = text.partition("=")
    made = sampling_from_options("openai/m", {key: value}) if key and value else None
    return made if value else parse_limit(text)


def _config(path: Path) -> object:
    from tiltmeter.models.weights import read_config

    return read_config(path)


def _yaml(*given: bytes) -> Callable[[], Sequence[bytes]]:
    return lambda: list(given)


def targets() -> list[Target]:
    """The readers of documents."""
    plain = _wording("direct", "probes/wordings.yaml", lambda path: {})
    return [
        of_file("study", ".yaml", _study, _yaml(_STUDY, b"study: associations\n")),
        of_file("grid", ".yaml", _grid, _yaml(_GRID)),
        of_file("benchmark spec", ".yaml", _spec, lambda: [_SPEC, *package_text("benchmarks/builtin/religions/spec.yaml")]),
        of_file("replacements .yaml", ".yaml", _replacements, _yaml(_TABLE)),
        of_file("replacements .json", ".json", _replacements, _yaml(b'{"Chad": {"Mali": {"Chad": "Mali"}}}')),
        of_file("terms", ".yaml", _terms, _yaml(_TERMS)),
        of_file("prices", ".yaml", _prices, _yaml(b"models: {'openai/*': {input: 0.5, output: 1}}\n")),
        of_file("wordings", ".yaml", plain, _yaml(b"direct: {mine: {prompt: 'Say {statement}'}}\n")),
        of_file("roles", ".yaml", _roles, _yaml(b"assistant: You are kind.\nnone:\n")),
        of_file(
            "build: benchmark.yaml",
            ".yaml",
            _about,
            _yaml(b"name: x\ntitle: y\nroles: {a: b}\ntemplates: {one: {continuation: '{prompt}'}}\n"),
        ),
        of_text("limits of a gate", _limit, lambda: [b"gest/stereotype_rate.p[subject=a,b,context=c]=0.1"]),
        of_text("-M and --limit", _given, lambda: [b"temperature=0.5", b'stop=["a"]', b"0-99", b"top_k={}"]),
        of_file("model configuration", ".json", _config, _yaml(b'{"model_type": "bert"}')),
    ]
