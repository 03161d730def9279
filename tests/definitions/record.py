"""Record the fingerprints of new versions of definitions: PYTHONPATH=tests python tests/definitions/record.py

A recorded version is not written again. Remove its entry by hand only if that version was in no release.
"""

from __future__ import annotations

import sys

import yaml

from support.fingerprints import RECORDED, contents, digests, faults, recorded


def main() -> int:
    """Add the versions that are not recorded yet; return 1 if a recorded one has changed."""
    known = recorded()
    made = contents()
    whole = {**known, **{label: digests(components) for label, components in made.items() if label not in known}}
    RECORDED.write_text(yaml.safe_dump(whole, sort_keys=True), encoding="utf-8")
    print("\n".join(f"recorded: {label}" for label in whole if label not in known) or "every version was recorded already")
    changed = faults(made, whole)
    print("\n".join(changed), file=sys.stderr)
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
