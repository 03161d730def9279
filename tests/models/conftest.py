"""Models in folders: tiny ones, made once, and a real encoder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.conftest import journal  # noqa: F401 - a fixture
from features.conftest import minilm  # noqa: F401 - a fixture
from support.tiny_models import save_chat_model

Make = Callable[..., Path]


@pytest.fixture(scope="session")
def chat_model(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """The folder of a tiny model with these settings (see `save_chat_model`)."""
    by_name: dict[str, Path] = {}

    def make(kind: str = "llama", **settings: Any) -> Path:
        key = f"{kind} {sorted(settings.items())}"
        if key not in by_name:
            by_name[key] = save_chat_model(tmp_path_factory.mktemp(kind), kind, **settings)
        return by_name[key]

    return make
