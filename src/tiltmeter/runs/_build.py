"""The whole of `tiltmeter build` as one function: a spec's file in, a benchmark's folder out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from tiltmeter.errors import InputError
from tiltmeter.models import Sampling
from tiltmeter.runs._api import Judging, _open
from tiltmeter.runs._remote_place import runs_root
from tiltmeter.runs._stages import StageTables
from tiltmeter.runs._tools import RunJudge, RunTools

if TYPE_CHECKING:
    from tiltmeter.benchmarks.building import Built, StageResult
    from tiltmeter.engine import Engine, Limits

__all__ = ["build_benchmark"]

_ASKED_WITH = Sampling(temperature=0.0, max_tokens=4_096)
"""A judge is asked for facts and lists, and an article must fit."""
PAGES = "pages"
"""Folder of fetched pages in the cache."""


def build_benchmark(
    spec: str | Path,
    out: str | Path,
    *,
    judge: Judging | None = None,
    offline: bool = False,
    limits: Limits | None = None,
    journal: str | None = None,
    display: str | None = "none",
    progress: Callable[[StageResult], None] | None = None,
    engine: str | None = None,
    engine_options: Mapping[str, str] | None = None,
) -> Built:
    """Build the benchmark of a spec's file in the folder `out`; call it again to go on where it stopped.

    See `tiltmeter.benchmarks.building.build`. The judge's answers are kept in the journal, vectors and fetched pages in the cache.

    Parameters
    ----------
    journal
        URL of the journal; by default that of all runs.
    display
        The kind of progress shown while the judge is asked.
    engine, engine_options
        What carries out the judge's work and the encoder's; see `tiltmeter.engine.open_engine`.

    Raises
    ------
    InputError
        The spec, the folder, or something the spec names cannot be used; another process fills the folder.
    ProviderError
        The judge or a wiki cannot be reached.
    """
    from tiltmeter.benchmarks.building import build
    from tiltmeter.benchmarks.spec import read_spec
    from tiltmeter.datasets import Library
    from tiltmeter.datasets.encoders import ENCODERS
    from tiltmeter.engine import open_engine

    path, folder, judge = Path(spec), Path(out), judge or Judging()
    read = read_spec(path)
    library = Library.default()
    if judge.model is None and (judge.options or judge.base_url):
        raise InputError("-J and --judge-base-url are about a judge; name it with --judge PROVIDER/NAME")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; give the name of a folder with --out")
    with ExitStack() as stack:
        opened = stack.enter_context(open_engine(engine, engine_options))
        asked = None if judge.model is None else _judge(judge, stack, limits, journal, display, opened)
        tools = RunTools(StageTables(folder), library, asked, opened)
        return build(
            read,
            out=folder,
            home=path.parent,
            cache=library.cache / PAGES,
            judge=asked,
            encoder=lambda: tools.encoder(ENCODERS[0]),
            offline=offline,
            progress=progress,
        )


def _judge(judge: Judging, stack: ExitStack, limits: Limits | None, journal: str | None, display: str | None, engine: Engine) -> RunJudge:
    from tiltmeter.engine import Limits, Prices, open_journal

    assert judge.model is not None
    model, sampling = _open(judge.model, _ASKED_WITH, judge.base_url, judge.options, {})
    held = stack.enter_context(open_journal(journal or str(runs_root() / "journal.sqlite")))
    return RunJudge(model, sampling, journal=held, limits=limits or Limits(), prices=Prices.load(), display=display, engine=engine)
