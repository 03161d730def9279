"""Array types for annotations."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Vectors: TypeAlias = NDArray[np.float32]
"""Embeddings, usually of shape (texts, dimensions)."""
Integers: TypeAlias = NDArray[np.int64]
Index: TypeAlias = NDArray[np.intp]
"""Positions in another array."""
Booleans: TypeAlias = NDArray[np.bool_]
Objects: TypeAlias = NDArray[np.object_]
