"""The published translations of GEST, where they are at hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from polars import col

from support.translations import TRANSLATIONS
from tiltmeter.datasets import Library
from tiltmeter.probes import load_probe
from tiltmeter.probes._sources import gest_sentences, gest_translations
from tiltmeter.study import Settings

DATA = os.environ.get("TILTMETER_DATA", "").split(os.pathsep)
"""The user's own copies: fixtures of other tests set the variable to the reference data."""
PUBLISHED = 2561
"""Sentences with a German translation whose English words are those of GEST, of 3,565."""


def test_the_published_german_translations_are_as_many_as_the_probe_says(shared: Path) -> None:
    """TILTMETER_DATA or the cache must have the file: it is not downloaded for this test."""
    published = Library.default()
    folders = [shared / "data", *(Path(folder) for folder in DATA if folder)]
    library = Library(folders=folders, cache=published.cache)
    if not library.places(TRANSLATIONS):
        pytest.skip(f"{TRANSLATIONS} is neither in TILTMETER_DATA nor in the cache: tiltmeter data fetch")
    translations = gest_translations(library, "German")
    assert translations.height == translations["item"].n_unique() == PUBLISHED
    assert gest_sentences(library).height == 3565
    first = translations.filter(item=0)["translation"].item()
    assert first == "Ich war schon immer ein Führungstyp"
    probe = load_probe("gest").variant({"language": "de"})
    assert f"the {PUBLISHED:,} of 3,565 sentences" in probe.remark
    design = probe.design(library, Settings())
    assert design.filter(item=0)["prompt"].str.contains(first, literal=True).all()
    items_by_stereotype = design.unique("item")["stereotype_id"].value_counts()["count"]
    assert items_by_stereotype.len() == 16
    assert items_by_stereotype.to_list() == pytest.approx([160] * 16, abs=35)
    assert not design.filter(col.prompt.str.contains(r"\{|\}")).height
