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
    known = recorded()
    made = contents()
    whole = {**known}
    added = []
    for label, components in made.items():
        mine = digests(components)
        record = known.get(label, {})
        new = {
            name: digest
            for name, digest in mine.items()
            if name not in record and (not record or name.startswith(RESULTS))
        }
        whole[label] = {**record, **new}
        added += [label if not record else f"{label}: {name}" for name in new]
    RECORDED.write_text(yaml.safe_dump(whole, sort_keys=True), encoding="utf-8")
    print(
        "\n".join(f"recorded: {what}" for what in dict.fromkeys(added))
        or "every version was recorded already"
    )
    changed = faults(made, whole)
    print("\n".join(changed), file=sys.stderr)
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
