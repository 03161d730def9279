"""The page in a real browser: from disk, without network, narrow and wide, light and dark, with names that try to be markup."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest

from conftest import Tiltmeter
from tiltmeter.reports import Shown, write_page
from tiltmeter.runs import load

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
    assert len(ids) == len(set(ids)) == 4
    assert text.count("--model &#39;openai/") > 0, "the command that opens a number names the model where there are two"


def test_the_level_is_the_runs_own(run: Shown, tmp_path: Path) -> None:
    findings, about = run.findings, run.about
    text = write_page([Shown(findings.with_columns(level=pl.lit(0.999)), about | {"level": 0.999})], tmp_path / "page.html").read_text()
    assert "99.9% interval" in text
    assert "95%" not in text.partition("<main>")[2].replace("answered 95%", "").replace("95% of", "")


def test_size_of_twelve_models(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    assert tiltmeter("run", "genderbench", "-m", "sim/mild", "--limit", "4", "--out", "run", "--display", "none").returncode == 0
    made = load(tmp_path / "run")
    many = pl.concat([made.findings.with_columns(model=pl.lit(f"vendor/model-{i}")) for i in range(12)])
    assert write_page([Shown(many, made.about)], tmp_path / "page.html").stat().st_size < 3_000_000
