"""Which columns of a table may hold texts, and which the groups that they are about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import polars as pl
from polars import DataFrame, String

from tiltmeter.errors import InputError
from tiltmeter.importing._batch_outputs import is_batch_output
from tiltmeter.importing._dispatch import is_table
from tiltmeter.importing._doubtful_rows import print_notes
from tiltmeter.importing._evaluation_logs import is_inspect_log, is_probe_log
from tiltmeter.importing._released_answers import is_released
from tiltmeter.importing._response_tables import Source, TextColumns, read_rows

FEWEST_WORDS: Final = 5
"""Smallest median number of words of a column of texts."""
MOST_GROUPS: Final = 20
"""Largest number of groups in a column with another name than NAMES_OF_GROUPS."""
NAMES_OF_GROUPS: Final = ("group", "groups", "identity")
"""Names of columns that may hold any number of groups."""
LONGEST_GROUP: Final = 40
"""Largest number of characters of the name of a group."""
FEWEST_OF_GROUP: Final = 5
"""Smallest number of texts of a group, on average."""
SOURCE_OF_TEXTS: Final = re.compile("author|writer|name|story|scenario|prompt|pair|user|source|item")
"""Parts of names of columns that say where texts are from, also if the column has few values."""
FEWEST_REPEATED: Final = 0.5
"""A column names what texts have in common if at least this share of them share its value with another."""


class PossibleColumns(NamedTuple):
    """The columns of a table that may have each role."""

    texts: Sequence[str]
    groups: Sequence[str]
    common: Sequence[str]
    """Columns with values that several texts share, such as an author or the number of a story."""
    categories: Sequence[str]
    """Columns with a few values within which groups can be compared, such as the gender of the person."""

    @property
    def are_unique(self) -> bool:
        """Whether there is one column of texts, and one of groups."""
        return len(self.texts) == len(self.groups) == 1


def possible_columns(path: Source, named: TextColumns) -> PossibleColumns | None:
    """Return the possible roles of the columns of a table; None if it has prompts, or no column of texts.

    Parameters
    ----------
    named
        The columns that the user named: they have no other role.

    Raises
    ------
    InputError
        The table cannot be read, or has no rows.
    """
    table = read_rows(path)
    if not {"prompt", "prompt_id"}.isdisjoint(table.columns):
        return None
    written = table.select(pl.all().exclude(pl.List, pl.Array).cast(String).str.strip_chars())
    used = {named.location, named.name, named.cluster, *named.pair}
    free = [name for name in written.columns if name not in used]
    if named.text is None:
        texts = [name for name in free if name not in named.identity and _holds_texts(written, name)]
    else:
        texts = [named.text]
    if not texts:
        return None
    others = [name for name in free if name not in texts]
    groups = list(named.identity) or [name for name in others if _holds_groups(written, name)]
    shared = [name for name in others if name not in groups and _is_common(written, name)]
    categories = [
        name
        for name in shared
        if _holds_groups(written, name)
        and not SOURCE_OF_TEXTS.search(name.lower())
        and _has_several_groups(written, name, groups)
    ]
    common = [name for name in shared if name not in categories]
    return PossibleColumns(texts, groups, common, categories)


def _holds_texts(table: DataFrame, name: str) -> bool:
    """Return whether most values of a column are texts of several words that differ."""
    values = table[name].drop_nulls()
    words = values.str.count_matches(r"\S+").median()
    return isinstance(words, float) and words >= FEWEST_WORDS and values.n_unique() > 1


def _holds_groups(table: DataFrame, name: str) -> bool:
    """Return whether a column has a few short values, each in several rows."""
    values = table[name].drop_nulls()
    number = values.n_unique()
    most = len(values) / FEWEST_OF_GROUP
    if name.strip().lower() not in NAMES_OF_GROUPS:
        most = min(MOST_GROUPS, most)
    return 2 <= number <= most and (values.str.len_chars() <= LONGEST_GROUP).all()


def _is_common(table: DataFrame, name: str) -> bool:
    """Return whether most texts share the value of a column with another text."""
    values = table[name].drop_nulls()
    is_repeated = values.is_duplicated().sum() >= FEWEST_REPEATED * max(len(values), 1)
    return bool(is_repeated) and values.n_unique() > 1


def _has_several_groups(table: DataFrame, name: str, groups: Sequence[str]) -> bool:
    """Return whether most values of a column have texts of two groups, so that they can be compared."""
    if len(groups) != 1:
        return False
    by_value = table.drop_nulls(name).group_by(name).agg(groups=pl.col(groups[0]).n_unique())
    return bool((by_value["groups"] > 1).sum() > FEWEST_REPEATED * by_value.height)


def columns_in(sources: Sequence[Source], named: TextColumns) -> TextColumns:
    """Return the columns with those of the texts and of their groups, if they are not named, and say so.

    They are unchanged if both are named, if there are several sources, and if the table has prompts or no
    texts.

    Parameters
    ----------
    named
        The columns that the user named.

    Raises
    ------
    InputError
        Several columns may be those of the texts or of the groups, or none is that of the groups.
    """
    is_complete = (named.text is not None and bool(named.identity)) or bool(named.feature or named.baseline)
    if is_complete or len(sources) != 1 or not may_hold_own_texts(sources[0]):
        return named
    path = sources[0]
    possible = possible_columns(path, named)
    if possible is None or named.text is not None or named.identity:
        return named
    if possible.are_unique:
        text, group = possible.texts[0], possible.groups[0]
        print_notes(
            f"{path}: the texts are in the column {text!r} and the groups in {group!r};"
            " to choose others: --text COLUMN --group COLUMN"
        )
        return replace(named, text=text, identity=(group,))
    example = possible.groups[0] if possible.groups else "COLUMN"
    command = f"tiltmeter analyse {path} --text {_quoted(possible.texts[0])} --group {_quoted(example)}"
    raise InputError(
        f"{path}: {_choice('the texts', possible.texts)}, and {_choice('their groups', possible.groups)};"
        f" name both, for example: {command}. Decisions: --group COLUMN --outcome COLUMN. Responses to the"
        " prompts of a study: --study STUDY"
    )


def may_hold_own_texts(source: Source) -> bool:
    """Return whether a source is a table, and no responses in the format of another program."""
    if not is_table(source) or is_released(source):
        return False
    return not (is_batch_output(source) or is_probe_log(source) or is_inspect_log(source))


def note_common(path: Source, columns: TextColumns) -> None:
    """Print which columns seem to say that texts belong together, if no column with this role is named."""
    if columns.pair or columns.cluster or len(columns.identity) != 1 or columns.text is None:
        return
    possible = possible_columns(path, columns)
    if possible is None:
        return
    unused = possible.common
    names = [name for name in unused if "name" in name.lower()]
    for name in names[:1]:
        print_notes(
            f"{path}: if {name!r} names the person whom a text is about, add --name {_quoted(name)}: then"
            " only what is said of this person counts"
        )
    for name in [name for name in unused if name not in names][:1]:
        print_notes(
            f"{path}: several texts have the same {name!r}; if they depend on each other, say so: texts of"
            f" one author with --cluster {_quoted(name)}, versions of one story for several groups with"
            f" --pair {_quoted(name)}"
        )
    categories = possible.categories if columns.location is None else ()
    for name in categories[:1]:
        print_notes(
            f"{path}: several texts have the same {name!r}; if the groups differ in it, compare them within"
            f" its values: --by {_quoted(name)}; if the texts with a value depend on each other, as those of"
            f" one author, say so: --cluster {_quoted(name)}"
        )


def _choice(what: str, names: Sequence[str]) -> str:
    if not names:
        return f"no column looks like that of {what}"
    if len(names) == 1:
        return f"{what} are in {names[0]!r}"
    return f"{what} may be in {', '.join(map(repr, names[:-1]))} or {names[-1]!r}"


def _quoted(name: str) -> str:
    """Return the name of a column as a shell needs it."""
    return f'"{name}"' if not name.isidentifier() else name
