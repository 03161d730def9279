"""What a notebook shows of a run: its key numbers as a small table, whatever the method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tiltmeter.reports._words import interval, level_words, mark_words, number, value

if TYPE_CHECKING:
    from tiltmeter.reports._shown import Shown

__all__ = ["as_html"]

MOST = 30
"""Rows shown; a notebook is no place for thousands."""

_TEMPLATE = """
<p><b>{{ title }}</b> · {{ models | join(", ") }}{% if problems %} · <b>incomplete</b>: {{ problems | join("; ") }}{% endif %}</p>
<table><thead><tr>
{% for name in ("model", "part", "metric", "about", "value", level, "q", "mark") %}<th>{{ name }}</th>{% endfor %}
</tr></thead><tbody>
{% for row in rows %}<tr>{% for cell in row %}<td style="text-align:left">{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</tbody></table>
{% if left %}<p>{{ left }} more in <code>run.findings</code>; the page: <code>run.report()</code></p>{% endif %}
"""


def as_html(shown: Shown) -> str:
    """The key findings of a run as an HTML fragment, at most 30 rows; every text from outside is escaped."""
    import polars as pl
    from jinja2 import Environment, StrictUndefined

    from tiltmeter._text import printable

    single = pl.col("concept").is_not_null()
    chosen = shown.findings.filter((pl.col("key") & (pl.col("context").is_null() | pl.col("subject").is_not_null())) | single)
    template = Environment(
        autoescape=True, undefined=StrictUndefined, finalize=lambda cell: printable(cell) if isinstance(cell, str) else cell
    ).from_string(_TEMPLATE)
    about = shown.about
    return template.render(
        title=about["title"],
        models=[model["name"] for model in about["models"]],
        problems=about["problems"],
        level=level_words([about["level"]]),
        rows=[_cells(row) for row in chosen.head(MOST).iter_rows(named=True)],
        left=max(0, chosen.height - MOST),
    )


def _cells(row: dict[str, Any]) -> list[str]:
    named = ", ".join(row[name] for name in ("subject", "concept", "context") if row[name])
    q = "" if row["q"] is None else number(row["q"])
    return [row["model"], row["study"].rpartition("/")[2], row["metric"], named, value(row), interval(row), q, mark_words(row)]
