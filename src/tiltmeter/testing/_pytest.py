"""Pytest plugin with a fixture that runs studies.

Every pytest session loads it, so expensive imports are deferred to the fixture.
"""

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
    parser.getgroup("tiltmeter", "tiltmeter (bias of language models)").addoption(
        "--tiltmeter-dir",
        metavar="DIR",
        type=Path,
        help=(
            "Folder for runs and cached responses, which are kept between sessions"
            " [default: TILTMETER_RUNS or runs]."
        ),
    )


@pytest.fixture(scope="session")
def tiltmeter_run(pytestconfig: pytest.Config) -> Callable[..., Run]:
    """Return a function `tiltmeter_run(study, model, **settings)` that runs a study.

    The settings are those of `tiltmeter.run`. Identical runs are executed once per session. Later sessions
    reuse the cached responses.
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

    option = config.getoption("--tiltmeter-dir")
    folder = config.invocation_params.dir / (option or runs_root())
    folder.mkdir(parents=True, exist_ok=True)
    # The assertions check what these warnings say.
    caveats = set(tiltmeter.CAVEATS.values()) - {tiltmeter.IncompleteRun}
    # A lock keeps workers of pytest-xdist from writing to the same folder at the same time.
    with pytest.MonkeyPatch.context() as patch, FileLock(folder / f".pytest-{key}.lock"):
        if option or isinstance(runs_place(), Path):  # if runs are stored at a URL, keep that URL
            patch.setenv("TILTMETER_RUNS", str(folder))
        with warnings.catch_warnings():
            for category in caveats:
                warnings.simplefilter("ignore", category)
            return tiltmeter.run(study, model=model, **settings)


def _digest(study: str, model: Any, settings: dict[str, Any]) -> str:
    """Return a digest that identifies a run; model objects are represented by their fingerprint."""

    def identify(value: object) -> str:
        return getattr(value, "fingerprint", None) or repr(value)

    text = json.dumps([study, model, settings], sort_keys=True, default=identify)
    return sha256(text.encode()).hexdigest()[:16]
