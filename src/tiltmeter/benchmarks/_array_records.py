"""Records of arrays: frozen dataclasses whose arrays have the same axes, combined field by field."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import Field, fields, replace
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from tiltmeter._arrays import Booleans


class Record(Protocol):
    """A dataclass of arrays."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


RecordT = TypeVar("RecordT", bound=Record)


def joined(records: Sequence[RecordT], axis: int) -> RecordT:
    """Concatenate the arrays of records along an axis."""
    return _combined(records, lambda arrays: np.concatenate(arrays, axis=axis))


def stacked(records: Sequence[RecordT], axis: int = 0) -> RecordT:
    """Stack the arrays of records along a new axis."""
    return _combined(records, lambda arrays: np.stack(arrays, axis=axis))


def without(record: RecordT, names: Sequence[str], is_removed: Booleans) -> RecordT:
    """Replace the marked values of the named arrays by NaN."""
    arrays: dict[str, Any] = {name: np.where(is_removed, np.nan, getattr(record, name)) for name in names}
    return replace(record, **arrays)


def _combined(records: Sequence[RecordT], combine: Callable[[list[Any]], Any]) -> RecordT:
    arrays: dict[str, Any] = {}
    for field in fields(records[0]):
        arrays[field.name] = combine([getattr(record, field.name) for record in records])
    return replace(records[0], **arrays)
