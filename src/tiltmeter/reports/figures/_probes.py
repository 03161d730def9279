"""Figures of graded numbers: intervals over tiers, who is favoured, and which models resemble each other (GenderBench, Figures 1 to 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tiltmeter.reports._harms import harm_title, harms_of
from tiltmeter.reports._normalised import normalised_table
from tiltmeter.reports._published import PUBLISHED
from tiltmeter.reports._tiers import scale_of
from tiltmeter.reports._words import MARK_LETTERS, number
from tiltmeter.reports.figures._figure import HEAT, INK, MARKS, SOFT, Figure, Maker, plain
from tiltmeter.reports.figures._labels import short_names

if TYPE_CHECKING:
    import altair as alt

__all__ = ["MAKERS"]

COLUMNS = 3
"""Metrics side by side."""
WIDTH, ROW = 240, 15
"""Of a metric's panel, and of a model's line in it."""
FEWEST = 5
"""Metrics two models must share to be correlated."""
SIGNED = ("masculine_rate", "diff_success_rate", "diff_acceptance_rate")
"""Metrics whose sign says whom they favour: above their middle men, below it women."""
_KINDS = {"measured": (INK, "circle"), "published": (SOFT, "diamond")}


def tiers(findings: pl.DataFrame) -> list[Figure]:
    """Every key metric of every model with its interval over the tiers, a figure for each harm (the paper's Figure 1).

    Parameters
    ----------
    findings
        The columns of `tiltmeter.study.FINDINGS`; those whose definition is PUBLISHED are drawn as background.
    """
    graded = _labelled(_key(findings).filter(pl.col("bands").list.len() > 0))
    return [_tiers_of(harm, graded.filter(pl.col("harm") == harm)) for harm in harms_of(graded)]


def _key(findings: pl.DataFrame) -> pl.DataFrame:
    return findings.filter(pl.col("key") & pl.col("context").is_null() & pl.col("estimate").is_not_null() & pl.col("low").is_not_null())


def _labelled(findings: pl.DataFrame) -> pl.DataFrame:
    """Adds `shown` (the model's name, short; no two alike), `kind` (a name of _KINDS) and `what` (probe and metric)."""
    shown = short_names(findings["model"].unique(maintain_order=True), 32)
    published = pl.col("definition") == PUBLISHED
    return findings.with_columns(
        shown=pl.col("model").replace_strict(shown, return_dtype=pl.String),
        kind=pl.when(published).then(pl.lit("published")).otherwise(pl.lit("measured")),
        what=pl.format("{}: {}", pl.col("study").str.split("/").list.last(), "metric").str.replace_all("_", " ", literal=True),
    )


def _tiers_of(harm: str, graded: pl.DataFrame) -> Figure:
    import altair as alt

    models = graded["shown"].unique(maintain_order=True).to_list()
    whats = graded["what"].unique(maintain_order=True).to_list()
    panels = [_over_tiers(graded.filter(pl.col("what") == what), models, named=i % COLUMNS == 0) for i, what in enumerate(whats)]
    marks = graded["mark"].to_list()
    counts = ", ".join(f"{marks.count(mark)} {mark}" for mark in MARKS if mark in marks)
    words = (
        f"{harm_title(harm)}: {len(whats)} metrics, and in each a line for each of {len(models)} models: a point for the estimate and a "
        f"bar for its interval, over tiers from A (healthy) to D (catastrophic) that are all drawn equally wide. Marks: {counts}."
    )
    chart = alt.concat(*panels, columns=COLUMNS, spacing={"row": 18, "column": 16}, **_key_of(graded))
    return Figure(f"tiers-{harm.replace('_', '-')}", f"{harm_title(harm)}: every key metric over its tiers", words, chart)


def _over_tiers(findings: pl.DataFrame, models: Sequence[str], *, named: bool) -> alt.LayerChart | alt.FacetChart:
    import altair as alt

    scale = scale_of(findings["bands"][0])
    many = len(scale.marks)
    bands = pl.DataFrame(
        {
            "from": range(many),
            "to": range(1, many + 1),
            "middle": [i + 0.5 for i in range(many)],
            "letter": [MARK_LETTERS[mark] for mark in scale.marks],
            "colour": [MARKS[mark] for mark in scale.marks],
        }
    )
    placed = findings.with_columns(
        pl.Series(name, [scale.place(value) for value in findings[name]], dtype=pl.Float64) for name in ("low", "high", "estimate")
    )
    limits = "[" + ",".join(f"'{label}'" for label in scale.labels) + "][datum.value]"
    across = alt.Scale(domain=[0, many], nice=False)
    axis = alt.Axis(
        values=list(range(many + 1)), labelExpr=limits, grid=False, title=None, labelFontSize=8, labelColor=SOFT, labelOverlap=False
    )
    painted, letter = alt.Color("colour:N", scale=None), alt.Chart(bands).mark_text(fontSize=9, color=SOFT, y=-6)
    backs = alt.Chart(bands).mark_rect().encode(x=alt.X("from:Q", scale=across, axis=axis), x2="to:Q", color=painted)
    letters = letter.encode(x=alt.X("middle:Q", scale=across, axis=axis), text="letter:N")
    lines = _lines(placed, models, across, axis, named=named)
    title = alt.TitleParams(plain(findings["what"][0]), fontSize=11, offset=16)
    return alt.layer(backs, letters, *lines).properties(width=WIDTH, height=_height(models), title=title)


def _key_of(findings: pl.DataFrame) -> dict[str, alt.TitleParams]:
    """Says what circles and diamonds are, where there are both."""
    import altair as alt

    if findings["kind"].n_unique() < 2:
        return {}
    return {"title": alt.TitleParams("circles: measured here; grey diamonds: published", fontSize=10, fontWeight="normal", color=SOFT)}


def _height(models: Sequence[str]) -> int:
    return max(ROW * len(models), 2 * ROW)


def _lines(findings: pl.DataFrame, models: Sequence[str], across: alt.Scale, axis: alt.Axis, *, named: bool) -> list[alt.Chart]:
    """A bar and a point for each model; what was published in another colour and shape."""
    import altair as alt

    data = findings.select("shown", "kind", "low", "high", "estimate")
    colours, shapes = ([drawn[i] for drawn in _KINDS.values()] for i in (0, 1))
    down = alt.Y(
        "shown:N",
        sort=None,
        scale=alt.Scale(domain=list(models)),
        title=None,
        axis=alt.Axis(ticks=False, domain=False, labels=named, labelPadding=8),
    )
    colour = alt.Color("kind:N", scale=alt.Scale(domain=list(_KINDS), range=colours), legend=None)
    shape = alt.Shape("kind:N", scale=alt.Scale(domain=list(_KINDS), range=shapes), legend=None)
    bars = alt.Chart(data).mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", scale=across, axis=axis), x2="high:Q", y=down, color=colour)
    points = alt.Chart(data).mark_point(size=36).encode(x=alt.X("estimate:Q", scale=across, axis=axis), y=down, color=colour, shape=shape)
    return [bars, points]


def favoured(findings: pl.DataFrame) -> list[Figure]:
    """Who is favoured, from women to men, by each metric whose sign says so (the paper's Figure 3).

    All stand on one scale, the share of men minus that of women: a difference as it is, a share of men s as 2 s - 1.
    """
    import altair as alt

    middle, half = pl.col("null"), (pl.col("range_high") - pl.col("range_low")) / 2
    chosen = _labelled(_key(findings).filter(pl.col("metric").is_in(SIGNED) & middle.is_not_null()))
    if chosen.is_empty():
        return []
    data = chosen.with_columns(((pl.col(name) - middle) / half).alias(name) for name in ("estimate", "low", "high"))
    reach = max(0.1, float(np.abs(data.select("low", "high").to_numpy()).max()))
    across = alt.Scale(domain=[-reach, reach], nice=True)
    axis = alt.Axis(title="← women  ·  men →", format="+.1f", tickCount=5)
    models, whats = (data[name].unique(maintain_order=True).to_list() for name in ("shown", "what"))
    middle_line = alt.Chart(pl.DataFrame({"zero": [0.0]})).mark_rule(strokeDash=[4, 3], color=SOFT)
    zero = middle_line.encode(x=alt.X("zero:Q", scale=across, axis=axis))
    panels = []
    for i, what in enumerate(whats):
        mine = _lines(data.filter(pl.col("what") == what), models, across, axis, named=i % COLUMNS == 0)
        title = alt.TitleParams(plain(what), fontSize=11)
        panels.append(alt.layer(zero, *mine).properties(width=WIDTH, height=_height(models), title=title))
    sides = {"women": data.filter(pl.col("high") < 0).height, "men": data.filter(pl.col("low") > 0).height}
    words = (
        f"{len(whats)} metrics of {len(models)} models, from women on the left to men on the right. Of {data.height} intervals, "
        f"{sides['women']} lie wholly on the side of women, {sides['men']} wholly on that of men, the others hold 0, which favours neither."
    )
    chart = alt.concat(*panels, columns=COLUMNS, spacing={"row": 18, "column": 16}, **_key_of(chosen))
    return [Figure("favoured", "Who is favoured, or shown more often", words, chart)]


def correlations(findings: pl.DataFrame) -> list[Figure]:
    """How alike models are: Pearson correlation of their normalised key metrics, two by two (the paper's Figure 2)."""
    import altair as alt

    table = normalised_table(findings).filter(pl.col("study").is_not_null())
    labelled = _labelled(findings.filter(pl.col("model").is_in(table.columns)))
    shown = dict(labelled.select("model", "shown").unique(maintain_order=True).iter_rows())
    models = [name for name in table.columns if name in shown]
    values = table.select(models).to_numpy().astype(float)
    cells = [
        {"one": shown[a], "other": shown[b], "r": r, "words": number(r, 2)}
        for i, a in enumerate(models)
        for j, b in enumerate(models)
        if j < i and (r := _pearson(values[:, i], values[:, j])) is not None
    ]
    if not cells:
        return []
    names = [shown[name] for name in models]
    across = alt.X(
        "other:N", sort=None, scale=alt.Scale(domain=names[:-1]), title=None, axis=alt.Axis(labelAngle=-45, ticks=False, domain=False)
    )
    down = alt.Y("one:N", sort=None, scale=alt.Scale(domain=names[1:]), title=None, axis=alt.Axis(ticks=False, domain=False))
    shade = alt.Color("r:Q", scale=alt.Scale(type="quantize", domain=[0, 1], range=list(HEAT)), legend=None)
    base = alt.Chart(pl.DataFrame(cells)).encode(x=across, y=down)
    chart = alt.layer(base.mark_rect().encode(color=shade), base.mark_text(fontSize=10).encode(text="words:N"))
    side = {"width": 40 * (len(models) - 1), "height": 24 * (len(models) - 1)}
    found = sorted(cells, key=lambda cell: cell["r"])
    words = (
        f"Pearson correlation over the normalised key metrics of {len(models)} models, two by two; from {found[0]['words']} "
        f"({found[0]['one']} and {found[0]['other']}) to {found[-1]['words']} ({found[-1]['one']} and {found[-1]['other']})."
    )
    return [Figure("correlations", "How alike the models are", words, chart.properties(**side))]


def _pearson(one: np.ndarray, other: np.ndarray) -> float | None:
    both = ~(np.isnan(one) | np.isnan(other))
    if both.sum() < FEWEST or np.ptp(one[both]) == 0 or np.ptp(other[both]) == 0:
        return None
    return float(np.corrcoef(one[both], other[both])[0, 1])


MAKERS: Mapping[str, Maker] = {"tiers": tiers, "favoured": favoured, "correlations": correlations}
"""Figures by name, in the order of a page."""
