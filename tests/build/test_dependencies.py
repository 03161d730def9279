"""What the source imports is declared: a fresh environment has it."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[2]
WITH = {
    "multidict": "aiohttp",
    "yarl": "aiohttp",
    "markupsafe": "jinja2",
    "pydantic_core": "pydantic",
    "threadpoolctl": "scikit-learn",
    "nltk": "rouge-score",
    "huggingface_hub": "transformers",
    "anyio": "inspect-ai",
}
"""Modules that come with a declared package, which hands out their objects."""
GIVEN = ("pytest", "vllm")
"""The plugin of pytest runs within it; who chooses vLLM has installed it."""


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imported() -> dict[str, Path]:
    """Outside modules, each with a file that imports it."""
    found: dict[str, Path] = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            found |= {name.partition(".")[0]: path for name in names}
    return {name: path for name, path in found.items() if name not in sys.stdlib_module_names and name != "tiltmeter"}


def test_every_import_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    declared = {normal(re.split(r"[\s\[<>=!~;]", one, maxsplit=1)[0]) for group in lists for one in group}
    packages = packages_distributions()
    modules = imported()
    assert {"polars", "numpy", "httpx"} <= set(modules)
    for module, path in modules.items():
        owners = {normal(one) for one in packages.get(module, [module])} | {normal(WITH.get(module, module))}
        assert module in GIVEN or owners & declared, f"{path} imports {module}, which pyproject.toml does not declare"
    assert all(normal(package) in declared for package in WITH.values())
