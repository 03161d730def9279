"""Record the fingerprints of new versions of definitions: PYTHONPATH=tests python tests/definitions/record.py

A recorded digest is not written again. Results on new recorded responses are added to a version. Remove the
entry of a version by hand only if that version was in no release.
"""

from __future__ import annotations

import sys

import yaml

from support.fingerprints import RECORDED, RESULTS, contents, digests, faults, recorded


def main() -> int:
    """Add the versions and the results that are not recorded yet.

    Return 1 if a recorded version has changed.
    """
    before = recorded()
    definitions = contents()
    records = {**before}
    added = []
    for label, components in definitions.items():
        current = digests(components)
        record = before.get(label, {})
        new = {
            name: digest
            for name, digest in current.items()
            if name not in record and (not record or name.startswith(RESULTS))
        }
        records[label] = {**record, **new}
        added += [label if not record else f"{label}: {name}" for name in new]
    RECORDED.write_text(yaml.safe_dump(records, sort_keys=True), encoding="utf-8")
    if not added:
        print("every version was recorded already")
    for entry in dict.fromkeys(added):
        print(f"recorded: {entry}")
    changed = faults(definitions, records)
    print("\n".join(changed), file=sys.stderr)
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
