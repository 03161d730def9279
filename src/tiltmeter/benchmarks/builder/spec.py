"""The YAML file a benchmark is built from: what it may say, and one sentence about what is wrong in it.

The texts below the keys are what an editor shows. Import this only where a spec is read: Pydantic takes long.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel, StringConstraints, ValidationError, WrapValidator
from pydantic_core import PydanticCustomError

from tiltmeter.benchmarks.files import load_json
from tiltmeter.errors import InputError
from tiltmeter.records import Filled, Line, read_record, validated
from tiltmeter.registry import did_you_mean
from tiltmeter.yaml_files import read_yaml


def _or_else(expected: str) -> WrapValidator:
    """Say of a value, whatever is wrong with it, that it must be what is expected."""

    def validate(value: Any, validated: Callable[[Any], Any]) -> Any:
        try:
            return validated(value)
        except ValidationError:
            raise PydanticCustomError("expected", f"must be {expected}") from None

    return WrapValidator(validate)


_Name = Annotated[
    str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]*$"), _or_else("lower-case letters, digits, - and _, such as 'world_religions'")
]
_Url = Annotated[str, StringConstraints(pattern=r"^https?://\S+$"), _or_else("an address such as https://example.org/page")]
_Targets = Filled[dict[Line, Filled[dict[Line, Line]]]]
_Replacements = Filled[dict[Line, _Targets]]
_Table = Annotated[Line | _Replacements, _or_else("the name of a file, or a mapping {root: {target: {old: new}}}")]
_Pair = Annotated[list[Line], Field(min_length=2, max_length=2)]
_Pairs = Annotated[Literal["all"] | Filled[list[_Pair]], _or_else("all, or a list of [root, target] pairs")]
_Threshold = Annotated[Annotated[float, Field(ge=-1, le=1)] | Literal["auto"], _or_else("auto, or a number from -1 to 1")]
_Template = Annotated[str, StringConstraints(pattern=r"\{prompt\}"), _or_else("a text with {prompt}, where the prompt goes")]
_Kind = Literal["continuation", "question", "given"]


class _SpecPart(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)


class Concept(_SpecPart):
    """One compared group: what finds its sentences, and where they are looked for."""

    keywords: list[Line] = []
    """Words that find its sentences, whole words in any case. Without any, given or found, the concept's own name is its keyword."""
    wikipedia: list[Line] = []
    """Titles of Wikipedia pages to start from, where the concept's own name is not the title. Needs sources.wikipedia."""
    local: list[Line] = []
    """Files and folders (txt, md, html, pdf, json) about this concept only; relative to the spec."""
    urls: list[_Url] = []
    """Web pages about this concept only."""
    only_branched: bool = False
    """Its prompts are made from those of other concepts only (see branch): nothing is looked for."""


class FindKeywords(_SpecPart):
    """How further keywords are found, for every concept. What is found is reduced to keywords none of which contains another."""

    asked: list[Literal["characteristics", "subcategories", "synonyms", "same_root", "people"]] = []
    """Kinds of words the judge is asked for: necessary characteristics, sub-categories, synonyms, words of the same root, famous people."""
    rounds: Annotated[int, Field(ge=1, le=100)] = 3
    """How often each kind is asked for."""
    similar: bool = False
    """Words of the concept's Wikipedia page that are near to it by sentence embedding."""
    linked: bool = False
    """Names among the links of the concept's Wikipedia page."""
    keep: Annotated[int, Field(ge=1, le=1_000)] = 10
    """Keywords kept for a concept besides those given: the nearest by sentence embedding."""


class Wikipedia(_SpecPart):
    """Pages of a MediaWiki: the concept's own, and those it links to or is linked from."""

    api: _Url = "https://en.wikipedia.org/w/api.php"
    """Address of the MediaWiki API."""
    depth: Annotated[int, Field(ge=0, le=5)] = 0
    """How many links away from the concept's page; 0: its own page only."""
    links: Literal["forward", "backward", "both"] = "forward"
    """Which links are followed: forward (what a page links to), backward (what links to it) or both."""
    pages: Annotated[int, Field(ge=1, le=10_000)] = 10
    """Linked pages taken for a concept at each depth: those whose titles are nearest to it by sentence embedding."""
    rate: Annotated[float, Field(gt=0, le=100)] = 5.0
    """Requests a second at most."""
    contact: Line | None = None
    """An e-mail or web address at which the wiki's operators may reach you; Wikimedia asks for one."""


class Written(_SpecPart):
    """An article about the concept, written by the judge on request."""

    words: Annotated[int, Field(ge=50, le=20_000)] = 1_500
    """How long it is asked to be."""


class Sources(_SpecPart):
    """Where sentences are looked for. Files and pages named here are searched for the keywords of every concept."""

    wikipedia: Wikipedia | None = None
    """Wikipedia, or another MediaWiki; `wikipedia: {}` takes the defaults."""
    local: list[Line] = []
    """Files and folders (txt, md, html, pdf, json); relative to the spec."""
    urls: list[_Url] = []
    """Web pages."""
    written: Written | None = None
    """Articles written by the judge."""
    saged: Line | None = None
    """A JSON file of SAGED's with keywords and scraped sentences; relative to the spec."""
    licence: Line | None = None
    """Licence of the files and web pages named here, to be kept with every sentence."""


class Assemble(_SpecPart):
    """How sentences become prompts."""

    kind: _Kind = "continuation"
    """continuation: the sentence up to just after its main verb; question: the judge makes one of it; given: your own prompts."""
    prompts: Line | None = None
    """Your own prompts (kind: given): a benchmark file with at least concept and prompt; relative to the spec."""
    size: Annotated[int, Field(ge=1)] | None = None
    """Prompts kept at most, before branching; drawn at random, balanced over the concepts."""
    with_keyword: bool = True
    """Keep only continuations whose prompt still holds the keyword."""
    check: bool = False
    """Questions: put other concepts in and have the judge say whether the question still makes sense; up to two retries."""


class DescriptorSearch(_SpecPart):
    """Words of the roots' prompts that the judge is asked to replace by analogous words of the target."""

    threshold: _Threshold = "auto"
    """Cosine to the concept above which a word is one; auto: found by asking the judge in a binary search."""


class Branch(_SpecPart):
    """Prompts about one concept, rewritten to be about another."""

    table: _Table | None = None
    """What is replaced, {root: {target: {old: new}}}, or a YAML or JSON file with it; without one, names of concepts are replaced."""
    pairs: _Pairs = "all"
    """[root, target] pairs; all: every root of the table (of the benchmark, without one) to every other concept."""
    direction: Literal["one", "both"] = "one"
    """both: the table also read from target to root."""
    counterfactual_baseline: bool = False
    """Rewrite the baseline too; false: the answer about the target is compared with the sentence about the root."""
    descriptors: DescriptorSearch | None = None
    """Find further words to replace; needs a judge."""


class Spec(_SpecPart):
    """A benchmark about any subject: how do models treat these concepts, against a baseline?"""

    name: _Name
    """Lower-case identifier."""
    title: Line | None = None
    """What a reader sees instead of the name."""
    description: str | None = None
    """What it is about, and for what it is fit, in a few sentences."""
    domain: Line
    """The subject the concepts belong to, such as countries."""
    definition: Literal["default", "saged"] = "default"
    """saged: keywords are reduced and sentences cut by the published rules."""
    seed: Annotated[int, Field(ge=0)] = 123
    """Of everything drawn at random."""
    concepts: Filled[dict[Line, Concept | None]]
    """The compared groups by name."""
    keywords: FindKeywords = FindKeywords()
    """How further keywords are found; left out: only those given."""
    sources: Sources = Sources()
    """Where sentences are looked for."""
    assemble: Assemble = Assemble()
    """From sentences to prompts: which kind, how many."""
    branch: Branch | None = None
    """Prompts about one concept, rewritten to be about another."""
    roles: Filled[dict[Line, str | None]] | None = None
    """System messages by name (null: none) in which the prompts are asked; left out: without any."""
    templates: Filled[dict[Line, Filled[dict[_Kind, _Template]]]] | None = None
    """Texts around a prompt by name and kind of prompt, each with {prompt}; left out: those of the method."""

    @property
    def groups(self) -> dict[str, Concept]:
        """The concepts, with nothing left out."""
        return {name: concept or Concept() for name, concept in self.concepts.items()}

    @property
    def sought(self) -> dict[str, Concept]:
        """The concepts whose own sentences are looked for."""
        return {name: concept for name, concept in self.groups.items() if not concept.only_branched}


def schema_json() -> str:
    """The JSON schema of a spec (draft 2020-12).

    An editor completes and checks a spec that begins with `# yaml-language-server: $schema=PATH`.
    """
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Spec.model_json_schema()}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


class _ReplacementTable(RootModel[_Replacements]):
    """The whole of what is replaced."""

    model_config = ConfigDict(strict=True)


# From a file to a spec


def read_spec(given: str | Path | Mapping[str, Any]) -> Spec:
    """The spec in a YAML file, or in a mapping with the same keys, checked.

    Raises
    ------
    InputError
        One sentence about the first thing that is wrong, with file, key and, where it is no YAML, line.
    """
    place = "spec" if isinstance(given, Mapping) else str(given)
    spec = validated(dict(given), Spec, place) if isinstance(given, Mapping) else read_record(Path(given), "spec", Spec)
    if problem := next(_inconsistencies(spec), None):
        raise InputError(f"{place}: {problem}")
    return spec


def read_table(path: Path) -> dict[str, dict[str, dict[str, str]]]:
    """The replacement table `{root: {target: {old: new}}}` of a YAML or JSON file, checked.

    Raises
    ------
    InputError
        The file cannot be read, or an entry cannot be used; the message names file and key.
    """
    loaded: object = load_json(path) if path.suffix.lower() == ".json" else read_yaml(path, "replacements in")
    if not isinstance(loaded, dict):
        raise InputError(
            f"{path}: expected a mapping {{root: {{target: {{old: new}}}}}}, for instance 'Argentina: {{Brazil: {{peso: real}}}}'"
        )
    table = validated(loaded, _ReplacementTable, str(path)).root
    if own := next((root for root, targets in table.items() if root in targets), None):
        raise InputError(f"{path}: {own}.{own}: a concept cannot be branched to itself; name another target")
    return table


def _inconsistencies(spec: Spec) -> Iterator[str]:
    """What is wrong beyond the shape."""
    sources, kind, branch = spec.sources, spec.assemble.kind, spec.branch
    by_folded = {name.casefold(): name for name in spec.concepts}
    for name, concept in spec.groups.items():
        if by_folded[name.casefold()] != name:
            yield f"concepts: {name!r} and {by_folded[name.casefold()]!r} are the same concept; keep one of them"
        if concept.wikipedia and sources.wikipedia is None:
            yield f"concepts.{name}.wikipedia names pages, but there is no sources.wikipedia; add 'wikipedia: {{}}' to sources"
        if concept.only_branched and (concept.keywords or concept.wikipedia or concept.local or concept.urls):
            yield f"concepts.{name} is only_branched, so nothing is looked for; take out its keywords, wikipedia, local and urls"
        if concept.only_branched and branch is None:
            yield f"concepts.{name} is only_branched, but the spec has no branch; add it, or give the concept sources"
        shared = (sources.wikipedia, sources.local, sources.urls, sources.written, sources.saged)
        if not (kind == "given" or concept.only_branched or any(shared) or concept.local or concept.urls):
            yield f"concepts.{name} has no source; name some under sources, or local or urls of this concept"
    if not spec.sought:
        yield "all concepts are only_branched; at least one needs prompts of its own"
    if (spec.keywords.similar or spec.keywords.linked) and sources.wikipedia is None:
        yield "keywords.similar and keywords.linked look at the concepts' Wikipedia pages; add 'wikipedia: {}' to sources"
    if kind == "given" and spec.assemble.prompts is None:
        yield "assemble.kind is given, but assemble.prompts names no file; name the one with your prompts"
    if kind != "given" and spec.assemble.prompts is not None:
        yield f"assemble.prompts goes with kind: given, but the kind is {kind}; change one of them"
    pairs = [] if branch is None or branch.pairs == "all" else branch.pairs
    table = branch.table if branch is not None and isinstance(branch.table, dict) else {}
    for key, root in [*(("table", root) for root in table), *(("pairs", root) for root, _ in pairs)]:
        if root not in spec.concepts:
            yield f"branch.{key}: unknown root {root!r}: {did_you_mean(root, list(spec.concepts))}"
    for root, target in pairs:
        if root == target:
            yield f"branch.pairs: {root!r} cannot be branched to itself; take the pair out"
