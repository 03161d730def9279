"""Print how long a fixed computation takes: the speed of the machine, for reading the times of the checks.

    python .ci/fixed_loop.py

Twenty million steps of integer arithmetic in one process. The processor time shows the speed of the
processor; the time that passed is longer where other processes use it.
"""

from __future__ import annotations

import time

STEPS = 20_000_000


def compute(steps: int) -> int:
    """Return the last number of a linear congruential generator."""
    number = 0
    for step in range(steps):
        number = (number * 1103515245 + step) & 0xFFFFFFFF
    return number


def main() -> None:
    """Measure and print."""
    start, processor_start = time.perf_counter(), time.process_time()
    compute(STEPS)
    seconds, processor_seconds = time.perf_counter() - start, time.process_time() - processor_start
    print(f"{seconds:.1f} s ({processor_seconds:.1f} s of processor time)")


if __name__ == "__main__":
    main()
