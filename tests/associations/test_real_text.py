"""Discovery in 449 stories of a commercial model about people of ten groups, by words and by an encoder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from associations.conftest import Study
from tiltmeter.runs import Run

pytestmark = pytest.mark.verify


@pytest.fixture
def discovered(study_once: Study, shared: Path) -> Callable[[str | Path], Run]:
    def with_encoder(encoder: str | Path) -> Run:
        stories = shared / "data" / "stories" / "dv3_story_generations.csv"
        columns = ("--text", "text", "--identity", "race")
        return study_once(
            "analyse", str(stories), "--study", "associations", *columns, "-P", f"encoder={encoder}"
        )

    return with_encoder


def assert_evidence_has_sentences(run: Run) -> None:
    single = run.findings.filter(pl.col("concept").is_not_null())
    assert (single["q"] < 0.05).all()
    counted = run.table("associations").select("label", "identity", "count").iter_rows()
    counts = {(label, identity): count for label, identity, count in counted}
    for concept, group in single.select("concept", "group").iter_rows():
        behind = run.evidence("association", concept=concept, group=group)
        assert behind.height == counts[concept, group]
        for answer, sentences in behind.select("answer", "sentences").iter_rows():
            assert sentences
            assert all(sentence in answer for sentence in sentences)


def test_associations_in_real_stories_lead_to_their_sentences(
    discovered: Callable[[str | Path], Run],
) -> None:
    run = discovered("none")
    assert run.responses.height == 449
    lists = run.table("lists")
    assert (lists["status"] == "listed").sum() > 0.98 * 449
    assert lists["identity"].n_unique() == 5
    assert_evidence_has_sentences(run)


def test_definitional_concepts_of_real_stories_are_not_reported(
    discovered: Callable[[str | Path], Run],
) -> None:
    run = discovered("none")
    reported = set(run.findings["concept"].drop_nulls())
    assert not reported & {"black", "asian", "white", "latina", "middle eastern"}
    ruled = dict(
        run.table("exclusive")
        .filter(pl.col("identity").is_not_null())
        .select("concept", "identity")
        .iter_rows()
    )
    assert (ruled["black"], ruled["asian"]) == ("a Black", "an Asian")


def test_the_encoder_unifies_concepts_of_real_stories(
    discovered: Callable[[str | Path], Run], encoder: Path
) -> None:
    run = discovered(encoder)
    concepts = run.table("concepts")
    assert concepts["concept"].n_unique() < 0.9 * concepts.height
    labels = run.findings.filter(group="a Latine")["concept"].drop_nulls().str.strip_suffix(" and related")
    assert {"hard", "proud"} <= set(labels)
    assert labels.str.starts_with("dream").any()
    assert_evidence_has_sentences(run)
