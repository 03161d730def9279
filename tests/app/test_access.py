"""Writing without a token: only pages of this machine may, under one of its own names."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import streamlit as st

from tiltmeter._app.access import may_write


@pytest.mark.parametrize(
    ("headers", "may"),
    [
        ({"Host": "127.0.0.1:8501", "Origin": "http://127.0.0.1:8501"}, True),
        ({"Host": "localhost:8501", "Origin": "http://localhost:8501"}, True),
        ({"Host": "[::1]:8501", "Origin": "http://[::1]:8501"}, True),
        ({"Host": "127.0.0.1:8501"}, False),
        ({"Host": "127.0.0.1:8501", "Origin": "http://127.0.0.1:8502"}, False),
        ({"Host": "127.0.0.1:8501", "Origin": "null"}, False),
        ({"Host": "bias.example", "Origin": "https://bias.example"}, False),
        ({"Host": "127.0.0.1.example", "Origin": "http://127.0.0.1.example"}, False),
        ({"Host": "[bad", "Origin": "http://[bad"}, False),
        ({"Host": "", "Origin": "null"}, False),
        (
            {"Host": "127.0.0.1:8501", "Origin": "http://127.0.0.1:8501", "X-Forwarded-For": "192.0.2.7"},
            False,
        ),
    ],
)
def test_only_pages_of_this_machine_may_write_without_a_token(
    headers: dict[str, str], may: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(st, "context", SimpleNamespace(headers=headers))
    assert may_write("") == may
