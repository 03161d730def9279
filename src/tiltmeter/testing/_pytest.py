"""The pytest plugin: runs of studies as a fixture. Every pytest loads it, so nothing heavy is imported before a test asks for a run."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tiltmeter.models import Model
    from tiltmeter.runs import Run


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--tiltmeter-dir`."""
    parser.getgroup("tiltmeter", "bias of language models").addoption(
        "--tiltmeter-dir",
        metavar="DIR",
        type=Path,
        help="Folder of runs and cached responses between sessions [default: TILTMETER_RUNS, else runs].",
    )


@pytest.fixture(scope="session")
def tiltmeter_run(pytestconfig: pytest.Config) -> Callable[..., Run]:
    """Runs a study on a model: `tiltmeter_run(study, model, **settings)` gives the run, `settings` are those of `tiltmeter.run`.

    Within a session the same run is made once. In the next one it goes on where it stopped: what was answered is not asked again.
    """
    made: dict[str, Run] = {}

    def run(study: str, model: str | Model | Sequence[str | Model], **settings: Any) -> Run:
        key = _digest(study, model, settings)
        if key not in made:
            made[key] = _carried_out(pytestconfig, key, study, model, settings)
        return made[key]

    return run


def _carried_out(config: pytest.Config, key: str, study: str, model: Any, settings: dict[str, Any]) -> Run:
    from filelock import FileLock

    import tiltmeter
    from tiltmeter.runs import runs_place, runs_root

    chosen = config.getoption("--tiltmeter-dir")
    place = config.invocation_params.dir / (chosen or runs_root())
    place.mkdir(parents=True, exist_ok=True)
    # The workers of pytest-xdist wait for each other instead of filling one folder at the same time.
    with pytest.MonkeyPatch.context() as patch, FileLock(place / f".pytest-{key}.lock"):
        if chosen or isinstance(runs_place(), Path):  # runs that are kept at a URL stay there
            patch.setenv("TILTMETER_RUNS", str(place))
        with warnings.catch_warnings():
            for kind in set(tiltmeter.CAVEATS.values()) - {tiltmeter.IncompleteRun}:  # the assertions decide
                warnings.simplefilter("ignore", kind)
            return tiltmeter.run(study, model=model, **settings)


def _digest(study: str, model: Any, settings: dict[str, Any]) -> str:
    """What tells two runs apart; of a model that is an object, its fingerprint."""
    text = json.dumps([study, model, settings], sort_keys=True, default=lambda one: getattr(one, "fingerprint", None) or repr(one))
    return sha256(text.encode()).hexdigest()[:16]
