"""A spec carried through the stages into a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from tiltmeter._yaml import yaml_of
from tiltmeter.benchmarks._tables import BENCHMARK, KEYWORDS, PAGES, SENTENCES
from tiltmeter.benchmarks.assembling import DROPPED
from tiltmeter.benchmarks.building._finding import TEXTS, find_keywords, find_pages, find_sentences, scraped_before
from tiltmeter.benchmarks.building._needs import Needs
from tiltmeter.benchmarks.building._prompting import (
    LEFT_OUT,
    REPLACEMENTS,
    branch_prompts,
    find_replacements,
    given_prompts,
    make_prompts,
)
from tiltmeter.benchmarks.building._store import Made, Stage, StageResult, Store
from tiltmeter.benchmarks.files import writing
from tiltmeter.errors import InputError
from tiltmeter.study import Encoder, Judge

if TYPE_CHECKING:
    from tiltmeter.benchmarks.spec import Spec

__all__ = ["ABOUT", "Built", "build"]

ABOUT = "benchmark.yaml"
"""What a benchmark is and how it was built; also its roles and templates."""


class Built(NamedTuple):
    """A finished build."""

    path: Path
    """The folder; `read_benchmark` reads it."""
    benchmark: pl.DataFrame
    """Columns BENCHMARK."""
    stages: tuple[StageResult, ...]
    problems: tuple[str, ...]
    """What is missing or open to doubt, of all stages."""


def build(
    spec: Spec,
    *,
    out: str | Path,
    cache: str | Path,
    home: str | Path = ".",
    judge: Judge | None = None,
    encoder: Callable[[], Encoder] | None = None,
    offline: bool = False,
    progress: Callable[[StageResult], None] | None = None,
) -> Built:
    """Build a benchmark: keywords, pages, sentences, prompts, replacements, branches.

    Each stage is one table in `out/stages`. A stage whose spec and earlier tables have not changed is not made again; one that was
    edited (or put there) by the user is used as it is. Killed at any moment and called again, it goes on where it stopped: what a
    judge answered is in its journal, what was fetched in the cache.

    Parameters
    ----------
    out
        Folder of the build: `benchmark.parquet`, `benchmark.yaml` and `stages/`. It appears with the first finished stage.
    cache
        Folder of fetched pages, shared by builds.
    home
        Folder of the spec, to which the files it names are relative.
    judge
        The model asked for keywords, articles, questions and replacements, where the spec wants any.
    encoder
        Gives the sentence encoder; called where the spec wants similarities.
    offline
        Fetch nothing.
    progress
        Told of each stage when it is finished.

    Raises
    ------
    InputError
        The spec, a file it names or an edited table cannot be used, a judge, encoder or the network would be needed, or another process
        builds in that folder.
    ProviderError
        A wiki, or the judge, cannot be reached at all.
    Unfinished
        The judge was interrupted.
    """
    store = Store(Path(out))
    _check_folder(store.out, spec)
    needs = Needs(Path(cache), judge, encoder, offline)
    with store.only_writer():
        work = _Work(spec, Path(home), store, needs, progress or (lambda _: None))
        prompts = work.given() if spec.assemble.kind == "given" else work.found()
        benchmark = work.finished(prompts if spec.branch is None else work.branched(prompts))
        problems = tuple(problem for result in store.results for problem in result.problems)
        _describe(store, spec, judge, problems)
        return Built(store.out, benchmark, tuple(store.results), problems)


class _Table(NamedTuple):
    """The tables of a stage, and what the next one depends on."""

    tables: Mapping[str, pl.DataFrame]
    checksum: str


class _Work:
    """One build: the stages in their order, each resting on the one before."""

    def __init__(self, spec: Spec, home: Path, store: Store, needs: Needs, progress: Callable[[StageResult], None]) -> None:
        self.spec, self.home, self.store, self.needs, self._progress = spec, home, store, needs, progress
        self._judge = None if needs.given_judge is None else needs.given_judge.name

    def stage(self, stage: Stage, make: Callable[[], Made]) -> _Table:
        """Carry out a stage."""
        tables = self.store.get(stage, make)
        self._progress(self.store.results[-1])
        return _Table(tables, self.store.checksum(stage))

    def found(self) -> _Table:
        """Prompts made of sentences that were found."""
        spec, before = self.spec, scraped_before(self.spec, self.home)
        domain = {"domain": spec.domain}
        concepts = {name: concept.model_dump() for name, concept in spec.sought.items()}
        wiki = None if spec.sources.wikipedia is None else spec.sources.wikipedia.model_dump()
        saged = _files(self.home, [spec.sources.saged] if spec.sources.saged else [])
        lists = {name: [concept.keywords, concept.wikipedia] for name, concept in spec.sought.items()}
        asks = self._judge if spec.keywords.asked else None
        inputs: dict[str, Any] = {
            **domain,
            "lists": lists,
            "find": spec.keywords.model_dump(),
            "wiki": wiki,
            "saged": saged,
            "by": spec.definition,
        }
        keywords = self.stage(
            Stage("keywords", {"keywords": KEYWORDS}, ("concept", "keyword"), inputs, asks, domain | {"kind": "given"}),
            lambda: find_keywords(spec, before, self.needs),
        )
        local = _files(self.home, [*spec.sources.local, *(name for concept in spec.sought.values() for name in concept.local)])
        places = {name: [concept["wikipedia"], concept["local"], concept["urls"]] for name, concept in concepts.items()}
        inputs = {**domain, "places": places, "sources": spec.sources.model_dump(exclude={"saged"}), "files": local}
        asks = self._judge if spec.sources.written else None
        pages = self.stage(
            Stage("pages", {"pages": PAGES, "texts": TEXTS}, ("concept", "source"), inputs, asks, domain | {"status": "ok", "depth": 0}),
            lambda: find_pages(spec, self.home, self.needs),
        )
        inputs = {"keywords": keywords.checksum, "pages": pages.checksum, "saged": saged}
        sentences = self.stage(
            Stage("sentences", {"sentences": SENTENCES}, ("concept", "sentence"), inputs, fill=domain),
            lambda: find_sentences(spec, before, keywords.tables["keywords"], pages.tables["pages"], pages.tables["texts"]),
        )
        asks = self._judge if spec.assemble.kind == "question" else None
        inputs = {"sentences": sentences.checksum, **self._assembled(), "concepts": list(spec.sought)}
        return self.stage(self._prompts(inputs, asks), lambda: make_prompts(spec, sentences.tables["sentences"], self.needs))

    def given(self) -> _Table:
        """The user's own prompts."""
        files = _files(self.home, [str(self.spec.assemble.prompts)])
        inputs = {"files": files, **self._assembled(), "concepts": list(self.spec.concepts), "sought": list(self.spec.sought)}
        return self.stage(self._prompts(inputs, None), lambda: given_prompts(self.spec, self.home))

    def branched(self, prompts: _Table) -> _Table:
        """The prompts and their branches."""
        spec, asked, table = self.spec, self.spec.branch, prompts.tables["prompts"]
        assert asked is not None
        asks = self._judge if asked.descriptors else None
        files = _files(self.home, [asked.table] if isinstance(asked.table, str) else [])
        inputs: dict[str, Any] = {
            "prompts": prompts.checksum,
            "branch": asked.model_dump(),
            "files": files,
            "concepts": list(spec.concepts),
        }
        replacements = self.stage(
            Stage(
                "replacements",
                {"replacements": REPLACEMENTS, "left_out": LEFT_OUT},
                ("root", "target", "old", "new"),
                inputs,
                asks,
                {"by": "given"},
            ),
            lambda: find_replacements(spec, asked, self.home, table, self.needs),
        )
        inputs = {"prompts": prompts.checksum, "replacements": replacements.checksum, "branch": asked.model_dump(exclude={"table"})}
        return self.stage(
            Stage("branches", {"branches": BENCHMARK}, ("key", "root", "concept", "prompt"), inputs),
            lambda: branch_prompts(asked, table, replacements.tables["replacements"]),
        )

    def finished(self, last: _Table) -> pl.DataFrame:
        """The benchmark itself: what the last stage made."""
        name = next(iter(last.tables))
        stage = Stage("benchmark", {"benchmark": BENCHMARK}, ("key", "root", "concept", "prompt"), {name: last.checksum})
        return self.stage(stage, lambda: Made({"benchmark": last.tables[name]})).tables["benchmark"]

    def _assembled(self) -> dict[str, Any]:
        return {"assemble": self.spec.assemble.model_dump(), "seed": self.spec.seed, "by": self.spec.definition, "domain": self.spec.domain}

    def _prompts(self, inputs: Mapping[str, Any], asks: str | None) -> Stage:
        return Stage("prompts", {"prompts": BENCHMARK, "dropped": DROPPED}, ("key", "root", "concept", "prompt"), inputs, asks)


def _files(home: Path, names: list[str]) -> dict[str, Any]:
    """Size and time of each file named, and of each in a folder: what is changed is read again, without reading all of it to know."""
    found: dict[str, Any] = {}
    for name in dict.fromkeys(names):
        path = home / name.partition("#")[0]
        path = home / name if (home / name).exists() else path
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        found[name] = [[str(one.relative_to(path)), one.stat().st_size, one.stat().st_mtime_ns] for one in inside if one.is_file()]
    return found


def _check_folder(out: Path, spec: Spec) -> None:
    """Refuse a folder that holds something else."""
    if not out.exists():
        return
    known = {"stages", "benchmark.parquet", ABOUT}
    if not out.is_dir() or any(one.name not in known and not one.name.startswith(".") for one in out.iterdir()):
        raise InputError(f"{out} exists and is not the folder of a build; choose another one with --out")
    if (out / ABOUT).is_file():
        import yaml

        try:
            about = yaml_of((out / ABOUT).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise InputError(f"{out / ABOUT} cannot be read ({str(error).splitlines()[0]}); remove it to have it written anew") from error
        name = about.get("name") if isinstance(about, dict) else None
        if name != spec.name:
            raise InputError(f"{out} holds the benchmark {name!r}, and the spec is called {spec.name!r}; choose another folder with --out")


def _describe(store: Store, spec: Spec, judge: Judge | None, problems: tuple[str, ...]) -> None:
    import yaml

    document = {
        "name": spec.name,
        "title": spec.title or spec.name.replace("_", " ").capitalize(),
        "description": spec.description,
        "domain": spec.domain,
        "roles": spec.roles,
        "templates": spec.templates,
        "tiltmeter": version("tiltmeter"),
        "judge": None if judge is None else judge.name,
        "stages": {result.name: {"rows": result.rows, "state": result.state} for result in store.results},
        "problems": list(problems),
        "spec": spec.model_dump(mode="json", exclude_defaults=True),
    }
    with writing(store.out / ABOUT) as aside:
        aside.write_text(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120), encoding="utf-8")
