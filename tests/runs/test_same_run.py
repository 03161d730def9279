"""Two runs are the same if their studies, sampling and the contents of their files are the same."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
import yaml

import tiltmeter
from tiltmeter.errors import InputError
from tiltmeter.runs import resolve
from tiltmeter.schema import FINDINGS

pytestmark = pytest.mark.usefixtures("workplace")


@pytest.mark.verify
def test_the_study_of_a_folder_can_be_run_again() -> None:
    first = tiltmeter.run(
        "genderbench", model="sim/mild", limit=4, system_message="Be brief.", sampling={"stop": ["END"]}
    )
    again = tiltmeter.run(str(first.path / "study.yaml"), model="sim/mild")
    assert again.path == first.path
    assert again.about["models"][0]["tally"]["answered"] == 0
    assert not list(first.path.glob(".*")), "no lock and no temporary file stays"


def test_sampling_of_a_model_is_part_of_the_run() -> None:
    sampling: tuple[dict[str, object], ...] = ({}, {"temperature": "0"}, {"temperature": "0.5"})
    paths = {
        tiltmeter.run("genderbench/direct", model="sim/mild", limit=4, options=options).path
        for options in sampling
    }
    assert len(paths) == 3


def test_contents_of_the_users_files_are_part_of_the_run(tmp_path: Path) -> None:
    words = tmp_path / "words.yaml"
    runs = []
    for verb in ("Agree", "Do you agree"):
        words.write_text(f"direct:\n  mine:\n    prompt: '{verb}? {{statement}}'\n")
        runs.append(
            tiltmeter.run("genderbench/direct", model="sim/mild", limit=4, params={"wording": str(words)})
        )
    assert runs[0].path != runs[1].path
    inputs = [yaml.safe_load((run.path / "study.yaml").read_text())["inputs"] for run in runs]
    assert inputs[0].keys() == inputs[1].keys() == {str(words)}
    assert inputs[0] != inputs[1]
    assert runs[1].about["inputs"] == inputs[1]
    settings = {"limit": 4, "params": {"wording": str(words)}}
    assert resolve(str(runs[1].path / "study.yaml")) == resolve("genderbench/direct", settings=settings)
    with pytest.raises(InputError, match="contains a run with other settings"):
        tiltmeter.run(
            "genderbench/direct", model="sim/mild", limit=4, params={"wording": str(words)}, out=runs[0].path
        )


@pytest.mark.verify
@pytest.mark.parametrize("name", ["", "/responses.parquet"])
def test_a_run_can_be_replayed(name: str) -> None:
    """One prompt text is twice in the data, so sample numbers matter."""
    first = tiltmeter.run(
        "genderbench/direct",
        model="sim/mild",
        options={"refusal": "0.2"},
        limit="full",
        params={"wording": "plain"},
        repeats=2,
    )
    assert (first.design["first_sample"] > 0).any()
    again = tiltmeter.run(
        "genderbench/direct",
        model=f"replay/{first.path}{name}",
        limit="full",
        params={"wording": "plain"},
        repeats=2,
    )
    same = [column for column in FINDINGS if column != "model"]
    assert again.findings.select(same).equals(first.findings.select(same))
    assert again.responses.select("prompt_id", "repetition", "answer").equals(
        first.responses.select("prompt_id", "repetition", "answer")
    )


def test_failed_responses_are_failed_in_a_replay() -> None:
    first = tiltmeter.run("genderbench/direct", model="sim/mild", limit=20, repeats=2)
    failed = (pl.col("repetition") == 0) & (pl.int_range(pl.len()) < 10)
    changes = {"status": "failed", "answer": None}
    recorded = first.responses.with_columns(
        pl.when(failed).then(pl.lit(value)).otherwise(name).alias(name) for name, value in changes.items()
    )
    recorded.write_parquet(first.path / "responses.parquet")
    with pytest.warns(tiltmeter.IncompleteRun, match="answers failed"):
        again = tiltmeter.run("genderbench/direct", model=f"replay/{first.path}", limit=20, repeats=2)
    assert again.responses["status"].equals(recorded["status"])
    assert again.responses.filter(status="ok")["answer"].equals(recorded.filter(status="ok")["answer"])


def test_a_replay_of_several_models_is_refused() -> None:
    both = tiltmeter.run("genderbench/direct", model=["sim/mild", "sim/fair"], limit=4)
    with pytest.raises(InputError, match=r"contains answers of 2 models \(sim/mild, sim/fair\)"):
        tiltmeter.run("genderbench/direct", model=f"replay/{both.path}", limit=4)


def test_a_replay_of_a_path_that_is_too_long_is_refused() -> None:
    with pytest.raises(InputError, match="there is no file"):
        tiltmeter.run("genderbench/direct", model=f"replay/{'x' * 300}.csv", limit=4)
