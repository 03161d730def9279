"""From a YAML file to a spec, or to one sentence about what is wrong in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from tiltmeter._yaml import first_error, read_yaml
from tiltmeter.benchmarks.spec._document import Spec
from tiltmeter.errors import InputError
from tiltmeter.registry import did_you_mean

__all__ = ["read_spec"]

_EXPECTED = {
    "missing": "is missing",
    "too_short": "is empty",
    "string_too_short": "is an empty text",
    "string_type": "must be a text (put numbers and words such as yes and no in quotes)",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "list_type": "must be a list such as [one, another]",
}
_OF_KEY = {
    "name": "must be lower-case letters, digits, - and _, such as 'world_religions'",
    "urls": "must be an address such as https://example.org/page",
    "api": "must be an address such as https://en.wikipedia.org/w/api.php",
    "table": "must be the name of a file, or a mapping {root: {target: {old: new}}}",
    "pairs": "must be all, or a list of [root, target] pairs",
    "threshold": "must be auto, or a number from -1 to 1",
}
"""What is said of a key whatever is wrong with its value."""


def read_spec(path: str | Path) -> Spec:
    """The spec in a YAML file, checked.

    Raises
    ------
    InputError
        One sentence about the first thing that is wrong, with file, key and, where it is no YAML, line.
    """
    path = Path(path)
    loaded = _load(path)
    try:
        spec = Spec.model_validate(loaded)
    except ValidationError as error:
        raise InputError(f"{path}: {_sentence(error, loaded)}") from None
    if problem := next(_problems(spec), None):
        raise InputError(f"{path}: {problem}")
    return spec


def _load(path: Path) -> object:
    loaded: object = read_yaml(path, "spec")
    if not isinstance(loaded, dict):
        raise InputError(f"{path}: expected a mapping with the keys name, domain and concepts")
    return loaded


def _sentence(error: ValidationError, loaded: object) -> str:
    """About the first error."""
    first = first_error(error)
    kind = first["type"]
    where, value = _found(first["loc"], loaded, absent=kind in ("missing", "extra_forbidden"))
    if "[key]" in first["loc"] or kind == "invalid_key":
        return f"{_under(where)}a key must be a text of one line: put numbers, dates and words such as yes and no in quotes"
    if kind == "extra_forbidden":
        lacking = error.errors()[0]
        missing = f"{'.'.join(map(str, lacking['loc']))} is missing: " if lacking["type"] == "missing" else ""
        return f"{missing}{_under(where[:-1])}unknown key {where[-1]!r}: {did_you_mean(where[-1], _known(where[:-1]))}"
    names = [key for key in where if not key.isdigit()]
    ours = kind != "missing" and (names[0] != "concepts" or names[-1] == "urls")  # a concept may be called "name"
    said = _OF_KEY.get(names[-1]) if ours else None
    shown = "" if kind in ("missing", "too_short", "string_too_short") else f", found {_short(value)}"
    return f"{'.'.join(where)} {said or _EXPECTED.get(kind) or _from_context(first)}{shown}"


def _found(loc: Sequence[int | str], loaded: Any, *, absent: bool) -> tuple[list[str], Any]:
    """The keys that lead to the place, without the names Pydantic adds for the members of a union, and what stands there."""
    where: list[str] = []
    for number, key in enumerate(loc):
        last = number == len(loc) - 1
        inside = key in loaded if isinstance(loaded, Mapping) else isinstance(loaded, list) and isinstance(key, int)
        if inside:
            loaded = loaded[key]
        elif not (last and absent):
            continue
        where.append(str(key))
    return where or [str(loc[0])], loaded


def _from_context(error: Any) -> str:
    context = error.get("ctx", {})
    for key, words in (
        ("ge", "at least"),
        ("gt", "more than"),
        ("le", "at most"),
        ("max_length", "no longer than"),
        ("min_length", "at least"),
    ):
        if key in context:
            return f"must be {words} {context[key]:,}"
    if "expected" in context:
        return f"must be {context['expected']}"
    return "must be one line of text" if error["type"] == "string_pattern_mismatch" else f"cannot be used ({error['msg']})"


def _known(where: Sequence[str]) -> list[str]:
    """Keys known below these."""
    model: type[BaseModel] = Spec
    for key in where:
        if key in model.model_fields:  # otherwise it is the name of a concept
            found = _members(model.model_fields[key].annotation)
            model = next((one for one in found if isinstance(one, type) and issubclass(one, BaseModel)), model)
    return list(model.model_fields)


def _members(annotation: Any) -> Iterator[Any]:
    """An annotation, what a union or mapping holds, and so on inwards."""
    yield annotation
    if isinstance(annotation, UnionType) or get_origin(annotation) is not None:
        for one in get_args(annotation):
            yield from _members(one)


def _under(where: Sequence[str]) -> str:
    return f"{'.'.join(where)}: " if where else ""


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"


def _problems(spec: Spec) -> Iterator[str]:
    """What is wrong beyond the shape."""
    yield from _same(spec.concepts, "concepts", "concept")
    for name, concept in spec.groups.items():
        yield from _same(concept.keywords, f"concepts.{name}.keywords", "keyword", twice=True)
        if concept.wikipedia and spec.sources.wikipedia is None:
            yield f"concepts.{name}.wikipedia names pages, but there is no sources.wikipedia; add 'wikipedia: {{}}' to sources"
        if concept.only_branched and (concept.keywords or concept.wikipedia or concept.local or concept.urls):
            yield f"concepts.{name} is only_branched, so nothing is looked for; take out its keywords, wikipedia, local and urls"
        if concept.only_branched and spec.branch is None:
            yield f"concepts.{name} is only_branched, but the spec has no branch; add it, or give the concept sources"
    if not spec.sought:
        yield "all concepts are only_branched; at least one needs prompts of its own"
    if (spec.keywords.similar or spec.keywords.linked) and spec.sources.wikipedia is None:
        yield "keywords.similar and keywords.linked look at the concepts' Wikipedia pages; add 'wikipedia: {}' to sources"
    if spec.assemble.kind == "given" and spec.assemble.prompts is None:
        yield "assemble.kind is given, but assemble.prompts names no file; name the one with your prompts"
    if spec.assemble.kind != "given" and spec.assemble.prompts is not None:
        yield f"assemble.prompts goes with kind: given, but the kind is {spec.assemble.kind}; change one of them"
    if spec.assemble.kind != "given":
        yield from _sourceless(spec)
    yield from _branch_problems(spec)
    for name, texts in (spec.templates or {}).items():
        for kind, text in texts.items():
            if "{prompt}" not in text:
                yield f"templates.{name}.{kind} must hold {{prompt}}, where the prompt goes, found {_short(text)}"


def _sourceless(spec: Spec) -> Iterator[str]:
    """A concept without any source would have no sentence."""
    sources = spec.sources
    if any((sources.wikipedia, sources.local, sources.urls, sources.written, sources.saged)):
        return
    for name, concept in spec.sought.items():
        if not (concept.local or concept.urls):
            yield f"concepts.{name} has no source; name some under sources, or local or urls of this concept"


def _branch_problems(spec: Spec) -> Iterator[str]:
    if spec.branch is None:
        return
    known = list(spec.concepts)
    if isinstance(spec.branch.table, dict):
        for root in spec.branch.table:
            if root not in spec.concepts:
                yield f"branch.table: unknown root {root!r}: {did_you_mean(root, known)}"
    if spec.branch.pairs != "all":
        for root, target in spec.branch.pairs:
            if root not in spec.concepts:
                yield f"branch.pairs: unknown root {root!r}: {did_you_mean(root, known)}"
            if root == target:
                yield f"branch.pairs: {root!r} cannot be branched to itself; take the pair out"


def _same(names: Iterable[str], place: str, what: str, *, twice: bool = False) -> Iterator[str]:
    """Names that differ in case only are the same to a search."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            yield f"{place}: {other!r} and {name!r} are the same {what}; keep one of them"
    given = list(names)
    if twice and len(set(given)) < len(given):
        yield f"{place}: the {what} {next(one for one in given if given.count(one) > 1)!r} stands twice; remove one"
