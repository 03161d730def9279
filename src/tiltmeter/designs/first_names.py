"""First names by gender, which stories and marked prompts draw from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tiltmeter._files.yaml import packaged_yaml

FIRST_NAMES: Final[Mapping[str, list[str]]] = packaged_yaml(Path(__file__).with_name("names.yaml"))
"""Built-in lists of first names: "women" and "men"."""
