"""What the tables print at any width: names, values, intervals and marks are whole.

What is left out is said.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
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
from tiltmeter.blocks import Graded
from tiltmeter.quantities import interval, quantity
from tiltmeter.reports.words import mark_words, number

pytestmark = pytest.mark.verify


WIDTHS = (80, 81, 90, 100, 113, 120, 139, 160, 200)
SOME = (80, 100, 139)
LONG = "openrouter/meta-llama/llama_3.3_70b_instruct-with-a-long-name:free"
QUIET = ("--display", "none")
Call = Callable[..., str]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Path:
    """A folder with runs of every kind and a benchmark."""
    home = tmp_path_factory.mktemp("widths")

    def carry_out(*words: str) -> None:
        done = call(words, home, user_environment(shared, home / "runs"))
        assert done.returncode == 0, done.stderr

    models = ("-m", "sim/mild", "-m", "sim/biased", "-M", "refusal=0.1")
    carry_out(
        "run", "genderbench", *models, "-P", "wording=plain", "--limit", "8", "--out", "runs/two", *QUIET
    )
    carry_out(
        "run",
        "associations/gender",
        "-m",
        "sim/biased",
        "-P",
        "encoder=none",
        "--limit",
        "25",
        "--out",
        "runs/told",
        *QUIET,
    )
    carry_out("run", "benchmarks/g20", "-m", "sim/biased", "--limit", "6", "--out", "runs/g20", *QUIET)
    more = ("--limit", "8", "-P", "wording=all", "--repeats", "2", "--out", "runs/worded", *QUIET)
    carry_out("run", "genderbench/discrimination_tamkin", "-m", "sim/mild", *more)
    carry_out("plan", "genderbench/discrimination_tamkin", "--limit", "8", "--prompts", "prompts.csv")
    asked = pl.read_csv(home / "prompts.csv").select("prompt_id").with_row_index()
    yes = [
        pl.when(pl.col("index") % 3 == turn).then(pl.lit("Yes")).otherwise(pl.lit("No")) for turn in (0, 1)
    ]
    answers = [
        asked.select("prompt_id", model=pl.lit(name), answer=message)
        for name, message in zip((LONG, f"{LONG}-2"), yes, strict=True)
    ]
    pl.concat(answers).write_csv(home / "answers.csv")
    carry_out(
        "analyse",
        "answers.csv",
        "--study",
        "genderbench/discrimination_tamkin",
        "--limit",
        "8",
        "--out",
        "runs/long",
    )
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
    """The command at a width; gives what it printed."""

    def obey(*words: str, width: int = 200, statuses: tuple[int, ...] = (0,)) -> str:
        done = call(words, runs, user_environment(shared, runs / "runs") | {"COLUMNS": str(width)})
        assert done.returncode in statuses, done.stderr
        return done.stdout

    return obey


def check_table(text: str, width: int) -> None:
    """Nothing is cut, and no line is longer than the terminal unless one name alone is."""
    assert not re.search(r"[^\s(]…|…[^\s)]", text), (
        "an ellipsis stands between the two ends of an interval only"
    )
    for line in text.splitlines():
        assert len(line) <= width or len(max(line.split(), key=len)) > width - 30, line


def plain(text: str) -> str:
    """The text with all blanks alike, so that what is wrapped between words is one piece."""
    return " ".join(text.split())


def shown_number(row: Mapping[str, Any]) -> str:
    """The estimate and its interval as the table prints them: percent or points, except for slopes, which are no shares."""
    unit = "score" if row["metric"] == "diff_regression" else row["unit"]
    ends = row["low"], row["high"]
    return f"{quantity(row['estimate'], *ends, unit)} {interval(*ends, unit)}"


@pytest.mark.parametrize("run", ["two", "long", "told", "g20"])
def test_findings(at_width: Call, run: str) -> None:
    """The numbers shown first with their intervals and marks, at any width; what is left out is said."""
    rows = [
        row
        for row in json.loads(at_width("show", run, "-f", "json"))
        if row["low"] is not None and row["comparison"] in (None, "range")
    ]
    assert rows or run == "told"
    for width in WIDTHS:
        printed = at_width("show", run, width=width)
        check_table(printed, width)
        screen = plain(printed)
        for row in rows:
            assert shown_number(row) in screen, row["name"]
            assert row["model"] in screen or run == "g20", "of one model alone the name may stay unsaid"
        shares = r"  parsed\b|In every row:[^.]* parsed >?\d|Not shown at this width[^;]* parsed\b"  # a column, or said below
        assert re.search({"told": r" share +others ", "g20": r"\banswered\b"}.get(run, shares), printed)


@pytest.mark.parametrize("run", ["two", "told", "g20"])
def test_everything(at_width: Call, run: str) -> None:
    rows = json.loads(at_width("show", run, "--all", "-f", "json"))
    concepts = {row["concept"] for row in rows if row["concept"] is not None}
    for width in SOME:
        printed = at_width("show", run, "--all", width=width)
        assert len(printed) > len(at_width("show", run, width=width))
        assert all(plain(concept) in plain(printed) for concept in sorted(concepts)[:5])


def test_one_group(at_width: Call) -> None:
    for width in WIDTHS:
        printed = at_width("show", "g20", "--group", "France", width=width)
        check_table(printed, width)
        assert "France" in printed


@pytest.mark.parametrize("run", ["two", "long"])
def test_side_by_side(at_width: Call, run: str) -> None:
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
                assert any(one in printed for one in near)


@pytest.mark.verify
@pytest.mark.parametrize(
    "sides",
    [
        ("two", "--model-a", "sim/mild", "--model-b", "sim/biased"),
        ("long", "--model-a", LONG, "--model-b", f"{LONG}-2"),
    ],
)
def test_compared(at_width: Call, sides: tuple[str, ...]) -> None:
    rows = json.loads(at_width("compare", *sides, "-f", "json"))["differences"]
    assert rows
    for width in SOME:
        printed = at_width("compare", *sides, width=width)
        check_table(printed.partition("\nMetrics")[2], width)
        assert sides[2] in printed
        assert sides[4] in printed
        for row in rows:
            numbers = [number(row[name]) for name in ("first", "second", "difference")]
            assert (
                f"{row['part']} {row['metric']} {' '.join(numbers)} {interval(row['low'], row['high'])}"
                in plain(printed)
            )


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
"""Commands, and the names in what they print as JSON that must be whole in what they print for people."""


def strings(document: Any, names: tuple[str, ...]) -> Iterator[str]:
    """Values of these names, wherever they stand in a document."""
    if isinstance(document, list):
        for one in document:
            yield from strings(one, names)
    elif isinstance(document, dict):
        for name, one in document.items():
            if name in names:
                yield from (
                    [one] if isinstance(one, str) else [each for each in one or () if isinstance(each, str)]
                )
            yield from strings(one, names)


@pytest.mark.parametrize("command", LISTINGS)
def test_listings(at_width: Call, command: str) -> None:
    document = json.loads(at_width(*command.split(), "-f", "json", statuses=(0, 1, 5)))
    if command.startswith("gate"):
        document = [check for check in document["checks"] if check["status"] in ("failed", "undecided")]
    named = list(strings(document, LISTINGS[command]))
    assert named
    widths = (80, 139) if command.startswith(("plan", "compare")) else SOME  # these compute for seconds
    for width in widths:
        printed = at_width(*command.split(), width=width, statuses=(0, 1, 5))
        assert not re.search(r"[^\s(]…|…[^\s)]", printed)
        for name in named:
            assert name in printed, name


def test_released_tables(at_width: Call, shared: Path) -> None:
    data, counts = shared / "data" / "badf", shared / "golden" / "badf" / "recovered_counts_4id.csv"
    for width in SOME:
        words = (
            "reanalyse",
            str(data / "two1_QWEN3-32B_sim_race_all_summ_base.csv"),
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
        scoring = ("label", str(data / "Sample_eva.csv"), "--score")
        printed = at_width(*scoring, width=width)
        check_table(printed, width)
        for row in json.loads(at_width(*scoring, "-f", "json"))[0]["figures"]:
            assert f"{row['step']} {row['metric']} " in plain(printed)
            if row["low"] is not None:
                assert f"{row['low']:.4f} … {row['high']:.4f}" in printed


@pytest.mark.parametrize("width", [80, 120])
def test_a_real_terminal(runs: Path, shared: Path, width: int) -> None:
    """Not COLUMNS but the terminal itself says how wide it is.

    `run` prints as `show` does, with progress above.
    """
    environment = user_environment(shared, runs / "runs") | {"TERM": "xterm"}
    environment = {name: text for name, text in environment.items() if name not in ("COLUMNS", "LINES")}
    primary, secondary = pty.openpty()
    fcntl.ioctl(secondary, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    command = [
        sys.executable,
        "-m",
        "tiltmeter.cli",
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
        seen = bytearray()
        while True:
            try:
                piece = os.read(primary, 65_536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            seen += piece
    os.close(primary)
    assert process.returncode == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode()).replace("\r", "\n")
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
    assert shown_number(row) in plain(text)
    assert mark_words(Graded(row["mark"], row["mark_best"], row["mark_worst"])) in plain(text)
