"""The soak of `perf/soak.py` for a minute: faults, a killed client and server, three processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parent.parent.parent / "perf" / "soak.py"


@pytest.mark.verify
def test_the_soak_passes_for_a_minute() -> None:
    command = [sys.executable, str(SOAK), "--seconds", "60", "--connections", "8", "--latency", "0.25"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stderr == ""
    document = json.loads(done.stdout)
    assert document["kills"] == {"client": 1, "server": 1}
    assert document["answers"] > 1000
    assert document["samples_while_well"] > 20
    assert all(document["holds"].values()), done.stdout
    assert done.returncode == 0
