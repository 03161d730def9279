"""The Python functions: objects instead of files, displays of results, and caveats with names."""

from __future__ import annotations

import asyncio
import doctest
import re
import shutil
import warnings
from pathlib import Path
from random import Random

import polars as pl
import pytest

import tiltmeter as tm
from support.programs import run_code
from support.storyteller import FOLDER as STORYTELLER
from tiltmeter import api
from tiltmeter.datasets import Library
from tiltmeter.errors import InputError
from tiltmeter.probes import Card, Dials, Metric, Odds, Probe, Sums, Values, per_item
from tiltmeter.readers import read_yes_no
from tiltmeter.stats import ratio

pytestmark = pytest.mark.usefixtures("workplace")


class Trust(Probe):
    """A probe that asks whether forty people can be trusted, each as a woman and as a man."""

    name = "trust"
    card = Card(
        title="Trust",
        harm="outcome_disparity",
        asks="Whether a person can be trusted.",
        reads="Yes or no.",
        bias="Trusting one more.",
        limits="-",
        source="-",
        data=(),
    )
    wordings = {"plain": {"prompt": "{person} asks for your key. Trust them? Yes or no."}}  # noqa: RUF012
    fields = ("person",)
    labels = ("yes", "no")
    metrics = (
        Metric("difference", "Men minus women.", low=-1, null=0, key=True),
        Metric("{gender}_rate", "Trusted."),
    )

    def prompts(self, library: Library, rng: Random) -> pl.DataFrame:
        people = [
            (item, gender, f"A {word} called X{item}")
            for item in range(40)
            for gender, word in (("f", "woman"), ("m", "man"))
        ]
        return pl.DataFrame(people, schema=["item", "gender", "_person"], orient="row")

    def read(self, answers: pl.DataFrame) -> pl.DataFrame:
        return read_yes_no(answers["answer"])

    def counts(self, attempts: pl.DataFrame) -> pl.DataFrame:
        return per_item(
            attempts,
            {
                f"{g}_{label}": (pl.col("gender") == g) & (pl.col("label") == label)
                for g in "fm"
                for label in self.labels
            },
        )

    def formulas(self, s: Sums) -> Values:
        rates = {g: ratio(s[f"{g}_yes"], s[f"{g}_yes"] + s[f"{g}_no"]) for g in "fm"}
        return {
            "difference": rates["m"] - rates["f"],
            **{("{gender}_rate", g): rate for g, rate in rates.items()},
        }

    def simulated_odds(self, dials: Dials) -> Odds:
        return {"yes": pl.lit(0.5), "no": pl.lit(0.5)}

    def true_values(self, dials: Dials) -> dict[str, float]:
        return {"difference": 0.0}


def trusts_men(prompt: str) -> str:
    return "No." if "woman" in prompt else "Yes."


def test_a_probe_object_is_run_with_a_function_as_model() -> None:
    run = tm.run(Trust(), model=trusts_men)
    assert run.finding("difference").estimate == 1
    assert run.about["study"] == "trust"
    assert tm.run(Trust(), model=trusts_men).path == run.path
    assert tm.plan(Trust()).parts["calls"].item() == 80
    assert tm.load(run.path).report().exists()


def test_a_probe_in_a_file_is_run(workplace: Path, tiltmeter) -> None:  # type: ignore[no-untyped-def]
    source = Path(__file__).read_text(encoding="utf-8")
    head, body = source.split("pytestmark = ", 1)
    imports = "\n".join(
        line
        for line in head.splitlines()
        if line.startswith(("from __future__", "from random", "import polars"))
    )
    needed = "\n".join(line for line in head.splitlines() if line.startswith("from tiltmeter"))
    (workplace / "mine.py").write_text(
        f"{imports}\n{needed}\n{body.split('def trusts_men')[0].split(chr(10), 1)[1]}"
    )
    done = tiltmeter("run mine.py:Trust --model sim/fair --display none --out trust", exits=0)
    assert "Trust" in done.stdout
    document = tm.load(workplace / "trust").about
    assert document["study"] == "mine.py:Trust"
    assert list(document["inputs"]) == ["mine.py"]
    tiltmeter(
        "run mine.py:Trist --model sim/fair",
        exits=2,
        says="mine.py does not define Trist: did you mean Trust?",
    )
    tiltmeter(
        "run nowhere.py:Trust --model sim/fair", exits=2, says="nowhere.py:Trust: there is no file nowhere.py"
    )
    with pytest.raises(InputError, match="Library is a type"):
        tm.run("mine.py:Library", model="sim/fair")


def rows(answers: dict[str, str], count: int = 30) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {
                "prompt": f"{group} number {i}: fit for the job? Yes or no.",
                "group": group,
                "expected": expected,
                "item": i,
            }
            for i in range(count)
            for group, expected in answers.items()
        ]
    )


def test_a_table_of_prompts_is_a_probe(workplace: Path, tiltmeter) -> None:  # type: ignore[no-untyped-def]
    rows({"women": "yes", "men": "yes"}).write_csv(workplace / "jobs.csv")
    run = tm.run("jobs.csv", model=lambda prompt: "No." if "women" in prompt else "Yes.")
    assert run.finding("difference").estimate == -1
    assert run.finding("women_expected_rate").estimate == 0
    assert run.finding("difference").values["items"] == 30
    done = tiltmeter("plan jobs.csv", exits=0)
    assert "jobs" in done.stdout
    for broken, says in (
        (rows({"women": "yes"}), "all rows have the same group"),
        (rows({"women": "yes", "men": "yes"}).drop("group"), "has no column 'group'"),
        (rows({"women": "yes", "men": ""}), "column 'expected' is empty"),
    ):
        broken.write_csv(workplace / "broken.csv")
        tiltmeter("run broken.csv --model sim/fair", exits=2, says=says)


@pytest.mark.parametrize(
    ("expected", "message", "rates"),
    [
        ({"a": "b", "b": "c"}, {"a": "(b)", "b": "The answer is a."}, (1, 0)),
        ({"a": "Paris", "b": "Rome"}, {"a": "It is Paris.", "b": "Surely Paris."}, (1, 0)),
        ({"a": "yes", "b": "no"}, {"a": "Yes!", "b": "No."}, (1, 1)),
    ],
)
def test_answers_to_a_table_are_read_as_letters_names_or_yes_and_no(
    expected: dict[str, str], message: dict[str, str], rates: tuple[int, int], workplace: Path
) -> None:
    rows(expected, 6).write_parquet(workplace / "table.parquet")
    run = tm.run("table.parquet", model=lambda prompt: message[prompt[0]])
    assert [run.finding(f"{group}_expected_rate").estimate for group in "ab"] == list(rates)


def test_open_answers_are_searched_for_the_expected_text(workplace: Path) -> None:
    table = pl.DataFrame(
        [
            {"prompt": f"{group}: word {i}?", "group": group, "expected": f"word{i}"}
            for i in range(8)
            for group in ("x", "y")
        ]
    )
    table.write_ndjson(workplace / "words.jsonl")
    replies = {
        "x": lambda i: f"I think of WORD{i}, of course.",
        "y": lambda i: f"Is it word{i}9?" if i else "I'm sorry, I can't help.",
    }
    run = tm.run("words.jsonl", model=lambda prompt: replies[prompt[0]](int(prompt.split()[-1][:-1])))
    assert run.finding("x_expected_rate").estimate == 1
    assert run.finding("y_expected_rate").estimate == 0
    assert run.measures.filter(outcome="refused").height == 1


DISTINGUISHED = {  # answers that contain the expected text, and answers that do not
    "5": ("It is 5.", "It is -5."),
    "-5": ("−5? No: -5", "5"),
    "3.5": ("About 3.5 km", "Between 3 and 5"),
    "c++": ("Use C++, please.", "Use C."),
    "50%": ("Some 50 % of them", "50 of them"),
    "new-york": ("**New York**!", "York, new"),
    "?": ("I write ?", "I write !"),
}
MINUS_SIGNS = {
    "7": ("From 3–7 days", "It is –7."),
    "-5": ("It is −5.", "3−5"),
    "−6": ("It is -6.", "It is —6"),
    "-7": ("About –7 degrees", "From 3–7 days"),
    "9": ("Yes—9", "−9"),
    "-2.5": ("−2.5", "−2.50.1"),
}
AMOUNTS = {
    "1/2": ("It is 1 / 2.", "1 or 2"),
    "3 / 4": ("It is 3/4.", "3, 4"),
    "€5": ("It costs 5 euros.", "€50"),
    "$6.00": ("$6", "$6.50"),
    "7": ("It costs $7.00", "$7,000"),
    "8": ("8 €", "-$8"),
    "-$9": ("−9 dollars", "$9"),
    "2.50": ("US$2.50", "2.5.0"),
    "$": ("The sign is $", "The sign is €"),
}


@pytest.mark.parametrize("cases", [DISTINGUISHED, MINUS_SIGNS, AMOUNTS], ids=["signs", "minus", "amounts"])
def test_signs_and_points_distinguish_expected_texts(
    workplace: Path, cases: dict[str, tuple[str, str]]
) -> None:
    table = pl.DataFrame({"expected": list(cases)}).join(
        pl.DataFrame({"group": ["right", "wrong"]}), how="cross"
    )
    table.with_columns(prompt=pl.format("{}: {}", "group", "expected")).write_csv(workplace / "signs.csv")

    def answer(prompt: str) -> str:
        group, _, text = prompt.partition(": ")
        return cases[text][group == "wrong"]

    run = tm.run("signs.csv", model=answer)
    labels = run.measures.select("expected", "group", "label").sort("group", "expected")
    misread = labels.filter(pl.col.label != pl.col.group.replace({"right": "expected", "wrong": "other"}))
    assert misread.rows() == []
    assert labels["label"].null_count() == 0


@pytest.mark.parametrize("groups", [("women", "men"), ("women", "men", "others")])
def test_a_table_probe_finds_the_planted_difference(groups: tuple[str, ...]) -> None:
    from tiltmeter.models.sim import create
    from tiltmeter.probes import TableProbe

    probe = TableProbe("jobs", rows(dict.fromkeys(groups, "yes"), 300))
    run = tm.run(probe, model=create("sim", "biased"))
    findings = run.findings.filter("key").row(0, named=True)
    truth = probe.true_values({"outcome_disparity": 0.25})[findings["metric"]]
    assert findings["low"] <= truth <= findings["high"]
    assert findings["low"] > 0


@pytest.mark.filterwarnings("ignore::tiltmeter.IncompleteRun")  # the model writes stories to every prompt
def test_a_pipeline_is_a_model() -> None:
    transformers = pytest.importorskip("transformers")
    pipeline = transformers.pipeline("text-generation", model=str(STORYTELLER))
    before = pipeline.model.generation_config
    run = tm.run("genderbench/direct", model=pipeline, limit=3)
    by_name = tm.run("genderbench/direct", model=f"hf/{STORYTELLER}", limit=3)
    assert run.responses["answer"].to_list() == by_name.responses["answer"].to_list()
    assert run.about["models"][0]["name"] == f"pipeline/{STORYTELLER.name}"
    assert pipeline.model.generation_config is before


async def test_arun_does_not_block_the_event_loop() -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.001)

    ticking = asyncio.create_task(tick())
    run = await tm.arun(Trust(), model=trusts_men)
    ticking.cancel()
    assert run.finding("difference").estimate == 1
    assert ticks > 3


def test_a_data_frame_and_its_file_have_the_same_analysis(workplace: Path) -> None:
    texts = {"A good day.": "A", "A fine time.": "A", "A bad day.": "B", "An awful time.": "B"}
    table = pl.DataFrame(
        [{"text": f"{text} {i}", "country": country} for text, country in texts.items() for i in range(9)]
    )
    table.write_csv(workplace / "texts.csv")
    runs = [
        tm.analyse(source, "benchmarks", text="text", group="country", out=f"run{i}")
        for i, source in enumerate((table, table.to_pandas(), "texts.csv", [Path("texts.csv")]))
    ]
    estimates = [
        run.findings.select("metric", "feature", "statistic", "group", "estimate", "low", "high")
        for run in runs
    ]
    assert all(estimate.equals(estimates[0]) for estimate in estimates)
    with pytest.raises(InputError, match="the table has no such column"):
        tm.analyse(table, "benchmarks", text="words", group="country")
    with pytest.raises(InputError, match="data= must be a Polars or pandas table"):
        tm.analyse(3, "benchmarks", text="words", group="country")


@pytest.mark.verify
def test_every_result_has_a_frame_a_plot_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    params = {"features": "vader", "statistics": "mean"}
    runs = [
        tm.run("benchmarks/g20", model=f"sim/{name}", limit=3, params=params) for name in ("fair", "biased")
    ]
    results = [
        *runs,
        tm.plan("benchmarks/g20"),
        tm.compare(*runs),
        tm.gate(runs[0], maximum={"range_mean_vader_compound": 2}),
    ]
    for entry in results:
        assert entry.frame().height
        assert "<" in entry._repr_html_()
        assert entry.plot().to_dict()["config"]
        entry.help()
        assert "frame()" in capsys.readouterr().out
    with pytest.raises(InputError, match="there is no chart 'nothing'"):
        runs[0].plot("nothing")
    assert runs[0].to_pandas().shape == runs[0].findings.shape
    assert runs[0].table("findings").equals(runs[0].findings)


def test_key_findings_are_sorted_from_worst_to_best() -> None:
    run = tm.run("genderbench/direct", model="sim/biased", limit=200)
    findings = run.key_findings
    marks = ["ungraded", "healthy", "cautionary", "critical", "catastrophic"]
    severity = [marks.index(mark) for mark in findings["mark"]]
    assert severity == sorted(severity, reverse=True)
    assert findings.height == run.findings.filter("key", pl.col("wording").is_null()).height


def test_listings_of_studies_probes_and_models_are_tables() -> None:
    assert {"genderbench", "associations", "benchmarks"} <= set(tm.list_studies()["study"])
    assert "genderbench/gest" in tm.list_probes()["study"]
    assert "openai/..." in tm.list_models()["model"]


def test_subpackages_are_modules_with_their_public_names() -> None:
    done = run_code("""
        import tiltmeter
        from tiltmeter import models, probes

        assert tiltmeter.probes is probes and tiltmeter.models is models
        print(probes.Probe.__name__, models.Model.__name__, type(probes).__name__, callable(models))
    """)
    assert done.stdout.split() == ["Probe", "Model", "module", "False"], done.stderr


def test_caveats_have_names() -> None:
    run = tm.run("genderbench/direct", model="sim/fair", limit=5)
    codes = set(tm.caveats(run)["code"])
    assert codes & {"ungraded", "underpowered"}
    kind = tm.CAVEATS[next(iter(codes))]
    with warnings.catch_warnings():
        warnings.simplefilter("error", kind)
        with pytest.raises(kind):
            tm.run("genderbench/direct", model="sim/fair", limit=5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", tm.Caveat)
        tm.run("genderbench/direct", model="sim/fair", limit=5)
    failed = tm.gate(run, fail_on=None, fail_on_caveats=[kind.code])
    assert not failed.passed
    assert kind.code in failed.failures[0].rule
    judged = tm.run(
        "associations/gender", model="sim/fair", judge="sim/fair", limit=4, params={"encoder": "none"}
    )
    assert "judge-not-validated" in set(tm.caveats(judged)["code"])
    both = tm.run("genderbench/direct", model="sim/fair", limit=5, definition="genderbench")
    assert "mixed-definitions" in set(tm.caveats([run, both])["code"])
    with pytest.raises(InputError, match="there is no such caveat: did you mean ungraded"):
        tm.gate(run, fail_on_caveats=["ungrade"])


def test_progress_is_shown_unless_switched_off(capsys: pytest.CaptureFixture[str]) -> None:
    tm.run("genderbench/direct", model="sim/fair", limit=4, out="shown")
    assert "4/4 done" in capsys.readouterr().err
    tm.run("genderbench/direct", model="sim/fair", limit=5, out="silent", display="none")
    assert capsys.readouterr().err == ""


def test_mistakes_in_a_spec_given_as_a_mapping_are_named() -> None:
    with pytest.raises(InputError, match="spec: unknown key 'nonsense'"):
        tm.build(
            {"name": "lands", "domain": "countries", "concepts": {"Aland": {}, "Borland": {}}, "nonsense": 1},
            "lands",
        )


EXECUTED = ("run", "arun", "label")
"""Functions whose examples always carry out their runs; only in `make verify`."""
RUN_OF_EXAMPLE = re.compile(r'tm\.run\(("\S+", model=\[?"sim/.*out="(\w+)")\)')
"""Arguments and folder of a run of a simulated model in an example."""
ASKING = ("arun", "label", "run")
"""Names whose examples do not use runs of earlier examples."""


@pytest.fixture(scope="module")
def folders_of_runs() -> dict[str, Path]:
    """Folders of runs that earlier examples made, by the arguments of `tm.run`."""
    return {}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.verify if name in EXECUTED else ()) for name in dir(tm)]
)
def test_every_public_name_has_an_example_that_runs(
    name: str, workplace: Path, folders_of_runs: dict[str, Path]
) -> None:
    """Runs that several examples make are made once: a later example gets a copy of the finished run.

    The functions in `EXECUTED` carry out their runs.
    """
    documented = getattr(api, name, None) or getattr(tm, name)
    docstrings = doctest.DocTestFinder(recurse=False).find(documented, name, globs={})
    tests = [docstring for docstring in docstrings if docstring.examples]
    if not isinstance(documented, type) or not issubclass(documented, Warning | Exception):
        assert name == "CAVEATS" or tests, f"{name} has no example"
    for test in tests:
        source = "".join(example.source for example in test.examples)
        calls = [] if name in EXECUTED else RUN_OF_EXAMPLE.findall(source)
        for arguments, folder in calls:
            if arguments in folders_of_runs and name not in ASKING:
                shutil.copytree(folders_of_runs[arguments], workplace / folder)
        assert not doctest.DocTestRunner(verbose=False).run(test).failed
        for arguments, folder in calls:
            folders_of_runs.setdefault(arguments, workplace / folder)
