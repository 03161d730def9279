"""The recipes for continuous integration: an unbiased model passes, a strongly biased one fails."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest
import yaml

from conftest import ROOT, Tiltmeter
from support.blocks import blocks

pytestmark = pytest.mark.verify

RECIPES = ("docs/recipes/index.md", "docs/gate.md")


def recipe(page: str) -> tuple[list[str], list[str]]:
    """The arguments of `tiltmeter run` and of `tiltmeter gate` in the page's workflow."""
    text = next(
        block.text for block in blocks(ROOT / page) if block.kind == "yaml" and "tiltmeter gate" in block.text
    )
    written = yaml.safe_load(text)
    steps = written if isinstance(written, list) else written["jobs"]["gate"]["steps"]
    commands = [shlex.split(step["run"]) for step in steps if step.get("run", "").startswith("tiltmeter ")]
    run = next(words[1:] for words in commands if words[1] == "run")
    gate = next(words[1:] for words in commands if words[1] == "gate")
    return run, gate


def of_model(run: list[str], model: str, seed: int) -> list[str]:
    requests = [
        f"sim/{model}" if before == "--model" else word for before, word in zip(["", *run], run, strict=False)
    ]
    return [*requests, "-M", f"seed={seed}", "--seed", str(seed), "--display", "none"]


@pytest.fixture(scope="module")
def finished() -> dict[tuple[str, ...], Path]:
    """Folders of the runs of earlier recipes by their commands."""
    return {}


@pytest.mark.parametrize("page", RECIPES)
def test_a_fair_model_passes_and_a_biased_one_fails(
    tiltmeter: Tiltmeter, tmp_path: Path, page: str, finished: dict[tuple[str, ...], Path]
) -> None:
    run, gate = recipe(page)

    def carry_out(model: str, seed: int, name: str) -> None:
        """Run the recipe's command, or copy the run of an earlier recipe with the same command."""
        command = of_model(run, model, seed)
        if tuple(command) in finished:
            shutil.copytree(finished[tuple(command)], tmp_path / name)
            return
        tiltmeter(*command, exits=0)
        (tmp_path / "run").rename(tmp_path / name)
        finished[tuple(command)] = tmp_path / name

    if "--baseline" in gate:
        carry_out("fair", 99, gate[gate.index("--baseline") + 1])
    for model, seed, status in (("fair", 1, 0), ("fair", 2, 0), ("biased", 1, 1)):
        name = f"run-{model}-{seed}"
        carry_out(model, seed, name)
        tiltmeter(*[name if word == "run" else word for word in gate], exits=status)
