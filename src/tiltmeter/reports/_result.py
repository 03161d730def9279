"""Base class of results, with a table, charts, notebook output and help."""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from polars import DataFrame

from tiltmeter.blocks import Block, Chart
from tiltmeter.errors import InputError, check_known
from tiltmeter.reports._charts import charts_in, drawn
from tiltmeter.reports._notebook import as_notebook
from tiltmeter.reports._page import Report

if TYPE_CHECKING:
    import altair as alt


class Result(ABC):
    """A result that can be shown as a table (`frame`), as a chart (`plot`) or in a notebook.

    `help` lists its other members.
    """

    @abstractmethod
    def frame(self) -> DataFrame:
        """Return the result as one table."""

    @abstractmethod
    def blocks(self) -> list[Block]:
        """Return the blocks that a report shows for the result (see `tiltmeter.blocks`)."""

    def charts(self) -> Sequence[Chart]:
        """Return the charts of the result, most important first."""
        return list(charts_in(self.blocks()))

    def plot(self, title: str | None = None) -> alt.TopLevelMixin:
        """Draw one chart.

        Parameters
        ----------
        title
            Title of the chart; by default, the first chart is drawn.

        Returns
        -------
        altair.TopLevelMixin
            An Altair chart. Notebooks display it, and `save("chart.png")` writes it to a file.

        Raises
        ------
        InputError
            The result has no chart, or none with this title.
        """
        charts = {chart.title: chart for chart in self.charts()}
        if not charts:
            raise InputError(f"{self!r} has no chart; use frame() for its table")
        if title is None:
            return drawn(next(iter(charts.values())))
        check_known(title, charts, f"there is no chart {title!r}")
        return drawn(charts[title])

    def help(self) -> None:
        """Print the attributes and methods of the result, one per line."""
        print(f"{type(self).__name__}: {_summary(type(self))}\n")
        documentation = inspect.getdoc(type(self)) or ""
        described = dict(re.findall(r"^(\w+)\n    (.+)$", documentation, re.MULTILINE))
        fields = [name for name in getattr(self, "__dataclass_fields__", {}) if not name.startswith("_")]
        summaries = {name: described.get(name, "") for name in fields}
        for name, member in inspect.getmembers(type(self)):
            if name not in fields and not name.startswith("_"):
                summaries[f"{name}()" if callable(member) else name] = _summary(member)
        width = max(map(len, summaries))
        for name, summary in summaries.items():
            print(f"  {name:<{width}}  {summary}".rstrip())

    def _report(self) -> Report:
        return Report([], self.blocks())

    def _repr_html_(self) -> str:
        return as_notebook(self._report())


def _summary(documented: object) -> str:
    return (inspect.getdoc(documented) or "").partition("\n")[0]
