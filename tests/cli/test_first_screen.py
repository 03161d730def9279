"""What `run` prints of three models fits on a terminal of 24 lines and 80 columns."""

from __future__ import annotations

import pytest

from conftest import Tiltmeter

LINES = 24
MODELS = "-m sim/fair -m sim/mild -m sim/biased"


@pytest.mark.verify
@pytest.mark.parametrize(
    "study",
    [
        "genderbench --only gest,direct,relationship_levy --limit 60",
        "associations/gender -P encoder=none --limit 40",
        "benchmarks/g20 --limit 12",
    ],
)
def test_the_first_screen_of_three_models_names_each_and_has_24_lines(
    tiltmeter: Tiltmeter, study: str
) -> None:
    screen = tiltmeter(f"run {study} {MODELS} --display none --out run", exits=0, COLUMNS="80").stdout
    lines = screen.splitlines()
    assert len(lines) <= LINES
    assert all(len(line) <= 80 for line in lines)
    headlines = [line for line in lines if "(simulated model): " in line]
    models = [line.partition(" ")[0] for line in headlines]
    assert set(models) == {"sim/fair", "sim/mild", "sim/biased"}
    assert models[0] == "sim/biased" or study.startswith("benchmarks"), "the worst is first"
    assert [line.partition(" ")[0] for line in lines[-3:]] == ["run", "report", "more"]


def test_the_first_screen_of_one_model_says_how_many_responses_could_be_parsed(tiltmeter: Tiltmeter) -> None:
    command = "run genderbench/direct --limit 20 -m sim/fair --display none --out run"
    lines = tiltmeter(command, exits=0, COLUMNS="80").stdout.splitlines()
    assert len(lines) <= LINES
    assert "20 of 20 responses (100.0%) could be parsed." in " ".join(line.strip() for line in lines)
