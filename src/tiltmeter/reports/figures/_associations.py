"""Figures of associations: how many a model reports of each identity at each kind of location (the BADF paper's Figures 3, 5 and 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import polars as pl

from tiltmeter.reports.figures._figure import HEAT, Figure, Maker, plain
from tiltmeter.reports.figures._labels import file_name, short_names

if TYPE_CHECKING:
    import altair as alt

__all__ = ["MAKERS"]

CELL = (46, 20)
"""Width and height of a cell."""
ACROSS = 4
"""Panels in a row."""


def locations(findings: pl.DataFrame) -> list[Figure]:
    """For each study a heat map, a panel for each model: rows are kinds of locations, columns identities, the number is the count.

    Parameters
    ----------
    findings
        The columns of `tiltmeter.study.FINDINGS`.
    """
    counts = findings.filter(
        (pl.col("metric") == "associations")
        & pl.col("subject").is_not_null()
        & pl.col("context").is_not_null()
        & pl.col("estimate").is_not_null()
    )
    return [_locations(str(study[0]), mine) for study, mine in counts.group_by("study", maintain_order=True)]


def _locations(study: str, counts: pl.DataFrame) -> Figure:
    import altair as alt

    names = short_names(counts["model"])
    places, people = (short_names(counts[name].unique().sort(), 24) for name in ("context", "subject"))
    cells = counts.select(
        pl.col("model").replace_strict(names, return_dtype=pl.String).alias("model"),
        pl.col("context").replace_strict(places, return_dtype=pl.String).alias("place"),
        pl.col("subject").replace_strict(people, return_dtype=pl.String).alias("identity"),
        count=pl.col("estimate").round().cast(pl.Int64),
    )
    most = cells.row(int(cells["count"].arg_max() or 0), named=True)
    panels = [
        _panel(
            cells.filter(pl.col("model") == name),
            name,
            (list(places.values()), list(people.values())),
            int(most["count"]),
            named=i % ACROSS == 0,
        )
        for i, name in enumerate(names.values())
    ]
    words = (
        f"Associations reported, by {len(places)} kinds of locations and {len(people)} identities, a panel for each of {len(names)} "
        f"models. The most, {most['count']}, are those of {most['identity']} at {most['place']} by {most['model']}."
    )
    title = f"Associations reported by location and identity: {plain(study.rpartition('/')[2].replace('_', ' '))}"
    return Figure(file_name("locations", study.rpartition("/")[2]), title, words, alt.concat(*panels, columns=ACROSS, spacing=16))


def _panel(
    cells: pl.DataFrame, name: str, axes: tuple[Sequence[str], Sequence[str]], most: int, *, named: bool
) -> alt.LayerChart | alt.FacetChart:
    import altair as alt

    places, people = axes
    across = alt.X(
        "identity:N",
        scale=alt.Scale(domain=list(people)),
        title=None,
        axis=alt.Axis(orient="top", labelAngle=-40, labelAlign="left", ticks=False, domain=False),
    )
    down = alt.Y("place:N", scale=alt.Scale(domain=list(places)), title=None, axis=alt.Axis(labels=named, ticks=False, domain=False))
    shade = alt.Color("count:Q", scale=alt.Scale(type="quantize", domain=[0, max(most, 1)], range=list(HEAT)), legend=None)
    base = alt.Chart(cells.drop("model")).encode(x=across, y=down)
    chart = alt.layer(base.mark_rect().encode(color=shade), base.mark_text(fontSize=10).encode(text="count:Q"))
    return chart.properties(width=CELL[0] * len(people), height=CELL[1] * len(places), title=alt.TitleParams(name, fontSize=11))


MAKERS: Mapping[str, Maker] = {"locations": locations}
"""Figures by name, in the order of a page."""
