"""Counters of a server in a file: they survive its end, and other processes can read them.

They lie in a file mapped into memory: a store into it is in the system's hands at once, whatever becomes of
the process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

GAUGES: Final = 64


class Ledger:
    """Counts of requests and answers of each prompt, and further numbers.

    Parameters
    ----------
    path
        The file; made when it is missing.
    prompts
        Prompts are numbered from 0 to one less than this.
    """

    def __init__(self, path: Path, prompts: int) -> None:
        size = 8 * GAUGES + 4 * prompts
        if not path.exists():
            with path.open("wb") as file:
                file.truncate(size)
        memory: np.memmap[Any, np.dtype[np.uint8]] = np.memmap(path, np.uint8, "r+", shape=(size,))
        counts = memory[8 * GAUGES :].view(np.uint16).reshape(2, prompts)
        self.gauges: NDArray[np.int64] = memory[: 8 * GAUGES].view(np.int64)
        """Numbers of the owner's choice."""
        self.asked: NDArray[np.uint16] = counts[0]
        """Requests that came in, by prompt."""
        self.delivered: NDArray[np.uint16] = counts[1]
        """Usable answers completely handed to the socket, by prompt."""

    @property
    def answers(self) -> int:
        """Usable answers delivered."""
        return int(self.delivered.sum(dtype=np.int64))

    @property
    def again(self) -> int:
        """Answers delivered beyond the first one to each prompt."""
        return self.answers - int(np.count_nonzero(self.delivered))
