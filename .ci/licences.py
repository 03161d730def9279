"""The licence of every package Tiltmeter needs, as a page.

A package under a licence nobody has looked at fails the build.

    python .ci/licences.py docs/licences.md             write the page python .ci/licences.py docs/licences.md
    --check     fail if it is out of date, or a licence is not among those accepted below

Looks at what is installed: all that `tiltmeter` and its extras require, directly or not. Packages only the
tests need are not shipped to anybody and are not listed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ACCEPTED = {
    "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "0BSD", "BSL-1.0", "CC0-1.0", "CNRI-Python",
    "ISC", "MIT", "MIT-0", "MIT-CMU", "PSF-2.0", "Unlicense", "Zlib", "Python-2.0", "LLVM-exception",
    "MPL-2.0",  # copyleft for its own files only
    "LGPL-3.0-only", "LGPL-3.0-or-later",  # used unchanged, as a library that anybody may replace
}  # fmt: skip
"""SPDX names of licences under which a package may be required."""

SAME = {
    "MIT License": "MIT",
    "Apache Software License": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache 2.0 License": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "BSD": "BSD-3-Clause",
    "3-Clause BSD License": "BSD-3-Clause",
    "BSD 3-Clause License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "The Unlicense (Unlicense)": "Unlicense",
    "Dual License": "Apache-2.0 OR BSD-3-Clause",
}
"""Other names for the same licences, as packages write them."""

READ_BY_HAND = {
    "agent-client-protocol": "Apache-2.0",
    "tiktoken": "MIT",
}
"""Packages whose metadata hold no name of a licence (or its whole text): read in their files."""

HEAD = """# Licences of dependencies

All packages that `tiltmeter` or one of its extras requires, directly or indirectly, with the versions pinned\
 in `constraints.txt`.
`make licences` writes this page. The build fails if it is out of date or contains a licence that has not\
 been accepted.
Licences of *datasets* are listed by `tiltmeter data list` and in the `run.json` of every run.

| package | licence | needed by |
|---|---|---|
"""


def needed() -> dict[str, list[str]]:
    """Return the packages and the extras that require them ("" is the core)."""
    found: dict[str, list[str]] = {}
    core = _closure("tiltmeter", frozenset())
    extras = sorted({extra for line in requires("tiltmeter") or () if (extra := _extra_of(line))})
    for name in core:
        found[name] = [""]
    for extra in extras:
        for name in _closure("tiltmeter", frozenset({extra})) - core:
            found.setdefault(name, []).append(extra)
    return found


def _extra_of(line: str) -> str | None:
    match = re.search(r"""extra\s*==\s*['"]([^'"]+)""", line)
    return match.group(1) if match else None


def _closure(root: str, extras: frozenset[str]) -> set[str]:
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [(root, extras)]
    while waiting:
        name, wanted = one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        try:
            lines = requires(name) or ()
        except PackageNotFoundError:
            continue  # not for this platform, or an extra that is not installed here
        for line in lines:
            requirement = Requirement(line)
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in wanted | {""}):
                waiting.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))
    return {name for name, _ in seen} - {canonicalize_name(root)}


def licences() -> dict[str, str]:
    """Return the licence of each installed package."""
    command = ["pip-licenses", "--format=json", "--from=mixed", "--with-system"]
    told = subprocess.run(
        [str(Path(sys.executable).parent / command[0]), *command[1:]],
        capture_output=True,
        check=True,
        text=True,
    )
    found: dict[str, str] = {}
    for one in json.loads(told.stdout):
        name: str = canonicalize_name(one["Name"])
        found[name] = READ_BY_HAND.get(name) or " AND ".join(
            SAME.get(part.strip(), part.strip()) for part in one["License"].split(";")
        )
    return found


def not_accepted(licence: str) -> list[str]:
    """Return the names in a licence expression that are not accepted.

    Of alternatives (OR) one accepted name is enough.
    """
    alternatives = [re.findall(r"[\w.+-]+", part) for part in licence.split(" OR ")]
    wrong = [
        [name for name in names if name not in ACCEPTED and name not in ("AND", "WITH")]
        for names in alternatives
    ]
    return [] if any(not one for one in wrong) else [name for one in wrong for name in one]


def main() -> int:
    """Write or check the page; the exit status."""
    page, check = Path(sys.argv[1]), sys.argv[2:] == ["--check"]
    known, rows, refused = licences(), [], []
    for name, extras in sorted(needed().items()):
        if name not in known:
            continue
        wrong = not_accepted(known[name])
        if wrong:
            refused.append(
                f"{name}: {known[name][:80]!r} is not among the accepted licences: read it, then add"
                f" it to .ci/licences.py"
            )
        rows.append(f"| {name} | {known[name]} | {', '.join(extra or 'everything' for extra in extras)} |\n")
    text = HEAD + "".join(rows)
    print("\n".join(refused), end="\n" if refused else "")
    if check:
        if not page.is_file() or page.read_text(encoding="utf-8") != text:
            print(f"{page} is out of date: run make licences")
            return 1
    elif not refused:
        page.write_text(text, encoding="utf-8")
    print(f"{len(rows)} packages, {len(refused)} licences not accepted")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
