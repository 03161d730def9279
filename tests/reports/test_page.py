"""The page in a real browser: from disk, without network, narrow and wide, light and dark, with names that try to be markup."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest

from conftest import Tiltmeter
from tiltmeter.reports import Shown, read_published, write_page
from tiltmeter.runs import load
from tiltmeter.study import NAMED

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
in_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: the page is not looked at in a browser")
EVIL = "openai/<script>document.title='taken'</script><b>x[red]\x1b[31m"
LONG = "openrouter/" + "An-Extremely-Long-Model-Name_" * 6


@pytest.fixture
def run(tiltmeter: Tiltmeter, tmp_path: Path) -> Shown:
    """Two models with awkward names, several wordings, an ungraded metric without a value, a probe that was not run."""
    (tmp_path / "study.yaml").write_text("study: genderbench\nparts: [direct, hiring_an, jobs_lum]\nlimit: 12\nparams: {wording: all}\n")
    done = tiltmeter("run", "study.yaml", "-m", "sim/mild", "-m", "sim/biased", "--out", "run", "--display", "none")
    assert done.returncode == 0, done.stderr
    made = load(tmp_path / "run")
    names = {"sim/mild": EVIL, "sim/biased": LONG}
    void = pl.col("metric") == "diff_regression"
    findings = made.findings.with_columns(
        pl.when(void).then(None).otherwise(name).alias(name) for name in ("estimate", "low", "high")
    ).with_columns(
        model=pl.col("model").replace(names),
        mark=pl.when(void).then(pl.lit("ungraded")).otherwise("mark"),
        note=pl.when(void).then(pl.lit("<script>document.title='taken'</script>")).otherwise("note"),
    )
    about = made.about
    for model in about["models"]:
        model["name"] = names[model["name"]]
    about["parts"]["gest"] = {"title": "Who said it", "status": "not run", "reason": "no data </dd><script>document.title='taken'</script>"}
    about["problems"] = ["gest not run: <script>document.title='taken'</script>"]
    about["command"] = f"tiltmeter run study.yaml --model '{LONG}'"
    return Shown(findings, about)


def browse(page: Path, width: int, dark: bool, shot: Path) -> tuple[str, str]:
    """The DOM and what the browser said, with every host unreachable."""
    done = subprocess.run(
        [
            str(CHROMIUM),
            *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--enable-logging=stderr"),
            *("--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=2000", f"--user-data-dir={shot.parent / 'profile'}"),
            *(f"--window-size={width},1200", f"--blink-settings=preferredColorScheme={0 if dark else 1}"),
            *(f"--screenshot={shot}", "--dump-dom", page.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout, "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)


@in_browser
def test_in_a_browser(run: Shown, tmp_path: Path) -> None:
    page = write_page([run], tmp_path / "page.html")
    probe = (
        "<script>document.title=[document.documentElement.scrollWidth,innerWidth,getComputedStyle(document.body).backgroundColor]</script>"
    )
    # The page forbids scripts: it is measured in a copy that does not.
    measured = tmp_path / "measured.html"
    measured.write_text(re.sub(r"<meta http-equiv[^>]*>", "", page.read_text()).replace("</body>", f"{probe}</body>"))
    papers = set()
    for width, dark in ((400, False), (1280, True)):
        shot = tmp_path / "shot.png"
        dom, complaints = browse(page, width, dark, shot)
        assert not complaints
        assert "<title>Tiltmeter:" in dom, "no script of a name or note ran"
        assert shot.stat().st_size > 20_000
        dom, _ = browse(measured, width, dark, shot)
        title = re.search(r"<title>(\d+),(\d+),([^<]+)", dom)
        assert title, dom[:500]
        assert int(title[1]) <= int(title[2]), f"wider than the window of {width}"
        papers.add(title[3])
    assert len(papers) == 2, "the page follows the reader's choice of light or dark"


def test_nothing_from_outside_is_markup(run: Shown, tmp_path: Path) -> None:
    text = write_page([run, run], tmp_path / "page.html").read_text()
    assert "<script" not in text
    assert "\x1b" not in text
    assert "&lt;script&gt;" in text
    assert "not run: no data &lt;/dd&gt;" in text
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert {"m1-1", "m2-1", "m1-2", "m2-2", "made-1", "made-2"} <= set(ids)
    assert set(re.findall(r'href="#([^"]+)"', text)) <= set(ids), "every link of the contents leads somewhere"
    assert text.count("--model &#39;openai/") > 0, "the command that opens a number names the model where there are two"


def test_the_level_is_the_runs_own(run: Shown, tmp_path: Path) -> None:
    findings, about = run.findings, run.about
    text = write_page([Shown(findings.with_columns(level=pl.lit(0.999)), {**about, "level": 0.999})], tmp_path / "page.html").read_text()
    assert "99.9% interval" in text
    assert "95%" not in text.partition("<main>")[2].replace("answered 95%", "").replace("95% of", "")


def texts_of(page: Path, start: str, end: str) -> str:
    """What a reader sees between two pieces of the page's source."""
    source = page.read_text(encoding="utf-8").partition(start)[2].partition(end)[0]
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", source)).split())


def test_what_is_told_first(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    done = tiltmeter("run", "genderbench/direct", "-m", "sim/biased", "--limit", "60", "--out", "run", "--display", "none")
    assert done.returncode == 0, done.stderr
    made = load(tmp_path / "run")
    counts = {"n": 200, "answered": 150, "refused": 50}
    planned = {"mark": "critical", "mark_low": "cautionary", "mark_high": "critical", **counts}
    findings = made.findings.filter(pl.col("key")).with_columns(pl.lit(value).alias(name) for name, value in planned.items())
    about = made.about
    about["parts"]["gest"] = {"title": "Who said it", "status": "not run", "reason": "its data cannot be had"}
    told = texts_of(write_page([Shown(findings, about)], tmp_path / "page.html"), "<h2>In short</h2>", "<nav")
    for words in (
        "1 graded key metric Stereotypical reasoning",
        "1 × C critical Look first at: Agreement with stereotypes (fail rate",
        "critical, could be cautionary)",
        "0 of 1 marks would be the same anywhere in their interval",
        "75% of 200 attempts gave an answer that could be read",
        "Not measured: Who said it (its data cannot be had)",
        "limited to 60 of each part",
    ):
        assert words in told, (words, told)


def test_what_is_told_first_of_groups(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    done = tiltmeter("run", "benchmarks/g20", "-m", "sim/biased", "--limit", "4", "--out", "run", "--display", "none")
    assert done.returncode == 0, done.stderr
    made = load(tmp_path / "run")
    tested = made.findings.filter("key")
    findings = made.findings.with_columns(q=pl.when("key").then(pl.int_range(pl.len()).over("key") / 100).otherwise("q"))
    told = texts_of(write_page([Shown(findings, made.about)], tmp_path / "page.html"), "<h2>In short</h2>", "<nav")
    assert tested.height > 6
    assert f": 6 of {tested.height} tested differences between groups are clear" in told


def test_the_answers_behind_a_number(run: Shown, tmp_path: Path) -> None:
    number = run.findings.filter((pl.col("model") == EVIL) & (pl.col("metric") == "fail_rate") & pl.col("context").is_null())
    hostile = ["</script><script>alert(1)</script>", "=cmd|' /C calc'!A0", "\u202eright to left\x1b[2J", "word" * 250_000, "fifth of five"]
    examples = pl.concat(
        number.select("model", *NAMED).with_columns(
            part=pl.lit("direct"),
            prompt_id=pl.lit("direct/0/0/plain"),
            repetition=pl.lit(i, dtype=pl.Int16),
            influence=pl.lit(0.5 - i / 10),
            answer=pl.lit(answer),
            outcome=pl.lit("answered"),
            label=pl.lit("yes"),
            prompt=pl.lit("Do you <b>agree</b>?"),
        )
        for i, answer in enumerate(hostile)
    ).select(run.examples.columns)
    page = write_page([Shown(run.findings, run.about, examples)], tmp_path / "page.html")
    plain = write_page([run], tmp_path / "plain.html")
    text = page.read_text(encoding="utf-8")
    assert text.count("Content warning") == 1, "folded under the one number they belong to"
    assert "&lt;/script&gt;&lt;script&gt;alert(1)" in text
    assert "<script" not in text
    assert "=cmd|" in text
    assert "\x1b" not in text
    assert "fifth of five" not in text, "only the three that moved it most"
    assert page.stat().st_size - plain.stat().st_size < 6_000, "a million letters of one word are cut"


def test_runs_of_one_model_stay_apart(run: Shown, tmp_path: Path) -> None:
    text = write_page([run, Shown(run.findings, {**run.about, "seed": 7})], tmp_path / "page.html").read_text()
    header = text.partition('<table class="marks">')[2].partition("</tr>")[0]
    assert header.count("(run 1)") == header.count("(run 2)") == 2


def test_size_of_twelve_models(tiltmeter: Tiltmeter, tmp_path: Path, shared: Path) -> None:
    assert tiltmeter("run", "genderbench", "-m", "sim/mild", "--limit", "4", "--out", "run", "--display", "none").returncode == 0
    made = load(tmp_path / "run")
    names = [pl.lit(f"vendor/model-{i}").alias("model") for i in range(12)]
    many = pl.concat([made.findings.with_columns(name) for name in names])
    # As many answers, and as long ones, as a page can show of every key number.
    numbers = made.findings.filter(pl.col("key")).select("model", *NAMED, part=pl.col("study").str.split("/").list.last())
    long = dict.fromkeys(("prompt", "answer"), pl.lit("long words " * 200)) | dict.fromkeys(("outcome", "label"), pl.lit("answered"))
    shown = numbers.with_columns(prompt_id=pl.lit("p/0/0/plain"), repetition=pl.lit(0, dtype=pl.Int16), influence=pl.lit(0.1), **long)
    examples = pl.concat([shown.with_columns(name) for name in names for _ in range(5)]).select(made.examples.columns)
    published = read_published(shared / "reference" / "genderbench_1_1_leaderboard.json")
    page = write_page([Shown(many, made.about, examples)], tmp_path / "page.html", published=published)
    assert page.stat().st_size < 3_000_000


def test_figures_and_published_results_by_command(tiltmeter: Tiltmeter, tmp_path: Path, shared: Path) -> None:
    done = tiltmeter("run", "genderbench/jobs_lum", "-m", "sim/mild", "--limit", "6", "--out", "run", "--display", "none")
    assert done.returncode == 0, done.stderr
    published = shared / "reference" / "genderbench_1_1_leaderboard.json"
    done = tiltmeter("report", "run", "-o", "page.html", "--figures", "figures", "--published", published)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "page.html"
    assert "Llama-3.3-70B-Instruct" in (tmp_path / "page.html").read_text()
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {"favoured.png", "favoured.svg", "favoured.pdf", "tiers-stereotypical-reasoning.svg"} <= names
    (tmp_path / "bad.json").write_text("{}")
    done = tiltmeter("report", "run", "-o", "other.html", "--published", "bad.json")
    assert (done.returncode, (tmp_path / "other.html").exists()) == (2, False)
    assert "bad.json holds no published results" in done.stderr
