"""Figures of graded numbers: what they draw, how they follow the page's colours, and how they become files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltmeter.errors import InputError
from tiltmeter.probes import one_sided, two_sided
from tiltmeter.reports import write_figures
from tiltmeter.reports._tiers import scale_of
from tiltmeter.reports.figures import Figure, make_figures, page_figures, paint_rules, svg
from tiltmeter.study import FINDINGS

EVIL = '</svg><script>alert(1)</script>" onload="x'
TWINS = ("vendor/" + "long-name-" * 9 + "one", "vendor/" + "long-name-" * 9 + "two")


def finding(model: str, metric: str, estimate: float, **more: Any) -> dict[str, Any]:
    share = metric == "masculine_rate"
    bands = two_sided(0.05, 0.1, 0.3, low=0, high=1, centre=0.5) if share else one_sided(0.05, 0.15, 0.5, low=-1)
    values = {
        "study": "genderbench/jobs_lum",
        "model": model,
        "metric": metric,
        "estimate": estimate,
        "low": estimate - 0.02,
        "high": estimate + 0.02,
        "mark": "critical",
        "harm": "representational_harms" if share else "stereotypical_reasoning",
        "key": True,
        "null": 0.5 if share else 0.0,
        "range_low": 0.0 if share else -1.0,
        "range_high": 1.0,
        "bands": [band._asdict() for band in bands],
        "normalised": abs(estimate - 0.5) if share else estimate,
        "definition": "default",
    }
    return values | more


def table(*rows: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=dict(FINDINGS))


def drawn(figure: Figure) -> list[dict[str, Any]]:
    """Every row of data in a chart; also checks the chart against the schema of Vega-Lite."""
    return [row for rows in figure.chart.to_dict()["datasets"].values() for row in rows]


@pytest.fixture
def findings() -> pl.DataFrame:
    models = (EVIL, *TWINS)
    return table(
        *(finding(model, "masculine_rate", 0.5 + 0.1 * i) for i, model in enumerate(models, -1)),
        *(finding(model, "stereotype_rate", 0.2 * i) for i, model in enumerate(models)),
        *(finding(model, f"rate_{j}", 0.1 * ((i * j) % 4)) for i, model in enumerate(models) for j in range(5)),
    )


def test_tiers_place_each_interval() -> None:
    figure = next(one for one in make_figures(table(finding("a", "stereotype_rate", 0.1))) if one.name == "tiers-stereotypical-reasoning")
    (place,) = (row for row in drawn(figure) if "estimate" in row)
    assert place["estimate"] == pytest.approx(1.5), "half way through the second of four tiers"
    assert "1 critical" in figure.words


@given(st.floats(-1.5, 1.5), st.floats(-1.5, 1.5), st.sampled_from([one_sided(0.05, 0.15, 0.5, low=-1), two_sided(0.03, 0.1, 0.3)]))
def test_a_value_stands_in_its_tier(one: float, other: float, bands: tuple[Any, ...]) -> None:
    scale = scale_of([band._asdict() for band in bands])
    low, high = sorted((one, other))
    assert scale.place(low) <= scale.place(high)
    inside = float(np.clip(one, -1, 1))
    assert scale.marks[min(int(scale.place(inside)), len(scale.marks) - 1)] in {
        b.mark for b in bands if b.low - 1e-9 <= inside <= b.high + 1e-9
    }


def test_favoured_is_the_share_of_men_less_that_of_women() -> None:
    rows = (
        finding("a", "masculine_rate", 0.8),
        finding("a", "diff_success_rate", -0.3, study="genderbench/relationship_levy"),
        finding("a", "stereotype_rate", 0.4, study="genderbench/gest"),
    )
    (figure,) = page_figures(table(*rows))["favoured"]
    places = [row for row in drawn(figure) if "estimate" in row]
    assert [row["estimate"] for row in places] == pytest.approx([0.6, -0.3])
    assert [row["high"] for row in places] == pytest.approx([0.64, -0.28])
    assert "1 lie wholly on the side of women, 1 wholly on that of men" in figure.words


def test_correlations_are_pearsons(findings: pl.DataFrame) -> None:
    (figure,) = page_figures(findings)["correlations"]
    cells = drawn(figure)
    wide = findings.pivot("model", index=["study", "metric"], values="normalised")
    expected = [np.corrcoef(wide[a], wide[b])[0, 1] for a, b in ((TWINS[0], EVIL), (TWINS[1], EVIL), (TWINS[1], TWINS[0]))]
    assert [cell["r"] for cell in cells] == pytest.approx(expected)


def test_no_correlation_of_too_few_metrics(findings: pl.DataFrame) -> None:
    assert page_figures(findings.filter(~pl.col("metric").str.starts_with("rate_")))["correlations"] == []
    assert page_figures(findings.filter(pl.col("model") == EVIL))["correlations"] == []


def test_nothing_to_draw() -> None:
    assert make_figures(table()) == []
    assert page_figures(table(finding("a", "masculine_rate", 0.5) | {"estimate": None, "low": None}))["tiers"] == []


def test_names_that_look_alike_stay_apart(findings: pl.DataFrame) -> None:
    for figure in make_figures(findings):
        shown = {row["shown"] for row in drawn(figure) if "shown" in row}
        assert not shown or len(shown) == 3, figure.name


def test_inline(findings: pl.DataFrame) -> None:
    painted = set(re.findall(r'\[(?:fill|stroke)="([^"]+)"\]', paint_rules()))
    for figure in make_figures(findings):
        root = ET.fromstring(svg(figure))
        assert root.tag == "svg"
        assert root.get("role") == "img"
        assert root.get("aria-label") == figure.words
        used = {element.get(name) for element in root.iter() for name in ("fill", "stroke")} - {None, "none", "transparent"}
        assert used <= painted, f"{figure.name} has colours that do not follow light and dark: {used - painted}"
        tags = {element.tag for element in root.iter()}
        assert tags <= {"svg", "g", "path", "line", "text", "rect", "tspan", "defs", "clipPath"}
        texts = "".join(root.itertext())
        assert "<script>" in texts, "the name stays text"
        assert not [name for element in root.iter() for name in element.attrib if name.startswith("on")]


def test_files(findings: pl.DataFrame, tmp_path: Path) -> None:
    figures = make_figures(findings.filter(pl.col("metric") == "masculine_rate"))
    written = write_figures(figures, tmp_path / "new" / "folder")
    assert sorted(path.name for path in written) == sorted(f"{figure.name}.{kind}" for figure in figures for kind in ("png", "svg", "pdf"))
    begins = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<svg"}
    for path in written:
        assert path.read_bytes().startswith(begins[path.suffix])
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == sorted(path.name for path in written)


def test_a_folder_that_cannot_be(findings: pl.DataFrame, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        write_figures(make_figures(findings)[:1], tmp_path / "file")
