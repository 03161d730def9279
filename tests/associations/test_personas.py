"""Published marked words in 1,350 descriptions of people by text-davinci-003; none for shuffled groups."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest

from tiltmeter.associations._expressions import unify_words
from tiltmeter.associations._extraction_words import extract
from tiltmeter.associations._significance import find_associations
from tiltmeter.associations._stories import counted
from tiltmeter.associations._tables import STORIES
from tiltmeter.readers._words_in_sentences import word_lists
from tiltmeter.schema import conform

pytestmark = pytest.mark.verify

GROUPS = {
    "race": {
        "White": "a White",
        "Black": "a Black",
        "Asian": "an Asian",
        "ME": "a Middle-Eastern",
        "Latine": "a Latine",
    },
    "gender": {"man": "M", "woman": "W", "nonbinary": "N"},
}
DEMONYMS = {
    "white",
    "black",
    "asian",
    "african",
    "caucasian",
    "chinese",
    "middleeastern",
    "middle",
    "eastern",
    "east",
    "latino",
    "latina",
}
DEMONYMS |= {
    "latin",
    "latinx",
    "spanish",
    "mexican",
    "american",
    "man",
    "woman",
    "women",
    "nonbinary",
    "female",
    "male",
}
CONTRACTIONS = {"hes", "dont", "doesnt", "theyre", "theythem"}
KEPT_APART = {"may", "could", "might", "one", "way", "ways", "someone", "person"}
"""Function words of the published lists."""


def stem(word: str) -> str:
    """Return a crude stem, which is not the one of the package: the word without its ending."""
    bare = word.replace("-", "")
    for ending in ("ness", "ing", "ies", "ed", "es", "ly", "s", "y", "e"):
        if bare.endswith(ending) and len(bare) - len(ending) >= 4:
            return bare.removesuffix(ending)
    return bare


class Described(NamedTuple):
    """The texts, the lists and mentions read from them, and the concept of each phrase."""

    texts: pl.DataFrame
    lists: pl.DataFrame
    mentions: pl.DataFrame
    families: pl.DataFrame


@pytest.fixture(scope="module")
def described(shared: Path) -> Described:
    """All texts, read once: the phrases do not depend on the attribute by which groups are compared."""
    with gzip.open(shared / "data" / "personas" / "dv3_main_generations.csv.gz") as file:
        texts = pl.read_csv(file.read()).with_row_index("row")
    rows = texts.select(
        attempt=pl.format("{}#0", "row"), character=0, text="text", stratum=pl.lit("all"), repetition=0
    )
    stories = conform(rows, STORIES)
    lists, mentions = extract(stories, stories.select("attempt", prompt=pl.lit("")))
    assert (lists["status"] == "listed").all()
    families = unify_words(counted(mentions), mentions=mentions).select("phrase", "concept")
    return Described(texts, lists, mentions.join(families, on="phrase"), families)


@pytest.mark.parametrize("attribute", ["race", "gender"])
def test_published_marked_words_are_found_for_the_right_group(
    attribute: str, described: Described, shared: Path
) -> None:
    texts, lists, mentions, families = described
    assert lists["attempt"].to_list() == [f"{row}#0" for row in texts["row"]]
    lists = lists.with_columns(identity=texts[attribute])
    reported = find_associations(lists, mentions).filter("reported").join(families, on="concept")
    marked = json.loads((shared / "data" / "personas" / "marked_words_dv3.json").read_text())
    function = word_lists("en")["stop"] - {"sports", "present"} | DEMONYMS | CONTRACTIONS | KEPT_APART
    expected = matched = 0
    for name, group in GROUPS[attribute].items():
        stems = {
            stem(word) for phrase in reported.filter(identity=group)["phrase"] for word in phrase.split()
        }
        words = [word for word in marked[name] if word not in function]
        expected += len(words)
        matched += sum(stem(word) in stems for word in words)
    assert expected > 60
    assert matched >= 0.8 * expected
    shuffled = [
        find_associations(lists.with_columns(pl.col("identity").shuffle(seed)), mentions)["reported"].any()
        for seed in range(20)
    ]
    assert sum(shuffled) <= 2
