"""The first screen of a finished run: at most 24 lines of 80 columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from tiltmeter._sanitising import printable, shortened
from tiltmeter.blocks import Block, Callout, Chart, Column, Headline, Intervals, Pairs, Table
from tiltmeter.reports._layout import print_text
from tiltmeter.reports._terminal import print_problems, print_table_block
from tiltmeter.reports._words import counted_marks, table_of

MOST_MODELS: Final = 5
"""Number of models with a headline."""
MOST_DETAILED: Final = 3
"""Number of models up to which the first headline, that of the worst model, has its detail."""
MOST_ROWS: Final = 5
"""Number of rows of the table."""
MOST_PAIRS: Final = 10
"""Number of rows of a table of pairs of shares."""
LAST_ROWS: Final = 2
"""How many of them are the last ones of a ranking."""
MOST_PROBLEMS: Final = 3
"""Number of sentences about what is missing."""
MOST_OF_PROBLEM: Final = 600
"""Number of characters of each of them."""


def print_screen(
    blocks: Sequence[Block],
    problems: Sequence[str],
    places: Sequence[tuple[str, str]],
    chosen: Sequence[Block] = (),
) -> None:
    """Print what is missing, the headlines, the first table, and where everything else is.

    Parameters
    ----------
    blocks
        The blocks of the report.
    problems
        What is missing, as sentences.
    places
        Names and values of the last lines, such as ("report", "runs/x/report.html").
    chosen
        The table that is printed instead of the first one, and what is said about it.
    """
    print_problems([shortened(problem, MOST_OF_PROBLEM) for problem in problems[:MOST_PROBLEMS]])
    if len(problems) > MOST_PROBLEMS:
        print_problems(
            [f"{len(problems) - MOST_PROBLEMS} more parts or responses are missing; see the report"]
        )
    for block in blocks:
        if isinstance(block, Headline):
            break
        if isinstance(block, Callout):
            print_text(f"note: {block.text}", always=True)
    headlines = [block for block in blocks if isinstance(block, Headline)]
    for place, headline in enumerate(headlines[:MOST_MODELS]):
        is_worst_of_few = place == 0 and len(headlines) <= MOST_DETAILED
        _print_headline(headline, is_detailed=is_worst_of_few, is_only=len(headlines) == 1)
    if len(headlines) > MOST_MODELS:
        print_text(f"{len(headlines) - MOST_MODELS} more models: see the report.", always=True)
    print_text("", always=True)
    for block in chosen or blocks:
        if isinstance(block, Table | Chart) and _height(block):
            _print_first_rows(block)
            break
    for block in chosen:
        if isinstance(block, Callout):
            print_text(f"note: {block.text}", always=True)
    width = max(len(name) for name, _ in places)
    for name, location in places:
        print(f"{name:<{width}}  {printable(location, one_line=True)}")


def _print_headline(headline: Headline, *, is_detailed: bool, is_only: bool) -> None:
    """Print a headline with its detail; that of an only model also with its marks and parsed responses."""
    print_text(f"{headline.text}.", style="bold", always=True)
    sentences = []
    if is_detailed:
        sentences.append(headline.detail)
    if is_only:
        sentences += [counted_marks(headline.marks), headline.parsed]
    if any(sentences):
        print_text(" ".join(filter(None, sentences)), always=True)


def _height(block: Table | Chart) -> int:
    """Return the number of rows of a table or chart."""
    columns = table_of(block).columns
    return len(columns[0].values) if columns else 0


def _print_first_rows(block: Table | Chart) -> None:
    """Print at most MOST_ROWS rows of a table or chart, or MOST_PAIRS pairs.

    Of a ranking of groups, the highest and the lowest are printed.
    """
    table, height = table_of(block), _height(block)
    panels = {row.panel for row in block.rows} if isinstance(block, Intervals) else set()
    is_ranking = len(panels) == 1
    most_rows = MOST_PAIRS if isinstance(block, Pairs) else MOST_ROWS
    places = list(range(height))
    note = ""
    if height > most_rows and is_ranking:
        places = [*places[: MOST_ROWS - LAST_ROWS], *places[height - LAST_ROWS :]]
        between = f"the first {MOST_ROWS - LAST_ROWS} and the last {LAST_ROWS}"
        note = f"{height - MOST_ROWS} more lie between {between}."
    elif height > most_rows:
        places = places[:most_rows]
        note = f"These are the first {most_rows} of {height} rows."
    columns = [_rows_of(column, places) for column in table.columns]
    print_table_block(dataclasses.replace(table, columns=columns, note=note), has_constants=False)


def _rows_of(column: Column, places: Sequence[int]) -> Column:
    """Return some rows of a column."""
    values = [column.values[place] for place in places]
    links = [column.links[place] for place in places] if column.links else ()
    return dataclasses.replace(column, values=values, links=links)
