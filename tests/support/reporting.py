"""What a page needs to know of a run beside its findings."""

from __future__ import annotations

from typing import Any

ABOUT: dict[str, Any] = {
    "tiltmeter": "0.0.0",
    "python": "3.11.0",
    "packages": {"polars": "1.0"},
    "command": "tiltmeter run genderbench --model vendor/own",
    "written": "2026-01-02T03:04:05+00:00",
    "title": "Gender bias in 14 probes",
    "study": "genderbench",
    "parts": {"direct": {"title": "Agreement with stereotypes", "status": "run"}},
    "definition": "default",
    "seed": 123,
    "limit": None,
    "repeats": None,
    "resamples": 1000,
    "level": 0.95,
    "system_message": None,
    "params": {},
    "sampling": {"temperature": 1.0},
    "data": [],
    "tables": {},
    "problems": [],
    "models": [{"name": "vendor/own"}],
}
"""The content of a run.json."""
