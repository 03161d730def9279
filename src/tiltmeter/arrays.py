"""Array types for annotations."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Vectors = NDArray[np.float32]
"""Embeddings, usually of shape (texts, dimensions)."""
Integers = NDArray[np.int64]
Index = NDArray[np.intp]
Booleans = NDArray[np.bool_]
Objects = NDArray[np.object_]
