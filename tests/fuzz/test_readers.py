"""A reader of any bytes gives a result, or one sentence that names the place.

Never another error, never long, never large.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from support.fuzzing import TARGETS, Target, contract, examine, mutated
from tiltmeter.errors import InputError

pytestmark = pytest.mark.verify


_SLOW = {"annotated": 5, "run folder": 6, "recovered": 8, "answers": 10, "grid": 10, "sentences": 10}
"""Examples of the readers that take a tenth of a second for each."""
_EXAMPLES = 16


def _examples(name: str) -> int:
    return next((count for beginning, count in _SLOW.items() if name.startswith(beginning)), _EXAMPLES)


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests run without network, data and prices of the user."""
    monkeypatch.setenv("TILTMETER_OFFLINE", "1")
    monkeypatch.delenv("TILTMETER_DATA", raising=False)
    monkeypatch.setenv("TILTMETER_RUNS", str(tmp_path / "runs"))


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if not target.refuses])
def test_an_undamaged_file_is_read(name: str, tmp_path: Path) -> None:
    """If the seeds were refused, only the refusal would be tested."""
    target = TARGETS[name]
    seeds = list(target.seeds())
    assert seeds
    for number, seed in enumerate(seeds):
        folder = tmp_path / str(number)
        folder.mkdir()
        target.read(seed, folder)


@pytest.mark.parametrize("name", TARGETS)
def test_a_damaged_file_is_read_or_refused_in_a_sentence(name: str) -> None:
    target = TARGETS[name]
    seeds = list(target.seeds())

    @settings(max_examples=_examples(name), print_blob=True, suppress_health_check=list(HealthCheck))
    @given(
        seed=st.sampled_from(seeds),
        number=st.integers(0, 2**32),
        noise=st.binary(max_size=60),
        kind=st.integers(0, 9),
    )
    def holds(seed: bytes, number: int, noise: bytes, kind: int) -> None:
        data = noise if kind == 0 else mutated(seed, target.kind, Random(number))
        with tempfile.TemporaryDirectory() as folder:
            finding = examine(target, data, Path(folder))
        assert finding is None, (finding, data[:2000])

    holds()


def test_every_kind_of_finding_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error, a sentence that is none, names nothing or has control codes, and a slow reader."""

    def of(read: Callable[[bytes, Path], object]) -> str | None:
        finding = examine(Target("x", read, lambda: [b""], "text", (LookupError,), "given"), b"", tmp_path)
        return finding and finding.what.split(":")[0]

    def refuse(error: BaseException) -> str | None:
        def read(data: bytes, folder: Path) -> object:
            raise error

        return of(read)

    assert of(lambda data, folder: None) is None
    assert refuse(InputError("given is wrong")) is None
    for error in (ValueError("given"), RecursionError("given"), BaseException("a panic")):
        assert refuse(error) == type(error).__name__
    assert refuse(InputError("something is wrong")) == "the sentence does not name given"
    assert refuse(LookupError("")) == "the sentence is empty"
    assert str(refuse(LookupError("given \x1b[2J"))).startswith("the sentence holds")
    assert str(refuse(LookupError("given" + "x" * 700))).startswith("a sentence of 70")
    monkeypatch.setattr(contract, "SECONDS", 0.05)
    assert "processor time" in str(of(lambda data, folder: sum(i * i for i in range(3_000_000))))
