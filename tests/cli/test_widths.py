"""Tables at any width: names, values, intervals and marks are complete, and omitted columns are named."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from support.commands import call, user_environment
from tiltmeter._quantities import interval, quantity
from tiltmeter.blocks import Graded
from tiltmeter.reports._words import mark_words, number

pytestmark = pytest.mark.verify


WIDTHS = (80, 81, 90, 100, 113, 120, 139, 160, 200)
SOME = (80, 100, 139)
LONG = "openrouter/meta-llama/llama_3.3_70b_instruct-with-a-long-name:free"
Call = Callable[..., str]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Path:
    """A folder with runs of every kind and a benchmark."""
    home = tmp_path_factory.mktemp("widths")

    def carry_out(command: str) -> None:
        done = call(shlex.split(command), home, user_environment(shared, home / "runs"))
        assert done.returncode == 0, done.stderr

    def run(study: str, options: str, out: str) -> None:
        carry_out(f"run {study} {options} --out runs/{out} --display none")

    two_models = "-m sim/mild -m sim/biased -M refusal=0.1"
    tamkin = "genderbench/discrimination_tamkin"
    run("genderbench", f"{two_models} -P wording=plain --limit 8", "two")
    run("associations/gender", "-m sim/biased -P encoder=none --limit 25", "stories")
    run("benchmarks/g20", "-m sim/biased --limit 6", "g20")
    run(tamkin, "-m sim/mild --limit 8 -P wording=all --repeats 2", "worded")
    carry_out(f"plan {tamkin} --limit 8 --prompts prompts.csv")
    prompts = pl.read_csv(home / "prompts.csv").select("prompt_id").with_row_index()
    yes = [
        pl.when(pl.col("index") % 3 == turn).then(pl.lit("Yes")).otherwise(pl.lit("No")) for turn in (0, 1)
    ]
    answers = [
        prompts.select("prompt_id", model=pl.lit(name), answer=message)
        for name, message in zip((LONG, f"{LONG}-2"), yes, strict=True)
    ]
    pl.concat(answers).write_csv(home / "answers.csv")
    carry_out(f"analyse answers.csv --study {tamkin} --limit 8 --out runs/long")
    same = {"domain": "gender", "kind": "questions", "baseline": "They are people."}
    asking = (
        "What would you say about number {} of the {} who came to the meeting in the old town hall yesterday?"
    )
    texts = [
        {
            "key": f"key/{group}/{i:03}",
            "concept": group,
            "keyword": group,
            "prompt": asking.format(i, group),
            **same,
        }
        for group in ("women", "men_and_other_people")
        for i in range(20)
    ]
    pl.DataFrame(texts).write_csv(home / "mine.csv")
    return home


@pytest.fixture
def at_width(runs: Path, shared: Path) -> Call:
    """A function that calls the command at a width and returns what it printed."""

    def call_at_width(*words: str, width: int = 200, statuses: tuple[int, ...] = (0,)) -> str:
        done = call(words, runs, user_environment(shared, runs / "runs") | {"COLUMNS": str(width)})
        assert done.returncode in statuses, done.stderr
        return done.stdout

    return call_at_width


def check_table(text: str, width: int) -> None:
    """Nothing is cut, and no line is longer than the terminal unless one name alone is."""
    assert not re.search(r"[^\s(]…|…[^\s)]", text), "an ellipsis is between the two ends of an interval only"
    for line in text.splitlines():
        assert len(line) <= width or len(max(line.split(), key=len)) > width - 30, line


def plain(text: str) -> str:
    """The text with single spaces, so that wrapped texts are in one line."""
    return " ".join(text.split())


def shown_number(row: Mapping[str, Any]) -> str:
    """The estimate and its interval as the table prints them: in percent or points, except for slopes."""
    unit = "score" if row["metric"] == "diff_regression" else row["unit"]
    ends = row["low"], row["high"]
    return f"{quantity(row['estimate'], *ends, unit)} {interval(*ends, unit)}"


@pytest.mark.parametrize("run", ["two", "long", "stories", "g20"])
def test_findings_are_complete_at_any_width(at_width: Call, run: str) -> None:
    """The key numbers have their intervals and marks, and omitted columns are named."""
    rows = [
        row
        for row in json.loads(at_width("show", run, "-f", "json"))
        if row["low"] is not None and row["comparison"] in (None, "range")
    ]
    assert rows or run == "stories"
    for width in WIDTHS:
        printed = at_width("show", run, width=width)
        check_table(printed, width)
        screen = plain(printed)
        for row in rows:
            assert shown_number(row) in screen, row["name"]
            assert row["model"] in screen or run == "g20", "of one model alone the name may stay unsaid"
        # The share of parsed answers is a column, or it is named below the table.
        shares = r"  parsed\b|In every row:[^.]* parsed >?\d|Not shown at this width[^;]* parsed\b"
        patterns = {"two": shares, "long": shares, "stories": r" share +others ", "g20": r"\banswered\b"}
        assert re.search(patterns[run], printed)


@pytest.mark.parametrize("run", ["two", "stories", "g20"])
def test_all_findings_are_printed_at_any_width(at_width: Call, run: str) -> None:
    rows = json.loads(at_width("show", run, "--all", "-f", "json"))
    concepts = {row["concept"] for row in rows if row["concept"] is not None}
    for width in SOME:
        printed = at_width("show", run, "--all", width=width)
        assert len(printed) > len(at_width("show", run, width=width))
        assert all(plain(concept) in plain(printed) for concept in sorted(concepts)[:5])


def test_findings_of_one_group_fit_any_width(at_width: Call) -> None:
    for width in WIDTHS:
        printed = at_width("show", "g20", "--group", "France", width=width)
        check_table(printed, width)
        assert "France" in printed


@pytest.mark.parametrize("run", ["two", "long"])
def test_normalised_scores_of_models_fit_any_width(at_width: Call, run: str) -> None:
    rows = json.loads(at_width("show", run, "--normalised", "-f", "json"))
    models = [name for name in rows[0] if name not in ("part", "metric", "harm", "note")]
    for width in WIDTHS:
        printed = at_width("show", run, "--normalised", width=width)
        check_table(printed, width)
        assert all(name in printed for name in models)
        for row in rows:
            assert row["metric"].replace("_", " ") in plain(printed)
            for value_of in (row[name] for name in models):  # in JSON with four digits
                near = {
                    number(None if value_of is None else value_of + change)
                    for change in (-0.00005, 0, 0.00005)
                }
                assert any(rounded in printed for rounded in near)


@pytest.mark.verify
@pytest.mark.parametrize(
    "sides",
    [
        ("two", "--model-a", "sim/mild", "--model-b", "sim/biased"),
        ("long", "--model-a", LONG, "--model-b", f"{LONG}-2"),
    ],
)
def test_comparisons_are_complete_at_any_width(at_width: Call, sides: tuple[str, ...]) -> None:
    rows = json.loads(at_width("compare", *sides, "-f", "json"))["differences"]
    assert rows
    for width in SOME:
        printed = at_width("compare", *sides, width=width)
        check_table(printed.partition("\nMetrics")[2], width)
        assert sides[2] in printed
        assert sides[4] in printed
        for row in rows:
            numbers = [number(row[name]) for name in ("first", "second", "difference")]
            groups = " minus ".join(filter(None, (row["group"], row["group_2"])))
            metric = f"{row['metric']} ({groups})" if groups else row["metric"]
            line = f"{row['part']} {metric} {' '.join(numbers)} {interval(row['low'], row['high'])}"
            assert line in plain(printed)


LISTINGS = {
    "list studies": ("study",),
    "list probes": ("study",),
    "list models": ("model", "endpoint", "key from"),
    "list features": ("feature", "model"),
    "list statistics": ("statistic", "from"),
    "list runs": ("name", "study", "models", "written"),
    "data list": ("name", "where"),
    "plan genderbench --limit 8 -m sim/mild -P wording=plain": ("part", "metric"),
    "journal stats": ("model", "fingerprint"),
    "benchmark show mine.csv --prompts 2": ("concept", "key", "keyword"),
    "benchmark check mine.csv": ("check", "concept"),
    "benchmark sample mine.csv --size 2": ("key", "concept"),
    "compare worded": ("model", "part", "metric", "least", "greatest"),
    "gate two": ("model", "number"),
}
"""Commands, and the keys of their JSON whose values must be complete in their tables."""


def strings(document: Any, names: tuple[str, ...]) -> Iterator[str]:
    """The texts under these keys, at any depth of a document."""
    if isinstance(document, list):
        for value in document:
            yield from strings(value, names)
    elif isinstance(document, dict):
        for name, value in document.items():
            if name in names:
                yield from (
                    [value]
                    if isinstance(value, str)
                    else [each for each in value or () if isinstance(each, str)]
                )
            yield from strings(value, names)


@pytest.mark.parametrize("command", LISTINGS)
def test_listings_have_complete_names_at_any_width(at_width: Call, command: str) -> None:
    document = json.loads(at_width(*command.split(), "-f", "json", statuses=(0, 1, 5)))
    if command.startswith("gate"):
        document = [check for check in document["checks"] if check["status"] != "passed"]
    named = list(strings(document, LISTINGS[command]))
    assert named
    widths = (80, 139) if command.startswith(("plan", "compare")) else SOME  # these compute for seconds
    for width in widths:
        printed = at_width(*command.split(), width=width, statuses=(0, 1, 5))
        assert not re.search(r"[^\s(]…|…[^\s)]", printed)
        for name in named:
            assert name in printed, name


def test_tables_of_released_data_fit_any_width(at_width: Call, shared: Path) -> None:
    released = shared / "data" / "badf"
    counts = shared / "golden" / "badf" / "recovered_counts_4id.csv"
    for width in SOME:
        words = (
            "reanalyse",
            str(released / "two1_QWEN3-32B_sim_race_all_summ_base.csv"),
            "--counts",
            str(counts),
        )
        printed = at_width(*words, width=width)
        check_table(printed.partition("\n\n")[2], width)
        for row in json.loads(at_width(*words, "-f", "json"))[0]["kept"]:
            assert f"{row['context']} {row['identity']} {row['concept']} " in plain(printed)
            points = (
                f"{100 * row['effect']:+.1f} ({100 * row['low']:+.1f} … {100 * row['high']:+.1f})".replace(
                    "-", "−"
                )
            )
            assert points in printed
        scoring = ("label", str(released / "Sample_eva.csv"), "--score")
        printed = at_width(*scoring, width=width)
        check_table(printed, width)
        for row in json.loads(at_width(*scoring, "-f", "json"))[0]["figures"]:
            assert f"{row['step']} {row['metric']} " in plain(printed)
            if row["low"] is not None:
                assert f"{row['low']:.4f} … {row['high']:.4f}" in printed


@pytest.mark.parametrize("width", [80, 120])
def test_tables_and_progress_fit_a_real_terminal(runs: Path, shared: Path, width: int) -> None:
    """The width is that of the terminal, not COLUMNS.

    `run` prints its first screen, with progress above it.
    """
    environment = user_environment(shared, runs / "runs") | {"TERM": "xterm"}
    environment = {name: text for name, text in environment.items() if name not in ("COLUMNS", "LINES")}
    primary, secondary = pty.openpty()
    fcntl.ioctl(secondary, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    command = [
        sys.executable,
        "-m",
        "tiltmeter",
        "run",
        "genderbench/discrimination_tamkin",
        "-m",
        "sim/biased",
        "--limit",
        "8",
    ]
    with subprocess.Popen(
        command, cwd=runs, env=environment, stdin=secondary, stdout=secondary, stderr=secondary
    ) as process:
        os.close(secondary)
        printed = bytearray()
        while True:
            try:
                piece = os.read(primary, 65_536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            printed += piece
    os.close(primary)
    assert process.returncode == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", printed.decode()).replace("\r", "\n")
    progress = [line for line in text.splitlines() if "━" in line]
    assert progress
    assert all(re.match("sim/biased(: first responses)? ", line) for line in progress)
    assert all(len(line) <= width and "…" not in line for line in progress)
    folder = next(line for line in text.splitlines() if line.startswith("run ")).split()[-1]
    (row,) = (
        pl.read_parquet(Path(folder) / "findings.parquet")
        .filter(pl.col("key") & pl.col("wording").is_null())
        .to_dicts()
    )
    ends = row["low"], row["high"]
    in_words = f"{quantity(row['estimate'], *ends, row['unit'])} ({interval(*ends, row['unit'])})"
    assert in_words in plain(text)
    assert mark_words(Graded(row["mark"], row["mark_best"], row["mark_worst"])) in plain(text)
