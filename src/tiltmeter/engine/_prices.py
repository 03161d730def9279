"""What answers cost: a price file by model name, built in and extended by the user's own."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple, Self

from tiltmeter._paths import is_file
from tiltmeter._yaml import read_yaml
from tiltmeter.errors import InputError

__all__ = ["Cost", "Price", "Prices"]


class Price(NamedTuple):
    """US dollars per million tokens."""

    input: float
    output: float


class Cost(NamedTuple):
    """US dollars from `low` to `high` for what `of` says: a model, "judge MODEL", or "total".

    `low` is None where a price is not known, `high` where there is no upper end.
    """

    of: str
    low: float | None
    high: float | None


class Prices:
    """Prices by model-name pattern (`*` and `?`); an exact name wins over a pattern, a longer pattern over a shorter one.

    The user's own entries win over the built-in ones.
    """

    def __init__(self, *tables: Mapping[str, Price]) -> None:
        self._tables = tables

    @classmethod
    def load(cls, path: str | Path | None = None) -> Self:
        """The built-in prices, preceded by those of `path`.

        Without a path: the file named by TILTMETER_PRICES, or `tiltmeter/prices.yaml` in the user's configuration folder
        where it exists.

        Raises
        ------
        InputError
            The file cannot be read or an entry is wrong; the message names the file and the line or the entry.
        """
        builtin = _read(Path(__file__).with_name("prices.yaml"))
        own = _own_file() if path is None else Path(path)
        return cls(builtin) if own is None else cls(_read(own), builtin)

    def price(self, model: str) -> Price | None:
        """The price of `provider/model`, None when no entry fits."""
        for table in self._tables:
            fitting = [pattern for pattern in table if pattern == model or fnmatchcase(model, pattern)]
            if fitting:
                return table[max(fitting, key=lambda pattern: (pattern == model, len(pattern)))]
        return None

    def cost(self, model: str, input_tokens: float, output_tokens: float) -> float | None:
        """US dollars for so many tokens, None when the price of the model is not known."""
        price = self.price(model)
        return None if price is None else (price.input * input_tokens + price.output * output_tokens) / 1e6


def _own_file() -> Path | None:
    named = os.environ.get("TILTMETER_PRICES")
    if named:
        return Path(named)
    default = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "tiltmeter" / "prices.yaml"
    return default if default.is_file() else None


def _read(path: Path) -> dict[str, Price]:
    if not is_file(path):
        raise InputError(f"price file {path} cannot be read: there is no such file; check TILTMETER_PRICES")
    content = read_yaml(path, "price file")
    models = content.get("models") if isinstance(content, dict) else None
    if not isinstance(models, dict):
        raise InputError(f"price file {path}: needs a key 'models' with entries such as 'openai/my-model: {{input: 0.5, output: 1.5}}'")
    return {str(name): _entry(path, str(name), entry) for name, entry in models.items()}


def _entry(path: Path, name: str, entry: Any) -> Price:
    values = [entry.get(side) for side in Price._fields] if isinstance(entry, dict) and set(entry) == set(Price._fields) else [None]
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            raise InputError(
                f"price file {path}, entry {name!r}: write {{input: DOLLARS, output: DOLLARS}} per million tokens, not {entry!r}"
            )
    return Price(*(float(value) for value in values if value is not None))
