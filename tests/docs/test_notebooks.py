"""The notebooks are run in a real kernel, as a reader runs them."""

from __future__ import annotations

import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT

pytestmark = pytest.mark.verify

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_its_outputs(path: Path, workplace: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the kernel and its client, not ours
        nbclient = import_module("nbclient")
        nbformat = import_module("nbformat")

        notebook: Any = nbformat.read(path, as_version=4)
        nbclient.NotebookClient(
            notebook, timeout=120, resources={"metadata": {"path": str(workplace)}}
        ).execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs for cell in cells), "every cell shows something"
    first = cells[0].outputs
    progress = [output["data"]["text/plain"] for output in first if output.output_type == "display_data"]
    assert any("done" in line for line in progress), "progress is one line below the cell"
    assert any("text/html" in output["data"] for output in first if output.output_type == "execute_result")


def test_notebooks_are_stored_without_outputs() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["associations", "benchmarks", "probes", "python"]
    assert not any('"output_type"' in path.read_text(encoding="utf-8") for path in NOTEBOOKS)
