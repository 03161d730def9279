"""Prices of answers by model name: a built-in price file, which the user's own price file extends."""

from __future__ import annotations

import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, NamedTuple, Self

from pydantic import Field, TypeAdapter, ValidationError

from tiltmeter._files.paths import is_file
from tiltmeter._files.yaml import read_yaml
from tiltmeter.errors import InputError

_Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]


class Price(NamedTuple):
    """US dollars per million tokens."""

    input: _Dollars
    output: _Dollars


_PRICES = TypeAdapter(dict[str, Price])


class Cost(NamedTuple):
    """A range of costs in US dollars, from `low` to `high`, for `of`: a model, "judge MODEL", or "total".

    `low` is None if a price is not known, and `high` if there is no upper bound.
    """

    of: str
    low: float | None
    high: float | None


class Prices:
    """Prices by pattern of the model name (`*` and `?`).

    Exact names take precedence over patterns, longer patterns over shorter ones, and the user's entries over
    the built-in ones.
    """

    def __init__(self, *tables: Mapping[str, Price]) -> None:
        self._tables = tables

    @classmethod
    def load(cls, path: Path | None = None) -> Self:
        """Load the built-in prices and the user's own.

        The user's prices are in `path`, or in the file named by TILTMETER_PRICES, or in
        `tiltmeter/prices.yaml` in the user's configuration folder, if it exists.

        Raises
        ------
        InputError
            The file cannot be read or an entry is wrong; the message names the file and the line or the
            entry.
        """
        builtin = _read_price_file(Path(__file__).with_name("prices.yaml"))
        user_file = path or os.environ.get("TILTMETER_PRICES") or _file_in_configuration()
        if not user_file:
            return cls(builtin)
        return cls(_read_price_file(Path(user_file)), builtin)

    def price(self, model: str) -> Price | None:
        """Return the price of `provider/model`, or None if no entry matches."""
        for table in self._tables:
            matching = [pattern for pattern in table if pattern == model or fnmatchcase(model, pattern)]
            if matching:
                return table[max(matching, key=lambda pattern: (pattern == model, len(pattern)))]
        return None

    def cost(self, model: str, input_tokens: float, output_tokens: float) -> float | None:
        """Return the cost of a number of tokens in US dollars.

        None if the price of the model is not known.
        """
        price = self.price(model)
        if price is None:
            return None
        return (price.input * input_tokens + price.output * output_tokens) / 1e6


def _file_in_configuration() -> Path | None:
    """Return the price file in the user's configuration folder, or None if there is none."""
    configuration = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    file = configuration / "tiltmeter" / "prices.yaml"
    return file if file.is_file() else None


def _read_price_file(path: Path) -> dict[str, Price]:
    if not is_file(path):
        raise InputError(f"price file {path} cannot be read: there is no such file; check TILTMETER_PRICES")
    content = read_yaml(path, "price file")
    models = content.get("models") if isinstance(content, dict) else None
    if not isinstance(models, dict):
        example = "openai/my-model: {input: 0.5, output: 1.5}"
        raise InputError(f"price file {path}: needs a key 'models' with entries such as '{example}'")
    models = {str(name): price for name, price in models.items()}
    try:
        return _PRICES.validate_python(models)
    except ValidationError as error:
        name = error.errors()[0]["loc"][0]
        wanted = "write {input: DOLLARS, output: DOLLARS} per million tokens"
        raise InputError(f"price file {path}, entry {name!r}: {wanted}, not {models[name]!r}") from None
