"""Pytest plugin with a fixture that runs studies. All pytest sessions load it, so expensive imports are deferred until a test needs a run."""

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
    """Add the option `--tiltmeter-dir`."""
    parser.getgroup("tiltmeter", "bias of language models").addoption(
        "--tiltmeter-dir",
        metavar="DIR",
        type=Path,
        help="Folder for runs and cached responses, kept between sessions [default: TILTMETER_RUNS or runs].",
    )


@pytest.fixture(scope="session")
def tiltmeter_run(pytestconfig: pytest.Config) -> Callable[..., Run]:
    """Return a function `tiltmeter_run(study, model, **settings)` that runs a study with the settings of `tiltmeter.run`.

    Identical runs are executed once per session. Later sessions reuse the cached responses.
    """
    finished: dict[str, Run] = {}

    def run(study: str, model: str | Model | Sequence[str | Model], **settings: Any) -> Run:
        key = _digest(study, model, settings)
        if key not in finished:
            finished[key] = _run_study(pytestconfig, key, study, model, settings)
        return finished[key]

    return run


def _run_study(config: pytest.Config, key: str, study: str, model: Any, settings: dict[str, Any]) -> Run:
    from filelock import FileLock

    import tiltmeter
    from tiltmeter.runs import runs_place, runs_root

    chosen = config.getoption("--tiltmeter-dir")
    place = config.invocation_params.dir / (chosen or runs_root())
    place.mkdir(parents=True, exist_ok=True)
    # Make workers of pytest-xdist wait for each other instead of writing to the same folder.
    with pytest.MonkeyPatch.context() as patch, FileLock(place / f".pytest-{key}.lock"):
        if chosen or isinstance(runs_place(), Path):  # runs at a URL stay there
            patch.setenv("TILTMETER_RUNS", str(place))
        with warnings.catch_warnings():
            for kind in set(tiltmeter.CAVEATS.values()) - {tiltmeter.IncompleteRun}:  # the assertions take care of these
                warnings.simplefilter("ignore", kind)
            return tiltmeter.run(study, model=model, **settings)


def _digest(study: str, model: Any, settings: dict[str, Any]) -> str:
    """Return a digest that identifies a run; model objects are represented by their fingerprint."""
    text = json.dumps([study, model, settings], sort_keys=True, default=lambda one: getattr(one, "fingerprint", None) or repr(one))
    return sha256(text.encode()).hexdigest()[:16]
