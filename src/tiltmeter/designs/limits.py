"""Which items of a part are asked (`--limit`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from tiltmeter.errors import InputError

SIZES: Final = ("quick", "standard", "full")
"""Sizes of a study, which can be given as a limit; each part has its own limits for them (`Part.sizes`)."""
_NO_LIMIT: Final = (
    "--limit {text!r} is not a number of items (50), a range (0-99), a share (0.1)"
    f" or a size ({', '.join(SIZES)})"
)
Selection: TypeAlias = int | float | tuple[int, int]


@dataclass(frozen=True, slots=True)
class ItemLimit:
    """The items of a part that are asked.

    Parameters
    ----------
    selection
        A number of items (50), a share of them (0.1), or the numbers of the first and the last item (0, 99).
        Numbers of items begin at 0 and are those of the full design.

    Raises
    ------
    InputError
        There is no such selection: no item, a share above 1, or a range that ends before it begins.

    Examples
    --------
    >>> ItemLimit.parse("0-99").selection
    (0, 99)
    >>> str(ItemLimit(0.1))
    '0.1'
    """

    selection: Selection

    def __post_init__(self) -> None:
        """Check the selection."""
        if not self._is_possible():
            raise InputError(_NO_LIMIT.format(text=str(self)))

    def _is_possible(self) -> bool:
        if isinstance(self.selection, tuple):
            first, last = self.selection
            return 0 <= first <= last
        if isinstance(self.selection, float):
            return 0 < self.selection <= 1
        return self.selection > 0

    @classmethod
    def parse(cls, text: str) -> ItemLimit:
        """Return the limit that a text means: "50", "0.1" or "0-99".

        Raises
        ------
        InputError
            The text means no limit.
        """
        if text in SIZES:
            raise InputError(
                f"--limit {text}: a size applies to all parts;"
                " give a part a number of items, a range or a share"
            )
        first, dash, last = text.partition("-")
        selection: Selection
        try:
            if dash:
                selection = (int(first), int(last))
            elif "." in text:
                selection = float(text)
            else:
                selection = int(text)
        except ValueError:
            raise InputError(_NO_LIMIT.format(text=text)) from None
        try:
            return cls(selection)
        except InputError:
            raise InputError(_NO_LIMIT.format(text=text)) from None

    def __str__(self) -> str:
        """Return the text from which `parse` makes the limit."""
        if isinstance(self.selection, tuple):
            return "{}-{}".format(*self.selection)
        return str(self.selection)


@dataclass(frozen=True, slots=True)
class StudyLimit:
    """The value of `--limit`: a limit or a size for all parts, and limits of single parts.

    Parameters
    ----------
    of_all
        A limit, the name of a size, or None if only single parts have limits.
    of_parts
        Limits by the name of the part.
    """

    of_all: ItemLimit | str | None = None
    of_parts: dict[str, ItemLimit] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> StudyLimit:
        """Return the limit that a text means, such as "100,hiring_an=2000".

        Raises
        ------
        InputError
            A piece of the text means no limit, or there are two limits for the same parts.
        """
        of_all: ItemLimit | str | None = None
        of_parts: dict[str, ItemLimit] = {}
        for piece in text.split(","):
            name, equals, value = (token.strip() for token in piece.rpartition("="))
            if not equals:
                limit = value if value in SIZES else ItemLimit.parse(value)
                if of_all is not None:
                    raise InputError(f"--limit {text!r} gives two limits for all parts; give one")
                of_all = limit
                continue
            limit_of_part = ItemLimit.parse(value)
            if name in of_parts:
                raise InputError(f"--limit {text!r} gives {name} two limits; give one")
            of_parts[name] = limit_of_part
        return cls(of_all, of_parts)

    def __str__(self) -> str:
        """Return the text from which `parse` makes the limit."""
        of_all = [] if self.of_all is None else [str(self.of_all)]
        return ",".join([*of_all, *(f"{part}={limit}" for part, limit in self.of_parts.items())])
