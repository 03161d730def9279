"""Small words."""

from __future__ import annotations

import pytest

from tiltmeter.reports import size
from tiltmeter.sanitising import printable, redacted


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 B"), (999, "999 B"), (1_000, "1 kB"), (214_899, "215 kB"), (999_999, "1 MB"), (8_351_289, "8.35 MB")]
)
def test_sizes(count: int, said: str) -> None:
    assert size(count) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("plain é 漢字\n\tnext", "plain é 漢字\n\tnext"),
        ("\x1b[31mred", "␛[31mred"),
        ("\x07\r\x7f\x00", "␇␍␡␀"),
        ("\x9b31m", "\ufffd31m"),
        ("\udcff", "\ufffd"),
    ],
)
def test_controls_are_shown_not_obeyed(text: str, said: str) -> None:
    assert printable(text) == said
    assert "\n" not in printable(text, one_line=True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("postgresql+psycopg://me:secret@db.example:5432/x", "postgresql+psycopg://me:***@db.example:5432/x"),
        ("postgresql://me:se/c@r?e#t@db/x?password=secret&sslmode=require", "postgresql://me:***@db/x?password=***&sslmode=***"),
        ("--journal=postgresql://me:sec ret@db/x", "--journal=postgresql://me:***@db/x"),
        ("https://secret@host/p?secret#secret", "https://***@host/p?***#***"),
        ("at https://host/p?key=secret, or postgresql://me:secret@db", "at https://host/p?key=*** or postgresql://me:***@db"),
        ("postgresql://me@db/x", "postgresql://me@db/x"),
        ("http://127.0.0.1:8000/v1/@x", "http://127.0.0.1:8000/v1/@x"),
        ("sqlite:///a#b.db", "sqlite:///a#b.db"),
        ("openai/gpt-4o", "openai/gpt-4o"),
    ],
)
def test_urls_lose_their_secrets_and_nothing_else(text: str, said: str) -> None:
    assert redacted(text) == said
