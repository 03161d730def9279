"""`-E key=value`, and what stands between a user and a cluster."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltmeter.engine import Limits, LocalEngine, open_engine
from tiltmeter.engine.ray import RayEngine, RayOptions, open_ray
from tiltmeter.engine.ray._foreman import Stage
from tiltmeter.errors import InputError, ProviderError


def test_options_are_read() -> None:
    assert RayOptions.parse({}) == RayOptions(None, 1.0, 0.0, None)
    given = {"workers": "2-8", "cpus": "0.5", "gpus": "0.25", "batch": "64"}
    assert RayOptions.parse(given) == RayOptions((2, 8), 0.5, 0.25, 64)
    assert RayOptions.parse({"workers": "3"}).workers == (3, 3)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("worker", "2", "did you mean workers"),
        ("workers", "0", "a whole number of 1 or more"),
        ("workers", "8-2", "the smaller number comes first"),
        ("workers", "2-", "a whole number of 1 or more"),
        ("cpus", "0", "above 0"),
        ("cpus", "nan", "above 0"),
        ("gpus", "-1", "above 0"),
        ("gpus", "1.5", "whole numbers only"),
        ("batch", "many", "a whole number of 1 or more"),
    ],
)
def test_what_is_wrong_with_an_option_is_said(key: str, value: str, said: str) -> None:
    with pytest.raises(InputError, match=f"-E {key}={value}: .*{said}"):
        RayOptions.parse({key: value})


@given(st.dictionaries(st.sampled_from(["workers", "cpus", "gpus", "batch", "other"]), st.text(max_size=8)))
def test_any_text_is_an_option_or_refused(given: dict[str, str]) -> None:
    try:
        options = RayOptions.parse(given)
    except InputError:
        return
    least, most = options.workers or (1, 1)
    assert 1 <= least <= most
    assert options.cpus > 0 <= options.gpus


@given(st.integers(1, 500), st.integers(1, 64), st.one_of(st.none(), st.floats(1, 1e6)))
def test_workers_together_never_have_more_than_the_user_gave(connections: int, workers: int, rate: float | None) -> None:
    engine = RayEngine("ray", RayOptions(), Stage((1, workers), 1.0, 0.0, "1"))
    limits = Limits(max_connections=connections, requests_per_minute=rate)
    batches, share = engine._shared_out(limits, local=False)
    active = min(batches, workers)
    assert 1 <= active * share.max_connections <= connections
    assert (share.requests_per_minute is None) == (rate is None)
    if rate is not None and share.requests_per_minute is not None:
        assert active * share.requests_per_minute == pytest.approx(rate)
    assert engine._shared_out(limits, local=True)[1] == limits


def test_the_local_engine_is_the_default() -> None:
    with open_engine() as engine:
        assert isinstance(engine, LocalEngine)
    with pytest.raises(InputError, match="-E workers= is about Ray"), open_engine("local", {"workers": "2"}):
        pass
    with pytest.raises(InputError, match="not one of local, ray"), open_engine("dask"):
        pass


def test_a_cluster_that_does_not_answer_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with (
        pytest.raises(ProviderError, match=rf"no Ray cluster answers at ray://127.0.0.1:{port} \("),
        open_ray(f"ray://127.0.0.1:{port}", RayOptions()),
    ):
        pass
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
    with pytest.raises(ProviderError, match=f"no Ray cluster answers at 127.0.0.1:{port}"), open_ray("ray", RayOptions()):
        pass


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiltmeter.engine.ray._open.find_spec", lambda name: None)
    with pytest.raises(ProviderError, match=r'pip install "tiltmeter\[ray\]"'), open_ray("ray", RayOptions()):
        pass
