"""Packages with entry points, installed in a folder as by pip."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

Points = Mapping[str, Mapping[str, str]]


def install(site: Path, name: str, points: Points, **modules: str) -> Path:
    """Install a package with these entry points (group -> name -> object) and modules.

    Gives the folder, which is to be put on the path.
    """
    about = site / f"{name}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in named.items())
        for group, named in points.items()
    ]
    (about / "entry_points.txt").write_text("\n".join(lines))
    for module, source in modules.items():
        (site / f"{module}.py").write_text(source)
    return site


def points_of(project: Path) -> Points:
    """Return the entry points in the pyproject.toml of a project."""
    points: Points = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "entry-points"
    ]
    return points


def python_path(*folders: Path | str) -> str:
    """Return PYTHONPATH with these folders first."""
    return os.pathsep.join(map(str, (*folders, *filter(None, [os.environ.get("PYTHONPATH")]))))
