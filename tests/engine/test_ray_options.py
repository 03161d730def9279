"""`-E key=value`, and errors before a cluster is used."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given, strategies as st

from tiltmeter.engine import Engine, open_engine
from tiltmeter.engine._ray_engine import RayOptions
from tiltmeter.errors import InputError, ProviderError


def test_options_of_the_ray_engine_are_read() -> None:
    assert RayOptions.parse({}) == RayOptions((0, 0), 1.0, 0.0, None)
    options = {"workers": "2-8", "cpus": "0.5", "gpus": "0.25", "batch": "64"}
    assert RayOptions.parse(options) == RayOptions((2, 8), 0.5, 0.25, 64)
    assert RayOptions.parse({"workers": "3"}).workers == (3, 3)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("worker", "2", "did you mean workers"),
        ("workers", "0", "a whole number of 1 or more"),
        ("workers", "8-2", "the smaller number comes first"),
        ("workers", "2-", "a whole number of 1 or more"),
        ("cpus", "0", "above 0"),
        ("cpus", "nan", "above 0"),
        ("gpus", "-1", "above 0"),
        ("gpus", "1.5", "only whole numbers"),
        ("batch", "many", "a whole number of 1 or more"),
    ],
)
def test_the_error_of_an_option_says_what_is_wrong(key: str, value: str, message: str) -> None:
    with pytest.raises(InputError, match=f"-E {key}={value}: .*{message}"):
        RayOptions.parse({key: value})


@given(st.dictionaries(st.sampled_from(["workers", "cpus", "gpus", "batch", "other"]), st.text(max_size=8)))
def test_any_text_is_an_option_or_refused(texts: dict[str, str]) -> None:
    try:
        options = RayOptions.parse(texts)
    except InputError:
        return
    least, most = options.workers
    assert 0 <= least <= most
    assert options.cpus > 0 <= options.gpus


def test_the_local_engine_is_the_default() -> None:
    with open_engine() as engine:
        assert type(engine) is Engine
    with (
        pytest.raises(InputError, match="-E workers= is an option of Ray"),
        open_engine("local", {"workers": "2"}),
    ):
        pass
    with pytest.raises(InputError, match="not one of local, ray"), open_engine("dask"):
        pass


def test_a_cluster_that_does_not_answer_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with (
        pytest.raises(ProviderError, match=rf"no Ray cluster answers at ray://127.0.0.1:{port} \("),
        open_engine(f"ray://127.0.0.1:{port}"),
    ):
        pass
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
    with (
        pytest.raises(ProviderError, match=f"no Ray cluster answers at 127.0.0.1:{port}"),
        open_engine("ray"),
    ):
        pass


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiltmeter.engine._engines.find_spec", lambda name: None)
    with pytest.raises(ProviderError, match=r'pip install "tiltmeter\[ray\]"'), open_engine("ray"):
        pass
