"""Measure how long readers take for long texts of one pattern.

`python fuzz/growth.py [--bytes N] [READER...]` prints one line for each reader: the slowest pattern and its
processor time. The readers and patterns are those of `tests/support/fuzzing/growth.py`. Exit status 1 if one
takes longer than `--most` seconds.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def main() -> int:
    """Measure the readers named, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=1_000_000)
    parser.add_argument("--most", type=float, default=5.0, help="seconds")
    parser.add_argument("readers", nargs="*", metavar="READER", help="names, or the beginnings of names")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    from support.fuzzing.growth import PATTERNS, READERS, seconds, text_of

    slow = False
    for name, reader in READERS.items():
        if options.readers and not name.startswith(tuple(options.readers)):
            continue
        seconds(reader, "Emily is a kind woman.")
        times = {label: seconds(reader, text_of(text, options.bytes)) for label, text in PATTERNS.items()}
        worst = max(times, key=lambda label: times[label])
        slow = slow or times[worst] > options.most
        print(f"{name}: {times[worst]:.2f} s for {worst!r}", flush=True)
    return int(slow)


if __name__ == "__main__":
    raise SystemExit(main())
