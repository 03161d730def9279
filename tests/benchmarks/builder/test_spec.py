"""The spec: what it accepts, what it refuses and in which words, and the schema for editors."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings, strategies as st

from tiltmeter.benchmarks._builder.spec import Concept, Spec, read_spec, schema_json
from tiltmeter.errors import InputError

EXAMPLE = Path(__file__).parents[3] / "examples" / "benchmark_spec" / "spec.yaml"
LEAST = """
name: peoples
domain: religions
concepts:
  Sikhism: {local: [texts]}
  Jainism: {urls: ["https://example.org/jainism"]}
"""


def concept(**keys: Any) -> str:
    """The spec about Chad alone, with these keys."""
    return changed(concepts={"Chad": keys})


def spec_of(path: Path, text: str) -> Spec:
    (path / "spec.yaml").write_text(text, encoding="utf-8")
    return read_spec(path / "spec.yaml")


def changed(**changes: Any) -> str:
    """The least spec with other values; None takes a key out."""
    document = yaml.safe_load(LEAST) | changes
    return yaml.safe_dump(
        {key: value for key, value in document.items() if value is not None}, sort_keys=False
    )


def test_the_least_spec_leaves_the_rest_to_defaults(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, LEAST)
    assert spec.groups["Sikhism"] == Concept(local=["texts"])
    assert (spec.seed, spec.assemble.kind, spec.assemble.with_keyword) == (123, "continuation", True)
    assert (spec.sources.wikipedia, spec.branch, spec.roles) == (None, None, None)
    spec = spec_of(tmp_path, "name: a\ndomain: d\nconcepts:\n  Chad:\n  Mali:\nsources: {wikipedia: {}}\n")
    assert spec.groups == {"Chad": Concept(), "Mali": Concept()}, "a concept may say nothing of its own"
    assert spec.sources.wikipedia is not None


def test_the_commented_example_is_a_spec() -> None:
    spec = read_spec(EXAMPLE)
    named = set(yaml.safe_load(EXAMPLE.read_text()))
    assert named >= set(Spec.model_fields) - {"branch"}, "the example shows every key at the top"
    assert len(spec.concepts) > 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (changed(domian="x", domain=None), "domain is missing"),
        (changed(sauces={}), "unknown key 'sauces': did you mean sources?"),
        (concept(keyword=["x"]), "concepts.Chad: unknown key 'keyword': did you mean keywords?"),
        (
            changed(sources={"wikipedia": {"dept": 3}}),
            "sources.wikipedia: unknown key 'dept': did you mean depth?",
        ),
        (
            changed(branch={"descriptors": {"treshold": 0.1}}),
            "branch.descriptors: unknown key 'treshold': did you mean threshold?",
        ),
        (changed(concepts={}), "concepts is empty"),
        (changed(concepts=["Chad"]), "concepts must be a mapping, found ['Chad']"),
        (changed(concepts={"Chad": 3}), "concepts.Chad must be a mapping, found 3"),
        (changed(concepts={3: {}}), "concepts: a key must be a text of one line"),
        (concept(keywords="x"), "concepts.Chad.keywords must be a list such as [one, another], found 'x'"),
        (
            concept(keywords=[True]),
            "concepts.Chad.keywords.0 must be a text (put numbers, dates and words such as yes and no",
        ),
        (concept(keywords=[""]), "concepts.Chad.keywords.0 is an empty text"),
        (changed(concepts={"name": 3}), "concepts.name must be a mapping"),
        (concept(urls=["example.org"]), "concepts.Chad.urls.0 must be an address such as"),
        (changed(name="My Name"), "name must be lower-case letters"),
        (changed(seed=-1), "seed must be greater than or equal to 0, found -1"),
        (changed(seed="x"), "seed must be a whole number such as 10, found 'x'"),
        (
            changed(assemble={"kind": "questions"}),
            "assemble.kind must be 'continuation', 'question' or 'given', found 'questions'",
        ),
        (changed(assemble={"size": 0}), "assemble.size must be greater than or equal to 1, found 0"),
        (changed(assemble={"check": 1}), "assemble.check must be true or false, found 1"),
        (changed(keywords={"asked": ["friends"]}), "keywords.asked.0 must be"),
        (
            changed(branch={"table": 3}),
            "branch.table must be the name of a file, or a mapping {root: {target: {old: new}}}, found 3",
        ),
        (
            changed(branch={"pairs": "some"}),
            "branch.pairs must be all, or a list of [root, target] pairs, found 'some'",
        ),
        (
            changed(branch={"descriptors": {"threshold": 2}}),
            "branch.descriptors.threshold must be auto, or a number from -1 to 1, found 2",
        ),
        (changed(roles={}), "roles is empty"),
    ],
)
def test_wrong_shape(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(f"spec.yaml: {message}")) as caught:
        spec_of(tmp_path, text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (changed(concepts={"Chad": {}, "CHAD": {}}), "concepts: 'Chad' and 'CHAD' are the same concept"),
        (changed(concepts={"Chad": {"local": ["x"]}, "Mali": {}}), "concepts.Mali has no source"),
        (concept(wikipedia=["Chad"]), "requires sources.wikipedia"),
        (
            changed(concepts={"A": {"only_branched": True}, "B": {"local": ["x"]}}),
            "A is only_branched, but the spec has no branch",
        ),
        (changed(concepts={"Chad": {"only_branched": True}}, branch={}), "all concepts are only_branched"),
        (
            changed(concepts={"Chad": {"only_branched": True, "local": ["x"]}}, branch={}),
            "Chad is only_branched, so its keywords",
        ),
        (changed(keywords={"linked": True}), "require the concepts' Wikipedia pages"),
        (changed(assemble={"kind": "given"}), "assemble.prompts is missing"),
        (changed(assemble={"prompts": "mine.csv"}), "assemble.prompts requires kind: given"),
        (
            changed(branch={"pairs": [["Sikh", "Jainism"]]}),
            "branch.pairs: unknown root 'Sikh': did you mean Sikhism?",
        ),
        (changed(branch={"pairs": [["Sikhism", "Sikhism"]]}), "cannot be branched to itself"),
        (
            changed(branch={"table": {"Sikh": {"Jainism": {"a": "b"}}}}),
            "branch.table: unknown root 'Sikh': did you mean Sikhism?",
        ),
        (
            changed(templates={"plain": {"question": "Answer."}}),
            "templates.plain.question must be a text with {prompt}",
        ),
        ("name: a\nconcepts: [1\n", "spec.yaml, line 3"),
        (
            "name: a\nname: b\n",
            "spec.yaml, line 2, column 1: not valid YAML (the key 'name' occurs twice in one mapping)",
        ),
        ("- a\n", "expected a mapping with the keys name, domain, concepts"),
        ("", "expected a mapping"),
    ],
)
def test_what_does_not_go_together_or_is_no_mapping(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        spec_of(tmp_path, text)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read the spec .*none\.yaml"):
        read_spec(tmp_path / "none.yaml")


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.text(max_size=4)
    | st.sampled_from(["all", "auto", "given", "Sikhism"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4) | st.integers(0, 3), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=100)
@given(key=st.sampled_from(sorted(Spec.model_fields)), value=_VALUES)
def test_any_value_is_taken_or_refused_in_one_sentence_that_names_its_key(
    tmp_path_factory: Any, key: str, value: Any
) -> None:
    path = tmp_path_factory.mktemp("spec") / "spec.yaml"
    path.write_text(
        yaml.safe_dump(yaml.safe_load(LEAST) | {key: value}, allow_unicode=True), encoding="utf-8"
    )
    try:
        read_spec(path)
    except InputError as error:
        sentence = str(error).removeprefix(f"{path}")
        assert "\n" not in sentence.replace(repr(value), "")
        assert key in sentence or "concepts" in sentence or "YAML" in sentence


def test_the_schema_tells_an_editor_what_every_key_means() -> None:
    schema = json.loads(schema_json())
    assert schema["required"] == ["name", "domain", "concepts"]
    records = [schema, *schema["$defs"].values()]
    assert all(record["additionalProperties"] is False for record in records)
    assert not [
        name for record in records for name, key in record["properties"].items() if "description" not in key
    ]
