"""The kinds of array, for annotations."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Vectors = NDArray[np.float32]
"""Usually (texts, dimensions): what encoders give."""
Integers = NDArray[np.int64]
Index = NDArray[np.intp]
Booleans = NDArray[np.bool_]
Objects = NDArray[np.object_]
