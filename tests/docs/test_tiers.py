"""The table of tiers in docs/genderbench.md, written by scripts/tiers.py from the metrics, is up to date."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from conftest import ROOT


def call(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, root / "scripts" / "tiers.py", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_page_has_the_tiers_of_the_metrics() -> None:
    done = call(ROOT, "--check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_page_with_other_tiers_is_found_and_written_again(tmp_path: Path) -> None:
    for file in ("scripts/tiers.py", "scripts/generated.py", "docs/genderbench.md"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        shutil.copyfile(ROOT / file, tmp_path / file)
    page = tmp_path / "docs" / "genderbench.md"
    expected = page.read_text()
    page.write_text(expected.replace("| isear `max_diff` | 0 to .1 |", "| isear `max_diff` | 0 to .2 |"))
    assert page.read_text() != expected
    done = call(tmp_path, "--check")
    assert done.returncode == 1
    assert "run scripts/tiers.py" in done.stdout
    assert call(tmp_path).returncode == 0
    assert page.read_text() == expected
