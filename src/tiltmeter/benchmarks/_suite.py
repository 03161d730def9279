"""The studies `benchmarks/g20`, `benchmarks/religions`, ... and a user's own; nothing heavy is imported before one is made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiltmeter._yaml import read_yaml
from tiltmeter.errors import InputError
from tiltmeter.registry import did_you_mean

if TYPE_CHECKING:
    import polars as pl

    from tiltmeter.benchmarks._part import BenchmarkPart
    from tiltmeter.study import Part, Study

__all__ = ["Suite", "suite"]

NO_ROLE = "none"


class Suite:
    """What the registry holds: what a listing shows, and the study itself when called."""

    title = "Benchmarks about groups of your choice"
    description = "How does this model treat the groups I choose, on the subject I choose, against a baseline I call fair?"
    parts = ("g20", "religions", "parties")
    reads = ("baseline", "pair", "feature")
    """Columns of answers of one's own that are of use, beside text and identity."""

    def __call__(self, name: str | None = None, params: Mapping[str, str] | None = None) -> Study:
        """The built-in benchmarks, one of them (`benchmarks/g20`), or the user's (`-P benchmark=FILE`).

        Raises
        ------
        InputError
            There is no such benchmark, role or wording, or a file cannot be used.
        """
        params = params or {}
        if "benchmark" in params:
            if name is not None:
                raise InputError(
                    f"-P benchmark= names a benchmark of your own, and benchmarks/{name} a built-in one: give the study benchmarks"
                )
            part = _own(params["benchmark"], params)
            return _study(f"benchmarks/{part.name}", [part])
        if name is not None and name not in self.parts:
            raise InputError(f"unknown benchmark {name!r}: {did_you_mean(name, self.parts)} (your own: -P benchmark=FILE)")
        parts = [_builtin(one, params) for one in ([name] if name else self.parts)]
        return _study("benchmarks" if name is None else f"benchmarks/{name}", parts)

    def of_texts(self, rows: pl.DataFrame, params: Mapping[str, str]) -> Study:
        """The study of answers, or of values measured elsewhere, that somebody else has.

        Parameters
        ----------
        rows
            One row per answer: `text`, `identity` (its group), and where they are known `baseline`, `pair` (what the same prompt for
            other groups shares) and `value:NAME` columns of features measured elsewhere.
        """
        from tiltmeter.benchmarks._texts import OwnAnswers

        if senseless := [key for key in ("benchmark", "roles", "wording", "group") if key in params]:
            raise InputError(f"-P {senseless[0]}= is about prompts to be asked; answers of your own have none: leave it out")
        return _study("benchmarks/texts", [OwnAnswers(rows)])


def _study(name: str, parts: list[Any]) -> Study:
    from tiltmeter.benchmarks._options import PARAMS
    from tiltmeter.models import Sampling
    from tiltmeter.study import Study

    made: list[Part] = parts
    return Study(
        name=name,
        title=Suite.title if len(made) != 1 else made[0].title,
        parts=made,
        sampling=Sampling(temperature=0.7, max_tokens=512),
        judging=Sampling(temperature=0.0, max_tokens=1024),
        description=Suite.description,
        params=PARAMS,
    )


def _builtin(name: str, params: Mapping[str, str]) -> BenchmarkPart:
    from tiltmeter.benchmarks._design import Configurations
    from tiltmeter.benchmarks._part import BenchmarkPart
    from tiltmeter.benchmarks.branching import branch
    from tiltmeter.benchmarks.builtin import builtin

    found = builtin(name)
    table = (
        found.benchmark
        if found.replacements is None
        else branch(found.benchmark, found.replacements, counterfactual_baseline=True).benchmark
    )
    given = {template: dict.fromkeys(table["kind"].unique(), text) for template, text in found.templates.items()}
    templates = _templates(params) if "wording" in params or not given else given
    return BenchmarkPart(name, found.title, table, Configurations(_roles(found.roles or {NO_ROLE: None}, params), templates))


def _own(path: str, params: Mapping[str, str]) -> BenchmarkPart:
    from tiltmeter.benchmarks._design import Configurations
    from tiltmeter.benchmarks._part import BenchmarkPart
    from tiltmeter.benchmarks.files import read_benchmark

    table = read_benchmark(path)
    if table["concept"].n_unique() < 2:
        raise InputError(f"-P benchmark={path}: all prompts are about {table['concept'][0]}; at least two groups are needed")
    about = _about(Path(path))
    name = re.sub(r"[^a-z0-9]+", "_", str(about.get("name") or Path(path).stem).lower()).strip("_") or "own"
    roles = _roles(about.get("roles") or {NO_ROLE: None}, params)
    templates = _templates(params) if "wording" in params or not about.get("templates") else about["templates"]
    return BenchmarkPart(name, about.get("title") or f"Benchmark {Path(path).name}", table, Configurations(roles, templates))


def _about(path: Path) -> dict[str, Any]:
    """What `tiltmeter build` wrote beside a benchmark; nothing where there is none."""
    file = (path if path.is_dir() else path.parent) / "benchmark.yaml"
    if (not path.is_dir() and path.name != "benchmark.parquet") or not file.is_file():
        return {}
    loaded = read_yaml(file, "description")
    return loaded if isinstance(loaded, dict) else {}


def _templates(params: Mapping[str, str]) -> Mapping[str, Mapping[str, str]]:
    from tiltmeter._wording import wordings

    return wordings("asking", params.get("wording"), Path(__file__).with_name("wordings") / "asking.yaml")


def _roles(known: Mapping[str, str | None], params: Mapping[str, str]) -> Mapping[str, str | None]:
    """The roles a user chose among those of the study, or of a file."""
    from tiltmeter._paths import is_file

    given = params.get("roles")
    if given is None:
        return known
    if given.endswith((".yaml", ".yml")):
        if not is_file(given):
            raise InputError(f"-P roles={given}: there is no such file")
        return _read_roles(given)
    chosen = list(dict.fromkeys(one.strip() for one in given.split(",")))
    for one in chosen:
        if one not in known:
            raise InputError(f"-P roles={given}: {did_you_mean(one, list(known))} (or give a YAML file of your own)")
    return {one: known[one] for one in chosen}


def _read_roles(path: str) -> dict[str, str | None]:
    loaded = read_yaml(Path(path), "roles in")
    if not isinstance(loaded, dict) or not loaded:
        raise InputError(f"-P roles={path}: expected names of roles with their system messages, for instance 'assistant: You are helpful.'")
    for name, text in loaded.items():
        if not isinstance(name, str) or not isinstance(text, str | None):
            raise InputError(f"-P roles={path}: {name}: expected a name with a system message (or nothing, for none)")
    return loaded


suite = Suite()
