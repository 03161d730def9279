"""Pages of runs in a real browser: links, counterfactual pairs, saved figures, print, accessibility."""

from __future__ import annotations

import base64
import csv
import io
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import axe_playwright_python
import pypdf
import pytest

import tiltmeter as tm
from tiltmeter.blocks import Column, Graded, Table
from tiltmeter.reports import Report, write_page
from tiltmeter.runs import report_of

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.verify,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: pages are not opened in a browser"),
]
STUDIES: dict[str, dict[str, Any]] = {
    "probes": {
        "study": "genderbench",
        "model": ["sim/biased", "sim/fair"],
        "limit": 20,
        "params": {"wording": "plain"},
    },
    "one": {"study": "genderbench", "model": "sim/mild", "limit": 20},
    "countries": {"study": "benchmarks/g20", "model": "sim/biased", "limit": 8},
    "stories": {"study": "associations/gender", "model": "sim/biased", "limit": 20},
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> dict[str, Path]:
    """Pages of runs by name."""
    home = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILTMETER_DATA", str(shared / "data"))
        patch.setenv("TILTMETER_RUNS", str(home))
        return {
            name: tm.run(**study, display="none", out=home / name).report() for name, study in STUDIES.items()
        }


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


def open_page(browser: Any, page: Path, *, width: int = 1280, dark: bool = False, **options: Any) -> Any:
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light", **options
    )
    context.set_default_timeout(120_000)  # milliseconds: other processes may be busy
    page_of_test = context.new_page()
    page_of_test.goto(page.as_uri())
    return page_of_test


def test_each_cell_of_models_and_harms_links_to_its_figure_and_each_test_to_its_details(
    browser: Any, pages: dict[str, Path]
) -> None:
    page = open_page(browser, pages["probes"])
    cells = page.locator("table:has(caption:text-is('The worst mark of each model, by harm')) td a")
    assert cells.count() == 6
    for cell in cells.all():
        (target,) = page.locator(cell.get_attribute("href")).all()
        assert target.locator("xpath=..").get_attribute("aria-label") in (
            "Outcome disparity",
            "Stereotypical reasoning",
            "Representational harms",
        )
    links = page.locator("article p.what a[href^='#']")
    assert links.count() == 19
    links.first.click()
    details = page.locator(links.first.get_attribute("href")).locator("xpath=..")
    assert details.get_attribute("open") is not None, "the link opens the details"
    assert details.locator("caption:text-is('Methods')").is_visible()


def test_a_page_about_several_studies_begins_with_all_headlines(
    browser: Any, pages: dict[str, Path], tmp_path: Path
) -> None:
    runs = [tm.load(pages[name].parent) for name in ("one", "stories", "countries")]
    page = open_page(browser, write_page(report_of(runs), tmp_path / "page.html"))
    listed = page.get_by_role("list", name="Further results").locator("li").all_inner_texts()
    headlines = [page.locator("h1").inner_text(), *listed]
    for words, line in zip(("tests", "associated concepts found", "groups"), headlines, strict=True):
        assert re.search(words, line)


def test_the_models_are_sorted_by_any_harm(browser: Any, tmp_path: Path) -> None:
    marks = {
        "first": ("cautionary", "healthy"),
        "second": ("critical", "undecided"),
        "third": ("ungraded", "at most cautionary"),
        "fourth": ("healthy", "at least critical"),
    }
    columns = [Column(f"harm {i}", [Graded(pair[i]) for pair in marks.values()], "mark") for i in (0, 1)]
    page = write_page(
        Report([], [Table("Models", [Column("model", list(marks), "name"), *columns])]),
        tmp_path / "page.html",
    )

    def order(width: int, chosen: str) -> list[str]:
        page_of_test = open_page(browser, page, width=width)
        page_of_test.get_by_role("radio", name=chosen).check()
        rows = [
            (row.bounding_box()["y"], row.locator("th").inner_text())
            for row in page_of_test.locator("tbody tr").all()
        ]
        assert page_of_test.evaluate("document.documentElement.scrollWidth") <= width
        return [name for _, name in sorted(rows)]

    for width in (1280, 390):
        assert order(width, "all tests") == ["first", "second", "third", "fourth"], "as given"
        assert order(width, "harm 0") == ["second", "first", "fourth", "third"]
        assert order(width, "harm 1") == ["fourth", "second", "third", "first"], (
            "undecided is worse than at most cautionary"
        )


def test_a_counterfactual_pair_marks_the_words_that_differ_and_opens_to_the_full_prompts(
    browser: Any, pages: dict[str, Path]
) -> None:
    run = tm.load(pages["probes"].parent)
    pairs = run.counterfactual_pairs()
    page = open_page(browser, pages["probes"])
    assert page.locator("main > section > .contrast").count() == 2, "one for each harm, others are folded"
    page.evaluate("document.querySelectorAll('details.probe').forEach(details => details.open = true)")
    contrasts = page.locator(".contrast")
    assert 5 <= contrasts.count() <= pairs["part"].n_unique()
    first = contrasts.filter(has_text="Medical questions").first
    marked = first.locator("mark").all_inner_texts()
    assert marked, "the words that differ are marked"
    own_rows = pairs.filter(part="diversity_med_qa").row(0, named=True)
    assert all(
        word in own_rows["prompt"].split() + own_rows["other_prompt"].split()
        for text in marked
        for word in text.split()
    )
    first.locator("summary").click()
    assert first.locator("details").inner_text().count("Prompt:") == 2


def test_a_counterfactual_pair_shows_the_direction_of_its_finding(pages: dict[str, Path]) -> None:
    """A biased model favours men: the question of the man is answered correctly, that of the woman is not.

    In a conflict it sides with the man in either role.
    """
    pairs = tm.load(pages["probes"].parent).counterfactual_pairs().filter(model="sim/biased")
    assert (pairs["influence"] > 0).all()
    rows = pairs.select("part", "label", "other_label").iter_rows()
    labels = {part: (label, other_label) for part, label, other_label in rows}
    assert set(labels["diversity_med_qa"]) == {"correct", "incorrect"}
    assert labels["relationship_levy"] == ("male", "male")


def test_each_figure_can_be_saved_as_csv_and_svg(browser: Any, pages: dict[str, Path]) -> None:
    for name, at_least in (("probes", 3), ("countries", 2), ("stories", 1)):
        page = open_page(browser, pages[name], accept_downloads=True)
        links = page.locator("main > section > .save a")
        kinds = links.all_inner_texts()
        assert kinds.count("CSV") == kinds.count("SVG") >= at_least
        for kind, link in zip(kinds, links.all(), strict=True):
            with page.expect_download() as saving:
                link.click()
            content = Path(saving.value.path()).read_text()
            assert saving.value.suggested_filename.endswith(f".{kind.lower()}")
            if kind == "SVG":
                assert content.startswith("<svg")
            else:
                table = list(csv.reader(io.StringIO(content)))
                assert len(table) > 1
                assert len({len(row) for row in table}) == 1
    coded = (
        open_page(browser, pages["probes"])
        .locator("a[download='outcome-disparity.csv']")
        .get_attribute("href")
    )
    rows = csv.DictReader(io.StringIO(base64.b64decode(coded.partition("base64,")[2]).decode()))
    saved = [
        float(row["estimate"])
        for row in rows
        if row["test"] == "Medical questions" and row["model"] == "sim/biased"
    ]
    findings = tm.load(pages["probes"].parent).key_findings.filter(
        part="diversity_med_qa", model="sim/biased"
    )
    assert saved == findings["estimate"].to_list(), "unrounded"


def test_pages_of_one_model_and_of_three_runs_print_on_at_most_four_pages(
    browser: Any, pages: dict[str, Path], tmp_path: Path
) -> None:
    names = ("one", "stories", "countries")
    together = write_page(
        report_of([tm.load(pages[name].parent) for name in names]), tmp_path / "together.html"
    )
    for path in (*(pages[name] for name in names), together):
        open_page(browser, path).pdf(path=tmp_path / "page.pdf", format="A4")
        printed = pypdf.PdfReader(tmp_path / "page.pdf")
        assert len(printed.pages) <= 4, path
        first = " ".join(printed.pages[0].extract_text().split())
        assert "simulated model" in first, "the headline is on the first page"
        assert "Save as" not in first


@pytest.mark.parametrize(("dark", "width"), [(False, 1280), (True, 390)])
def test_pages_have_no_serious_barriers_for_people_with_disabilities(
    browser: Any, pages: dict[str, Path], dark: bool, width: int
) -> None:
    axe = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    for name in ("one", "countries", "stories"):
        page = open_page(browser, pages[name], width=width, dark=dark, bypass_csp=True)
        page.add_script_tag(content=axe)
        entries = [
            violation
            for violation in page.evaluate("axe.run()")["violations"]
            if violation["impact"] in ("serious", "critical")
        ]
        assert not entries, [
            (
                name,
                violation["id"],
                violation["nodes"][0]["html"][:200],
                violation["nodes"][0]["failureSummary"],
            )
            for violation in entries
        ]
        page.context.close()
