"""The label of an association is said in the texts that its share counts; variants share a row."""

from __future__ import annotations

import gzip
import re
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

import tiltmeter as tm
from tiltmeter.associations._labels import AND_RELATED, labels_of
from tiltmeter.associations._tables import MENTIONS
from tiltmeter.blocks import Headline
from tiltmeter.runs import Run
from tiltmeter.schema import conform

POSSESSIVES = r"(?:his|her|their|my|our|your|its|one's|someone's)(?: own)?"
PERSONS = r"(?:him|her|them|he|she|they|it|me|i)"


def pattern_of(label: str) -> str:
    """Return a pattern for the texts that say a label, with its placeholders for pronouns and gaps."""
    words = []
    for word in re.split(r"[ -]", label):
        if word == "one's":
            words.append(POSSESSIVES)
        elif word == "someone":
            words.append(PERSONS)
        elif word == "oneself":
            words.append(r"\w+sel(?:f|ves)")
        elif word == "…":
            words.append(r"(?:\S+[ -]){0,4}?\S*")
        elif word in ("not", "no"):
            words.append(r"(?:\w*n't|not|no|cannot)")
        else:
            words.append(rf"\b{re.escape(word)}\w*")
    return "[ -]+".join(words)


def literal_shares(run: Run, texts: pl.DataFrame) -> pl.DataFrame:
    """Return the shown associations with the share of their lists whose text says the label (`literal`)."""
    rows = run.table("associations").filter("reported", pl.col("variant_of").is_null())
    literal = []
    for row in rows.iter_rows(named=True):
        of_group = texts.filter(group=row["identity"])["text"].str.to_lowercase().str.replace_all("’", "'")
        pattern = pattern_of(row["label"].removesuffix(AND_RELATED))
        literal.append(of_group.str.contains(pattern).sum() / row["count"])
    return rows.with_columns(literal=pl.Series(literal))


@pytest.mark.verify
@pytest.mark.parametrize("attribute", ["race", "gender"])
def test_the_label_is_said_in_nine_of_ten_texts_that_are_counted(
    attribute: str, shared: Path, tmp_path: Path
) -> None:
    with gzip.open(shared / "data" / "personas" / "dv3_main_generations.csv.gz") as file:
        texts = pl.read_csv(file.read()).select("text", group=attribute)
    run = tm.analyse(texts, text="text", group="group", out=tmp_path / "run")
    shares = literal_shares(run, texts)
    is_related = pl.col("label").str.ends_with(AND_RELATED)
    plain = shares.filter(~is_related)
    assert plain.height > 200
    assert plain.filter(pl.col("literal") < 0.9).select("label", "identity", "literal").rows() == []
    assert shares.filter(is_related).height <= 0.1 * shares.height


def mentions_of(lists: Sequence[Sequence[str]], concept: str) -> pl.DataFrame:
    """Return MENTIONS of lists of phrases, which all express one concept."""
    rows = [(f"{number}#0", 0, phrase) for number, phrases in enumerate(lists) for phrase in phrases]
    table = pl.DataFrame(rows, schema=["attempt", "character", "phrase"], orient="row")
    return conform(table, MENTIONS).with_columns(concept=pl.lit(concept), identity=pl.lit("g"))


@pytest.mark.parametrize(
    ("lists", "label"),
    [
        ([["robe"]] * 6 + [["robes"]] * 4, "robe"),
        ([["carries"]] * 9 + [["carry"]], "carries"),
        ([["carries"]] * 6 + [["carry"]] * 4, "carries and related"),
        ([["broad nose"]] * 3 + [["narrow nose"]] * 3, "broad nose and related"),
        ([["olive-toned skin"]] * 5 + [["olive toned skin"]] * 5, "olive toned skin"),
    ],
)
def test_a_label_that_fewer_texts_say_ends_with_and_related(lists: list[list[str]], label: str) -> None:
    phrases = pl.DataFrame({"phrase": sorted({phrase for of_list in lists for phrase in of_list})})
    concept = lists[0][0]
    labels = labels_of(mentions_of(lists, concept), phrases)
    assert labels.rows() == [(concept, "g", label)]


def test_expressions_that_occur_together_have_one_row_with_their_shares(tmp_path: Path) -> None:
    rows = []
    for number in range(240):
        group = "ab"[number % 2]
        said = ["There is a lamp."]
        if group == "a" and number % 4 == 0:
            said.append("The skin is olive.")
        if group == "a" and number % 6 == 0:
            said.append("An olive skin.")
        rows.append({"group": group, "text": " ".join(said)})
    run = tm.analyse(pl.DataFrame(rows), text="text", group="group", out=tmp_path / "run")
    table = run.table("associations").filter("reported")
    heads = table.filter(pl.col("variant_of").is_null())
    variants = table.drop_nulls("variant_of").select("label", "variant_of").rows()
    assert heads.select("label", "identity").rows() == [("olive", "a")]
    assert variants == [("olive skin", "olive")]
    headline = next(block for block in run.blocks() if isinstance(block, Headline))
    assert "1 associated concept found. Strongest: a → olive: in 66.7%" in headline.text
