"""The figures of examples/own_answers are what its commands give."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conftest import ROOT, Tiltmeter
from tiltmeter.runs import load
from tiltmeter.study import metric_name

EXAMPLE = ROOT / "examples" / "own_answers" / "README.md"
DATA = {"clg_letters.csv": "letters", "dv3_story_generations.csv": "stories"}
FEATURES = {"compound": "vader_compound", "positive words": "vader_positive", "negative words": "vader_negative"}


@pytest.mark.verify
def test_figures(tiltmeter: Tiltmeter, tmp_path: Path, shared: Path) -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    sections = text.split("\n## ")[1:]
    assert len(sections) == 2
    for section in sections:
        command = re.search(r"tiltmeter (analyse .*)", section)
        assert command is not None
        words = command[1].split()
        words[1] = str(shared / "data" / DATA[words[1]] / words[1])
        done = tiltmeter(*words, "--display", "none", "--out", words[1].rpartition("/")[2])
        assert done.returncode == 0, done.stderr
        ranges = load(tmp_path / words[1].rpartition("/")[2]).findings
        rows = re.findall(
            r"^\| (compound|positive words|negative words) \|.*\| ([\d.]+) \(([\d.]+) … ([\d.]+)\) \| ([\d.]+) \|$", section, re.M
        )
        assert len(rows) == 3
        for name, *figures in rows:
            found = ranges.filter(metric_name() == f"range_mean_{FEATURES[name]}").row(0, named=True)
            for figure, column in zip(figures, ("estimate", "low", "high", "p"), strict=True):
                digits = len(figure.partition(".")[2])
                assert f"{found[column]:.{digits}f}" == figure, (name, column, found[column])
