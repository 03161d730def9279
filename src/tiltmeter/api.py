"""The Python API: one function for each main command."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polars import DataFrame

from tiltmeter import runs
from tiltmeter.datasets import Library, first_use_notice
from tiltmeter.engine import NOTEBOOK, Limits, Prices, in_notebook
from tiltmeter.errors import InputError, check_known
from tiltmeter.files.paths import is_file
from tiltmeter.models import Sampling
from tiltmeter.runs import AskedModel, Asking, Judging, Plan, Run, listings, runs_root
from tiltmeter.runs.asked_models import as_text, mapping
from tiltmeter.runs.resolving import Asked

if TYPE_CHECKING:
    import pandas

    from tiltmeter.benchmarks.builder import LocalHosts, Spec
    from tiltmeter.gating import Verdict
    from tiltmeter.importing import Source, Verification
    from tiltmeter.runs.building import Built

Limit = int | float | str
"""Items per part: a number (50), a share (0.1), a range ("0-99"), or a number with exceptions for single
parts ("100,hiring_an=2000")."""


_FURTHER = ("level", "resamples")
"""Settings of a study without a parameter of their own."""
OWN = "own responses"
"""Name of the model in a table without a column for it."""


# -- listing ----------------------------------------------------------------------------------------------------------


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
    ['genderbench', 'associations', 'benchmarks']
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


# -- measuring --------------------------------------------------------------------------------------------------------


def plan(
    study: Asked,
    *,
    model: AskedModel | Sequence[AskedModel] = (),
    judge: AskedModel | None = None,
    definition: str | None = None,
    size: str | None = None,
    limit: Limit | None = None,
    repeats: int | None = None,
    seed: int | None = None,
    system_message: str | None = None,
    params: Mapping[str, Any] | None = None,
    sampling: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
    heterogeneity: float = 0.0,
) -> Plan:
    """Estimate the cost, duration and smallest detectable bias of a study. No model is called.

    Parameters
    ----------
    study, judge, definition, size, limit, repeats, seed, system_message, params, sampling, limits
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
    names = [runs.name_of(one) for one in (runs.several(model) if model else ())]
    judge_name = None if judge is None else runs.name_of(judge)
    settings = _settings(definition, _limit(size, limit), repeats, seed, system_message, params, None) | {
        "judge": judge_name
    }
    resolved = runs.resolve(study, settings=settings, sampling=mapping("sampling", sampling))
    if resolved.settings.judge is not None:
        runs.name_of(resolved.settings.judge)
    library, prices = Library.default(), Prices.load()
    return runs.make_plan(
        resolved,
        names,
        library=library,
        prices=prices,
        limits=limits,
        heterogeneity=heterogeneity,
        fixed_length=mapping("sampling", sampling).get("max_tokens") is not None,
    )


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
    size: str | None = None,
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
    replace
        Files (CSV or Parquet) to use in place of tables of stages, by table name: {"concepts": "edited.csv"}.
    sampling
        Fields of `tiltmeter.models.Sampling` that override those prescribed by the method.
    limits
        Limits on requests: connections, requests and tokens per minute, timeouts, retries.
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
        A function is called with a sentence and returns the answer.
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
    for name, value, kinds, expected in (
        ("base_url", base_url, str, "a string"),
        ("journal", journal, (str, Path), "a path or a URL"),
        ("out", out, (str, Path), "a path or a URL"),
        ("engine", engine, str, "a string such as ray"),
        ("display", display, str, "a string such as plain"),
        ("limits", limits, Limits, "a tiltmeter.engine.Limits"),
    ):
        if value is not None and not isinstance(value, kinds):
            raise InputError(f"{name}= must be {expected}, not {value!r}")
    if not (isinstance(yes, bool) or callable(yes)):
        raise InputError(f"yes= must be True, False or a function of a sentence, not {yes!r}")
    judging = Judging(judge, judge_base_url, mapping("judge_options", judge_options))
    settings = _settings(definition, _limit(size, limit), repeats, seed, system_message, params, replace) | {
        "judge": judging.name
    }
    flags, given_options = mapping("sampling", sampling), mapping("options", options)
    resolved = runs.resolve(study, settings=settings, sampling=flags)
    room = runs.has_room_to_think(resolved)
    opened = [
        runs.open_model(one, resolved.sampling, base_url, given_options, flags, room_to_think=room)
        for one in runs.several(model)
    ]
    runs.check_models([one for one, _ in opened])
    library = Library.default()
    # Print restrictive licences before the data is first used.
    names = sorted({name for part in resolved.study.parts for name in part.data})
    if notice := first_use_notice(library, [library.entry(name) for name in names]):
        print(notice, file=sys.stderr)
    asking = _asking(limits, journal, display, engine, engine_options, yes)
    finished = runs.run_study(
        resolved,
        opened,
        judge=judging.open(resolved),
        asking=asking,
        out=out,
        command=command,
        fixed_length=flags.get("max_tokens") is not None or "max_tokens" in given_options,
    )
    runs.warn_of(finished, stacklevel=2)
    return finished


async def arun(study: Asked, *, model: AskedModel | Sequence[AskedModel], **given: Any) -> Run:
    """Run a study in a separate thread, without blocking the event loop.

    Parameters
    ----------
    study, model, **given
        See `run`.

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
    return await asyncio.to_thread(run, study, model=model, **given)


def analyse(
    data: Run | DataFrame | pandas.DataFrame | str | Path | Sequence[str | Path],
    study: Asked | None = None,
    *,
    model: str = OWN,
    text: str | None = None,
    group: str | Sequence[str] = (),
    location: str | None = None,
    name: str | None = None,
    baseline: str | None = None,
    pair: str | Sequence[str] = (),
    feature: str | Sequence[str] = (),
    cluster: str | None = None,
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
    """Measure existing responses or texts. No model is called, except a judge if you name one.

    Parameters
    ----------
    data
        A Polars or pandas table, or files: CSV, JSONL, Parquet or Excel tables (or `.gz`), folders of text files, or logs of GenderBench
        or Inspect. Responses to the prompts of a study need the columns `answer` and either `prompt_id` or `prompt`; your own texts need
        the columns named below. Or a run (a `Run`, its folder or its name): all its responses are measured again on its own prompts; with
        another `definition`, both definitions are shown side by side (table `definitions`).
    study
        The study whose prompts were answered, or the method for your own texts: "associations" or "benchmarks". For a run, it is that of
        the run; a study file with other settings, such as an edited copy of its study.yaml, can be given.
    model
        Name of the model, if the table has no column for it.
    text, group, location, name, baseline, pair, feature, cluster
        Columns of your own texts: the text; its group (several columns are combined); what the comparison is stratified by, and the
        person's name (associations); the baseline text to compare with, and precomputed values (benchmarks); the identifier of texts that
        belong together across groups; what makes texts dependent, such as their author (associations).
    settings
        Further settings of study.yaml: `level` (of intervals) and `resamples`.
    judge, judge_base_url, judge_options, definition, limit, seed, params, replace, limits, journal, out, display, engine, engine_options, \
    command
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
    >>> rows = {"text": ["A fine day.", "A sad day.", "A good day.", "A bad day."], "country": ["A", "B", "A", "B"]}
    >>> run = tm.analyse(pl.DataFrame(rows), "benchmarks", text="text", group="country", display="none", out="days")
    >>> run.problems
    []
    """
    from tiltmeter.importing import TextColumns, analyse_responses, analyse_run, refuse_own_texts

    groups, pairs, features = ([one] if isinstance(one, str) else list(one) for one in (group, pair, feature))
    judging = Judging(judge, judge_base_url, mapping("judge_options", judge_options))
    further = mapping("settings", settings)
    for key in further:
        check_known(key, _FURTHER, f"--set {key}=: unknown setting {key!r}")
    chosen_settings = (
        _settings(definition, limit, None, seed, None, params, replace) | {"judge": judging.name} | further
    )
    asking = _asking(limits, journal, display, engine, engine_options)
    has_columns = any((text, groups, location, name, baseline, pairs, features, cluster))
    if not has_columns and (source := _run_of(data, study)) is not None:
        _refuse_of_prompts(model, limit, chosen_settings["params"])
        refuse_own_texts(source)
        if study is None:
            resolved = runs.resolve_stored(source.path, run_code=run_code, settings=chosen_settings)
        else:
            resolved = runs.resolve(study, settings=chosen_settings)
        chosen = None if judge is None else judging.open(resolved)
        finished = analyse_run(source, resolved, judge=chosen, asking=asking, out=out, command=command)
        runs.warn_of(finished, stacklevel=2)
        return finished
    if study is None:
        raise InputError(
            "name the study whose prompts were answered, or the method for your own texts, with --study"
        )
    benchmark = str(study).startswith("benchmark")
    if (text is not None or features or location or name or cluster or baseline or pairs) and not groups:
        raise InputError(
            f"your own texts need {'--group' if benchmark else '--identity'} COLUMN, the group that each text is about"
        )
    if groups and text is None and (not features or location or name or baseline):
        measured = ", or --feature COLUMN with precomputed values" if benchmark else ""
        raise InputError(f"your own texts need --text COLUMN, which contains them{measured}")
    if groups and limit is not None:
        raise InputError("--limit selects prompts of a study and does not apply to your own texts; omit it")
    resolved = runs.resolve(study, settings=chosen_settings)
    columns = (
        TextColumns(text, groups, location, name, baseline, tuple(pairs), tuple(features), cluster)
        if groups
        else None
    )
    finished = analyse_responses(
        _sources(data),
        resolved,
        model=model,
        columns=columns,
        judge=judging.open(resolved),
        asking=asking,
        out=out,
        command=command,
    )
    runs.warn_of(finished, stacklevel=2)
    return finished


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
        `tiltmeter.benchmarks.builder.Spec`. Relative paths in it are resolved against the folder of the YAML
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
    >>> _ = Path("land.txt").write_text("Aland is an island in the north. Borland is a plain with two rivers.")
    >>> concepts = {name: {"keywords": [name], "local": ["land.txt"]} for name in ("Aland", "Borland")}
    >>> tm.build({"name": "lands", "domain": "countries", "concepts": concepts}, "lands", display="none").benchmark["concept"].to_list()
    ['Aland', 'Borland']
    """
    from tiltmeter.runs.building import build_benchmark

    asking = _asking(limits, journal, display, engine, engine_options)
    judging = Judging(judge, judge_base_url, mapping("judge_options", judge_options))
    return build_benchmark(
        spec, out, judge=judging, asking=asking, offline=offline, local=local, progress=progress
    )


def verify(run: Run | str | Path, *, run_code: bool = False) -> Verification:
    """Check a run: its tables against the checksums in run.json, and its numbers against those computed again from its responses.

    No model is called. The answers of a judge are taken as stored.

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
    """Draw a random sample of responses to be labelled, or add labels to a run, whose findings are then corrected for parsing errors.

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
    from tiltmeter.labelling import samples

    if labels is not None and judge is not None:
        raise InputError("labels and a judge cannot be combined; give one of them")
    opened = runs.load(run)
    judging = Judging(judge, judge_base_url, mapping("judge_options", judge_options)).opened(
        Sampling(temperature=0.0, max_tokens=256)
    )
    if labels is None:
        rows = samples.sample(opened, n, part, model, run_code=run_code)
        if judging is None:
            return rows
        samples.judge_labels(
            opened, rows, judging, _asking(None, journal, display, None, None), run_code=run_code
        )
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
    from tiltmeter.gating import Limit as Bound, Rules, gate as decide

    given = (("max", mapping("maximum", maximum)), ("min", mapping("minimum", minimum)))
    values = [value for _, limits in given for value in limits.values()]
    if wrong := [value for value in values if isinstance(value, bool) or not isinstance(value, (int, float))]:
        raise InputError(f"maximum= and minimum= need numbers, not {wrong[0]!r}")
    bounds = [Bound(bound, name, float(value)) for bound, limits in given for name, value in limits.items()]
    rules = Rules(
        fail_on, certain, tuple(bounds), allow_ungraded, tuple(fail_on_caveats), allow_undecided, population
    )
    return decide(runs.load(run), rules, None if baseline is None else runs.load(baseline), run_code=run_code)


def _limit(size: str | None, limit: Limit | None) -> Limit | None:
    """Return the limit, or the size if there is no limit; raises InputError for an unknown size."""
    if size is not None:
        check_known(size, runs.SIZES, f"unknown size {size!r}")
    return size if limit is None else limit


def _settings(
    definition: str | None,
    limit: Limit | None,
    repeats: int | None,
    seed: int | None,
    system_message: str | None,
    params: Mapping[str, Any] | None,
    replace: Mapping[str, str | Path] | None,
) -> dict[str, Any]:
    """Return the fields of `Settings` in the form that `resolve` expects."""
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
    limits: Limits | None,
    journal: str | Path | None,
    display: str | None,
    engine: str | None,
    engine_options: Mapping[str, str] | None,
    accepts: bool | Callable[[str], bool] = False,
) -> Asking:
    kind = NOTEBOOK if display is None and in_notebook() else display
    return Asking(
        limits,
        None if journal is None else str(journal),
        kind,
        engine,
        mapping("engine_options", engine_options),
        accepts,
    )


def _run_of(data: Any, study: Asked | None) -> Run | None:
    """Return the run that `data` is, or names; None for tables and files.

    Without a study, a name must be that of a run.
    """
    if isinstance(data, Run):
        return data
    if isinstance(data, Sequence) and not isinstance(data, str) and len(data) > 1:
        names = [one.place if isinstance(one, Run) else str(one) for one in data if _names_run(one)]
        if names:
            raise InputError(f"{' and '.join(names)}: a run is analysed alone; name one run at a time")
        return None
    one = data[0] if isinstance(data, Sequence) and not isinstance(data, str) and len(data) == 1 else data
    if not isinstance(one, str | Path):
        return None
    if is_file(Path(one)) or (study is not None and not is_file(Path(one) / "run.json")):
        return None
    return runs.load(one)


def _names_run(one: Any) -> bool:
    """Return whether `one` is a run, its local folder or its name in the local runs folder."""
    if not isinstance(one, str | Path):
        return isinstance(one, Run)
    return any(is_file(place / "run.json") for place in (Path(one), runs_root() / one))


def _refuse_of_prompts(model: str, limit: Limit | None, params: Mapping[str, str]) -> None:
    """Raise InputError for arguments that select prompts or name a model, which a run has already."""
    given = {
        "--model": model != OWN,
        "--limit": limit is not None,
        "-P wording=": "wording" in params,
        "-P answers=": "answers" in params,
    }
    if used := [flag for flag, is_given in given.items() if is_given]:
        raise InputError(f"{used[0]} does not apply to a run, whose models and prompts are fixed; omit it")


def _sources(data: Any) -> list[Source]:
    """Return paths for files, or a `TableInMemory` for a table."""
    from tiltmeter.importing import TableInMemory

    if isinstance(data, DataFrame):
        return [TableInMemory(data)]
    if type(data).__module__.partition(".")[0] == "pandas":
        import polars as pl

        return [TableInMemory(pl.from_pandas(data))]
    paths = [data] if isinstance(data, str | Path) else data
    if not isinstance(paths, Sequence) or not paths or not all(isinstance(one, str | Path) for one in paths):
        raise InputError(
            f"data= must be a Polars or pandas table, a file, or a list of files, not {type(data).__name__}"
        )
    return [Path(one) for one in paths]
