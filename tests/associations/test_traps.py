"""Small tables with one trap each: what must not be claimed of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import tiltmeter as tm
from tiltmeter.associations._exclusive_terms import parts_of_terms
from tiltmeter.associations._tables import MENTIONS
from tiltmeter.runs import Run
from tiltmeter.schema import conform

Analysed = Callable[..., Run]


@pytest.fixture
def analysed(shared: Path, tmp_path: Path) -> Analysed:
    """Analyse a table of the handed cases."""

    def analyse(file: str, **options: str) -> Run:
        table = shared / "cases" / "texts" / f"{file}.csv"
        return tm.analyse(table, text="text", group="group", out=tmp_path / "run", **options)  # type: ignore[arg-type]

    return analyse


def reported(run: Run) -> pl.DataFrame:
    return run.table("associations").filter("reported")


def test_no_phrase_has_a_share_of_texts_that_do_not_say_it(analysed: Analysed) -> None:
    rates = dict(reported(analysed("nose2")).filter(identity="A").select("label", "rate").iter_rows())
    assert rates == {"broad nose": 0.25, "narrow nose": 0.25, "straight": 0.25, "straight nose": 0.25}


@pytest.mark.parametrize("name", ["own2", "rec3", "bw"])
def test_pronouns_names_and_group_terms_are_no_associations(name: str, analysed: Analysed) -> None:
    assert reported(analysed(name)).is_empty()


def test_a_part_of_a_definitional_phrase_is_definitional(analysed: Analysed) -> None:
    run = analysed("family")
    assert set(reported(run)["label"]) == {"dedicated nurse"}
    assert set(run.definitional["concept"]) == {"dedicated family man", "man"}


def test_german_jobs_that_are_dealt_equally_are_no_associations(analysed: Analysed) -> None:
    pytest.importorskip("simplemma")
    shown = reported(analysed("de", name="name")).filter(pl.col("variant_of").is_null())
    labels = set(shown.select("identity", "label").rows())
    assert ("Frau", "fürsorglich") in labels
    assert ("Mann", "durchsetzungsstark") in labels
    assert len(labels) == 4


def test_a_concept_is_a_part_of_a_phrase_if_most_of_its_lists_have_the_phrase() -> None:
    lists = [["family man", "family"]] * 8 + [["family"]] + [["calm man", "calm"]] * 9
    rows = [(f"{number}#0", 0, phrase) for number, phrases in enumerate(lists) for phrase in phrases]
    table = pl.DataFrame(rows, schema=["attempt", "character", "phrase"], orient="row")
    mentions = conform(table, MENTIONS).with_columns(concept="phrase")
    parts = parts_of_terms(mentions, ["f", "m"])
    # "Calm" is an adjective, which says something of the man.
    assert parts.rows() == [("family", "m", "family man")]
    more = [(f"{number}#1", 0, "family") for number in range(4)]
    further = conform(pl.DataFrame(more, schema=table.columns, orient="row"), MENTIONS)
    mentions = pl.concat([mentions, further.with_columns(concept="phrase")])
    assert parts_of_terms(mentions, ["f", "m"]).is_empty()
