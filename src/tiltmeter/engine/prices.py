"""What answers cost: a price file by model name, built in and extended by the user's own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, NamedTuple, Self

from pydantic import Field, TypeAdapter, ValidationError

from tiltmeter.errors import InputError
from tiltmeter.paths import is_file
from tiltmeter.yaml_files import read_yaml

_Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]


class Price(NamedTuple):
    """US dollars per million tokens."""

    input: _Dollars
    output: _Dollars


_PRICES = TypeAdapter(dict[str, Price])


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
    def load(cls, path: Path | None = None) -> Self:
        """The built-in prices, preceded by the user's own.

        These are in `path`, else in the file named by TILTMETER_PRICES, or in `tiltmeter/prices.yaml` of the user's configuration folder
        where it exists.

        Raises
        ------
        InputError
            The file cannot be read or an entry is wrong; the message names the file and the line or the entry.
        """
        builtin = _read_price_file(Path(__file__).with_name("prices.yaml"))
        home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "tiltmeter" / "prices.yaml"
        own = path or os.environ.get("TILTMETER_PRICES") or (home if home.is_file() else None)
        return cls(_read_price_file(Path(own)), builtin) if own else cls(builtin)

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


def _read_price_file(path: Path) -> dict[str, Price]:
    if not is_file(path):
        raise InputError(f"price file {path} cannot be read: there is no such file; check TILTMETER_PRICES")
    content = read_yaml(path, "price file")
    models = content.get("models") if isinstance(content, dict) else None
    if not isinstance(models, dict):
        raise InputError(f"price file {path}: needs a key 'models' with entries such as 'openai/my-model: {{input: 0.5, output: 1.5}}'")
    models = {str(name): price for name, price in models.items()}
    try:
        return _PRICES.validate_python(models)
    except ValidationError as error:
        name = error.errors()[0]["loc"][0]
        wanted = "write {input: DOLLARS, output: DOLLARS} per million tokens"
        raise InputError(f"price file {path}, entry {name!r}: {wanted}, not {models[name]!r}") from None
