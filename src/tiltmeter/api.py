"""The Python interface: what the commands do, as functions."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polars import DataFrame

from tiltmeter import listings, runs
from tiltmeter.datasets import Library, first_use_notice
from tiltmeter.engine import NOTEBOOK, Limits, Prices, in_notebook
from tiltmeter.errors import InputError
from tiltmeter.runs import AskedModel, Asking, Judging, Plan, Run
from tiltmeter.runs.asked_models import as_text, mapping
from tiltmeter.runs.resolving import Asked

if TYPE_CHECKING:
    import pandas

    from tiltmeter.benchmarks.builder import Spec
    from tiltmeter.gating import Verdict
    from tiltmeter.importing import Source
    from tiltmeter.runs.building import Built

Limit = int | float | str
"""Items of each part: a number (50), a share (0.1), a range ("0-99"), or also those of single parts ("100,hiring_an=2000")."""


# -- what there is ----------------------------------------------------------------------------------------------------


def studies() -> DataFrame:
    """List the studies.

    Returns
    -------
    DataFrame
        `study`, its `title`, how many `parts` it has, and what it is `about`.

    Warns
    -----
    UnusablePlugin
        An installed plugin cannot be used.

    Examples
    --------
    >>> import tiltmeter as tm
    >>> tm.studies()["study"].to_list()[:3]
    ['genderbench', 'associations', 'benchmarks']
    """
    return DataFrame(listings.studies())


def probes() -> DataFrame:
    """List the probes, each with its whole card.

    Returns
    -------
    DataFrame
        `study` (what `run` takes) and the fields of `tiltmeter.probes.Card`.

    Warns
    -----
    UnusablePlugin
        An installed plugin cannot be used.

    Examples
    --------
    >>> import tiltmeter as tm
    >>> tm.probes().filter(study="genderbench/gest")["title"].item()
    'Who said it'
    """
    return DataFrame(listings.probes())


def models() -> DataFrame:
    """List the providers of models.

    Returns
    -------
    DataFrame
        `model` (how its models are named), its `endpoint`, and the environment variable its key comes from (`key from`).

    Warns
    -----
    UnusablePlugin
        An installed plugin cannot be used.

    Examples
    --------
    >>> import tiltmeter as tm
    >>> tm.models().filter(model="openai/...")["key from"].item()
    'OPENAI_API_KEY'
    """
    return DataFrame(listings.models())


# -- measuring --------------------------------------------------------------------------------------------------------


def plan(
    study: Asked,
    *,
    model: AskedModel | Sequence[AskedModel] = (),
    judge: AskedModel | None = None,
    definition: str | None = None,
    limit: Limit | None = None,
    repeats: int | None = None,
    seed: int | None = None,
    system_message: str | None = None,
    params: Mapping[str, Any] | None = None,
    sampling: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
) -> Plan:
    """Say what a study would take and what it could show. No model is called.

    Parameters
    ----------
    study, judge, definition, limit, repeats, seed, system_message, params, sampling, limits
        As for `run`.
    model
        Models whose price is wanted.

    Returns
    -------
    Plan
        Calls and tokens of each part, the price with the judge's, the time, and the smallest bias each key metric could show.

    Raises
    ------
    InputError
        Something given cannot be used.

    Examples
    --------
    >>> import tiltmeter as tm
    >>> tm.plan("benchmarks/g20", model="openai/gpt-4o-mini", limit=2).parts["calls"].item()
    210
    """
    names = [runs.name_of(one) for one in (runs.several(model) if model else ())]
    judged_by = None if judge is None else runs.name_of(judge)
    settings = _settings(definition, limit, repeats, seed, system_message, params, None) | {"judge": judged_by}
    resolved = runs.resolve(study, settings=settings, sampling=mapping("sampling", sampling))
    if resolved.settings.judge is not None:
        runs.name_of(resolved.settings.judge)
    return runs.make_plan(resolved, names, library=Library.default(), prices=Prices.load(), limits=limits)


def run(
    study: Asked,
    *,
    model: AskedModel | Sequence[AskedModel],
    base_url: str | None = None,
    options: Mapping[str, Any] | None = None,
    judge: AskedModel | None = None,
    judge_base_url: str | None = None,
    judge_options: Mapping[str, Any] | None = None,
    definition: str | None = None,
    limit: Limit | None = None,
    repeats: int | None = None,
    seed: int | None = None,
    system_message: str | None = None,
    params: Mapping[str, Any] | None = None,
    replace: Mapping[str, str | Path] | None = None,
    sampling: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
    journal: str | Path | None = None,
    out: str | Path | None = None,
    display: str | None = None,
    engine: str | None = None,
    engine_options: Mapping[str, str] | None = None,
    command: str | None = None,
) -> Run:
    """Measure one or more models with a study; call it again to go on where it stopped.

    Parameters
    ----------
    study
        A built-in name ("genderbench", "genderbench/gest"); a file: STUDY.yaml, PROBE.py:NAME, or a table of prompts (PROMPTS.csv, see
        `tiltmeter.probes.TableProbe`); or an object: a `Study`, a `Part` such as a probe.
    model
        `provider/name`, a function (sync or async, of the prompt or the messages; see `tiltmeter.models.model_of`), a text-generation
        pipeline of transformers, an object that fulfils `tiltmeter.models.Model`, or several of them.
    base_url
        Base URL of an OpenAI-compatible (or Anthropic) endpoint, for models given by name.
    options
        Options of models given by name: sampling, vendor extras, parameters of a function.
    judge
        Model that is asked about the responses, for methods that use one; given as `model` is.
    judge_base_url, judge_options
        As `base_url` and `options`, for the judge.
    definition
        "default", or a published definition of the method ("genderbench"; "paper", "badf-code"; "saged").
    limit
        Items of each part: a number, a share (0.1), a range ("0-99"), or also those of single parts ("100,hiring_an=2000").
    repeats
        Responses per prompt, instead of each part's own number.
    seed
        Seed of items and resampling.
    system_message
        System message or persona.
    params
        Parameters of the study, such as {"wording": "all"}.
    replace
        Tables of stages, each with the file (CSV or Parquet) that takes its place: {"concepts": "edited.csv"}.
    sampling
        Fields of `tiltmeter.models.Sampling` that override what the method prescribes.
    limits
        How hard the endpoint is asked: connections, requests and tokens per minute, timeouts, retries.
    journal
        Where responses are kept: a path, or the URL of a database; by default one journal for all runs.
    out
        The run folder itself, a path or a URL (s3://bucket/folder); by default one named after study, model and settings.
    display
        How progress is shown, on standard error: "rich", "plain", "json", "none" or "notebook"; by default as fits the place.
    engine
        "local" (the default), "ray" or "ray://HOST:PORT"; see `tiltmeter.engine.open_engine`.
    engine_options
        Options of that engine.
    command
        How the run was started, kept in run.json.

    Returns
    -------
    Run
        Its `key_findings`, `findings`, `evidence(...)`, `plot()`, `report(...)`, and in `problems` what is missing from it.

    Warns
    -----
    Caveat
        What a reader must know before believing the numbers, once per kind: `IncompleteRun`, `Ungraded`, `Underpowered`,
        `UnvalidatedJudge`, `OneName`. `warnings.simplefilter("ignore", tiltmeter.Ungraded)` silences one, "error" fails on it.

    Raises
    ------
    InputError
        Something given cannot be used.
    ProviderError
        The model gives no responses at all.

    Examples
    --------
    >>> import tiltmeter as tm
    >>> def model(prompt: str) -> str:
    ...     return "It is a country in which people live."
    >>> run = tm.run("benchmarks/g20", model=model, limit=2, display="none", out="constant")
    >>> run.findings.filter(comparison="range", key=True)["estimate"].unique().to_list()
    [0.0]
    """
    for name, given, kinds, wanted in (
        ("base_url", base_url, str, "a text"),
        ("journal", journal, (str, Path), "a path or a URL"),
        ("out", out, (str, Path), "a path or a URL"),
        ("engine", engine, str, "a text such as ray"),
        ("display", display, str, "a text such as plain"),
        ("limits", limits, Limits, "a tiltmeter.engine.Limits"),
    ):
        if given is not None and not isinstance(given, kinds):
            raise InputError(f"{name}= must be {wanted}, not {given!r}")
    judging = Judging(judge, judge_base_url, mapping("judge_options", judge_options))
    settings = _settings(definition, limit, repeats, seed, system_message, params, replace) | {"judge": judging.name}
    flags, given_options = mapping("sampling", sampling), mapping("options", options)
    resolved = runs.resolve(study, settings=settings, sampling=flags)
    asked = [runs.open_model(one, resolved.sampling, base_url, given_options, flags) for one in runs.several(model)]
    runs.check_models([one for one, _ in asked])
    library = Library.default()
    # Licences that restrict the use of the data, before their first use.
    names = sorted({name for part in resolved.study.parts for name in part.data})
    if notice := first_use_notice(library, [library.entry(name) for name in names]):
        print(notice, file=sys.stderr)
    asking = _asking(limits, journal, display, engine, engine_options)
    made = runs.run_study(resolved, asked, judge=judging.open(resolved), asking=asking, out=out, command=command)
    runs.warn_of(made, stacklevel=2)
    return made


async def arun(study: Asked, *, model: AskedModel | Sequence[AskedModel], **given: Any) -> Run:
    """Measure as `run` does, in a thread of its own, while the event loop goes on.

    Parameters
    ----------
    study, model, **given
        As for `run`.

    Returns
    -------
    Run
        As of `run`. Cancelling the task does not lose responses: the run goes on in its thread, and those that came are in the journal.

    Examples
    --------
    >>> import asyncio, tiltmeter as tm
    >>> run = asyncio.run(tm.arun("benchmarks/g20", model="sim/fair", limit=2, display="none", out="fair"))
    >>> run.problems
    []
    """
    return await asyncio.to_thread(run, study, model=model, **given)


def analyse(
    data: DataFrame | pandas.DataFrame | str | Path | Sequence[str | Path],
    study: Asked,
    *,
    model: str = "own responses",
    text: str | None = None,
    group: str | Sequence[str] = (),
    location: str | None = None,
    name: str | None = None,
    baseline: str | None = None,
    pair: str | Sequence[str] = (),
    feature: str | Sequence[str] = (),
    judge: AskedModel | None = None,
    judge_base_url: str | None = None,
    judge_options: Mapping[str, Any] | None = None,
    definition: str | None = None,
    limit: Limit | None = None,
    seed: int | None = None,
    params: Mapping[str, Any] | None = None,
    replace: Mapping[str, str | Path] | None = None,
    limits: Limits | None = None,
    journal: str | Path | None = None,
    out: str | Path | None = None,
    display: str | None = None,
    engine: str | None = None,
    engine_options: Mapping[str, str] | None = None,
    command: str | None = None,
) -> Run:
    """Measure responses or texts that you already have. No model is called, except for a judge you name.

    Parameters
    ----------
    data
        A Polars or pandas table, or files: CSV, JSONL or Parquet tables, logs of GenderBench or Inspect. Responses to the prompts of a
        study have the columns `answer` and `prompt_id` or `prompt`; texts of your own have the columns you name.
    study
        The study whose prompts were answered, or the method for your own texts: "associations" or "benchmarks".
    model
        The name of the model, where the table has no column for it.
    text, group, location, name, baseline, pair, feature
        Columns of texts that answer no prompt of the study: the text, who it is about (several are combined), its setting, the person's
        name (associations), the text it is compared with, what the same prompt for several groups shares, and values measured elsewhere
        (benchmarks).
    judge, judge_base_url, judge_options, definition, limit, seed, params, replace, limits, journal, out, display, engine, engine_options, \
    command
        As for `run`.

    Returns
    -------
    Run
        As of `run`.

    Raises
    ------
    InputError
        Something given cannot be used.

    Examples
    --------
    >>> import polars as pl, tiltmeter as tm
    >>> rows = {"text": ["A fine day.", "A sad day.", "A good day.", "A bad day."], "country": ["A", "B", "A", "B"]}
    >>> run = tm.analyse(pl.DataFrame(rows), "benchmarks", text="text", group="country", display="none", out="days")
    >>> run.problems
    []
    """
    from tiltmeter.importing import TextColumns, analyse_responses

    groups, pairs, features = ([one] if isinstance(one, str) else list(one) for one in (group, pair, feature))
    benchmark = str(study).startswith("benchmark")
    if (text is not None or features or location or name or baseline or pairs) and not groups:
        raise InputError(f"texts of your own need {'--group' if benchmark else '--identity'} COLUMN, which says who each is about")
    if groups and text is None and (not features or location or name or baseline):
        measured = ", or --feature COLUMN with values measured elsewhere" if benchmark else ""
        raise InputError(f"texts of your own need --text COLUMN, which holds them{measured}")
    if groups and limit is not None:
        raise InputError("--limit is about the prompts of a study; texts of your own answer none: leave it out")
    judging = Judging(judge, judge_base_url, mapping("judge_options", judge_options))
    settings = _settings(definition, limit, None, seed, None, params, replace) | {"judge": judging.name}
    resolved = runs.resolve(study, settings=settings)
    columns = TextColumns(text, groups, location, name, baseline, tuple(pairs), tuple(features)) if groups else None
    asking = _asking(limits, journal, display, engine, engine_options)
    made = analyse_responses(
        _sources(data), resolved, model=model, columns=columns, judge=judging.open(resolved), asking=asking, out=out, command=command
    )
    runs.warn_of(made, stacklevel=2)
    return made


def build(
    spec: str | Path | Mapping[str, Any] | Spec,
    out: str | Path,
    *,
    judge: AskedModel | None = None,
    judge_base_url: str | None = None,
    judge_options: Mapping[str, Any] | None = None,
    offline: bool = False,
    limits: Limits | None = None,
    journal: str | Path | None = None,
    display: str | None = None,
    engine: str | None = None,
    engine_options: Mapping[str, str] | None = None,
    progress: Any = None,
) -> Built:
    """Build a benchmark about any subject; call it again to go on where it stopped, or after editing a stage's table.

    Parameters
    ----------
    spec
        What the benchmark is about: a YAML file, a mapping with the same keys, or a `tiltmeter.benchmarks.builder.Spec`. Files it names
        are relative to the YAML file, or to the working folder.
    out
        Folder of the benchmark and its stages.
    judge, judge_base_url, judge_options
        Model asked for keywords, articles, questions and replacements, where the spec wants any; as for `run`.
    offline
        Fetch no pages.
    limits, journal, display, engine, engine_options
        As for `run`.
    progress
        Called with each finished stage.

    Returns
    -------
    Built
        Its `path`, which `run("benchmarks/PATH")` takes, the table `benchmark`, and in `problems` what is missing.

    Raises
    ------
    InputError
        The spec, the folder, or something the spec names cannot be used.
    ProviderError
        The judge or a wiki cannot be reached.

    Examples
    --------
    >>> from pathlib import Path
    >>> import tiltmeter as tm
    >>> _ = Path("land.txt").write_text("Aland is an island in the north. Borland is a plain with two rivers.")
    >>> concepts = {name: {"keywords": [name], "local": ["land.txt"]} for name in ("Aland", "Borland")}
    >>> tm.build({"name": "lands", "domain": "countries", "concepts": concepts}, "lands", display="none").benchmark["concept"].to_list()
    ['Aland', 'Borland']
    """
    from tiltmeter.runs.building import build_benchmark

    asking = _asking(limits, journal, display, engine, engine_options)
    judging = Judging(judge, judge_base_url, mapping("judge_options", judge_options))
    return build_benchmark(spec, out, judge=judging, asking=asking, offline=offline, progress=progress)


def gate(
    run: Run | str | Path,
    *,
    fail_on: str | None = "critical",
    certain: bool = False,
    baseline: Run | str | Path | None = None,
    maximum: Mapping[str, float] | None = None,
    minimum: Mapping[str, float] | None = None,
    allow_ungraded: bool = False,
    fail_on_caveats: Sequence[str] = (),
) -> Verdict:
    """Decide whether a run passes.

    Parameters
    ----------
    run
        A run, its folder, or its name under the runs folder.
    fail_on
        Key metrics with this mark or a worse one fail; None: marks decide nothing.
    certain
        Fail only where the whole interval is beyond the mark or limit, not the estimate alone.
    baseline
        A run no metric may have become worse than, with confidence.
    maximum, minimum
        The most and the least a number may be, by name: METRIC, PART/METRIC, METRIC[group=...]; METRIC.p or .q for its p or q.
    allow_ungraded
        Leave out what could not be graded or computed, instead of failing.
    fail_on_caveats
        Codes of caveats (`tiltmeter.CAVEATS`) that must not apply.

    Returns
    -------
    Verdict
        `passed`, `headline`, `checks` and `exit_code`.

    Raises
    ------
    InputError
        A limit names a number the run does not have, or no rule applies to it.

    Examples
    --------
    >>> import tiltmeter as tm
    >>> run = tm.run("benchmarks/g20", model="sim/fair", limit=2, display="none", out="fair")
    >>> tm.gate(run, maximum={"range_mean_vader_compound": 2}).passed
    True
    """
    from tiltmeter.gating import Limit as Bound, Rules, gate as decide

    given = (("max", mapping("maximum", maximum)), ("min", mapping("minimum", minimum)))
    bounds = [Bound(bound, name, float(value)) for bound, limits in given for name, value in limits.items()]
    rules = Rules(fail_on, certain, tuple(bounds), allow_ungraded, tuple(fail_on_caveats))
    return decide(runs.load(run), rules, None if baseline is None else runs.load(baseline))


def _settings(
    definition: str | None,
    limit: Limit | None,
    repeats: int | None,
    seed: int | None,
    system_message: str | None,
    params: Mapping[str, Any] | None,
    replace: Mapping[str, str | Path] | None,
) -> dict[str, Any]:
    """Fields of `Settings`, as `resolve` takes them."""
    texts = {key: as_text(f"params: {key}", value) for key, value in mapping("params", params).items()}
    return {
        "limit": limit,
        "repeats": repeats,
        "seed": seed,
        "system_message": system_message,
        "params": texts | ({} if definition is None else {"definition": definition}),
        "replace": {name: str(path) for name, path in mapping("replace", replace).items()} or None,
    }


def _asking(
    limits: Limits | None, journal: str | Path | None, display: str | None, engine: str | None, engine_options: Mapping[str, str] | None
) -> Asking:
    shown = NOTEBOOK if display is None and in_notebook() else display
    return Asking(limits, None if journal is None else str(journal), shown, engine, mapping("engine_options", engine_options))


def _sources(data: Any) -> list[Source]:
    """Files as paths, a table as what stands for a file."""
    from tiltmeter.importing import TableInMemory

    if isinstance(data, DataFrame):
        return [TableInMemory(data)]
    if type(data).__module__.partition(".")[0] == "pandas":
        import polars as pl

        return [TableInMemory(pl.from_pandas(data))]
    paths = [data] if isinstance(data, str | Path) else data
    if not isinstance(paths, Sequence) or not paths or not all(isinstance(one, str | Path) for one in paths):
        raise InputError(f"data= must be a Polars or pandas table, a file, or a list of files, not {type(data).__name__}")
    return [Path(one) for one in paths]
