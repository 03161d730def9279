"""Tiny chat models in folders, made once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.tiny_models import save_chat_model
from tiltmeter.engine import Journal, open_journal

Make = Callable[..., Path]


@pytest.fixture(scope="session")
def chat_model(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """The folder of a tiny model with these settings (see `save_chat_model`)."""
    made: dict[str, Path] = {}

    def make(kind: str = "llama", **settings: Any) -> Path:
        key = f"{kind} {sorted(settings.items())}"
        if key not in made:
            made[key] = save_chat_model(tmp_path_factory.mktemp(kind), kind, **settings)
        return made[key]

    return make


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with open_journal(tmp_path / "journal.db") as opened:
        yield opened
