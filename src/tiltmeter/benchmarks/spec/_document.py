"""What a spec may say. The texts below the keys are what an editor shows."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

__all__ = ["Assemble", "Branch", "Concept", "Descriptors", "FindKeywords", "Sources", "Spec", "Wikipedia", "Written"]

_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, pattern=r"^[^\n]*$")]
_Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]*$")]
_Paths = Annotated[list[_Text], Field(min_length=1)]
_Url = Annotated[str, StringConstraints(pattern=r"^https?://\S+$")]
_Similarity = Annotated[float, Field(ge=-1, le=1)]
_Kind = Literal["continuation", "question", "given"]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)


class Concept(_Record):
    """One compared group: what finds its sentences, and where they are looked for."""

    keywords: list[_Text] = Field(default_factory=list)
    """Words that find its sentences, whole words in any case. Without any, given or found, the concept's own name is its keyword."""
    wikipedia: list[_Text] = Field(default_factory=list)
    """Titles of Wikipedia pages to start from, where the concept's own name is not the title. Needs sources.wikipedia."""
    local: list[_Text] = Field(default_factory=list)
    """Files and folders (txt, md, html, pdf, json) about this concept only; relative to the spec."""
    urls: list[_Url] = Field(default_factory=list)
    """Web pages about this concept only."""
    only_branched: bool = False
    """Its prompts are made from those of other concepts only (see branch): nothing is looked for."""


class FindKeywords(_Record):
    """How further keywords are found, for every concept. What is found is reduced to keywords none of which contains another."""

    asked: list[Literal["characteristics", "subcategories", "synonyms", "same_root", "people"]] = Field(default_factory=list)
    """Kinds of words the judge is asked for: necessary characteristics, sub-categories, synonyms, words of the same root, famous people."""
    rounds: Annotated[int, Field(ge=1, le=100)] = 3
    """How often each kind is asked for."""
    similar: bool = False
    """Words of the concept's Wikipedia page that are near to it by sentence embedding."""
    linked: bool = False
    """Names among the links of the concept's Wikipedia page."""
    keep: Annotated[int, Field(ge=1, le=1_000)] = 10
    """Keywords kept for a concept beside those given: the nearest by sentence embedding."""


class Wikipedia(_Record):
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
    contact: _Text | None = None
    """An e-mail or web address at which the wiki's operators may reach you; Wikimedia asks for one."""


class Written(_Record):
    """An article about the concept, written by the judge on request."""

    words: Annotated[int, Field(ge=50, le=20_000)] = 1_500
    """How long it is asked to be."""


class Sources(_Record):
    """Where sentences are looked for. Files and pages named here are searched for the keywords of every concept."""

    wikipedia: Wikipedia | None = None
    """Wikipedia, or another MediaWiki; `wikipedia: {}` takes the defaults."""
    local: list[_Text] = Field(default_factory=list)
    """Files and folders (txt, md, html, pdf, json); relative to the spec."""
    urls: list[_Url] = Field(default_factory=list)
    """Web pages."""
    written: Written | None = None
    """Articles written by the judge."""
    saged: _Text | None = None
    """A JSON file of SAGED's with keywords and scraped sentences; relative to the spec."""
    licence: _Text | None = None
    """Licence of the files and web pages named here, to be kept with every sentence."""


class Assemble(_Record):
    """How sentences become prompts."""

    kind: _Kind = "continuation"
    """continuation: the sentence up to just after its main verb; question: the judge makes one of it; given: your own prompts."""
    prompts: _Text | None = None
    """Your own prompts (kind: given): a benchmark file with at least concept and prompt; relative to the spec."""
    size: Annotated[int, Field(ge=1)] | None = None
    """Prompts kept at most, before branching; drawn by lot, balanced over the concepts."""
    with_keyword: bool = True
    """Keep only continuations whose prompt still holds the keyword."""
    check: bool = False
    """Questions: put other concepts in and have the judge say whether the question still makes sense; up to two retries."""


class Descriptors(_Record):
    """Words of the roots' prompts that the judge is asked to replace by analogous words of the target."""

    threshold: _Similarity | Literal["auto"] = "auto"
    """Cosine to the concept above which a word is one; auto: found by asking the judge in a binary search."""


class Branch(_Record):
    """Prompts about one concept, rewritten to be about another."""

    table: _Text | dict[_Text, dict[_Text, dict[_Text, _Text]]] | None = None
    """What is replaced, {root: {target: {old: new}}}, or a YAML or JSON file with it; without one, names of concepts are replaced."""
    pairs: Literal["all"] | Annotated[list[Annotated[list[_Text], Field(min_length=2, max_length=2)]], Field(min_length=1)] = "all"
    """[root, target] pairs; all: every root of the table (of the benchmark, without one) to every other concept."""
    direction: Literal["one", "both"] = "one"
    """both: the table also read from target to root."""
    counterfactual_baseline: bool = False
    """Rewrite the baseline too; false: the answer about the target is held against the sentence about the root."""
    descriptors: Descriptors | None = None
    """Find further words to replace; needs a judge."""


class Spec(_Record):
    """A benchmark about any subject: how do models treat these concepts, against a baseline?"""

    name: _Name
    """Lower-case identifier."""
    title: _Text | None = None
    """What a reader sees instead of the name."""
    description: str | None = None
    """What it is about, and for what it is fit, in a few sentences."""
    domain: _Text
    """The subject the concepts belong to, such as countries."""
    definition: Literal["default", "saged"] = "default"
    """saged: keywords are reduced and sentences cut by the published rules."""
    seed: Annotated[int, Field(ge=0)] = 123
    """Of everything drawn by lot."""
    concepts: Annotated[dict[_Text, Concept | None], Field(min_length=1)]
    """The compared groups by name."""
    keywords: FindKeywords = Field(default_factory=FindKeywords)
    """How further keywords are found; left out: only those given."""
    sources: Sources = Field(default_factory=Sources)
    """Where sentences are looked for."""
    assemble: Assemble = Field(default_factory=Assemble)
    """From sentences to prompts: which kind, how many."""
    branch: Branch | None = None
    """Prompts about one concept, rewritten to be about another."""
    roles: Annotated[dict[_Text, str | None], Field(min_length=1)] | None = None
    """System messages by name (null: none) in which the prompts are asked; left out: without any."""
    templates: Annotated[dict[_Text, Annotated[dict[_Kind, str], Field(min_length=1)]], Field(min_length=1)] | None = None
    """Texts around a prompt by name and kind of prompt, each with {prompt}; left out: those of the method."""

    @property
    def groups(self) -> dict[str, Concept]:
        """The concepts, with nothing left out."""
        return {name: concept or Concept() for name, concept in self.concepts.items()}

    @property
    def sought(self) -> dict[str, Concept]:
        """The concepts whose own sentences are looked for."""
        return {name: concept for name, concept in self.groups.items() if not concept.only_branched}
