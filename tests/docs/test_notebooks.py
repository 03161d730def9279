"""The notebooks are run in a real kernel, as a reader runs them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT

pytestmark = pytest.mark.verify

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def kernel() -> Iterator[Any]:
    """A kernel, started once. `prepare` gives each notebook an empty one."""
    manager = import_module("jupyter_client").KernelManager(kernel_name="python3")
    manager.start_kernel()
    yield manager
    manager.shutdown_kernel(now=True)


def execute(notebook: Any, kernel: Any) -> None:
    """Carry out all cells of a notebook."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the kernel and its client, not ours
        import_module("nbclient").NotebookClient(notebook, km=kernel, timeout=120).execute()


def prepare(kernel: Any, folder: Path) -> None:
    """Forget all names of the kernel, and go on in this folder with the present variables of the package."""
    cells = import_module("nbformat.v4")
    variables = {name: value for name, value in os.environ.items() if name.startswith("TILTMETER_")}
    source = f"%reset -f\nimport os\nos.chdir({str(folder)!r})\nos.environ.update({variables!r})\ndel os"
    execute(cells.new_notebook(cells=[cells.new_code_cell(source)]), kernel)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook(path: Path, workplace: Path, kernel: Any) -> None:
    prepare(kernel, workplace)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        notebook: Any = import_module("nbformat").read(path, as_version=4)
    execute(notebook, kernel)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs for cell in cells), "every cell shows something"
    first = cells[0].outputs
    progress = [one["data"]["text/plain"] for one in first if one.output_type == "display_data"]
    assert any("done" in line for line in progress), "progress is one line below the cell"
    assert any("text/html" in one["data"] for one in first if one.output_type == "execute_result")


def test_nothing_a_cell_gave_is_kept() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["associations", "benchmarks", "probes", "python"]
    assert not any('"output_type"' in path.read_text(encoding="utf-8") for path in NOTEBOOKS)
