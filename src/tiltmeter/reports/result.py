"""What every result has: a table, a chart, a view in a notebook, and help."""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from polars import DataFrame

from tiltmeter.blocks import Block, Chart
from tiltmeter.errors import InputError
from tiltmeter.registry import check_known
from tiltmeter.reports.charts import charts_in, drawn
from tiltmeter.reports.page import Report, as_html

if TYPE_CHECKING:
    import altair as alt


class Result(ABC):
    """A result that can be looked at: as a table (`frame`), as a chart (`plot`), in a notebook, with `help` for what else it has."""

    @abstractmethod
    def frame(self) -> DataFrame:
        """Return the result as one table."""

    @abstractmethod
    def blocks(self) -> list[Block]:
        """Return what a report shows of the result (see `tiltmeter.blocks`)."""

    def charts(self) -> Sequence[Chart]:
        """Return the charts of the result, the most important first."""
        return list(charts_in(self.blocks()))

    def plot(self, title: str | None = None) -> alt.TopLevelMixin:
        """Draw one chart.

        Parameters
        ----------
        title
            The title of the chart; by default the first one is drawn.

        Returns
        -------
        altair.TopLevelMixin
            An Altair chart: notebooks show it, `save("chart.png")` writes it.

        Raises
        ------
        InputError
            The result has no chart, or none with this title.
        """
        charts = {chart.title: chart for chart in self.charts()}
        if not charts:
            raise InputError(f"{self!r} has no chart; frame() gives its table")
        if title is not None:
            check_known(title, charts, f"there is no chart {title!r}")
        return drawn(next(iter(charts.values())) if title is None else charts[title])

    def help(self) -> None:
        """Print what the result has: each attribute and method with one line."""
        print(f"{type(self).__name__}: {_summary(type(self))}\n")
        members = [(name, value) for name, value in inspect.getmembers(type(self)) if not name.startswith("_")]
        fields = [name for name in getattr(self, "__dataclass_fields__", {}) if not name.startswith("_")]
        described = dict(re.findall(r"^(\w+)\n    (.+)$", inspect.getdoc(type(self)) or "", re.MULTILINE))
        shown = {
            **{name: described.get(name, "") for name in fields},
            **{name: _summary(value) for name, value in members if name not in fields},
        }
        shown = {name + "()" * callable(getattr(type(self), name, None)): line for name, line in shown.items()}
        width = max(map(len, shown))
        for name, line in shown.items():
            print(f"  {name:<{width}}  {line}".rstrip())

    def _report(self) -> Report:
        return Report([], self.blocks())

    def _repr_html_(self) -> str:
        return as_html(self._report())


def _summary(documented: object) -> str:
    return (inspect.getdoc(documented) or "").partition("\n")[0]
