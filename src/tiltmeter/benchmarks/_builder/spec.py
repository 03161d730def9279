"""The YAML spec from which a benchmark is built: its schema and validation.

The docstrings of the fields are shown in editors. Import this module only where a spec is read, as importing
Pydantic is slow.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    StringConstraints,
    ValidationError,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from tiltmeter._files.records import Filled, Line, read_record, validated
from tiltmeter._files.yaml import read_yaml
from tiltmeter.benchmarks._files import load_json
from tiltmeter.errors import InputError, did_you_mean


def _or_else(expected: str) -> WrapValidator:
    """Return a validator that reports any error as "must be" followed by what is expected."""

    def validate(value: Any, validated: Callable[[Any], Any]) -> Any:
        try:
            return validated(value)
        except ValidationError:
            raise PydanticCustomError("expected", f"must be {expected}") from None

    return WrapValidator(validate)


_Name = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z][a-z0-9_-]*$"),
    _or_else("lower-case letters, digits, - and _, such as 'world_religions'"),
]
_Url = Annotated[
    str, StringConstraints(pattern=r"^https?://\S+$"), _or_else("an address such as https://example.org/page")
]
_Targets = Filled[dict[Line, Filled[dict[Line, Line]]]]
_Replacements = Filled[dict[Line, _Targets]]
_Table = Annotated[
    Line | _Replacements, _or_else("the name of a file, or a mapping {root: {target: {old: new}}}")
]
_Pair = Annotated[list[Line], Field(min_length=2, max_length=2)]
_Pairs = Annotated[Literal["all"] | Filled[list[_Pair]], _or_else("all, or a list of [root, target] pairs")]
_Threshold = Annotated[
    Annotated[float, Field(ge=-1, le=1)] | Literal["auto"], _or_else("auto, or a number from -1 to 1")
]
_Template = Annotated[
    str, StringConstraints(pattern=r"\{prompt\}"), _or_else("a text with {prompt} at the place of the prompt")
]
_Kind = Literal["continuation", "question", "given"]


class _SpecPart(BaseModel):
    """Base model of the parts of a specification."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True
    )


class Concept(_SpecPart):
    """A compared group: its keywords and sources."""

    keywords: list[Line] = []
    """Keywords that select its sentences, as whole words in any case. Without keywords, the name of the
    concept is used."""
    wikipedia: list[Line] = []
    """Titles of its Wikipedia pages, if they differ from the name of the concept. Requires sources.wikipedia.
    """
    local: list[Line] = []
    """Files and folders (txt, md, html, pdf, json) about this concept only; relative to the spec."""
    urls: list[_Url] = []
    """Web pages about this concept only."""
    only_branched: bool = False
    """Whether its prompts are only made from those of other concepts (see branch), without searching for
    sentences."""


class FindKeywords(_SpecPart):
    """How to find further keywords for all concepts. Keywords that contain another keyword are removed."""

    asked: list[Literal["characteristics", "subcategories", "synonyms", "same_root", "people"]] = []
    """Kinds of keywords requested from the judge: characteristics, sub-categories, synonyms, words with the
    same root, famous people."""
    rounds: Annotated[int, Field(ge=1, le=100)] = 3
    """Maximum number of requests for each kind."""
    similar: bool = False
    """Whether to add words of the concept's Wikipedia page that are similar to it by sentence embedding."""
    linked: bool = False
    """Whether to add names among the links of the concept's Wikipedia page."""
    keep: Annotated[int, Field(ge=1, le=1_000)] = 10
    """Number of keywords kept for each concept besides the given ones: the most similar by sentence
    embedding."""


class Wikipedia(_SpecPart):
    """Pages of a MediaWiki: those of the concept, and pages that they link to or that link to them."""

    api: _Url = "https://en.wikipedia.org/w/api.php"
    """Address of the MediaWiki API."""
    depth: Annotated[int, Field(ge=0, le=5)] = 0
    """Number of links followed from the concept's own page; 0: its own page only."""
    links: Literal["forward", "backward", "both"] = "forward"
    """Direction of the links: forward (pages that a page links to), backward (pages that link to it) or both.
    """
    pages: Annotated[int, Field(ge=1, le=10_000)] = 10
    """Number of linked pages used for a concept at each depth: those with the most similar titles by sentence
    embedding."""
    rate: Annotated[float, Field(gt=0, le=100)] = 5.0
    """Maximum number of requests per second."""
    contact: Line | None = None
    """Your e-mail or web address, sent to the operators of the wiki; Wikimedia asks for one."""


class Written(_SpecPart):
    """Articles about each concept, written by the judge."""

    words: Annotated[int, Field(ge=50, le=20_000)] = 1_500
    """Requested length in words."""


class Sources(_SpecPart):
    """Sources of sentences. Files and pages named here are searched for the keywords of all concepts."""

    wikipedia: Wikipedia | None = None
    """Wikipedia, or another MediaWiki; `wikipedia: {}` uses the defaults."""
    local: list[Line] = []
    """Files and folders (txt, md, html, pdf, json); relative to the spec."""
    urls: list[_Url] = []
    """Web pages."""
    written: Written | None = None
    """Articles written by the judge."""
    saged: Line | None = None
    """JSON file of SAGED with keywords and scraped sentences; relative to the spec."""
    licence: Line | None = None
    """Licence of the files and web pages named here, recorded with each sentence."""


class Assemble(_SpecPart):
    """How to make prompts from sentences."""

    kind: _Kind = "continuation"
    """continuation: the sentence up to its main verb; question: a question that the judge writes about it;
    given: your own prompts."""
    prompts: Line | None = None
    """Benchmark file with your own prompts (kind: given), with at least the columns concept and prompt;
    relative to the spec."""
    size: Annotated[int, Field(ge=1)] | None = None
    """Maximum number of prompts before branching; sampled at random, balanced over the concepts."""
    with_keyword: bool = True
    """Whether to keep only continuations whose prompt contains the keyword."""
    check: bool = False
    """Whether the judge checks that each question also makes sense for other concepts; up to two retries."""


class DescriptorSearch(_SpecPart):
    """Search for words in prompts of the root, which the judge replaces by analogous words of the target."""

    threshold: _Threshold = "auto"
    """Smallest cosine similarity of these words to the concept; auto: found by a binary search that asks the
    judge."""


class Branch(_SpecPart):
    """Branching: prompts about one concept, rewritten to be about another."""

    table: _Table | None = None
    """Replacements {root: {target: {old: new}}}, or a YAML or JSON file with them; without a table, the names
    of concepts are replaced."""
    pairs: _Pairs = "all"
    """[root, target] pairs; all: those of the table; without a table, every concept with prompts to every
    other concept."""
    direction: Literal["one", "both"] = "one"
    """both: the table is also used from target to root."""
    counterfactual_baseline: bool = False
    """Whether to rewrite the baseline too; otherwise answers about the target are compared with the sentence
    about the root."""
    descriptors: DescriptorSearch | None = None
    """Search for further words to replace; requires a judge."""


class Spec(_SpecPart):
    """Spec of a benchmark about any subject, to compare how models treat these concepts."""

    name: _Name
    """Lower-case identifier."""
    title: Line | None = None
    """Title shown in reports instead of the name."""
    description: str | None = None
    """Description of the content and the intended use."""
    domain: Line
    """The subject of the concepts, such as countries."""
    definition: Literal["default", "saged"] = "default"
    """saged: keywords are reduced and sentences are cut by the published rules."""
    seed: Annotated[int, Field(ge=0)] = 123
    """Random seed."""
    concepts: Filled[dict[Line, Concept | None]]
    """The compared groups by name."""
    keywords: FindKeywords = FindKeywords()
    """How to find further keywords; default: only the given ones."""
    sources: Sources = Sources()
    """Sources of sentences."""
    assemble: Assemble = Assemble()
    """How to make prompts from sentences: kind and number."""
    branch: Branch | None = None
    """Branching: prompts about one concept, rewritten to be about another."""
    roles: Filled[dict[Line, str | None]] | None = None
    """System messages by name of the role (null: no system message); default: a single role without a system
    message."""
    templates: Filled[dict[Line, Filled[dict[_Kind, _Template]]]] | None = None
    """Prompt templates by name and kind of prompt, each with {prompt}; default: those of the method."""

    @property
    def groups(self) -> dict[str, Concept]:
        """All concepts, with defaults filled in."""
        return {name: concept or Concept() for name, concept in self.concepts.items()}

    @property
    def sought(self) -> dict[str, Concept]:
        """The concepts that need their own sentences."""
        return {name: concept for name, concept in self.groups.items() if not concept.only_branched}


def schema_json() -> str:
    """Return the JSON schema of a spec (draft 2020-12).

    Editors complete and validate a spec that starts with `# yaml-language-server: $schema=PATH`.
    """
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Spec.model_json_schema()}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


class _ReplacementTable(RootModel[_Replacements]):
    """A replacement table."""

    model_config = ConfigDict(strict=True)


# From a file to a spec


def read_spec(given: str | Path | Mapping[str, Any]) -> Spec:
    """Read and validate a spec from a YAML file, or from a mapping with the same keys.

    Raises
    ------
    InputError
        The spec is not valid; the message describes the first problem with file, key and, for invalid YAML,
        line.
    """
    if isinstance(given, Mapping):
        place = "spec"
        spec = validated(dict(given), Spec, place)
    else:
        place = str(given)
        spec = read_record(Path(given), "spec", Spec)
    if problem := next(_inconsistencies(spec), None):
        raise InputError(f"{place}: {problem}")
    return spec


def read_table(path: Path) -> dict[str, dict[str, dict[str, str]]]:
    """Read and validate a replacement table `{root: {target: {old: new}}}` from a YAML or JSON file.

    Raises
    ------
    InputError
        The file cannot be read, or an entry cannot be used; the message names file and key.
    """
    loaded: object = load_json(path) if path.suffix.lower() == ".json" else read_yaml(path, "replacements in")
    if not isinstance(loaded, dict):
        raise InputError(
            f"{path}: expected a mapping {{root: {{target: {{old: new}}}}}}, "
            "for example 'Argentina: {Brazil: {peso: real}}'"
        )
    table = validated(loaded, _ReplacementTable, str(path)).root
    for root, targets in table.items():
        if root in targets:
            key = f"{root}.{root}"
            raise InputError(f"{path}: {key}: a concept cannot be branched to itself; name another target")
    return table


def _inconsistencies(spec: Spec) -> Iterator[str]:
    """Yield inconsistencies between the keys of a spec."""
    kind = spec.assemble.kind
    for name, concept in spec.groups.items():
        yield from _inconsistencies_of_concept(spec, name, concept)
    if not spec.sought:
        yield "all concepts are only_branched; at least one concept needs its own prompts"
    if (spec.keywords.similar or spec.keywords.linked) and spec.sources.wikipedia is None:
        yield (
            "keywords.similar and keywords.linked require the concepts' Wikipedia pages; "
            "add 'wikipedia: {}' to sources"
        )
    if kind == "given" and spec.assemble.prompts is None:
        yield "assemble.kind is given, but assemble.prompts is missing; set it to the file with your prompts"
    if kind != "given" and spec.assemble.prompts is not None:
        yield f"assemble.prompts requires kind: given, but the kind is {kind}; change one of them"
    if spec.branch is not None:
        yield from _inconsistencies_of_branch(spec.branch, list(spec.concepts))


def _inconsistencies_of_concept(spec: Spec, name: str, concept: Concept) -> Iterator[str]:
    """Yield inconsistencies between the keys of a concept and those of the spec."""
    sources = spec.sources
    same_name = {key.casefold(): key for key in spec.concepts}[name.casefold()]
    if same_name != name:
        yield f"concepts: {name!r} and {same_name!r} are the same concept; keep one of them"
    if concept.wikipedia and sources.wikipedia is None:
        yield f"concepts.{name}.wikipedia requires sources.wikipedia; add 'wikipedia: {{}}' to sources"
    if concept.only_branched and (concept.keywords or concept.wikipedia or concept.local or concept.urls):
        yield (
            f"concepts.{name} is only_branched, so its keywords, wikipedia, local and urls are not used; "
            "remove them"
        )
    if concept.only_branched and spec.branch is None:
        yield (
            f"concepts.{name} is only_branched, but the spec has no branch; "
            "add branch, or sources for the concept"
        )
    needs_source = spec.assemble.kind != "given" and not concept.only_branched
    shared = (sources.wikipedia, sources.local, sources.urls, sources.written, sources.saged)
    if needs_source and not (any(shared) or concept.local or concept.urls):
        yield f"concepts.{name} has no source; add sources, or local or urls of this concept"


def _inconsistencies_of_branch(branch: Branch, concepts: list[str]) -> Iterator[str]:
    """Yield inconsistencies between the branching and the concepts of a spec."""
    pairs = [] if branch.pairs == "all" else branch.pairs
    roots = [("table", root) for root in branch.table] if isinstance(branch.table, dict) else []
    roots += [("pairs", root) for root, _ in pairs]
    for key, root in roots:
        if root not in concepts:
            yield f"branch.{key}: unknown root {root!r}: {did_you_mean(root, concepts)}"
    for root, target in pairs:
        if root == target:
            yield f"branch.pairs: {root!r} cannot be branched to itself; remove the pair"
