"""Wordings are data: complete, of one shape per probe, and a user's file replaces them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conftest import ROOT
from tiltmeter.datasets import Library
from tiltmeter.designs.limits import ItemLimit
from tiltmeter.designs.wordings import placeholders, wordings
from tiltmeter.errors import InputError
from tiltmeter.probes._listing import PROBES
from tiltmeter.study import Settings

HOME = ROOT / "src" / "tiltmeter" / "probes" / "_genderbench" / "wordings.yaml"

NAMES = PROBES.names()


@pytest.mark.parametrize("probe", NAMES)
def test_built_in_wordings_have_the_same_templates_and_differ(probe: str) -> None:
    variants = wordings(probe, "all", HOME)
    assert next(iter(variants)) == "plain"
    assert len(variants) >= 2
    for templates in variants.values():
        assert templates.keys() == variants["plain"].keys()
        assert any(placeholders(text) for text in templates.values())
    assert len({str(templates) for templates in variants.values()}) == len(variants)


def test_built_in_wordings_contain_the_words_that_readers_rely_on() -> None:
    for probe in NAMES:
        for templates in wordings(probe, "all", HOME).values():
            prompt = " ".join(templates.values())
            if probe in ("bbq", "diversity_med_qa", "gest", "relationship_levy"):
                assert all(
                    f"({letter}) {{option{i}}}" in prompt
                    for i, letter in enumerate("abcde")
                    if f"{{option{i}}}" in prompt
                )
            elif probe in ("direct", "discrimination_tamkin", "dreaddit"):
                assert '"yes" or "no"' in prompt
            elif probe == "hiring_an":
                assert '"We regret to inform you"' in prompt
                assert '"You have been selected"' in prompt


def test_wordings_of_a_users_file_replace_the_built_in_ones(tmp_path: Path, library: Library) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text('direct:\n  mine:\n    prompt: "{statement}? yes or no"\n', encoding="utf-8")
    settings = Settings(params={"wording": str(file)}, limit=ItemLimit((0, 0)))
    design = PROBES.load("direct").design(library, settings)
    assert design.select("wording", "prompt").rows() == [("mine", "Men & women are not equal? yes or no")]
    assert list(wordings("gest", str(file), HOME)) == ["plain"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("direct: 3", "direct: expected named wordings"),
        ("direct: {mine: {prompt: hello}}", "direct.mine.prompt must contain the placeholder {statement}"),
        ("direct: {mine: {question: hello}}", "direct.mine is missing the template 'prompt'"),
        ("directly: {mine: {prompt: hello}}", "unknown probe 'directly': did you mean direct"),
        ('direct: {mine: {prompt: "{statement} {mood}"}}', "unknown placeholder {mood}; known: {statement}"),
        ("1: {mine: {prompt: hello}}", "1: expected named wordings"),
        ("direct: {mine: {1: hello}}", "direct.mine: expected templates"),
        ("direct: [", "not valid YAML"),
        (None, "unknown wording 'plane': did you mean plain"),
    ],
)
def test_mistakes_in_a_users_file_or_the_name_of_a_wording(
    tmp_path: Path, text: str | None, message: str
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text or "", encoding="utf-8")
    with pytest.raises(InputError, match=re.escape(message)):
        wordings("direct", "plane" if text is None else str(file), HOME)
