"""The table of the categories, and the rows of their files as questions with classified options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import polars as pl
from polars import DataFrame, Expr, Int32, String, col, lit, when

from tiltmeter._files.yaml import packaged_yaml
from tiltmeter.errors import InputError

AMBIGUOUS: Final = "ambiguous"
"""The condition of texts that do not give the answer."""
DISAMBIGUATED: Final = "disambiguated"
"""The condition of texts that give the answer."""
CONDITIONS: Final = {"ambig": AMBIGUOUS, "disambig": DISAMBIGUATED}
"""Conditions by their names in the files."""
POLARITIES: Final = {"neg": "negative", "nonneg": "non-negative"}
"""Kinds of questions by their names in the files: about the act of the stereotype, or about its opposite."""
WITH: Final = "with"
"""The answer that the text gives is in line with the stereotype."""
AGAINST: Final = "against"
"""The answer that the text gives contradicts the stereotype."""
UNMATCHED: Final = "unmatched"
"""Neither person, or both, belong to the stereotyped group according to the file."""
UNKNOWN: Final = "unknown"
"""What the file says about the option that the text does not tell."""
ROWS_OF_ITEM: Final = 4
"""Rows of an item: the same two people, in both conditions, asked for the one and for the other."""
OPTIONS: Final = range(3)


@dataclass(frozen=True, slots=True)
class Category:
    """A row of the table of categories, whose first lines explain the columns."""

    name: str
    file: str
    prompts: int
    title: str
    attribute: str
    drop: str | None = None
    same: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)

    @property
    def data(self) -> str:
        """Name of the file in the catalogue of data."""
        return f"bbq/{self.file}.jsonl"

    def compared(self, words: Expr) -> Expr:
        """Return words in the form in which they are compared."""
        return words.str.to_lowercase().str.replace_all(" ", "", literal=True).replace(dict(self.same))

    def compared_option(self, words: Expr) -> Expr:
        """Return the entries about an option in the form in which they are compared."""
        lowered = words.str.to_lowercase()
        return self.compared(lowered.str.replace(self.drop, "") if self.drop else lowered)


def categories() -> dict[str, Category]:
    """Return the categories by the name of their part."""
    table = packaged_yaml(Path(__file__).with_name("categories.yaml"))
    return {name: Category(name=name, **row) for name, row in table.items()}


def questions(rows: DataFrame, category: Category) -> DataFrame:
    """Return the rows of a file with the classes of their options.

    Parameters
    ----------
    rows
        The rows of the published file.
    category
        Its category.

    Returns
    -------
    DataFrame
        The columns of the file and, for each row, `item` and `prompt_index`; `condition` and `polarity`;
        `unknown`, `in_line` and `stereotyped`, the numbers of the options that the text does not tell, that
        is in line with the stereotype, and that stands for the stereotyped group; `group`, the stereotyped
        group in the form in which it is compared; and `direction`: WITH, AGAINST or UNMATCHED. Numbers and
        group are null where UNMATCHED.

    Raises
    ------
    InputError
        A row has no option "unknown".
    """
    entries = [col.answer_info.struct.field(f"ans{place}") for place in OPTIONS]
    groups = category.compared(pl.element())
    words = category.compared_option(pl.element())
    stereotyped_groups = col.additional_metadata.struct.field("stereotyped_groups").list.eval(groups)
    rows = rows.with_row_index("row").with_columns(
        *(entry.list.eval(words).alias(f"words{place}") for place, entry in enumerate(entries)),
        groups=stereotyped_groups,
    )
    is_unknown = [col(f"words{place}").list.contains(UNKNOWN) for place in OPTIONS]
    shared = [col(f"words{place}").list.set_intersection("groups") for place in OPTIONS]
    is_stereotyped = [~is_unknown[place] & (shared[place].list.len() > 0) for place in OPTIONS]
    is_other = [~is_unknown[place] & ~is_stereotyped[place] for place in OPTIONS]
    is_pair = (pl.sum_horizontal(is_stereotyped) == 1) & (pl.sum_horizontal(is_other) == 1)
    group = pl.coalesce(
        when(is_stereotyped[place]).then(shared[place].list.sort().list.first()) for place in OPTIONS
    )
    rows = rows.with_columns(
        item=(col.row // ROWS_OF_ITEM).cast(Int32),
        prompt_index=(col.row % ROWS_OF_ITEM).cast(Int32),
        condition=col.context_condition.replace_strict(CONDITIONS, return_dtype=String),
        polarity=col.question_polarity.replace_strict(POLARITIES, return_dtype=String),
        unknown=_first(is_unknown),
        stereotyped=when(is_pair).then(_first(is_stereotyped)),
        other=when(is_pair).then(_first(is_other)),
        group=when(is_pair).then(group),
    )
    if rows["unknown"].null_count():
        row = rows.filter(col.unknown.is_null())["row"][0]
        raise InputError(f"{category.data}: row {row + 1} has no option that stands for “unknown”")
    asks_about_stereotype = col.polarity == POLARITIES["neg"]
    rows = rows.with_columns(in_line=when(asks_about_stereotype).then("stereotyped").otherwise("other"))
    agrees = when(col.condition == DISAMBIGUATED).then(col.label == col.in_line)
    # All texts of an item are about the same event: its direction is that of the text with an answer.
    of_item = agrees.drop_nulls().first().over("item")
    direction = when(of_item).then(lit(WITH)).when(~of_item).then(lit(AGAINST)).otherwise(lit(UNMATCHED))
    rows = rows.with_columns(direction=when(col.in_line.is_null()).then(lit(UNMATCHED)).otherwise(direction))
    return rows.drop("groups", "other", *(f"words{place}" for place in OPTIONS))


def _first(conditions: list[Expr]) -> Expr:
    """Return the number of the first condition that holds; null if none does."""
    return pl.coalesce(when(condition).then(lit(place)) for place, condition in enumerate(conditions))
