"""Figures of benchmarks: what was measured, each group's mean, and disparity over the groups, by model and role (SAGED's dashboards)."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from tiltmeter.reports._groups import FOUR_FIFTHS, PLAIN, TOOL, features_of, of_groups
from tiltmeter.reports._words import number
from tiltmeter.reports.figures._figure import ACCENT, HEAT, INK, PAPER, SOFT, Figure, Maker, plain
from tiltmeter.reports.figures._labels import file_name, letters, short_names

if TYPE_CHECKING:
    import altair as alt

__all__ = ["MAKERS"]

ROW = 13
"""Height of a model's line."""
WIDTH = 210
CELL = (52, 17)
"""Width and height of a heat map's cell."""
MOST = 24
"""Columns of a heat map at most; where there would be more, each model is shown without a role only."""
ANSWERS = "answers"
"""What the only generation is called."""


class Panel(NamedTuple):
    """One small chart of `_lines`."""

    metric: str
    title: str
    rule: float | None = None
    """Where a dashed line stands."""


def measured(findings: pl.DataFrame) -> list[Figure]:
    """For each study the mean of each feature by role and model with its interval (SAGED's Figure 7).

    Parameters
    ----------
    findings
        The columns of `tiltmeter.study.FINDINGS`.
    """
    figures = []
    for name, mine in _studies(findings):
        panels = [Panel(f"mean_{one}", one.replace("_", " ")) for one in features_of(mine)]
        words = f"Mean of {len(panels)} features over all prompts, with its interval, for each role"
        figures += _lined(("measured", name), f"Features measured: {name}", words, mine, panels)
    return figures


def disparity(findings: pl.DataFrame) -> list[Figure]:
    """For each study and feature the range of means, calibrated too, and the impact ratio against 0.8, by role and model (Figure 9)."""
    figures = []
    for name, mine in _studies(findings):
        for one in features_of(mine):
            shown = one.replace("_", " ")
            panels = [
                Panel(f"range_mean_{one}", "Range of means"),
                Panel(f"range_mean_{one}_calibrated", "Range of means, calibrated"),
                Panel(f"ratio_selection_rate_{one}", "Impact ratio", FOUR_FIFTHS),
                Panel(f"ratio_selection_rate_{one}_calibrated", "Impact ratio, calibrated", FOUR_FIFTHS),
            ]
            words = f"Disparity of {shown} over the groups for each role: range of means, and impact ratio beside a dashed line at 0.8"
            figures += _lined(("disparity", name, one), f"Disparity of {shown}: {name}", words, mine, panels)
    return figures


def _studies(findings: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    """Name, findings with `role`, of each study that compares groups."""
    chosen = findings.filter(of_groups(findings)).with_columns(role=pl.col("context").fill_null(ANSWERS))
    return [(str(study[0]).rpartition("/")[2], mine) for study, mine in chosen.group_by("study", maintain_order=True)]


def _lined(name: tuple[str, ...], title: str, words: str, findings: pl.DataFrame, panels: Sequence[Panel]) -> list[Figure]:
    """A point, or a model's letter, and a bar for each role and model in each panel."""
    import altair as alt

    rows = findings.filter(
        pl.col("subject").is_null() & pl.col("estimate").is_not_null() & pl.col("metric").is_in([one.metric for one in panels])
    )
    drawn = [one for one in panels if one.metric in rows["metric"]]
    if not drawn:
        return []
    models, roles = short_names(rows["model"]), short_names(rows["role"], 24)
    marks = letters(models)
    data = rows.select(
        "metric",
        "low",
        "high",
        "estimate",
        role=pl.col("role").replace_strict(roles, return_dtype=pl.String),
        letter=pl.col("model").replace_strict(marks, return_dtype=pl.String),
    )
    of = (list(roles.values()), list(marks.values()))
    charts = [_lines(data.filter(pl.col("metric") == one.metric), one, of, named=i % 2 == 0) for i, one in enumerate(drawn)]
    key = ", ".join(f"{marks[model]} {shown}" for model, shown in models.items())
    unbroken = ", ".join(f"{marks[model]} {shown}".replace(" ", "\N{NO-BREAK SPACE}") for model, shown in models.items())
    lines = textwrap.wrap(unbroken, 80, break_on_hyphens=False)
    chart = alt.concat(*charts, columns=2, spacing={"row": 18, "column": 16}).properties(title=alt.TitleParams(lines, fontWeight="normal"))
    spoken = f"{words}, of {'the models ' if len(models) > 1 else ''}{key}. {_extremes(rows, drawn[0], models)}"
    return [Figure(file_name(*name), plain(title, 120), spoken, chart)]


def _extremes(rows: pl.DataFrame, panel: Panel, models: Mapping[str, str]) -> str:
    mine = rows.filter(pl.col("metric") == panel.metric)
    least, most = (mine.row(int(i or 0), named=True) for i in (mine["estimate"].arg_min(), mine["estimate"].arg_max()))
    told = [f"{number(row['estimate'])} ({models[row['model']]}, {plain(row['role'])})" for row in (least, most)]
    return f"{panel.title}: from {told[0]} to {told[1]}."


def _lines(data: pl.DataFrame, panel: Panel, of: tuple[Sequence[str], Sequence[str]], *, named: bool) -> alt.LayerChart | alt.FacetChart:
    import altair as alt

    roles, marks = of
    down = alt.Y(
        "role:N", sort=None, scale=alt.Scale(domain=list(roles)), title=None, axis=alt.Axis(ticks=False, domain=False, labels=named)
    )
    inside = alt.YOffset("letter:N", sort=None, scale=alt.Scale(domain=list(marks)))
    axis = alt.Axis(title=None, tickCount=5)
    base = alt.Chart(data.drop("metric")).encode(y=down, yOffset=inside)
    across = alt.Scale(zero=False, padding=8)
    bars = (
        base.transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=1.5, color=SOFT)
        .encode(x=alt.X("low:Q", axis=axis, scale=across), x2="high:Q")
    )
    point = alt.X("estimate:Q", axis=axis, scale=across)
    if len(marks) > 1:
        behind = base.mark_point(size=110, color=PAPER).encode(x=point)
        points = [behind, base.mark_text(fontSize=11, fontWeight="bold", color=INK, dy=1).encode(x=point, text="letter:N")]
    else:
        points = [base.mark_point(size=40, color=INK).encode(x=point)]
    layers: list[alt.Chart] = [bars, *points]
    if panel.rule is not None:
        line = alt.Chart(pl.DataFrame({"rule": [panel.rule]})).mark_rule(strokeDash=[4, 3], color=ACCENT)
        layers.insert(0, line.encode(x=alt.X("rule:Q", axis=axis, scale=across)))
    height = len(roles) * max(ROW * len(marks), 20)
    chart = alt.layer(*layers)
    return chart.properties(width=WIDTH, height=height, title=alt.TitleParams(panel.title, fontSize=11))


def groups(findings: pl.DataFrame) -> list[Figure]:
    """For each study and feature a heat map of the groups' means, a column for each model and role (SAGED's Figure 8)."""
    figures = []
    for name, mine in _studies(findings):
        for one in features_of(mine):
            for metric, told in ((f"mean_{one}", ""), (f"mean_{one}_calibrated", ", calibrated")):
                rows = mine.filter((pl.col("metric") == metric) & pl.col("subject").is_not_null() & pl.col("estimate").is_not_null())
                if rows.height:
                    title = f"Mean {one.replace('_', ' ')} of the answers about each group{told}: {name}"
                    figures.append(_heat(file_name("groups", name, one + told), title, rows))
    return figures


def _heat(name: str, title: str, rows: pl.DataFrame) -> Figure:
    import altair as alt

    if rows.select("model", "role").n_unique() > MOST:
        plainest = PLAIN if PLAIN in rows["role"] else rows["role"][0]
        rows = rows.filter(pl.col("role") == plainest)
    # The baselines are the same whatever the model.
    rows = rows.filter((pl.col("role") != TOOL) | (pl.col("model") == pl.col("model").first()))
    named = pl.lit(rows["model"].n_unique() > 1) & (pl.col("role") != TOOL)
    rows = rows.with_columns(full=pl.when(named).then(pl.concat_str("model", "role", separator=" · ")).otherwise("role"))
    columns, people = short_names(rows["full"], 40), short_names(rows["subject"].unique().sort(), 30)
    cells = rows.select(
        pl.col("full").replace_strict(columns, return_dtype=pl.String).alias("column"),
        pl.col("subject").replace_strict(people, return_dtype=pl.String).alias("group"),
        value="estimate",
        words=pl.col("estimate").map_elements(lambda value: number(value, 2), return_dtype=pl.String),
    )
    low, high = rows.select(low=pl.col("estimate").min(), high=pl.col("estimate").max()).row(0)
    turned = alt.Axis(orient="top", labelAngle=-40, labelAlign="left", ticks=False, domain=False)
    across = alt.X("column:N", sort=None, scale=alt.Scale(domain=list(columns.values())), title=None, axis=turned)
    down = alt.Y("group:N", scale=alt.Scale(domain=list(people.values())), title=None, axis=alt.Axis(ticks=False, domain=False))
    shade = alt.Color("value:Q", scale=alt.Scale(type="quantize", domain=[low, high], range=list(HEAT)), legend=None)
    base = alt.Chart(cells).encode(x=across, y=down)
    chart = alt.layer(base.mark_rect().encode(color=shade), base.mark_text(fontSize=10).encode(text="words:N"))
    size = {"width": CELL[0] * len(columns), "height": CELL[1] * len(people)}
    ends = [cells.sort("value", maintain_order=True).row(i, named=True) for i in (0, -1)]
    found = " to ".join(f"{one['words']} ({one['group']}, {one['column']})" for one in ends)
    words = f"{title}. {len(people)} groups in rows, {len(columns)} columns; from {found}; the stronger the colour, the higher."
    return Figure(name, plain(title, 120), words, chart.properties(**size))


MAKERS: Mapping[str, Maker] = {"measured": measured, "disparity": disparity, "groups": groups}
"""Figures by name, in the order of a page."""
