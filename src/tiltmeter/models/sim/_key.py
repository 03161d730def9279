"""The key: which outcomes are planted for which prompt, kept in a few flat arrays however many prompts there are."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Key", "Planted", "digest"]

_TOLERANCE = 1e-6


def digest(text: str) -> bytes:
    """16 bytes that stand for a text, the same in every process."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class Planted:
    """The outcomes planted for one prompt."""

    __slots__ = ("_key", "_start", "_stop")

    def __init__(self, key: Key, start: int, stop: int) -> None:
        self._key, self._start, self._stop = key, start, stop

    @property
    def outcomes(self) -> list[str]:
        """All outcomes of the prompt, those with odds of 0 too, in the order given."""
        return [self._key.words[code] for code in self._key.codes[self._start : self._stop]]

    def draw(self, unit: float) -> str:
        """The outcome at `unit` (in [0, 1)) of the cumulative odds."""
        key = self._key
        place = bisect_right(key.cumulative, unit, self._start, self._stop)
        return key.words[key.codes[min(place, self._stop - 1)]]


class Key:
    """Planted odds of many prompts: about 60 bytes for a prompt of three outcomes, plus its place in the index."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.codes = array("I")
        self.cumulative = array("d")
        self._codes_of: dict[str, int] = {}
        self._offsets = array("I", [0])
        self._rows: dict[int, int] = {}
        self._by_system = False

    def __len__(self) -> int:
        return len(self._rows)

    def find(self, prompt: bytes, system: str | None = None) -> Planted | None:
        """What is planted for the prompt with this digest, under this system message or else under any; None where nothing is."""
        row = self._rows.get(_place(prompt, system)) if self._by_system and system is not None else None
        if row is None:
            row = self._rows.get(_place(prompt))
        return None if row is None else Planted(self, self._offsets[row], self._offsets[row + 1])

    def add(self, table: pl.DataFrame) -> None:
        """Add the rows of `table`; a prompt that is already known keeps its first row.

        Parameters
        ----------
        table
            `prompt` (str), `outcomes` (list of str), `odds` (list of float, as long, not negative, sum 1); with `system` (str, null:
            whatever the system message) a row holds under that system message only.

        Raises
        ------
        ValueError
            A column is missing, or a row breaks these rules; the message quotes the prompt's beginning.
        """
        import numpy as np
        import polars as pl

        _check(table)
        if table.is_empty():
            return
        lengths = table["outcomes"].list.len().to_numpy().astype(np.int64)
        said = table.select(pl.col("outcomes").explode())["outcomes"]
        for word in said.unique(maintain_order=True).to_list():
            self._codes_of.setdefault(word, len(self._codes_of))
        self.words = list(self._codes_of)
        codes = said.replace_strict(self._codes_of, return_dtype=pl.UInt32).to_numpy()

        odds = table.select(pl.col("odds").explode())["odds"].to_numpy().clip(min=0)
        running = np.concatenate(([0.0], np.cumsum(odds)))
        ends = np.cumsum(lengths)
        before = np.repeat(running[ends - lengths], lengths)
        total = np.repeat(running[ends] - running[ends - lengths], lengths)

        first_row, first_place = len(self._offsets) - 1, len(self.codes)
        self.codes.frombytes(codes.astype(np.uint32).tobytes())
        self.cumulative.frombytes(((running[1:] - before) / total).tobytes())
        self._offsets.frombytes((ends + first_place).astype(np.uint32).tobytes())
        systems = table["system"] if "system" in table.columns else pl.repeat(None, table.height, dtype=pl.String, eager=True)
        self._by_system = self._by_system or systems.null_count() < table.height
        for row, (prompt, system) in enumerate(zip(table["prompt"], systems, strict=True), start=first_row):
            self._rows.setdefault(_place(digest(prompt), system), row)


def _place(prompt: bytes, system: str | None = None) -> int:
    """Number of a prompt with this digest in the index."""
    return int.from_bytes((prompt if system is None else digest(f"{prompt.hex()} {system}"))[:8], "little")


def _check(table: pl.DataFrame) -> None:
    import polars as pl

    for name in ("prompt", "outcomes", "odds"):
        if name not in table.columns:
            raise ValueError(f"a key needs the columns prompt, outcomes and odds; {name} is missing")
    rules = {
        "the prompt, an outcome or its odds are null": pl.any_horizontal(pl.col("prompt", "outcomes", "odds").is_null())
        | pl.col("outcomes").list.eval(pl.element().is_null()).list.any()
        | pl.col("odds").list.eval(pl.element().is_null()).list.any(),
        "there are not as many odds as outcomes, or none": (pl.col("outcomes").list.len() != pl.col("odds").list.len())
        | (pl.col("odds").list.len() == 0),
        "odds are negative or do not sum to 1": (pl.col("odds").list.min() < -_TOLERANCE)
        | ((pl.col("odds").list.sum() - 1).abs() > _TOLERANCE),
    }
    for rule, broken in rules.items():
        wrong = table.filter(broken.fill_null(True))
        if wrong.height:
            raise ValueError(f"cannot plant odds: {rule}, for the prompt {str(wrong['prompt'][0])[:60]!r}")
