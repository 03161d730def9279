"""The implementation of `tiltmeter build`: from a spec file to a benchmark folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from polars import DataFrame

from tiltmeter._files.writing import only_writer, writable, writing
from tiltmeter._files.yaml import read_yaml
from tiltmeter.benchmarks._builder import Builder, LocalHosts, Spec, read_spec
from tiltmeter.datasets import Library
from tiltmeter.errors import InputError
from tiltmeter.models import Sampling
from tiltmeter.runs._asked_models import Judging
from tiltmeter.runs._asking import Asking, RunJudge, RunTools
from tiltmeter.runs._folder import ELSEWHERE, remove_named
from tiltmeter.runs._stage_store import TEMPORARY, StageResult, StageStore, conformed
from tiltmeter.study import Judge, Settings

_JUDGE_SAMPLING = Sampling(temperature=0.0, max_tokens=4_096)
"""Sampling of the judge: it returns facts and lists, and an article must fit into the answer."""
PAGES = "pages"
"""Folder of fetched pages in the cache."""
ABOUT = "benchmark.yaml"
"""File that describes a benchmark and its build, with its roles and templates."""
_TEMPORARY = re.compile(rf"{re.escape(TEMPORARY)}.*|\..+\.(parquet|json|yaml)\.\w{{8}}")
"""Temporary names of folders and files that are being written."""


class Built(NamedTuple):
    """A finished build."""

    path: Path
    """The folder; `tiltmeter.benchmarks._files.read_benchmark` reads it."""
    benchmark: DataFrame
    """Columns BENCHMARK."""
    stages: tuple[StageResult, ...]
    problems: tuple[str, ...]
    """What is missing or doubtful, for all stages."""


def build(
    spec: Spec,
    *,
    out: str | Path,
    cache: str | Path,
    home: str | Path = ".",
    tools: RunTools,
    offline: bool = False,
    local: LocalHosts = False,
    progress: Callable[[StageResult], None] | None = None,
) -> Built:
    """Build a benchmark: keywords, pages, sentences, prompts, replacements, branches.

    Each stage creates one table in `out/stages`. A stage is skipped if its spec and its input tables have not
    changed; a table that the user edited (or added) is used as it is. A build can be interrupted at any
    moment and resumes when it is called again: answers of the judge are stored in the journal, and downloaded
    pages in the cache.

    Parameters
    ----------
    out
        Folder of the build: `benchmark.parquet`, `benchmark.yaml` and `stages/`. It is created with the first
        finished stage.
    cache
        Folder of downloaded pages, shared by all builds.
    home
        Folder of the spec; paths in the spec are relative to it.
    tools
        The judge for keywords, articles, questions and replacements, and the sentence encoder, if the spec
        uses them.
    offline
        Do not download anything.
    local
        Whether pages may be fetched from hosts of this machine or its network, or a function of the hosts
        that decides it.
    progress
        Called with each finished stage.

    Raises
    ------
    InputError
        The spec, a file it names or an edited table is not usable; a judge, an encoder or network access is
        required but missing; or another process is building in the same folder.
    ProviderError
        A wiki or the judge cannot be reached.
    Unfinished
        The judge was interrupted.
    """
    folder = Path(out)
    _check_folder(folder, spec)
    store = StageStore(folder / "stages", {"benchmark": folder / "benchmark.parquet"}, of_run=False)
    stages = Builder(spec, Path(home), Path(cache), offline=offline, local=local).stages
    stage_of = {table: stage for stage in stages for table in stage.tables}
    with writable(folder, ELSEWHERE), only_writer(folder):
        for place in (folder, folder / "stages"):
            remove_named(place, _TEMPORARY)  # left by an interrupted build
        for stage in stages:
            problems_before = len(tools.problems)
            tools.may_find_more = False
            checksums = {name: store.checksum([name]) for name in stage.inputs}
            rests_on = {"own": stage.rests_on, "inputs": checksums}
            with store.carrying_out(stage, rests_on, tools.judge) as pieces:
                if pieces is not None:
                    inputs = [store.read(stage_of[name], name) for name in stage.inputs]
                    pieces.add(conformed(stage, stage.run(*inputs, Settings(), tools)))
                    pieces.record.problems = tools.problems[problems_before:]
                    pieces.record.whole = not tools.may_find_more
            if progress is not None:
                progress(store.results[-1])
        problems = tuple(problem for outcome in store.results for problem in outcome.problems)
        _describe(folder, store, spec, tools.judge, problems)
        benchmark = store.read(stage_of["benchmark"], "benchmark")
        return Built(folder, benchmark, tuple(store.results), problems)


def build_benchmark(
    spec: str | Path | Mapping[str, Any] | Spec,
    out: str | Path,
    *,
    judge: Judging | None = None,
    asking: Asking | None = None,
    offline: bool = False,
    local: LocalHosts = False,
    progress: Callable[[StageResult], None] | None = None,
) -> Built:
    """Build the benchmark of a spec in the folder `out`; repeat the call to resume an interrupted build.

    See `build`. Answers of the judge are stored in the journal, vectors and downloaded pages in the cache.

    Raises
    ------
    InputError
        The spec, the folder, or something the spec names is not usable; or another process is writing to the
        folder.
    ProviderError
        The judge or a wiki cannot be reached.
    """
    folder, library = Path(out), Library.default()
    home = Path(spec).parent if isinstance(spec, str | Path) else Path()
    read = spec if isinstance(spec, Spec) else read_spec(spec)
    opened_judge = (judge or Judging()).opened(_JUDGE_SAMPLING)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; give the name of a folder with --out")
    with (asking or Asking()).open() as asker:
        run_judge = None if opened_judge is None else RunJudge(*opened_judge, asker)
        tools = RunTools(library, run_judge, asker.engine)
        return build(
            read,
            out=folder,
            home=home,
            cache=library.cache / PAGES,
            tools=tools,
            offline=offline,
            local=local,
            progress=progress,
        )


def _check_folder(out: Path, spec: Spec) -> None:
    """Raise InputError if the folder contains anything other than a build of this spec."""
    if not out.exists():
        return
    if not out.is_dir() or not all(_is_of_build(entry.name) for entry in out.iterdir()):
        raise InputError(f"{out} exists and is not a build folder; choose another one with --out")
    if (out / ABOUT).is_file():
        about = read_yaml(out / ABOUT, "description of the benchmark")
        name = about.get("name") if isinstance(about, dict) else None
        if name != spec.name:
            raise InputError(
                f"{out} contains the benchmark {name!r}, not {spec.name!r} as in the spec;"
                " choose another folder with --out"
            )


def _is_of_build(name: str) -> bool:
    """Return whether a file or folder of this name belongs to a build, or is hidden."""
    return name in ("stages", "benchmark.parquet", ABOUT) or name.startswith(".")


def _describe(
    out: Path, store: StageStore, spec: Spec, judge: Judge | None, problems: tuple[str, ...]
) -> None:
    """Write the description of the benchmark and its build."""
    stages = {outcome.name: {"rows": outcome.rows, "state": outcome.state} for outcome in store.results}
    document = {
        "name": spec.name,
        "title": spec.title or spec.name.replace("_", " ").capitalize(),
        "description": spec.description,
        "domain": spec.domain,
        "roles": spec.roles,
        "templates": spec.templates,
        "tiltmeter": version("tiltmeter"),
        "judge": None if judge is None else judge.name,
        "stages": stages,
        "problems": list(problems),
        "spec": spec.model_dump(mode="json", exclude_defaults=True),
    }
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
    with writing(out / ABOUT) as temporary:
        temporary.write_text(text, encoding="utf-8")
