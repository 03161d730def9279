"""Texts of servers in our sentences: short, printable, without secrets."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tiltmeter.models.endpoints import clean, model_error, read_complaint


@given(st.text())
def test_a_cleaned_text_is_one_short_printable_line(text: str) -> None:
    cleaned = clean(text)
    assert cleaned.isprintable()
    assert len(cleaned) <= 200


@given(st.text(max_size=300), st.text(max_size=300), st.from_regex(r"[A-Za-z0-9_\-]{12,60}", fullmatch=True))
def test_a_secret_never_survives(before: str, after: str, secret: str) -> None:
    assert secret not in clean(before + secret + after, (secret,))


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("Incorrect API key provided: sk-ab**********yz12. Find it", "Incorrect API key provided: *** Find it"),
        ("got Authorization: Bearer abc.def", "got Authorization: Bearer ***"),
        ("a\x1b[31mred\r\n\tline\u202e", "a [31mred line"),
        ("<!DOCTYPE html><html><title> Oops\n</title>body", "an HTML page titled 'Oops'"),
        ("<html><body><p>Just this</p></body></html>", "an HTML page: Just this"),
        ("fine", "fine"),
    ],
)
def test_examples(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


KEYS = st.sampled_from(["error", "message", "code", "type", "param", "innererror", "metadata", "detail"]) | st.text()
VALUES = st.recursive(st.none() | st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner))
BODIES = st.binary() | VALUES.map(lambda value: repr(value).replace("'", '"').replace("None", "null").encode())


@given(BODIES, st.integers(201, 599))
def test_any_body_with_any_status_is_some_error(raw: bytes, status: int) -> None:
    complaint = read_complaint(raw)
    error = model_error(status, {}, complaint, clean(complaint.message))
    assert error.kind
    assert error.status == status
