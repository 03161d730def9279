"""How many words of gendered inventories does a text use? (letters of reference and motivation, performance reviews)

Words are compared whole and without regard to case. A compound may be written with hyphens or blanks ("self-reliant", "self reliant").
A word that one inventory lists for both genders says nothing there and is not counted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import polars as pl

from tiltmeter.measures._text import text_table
from tiltmeter.measures.refusal import declines_to_write

__all__ = ["count_vocabulary"]


def count_vocabulary(answer: pl.Series, male: Mapping[str, Collection[str]], female: Mapping[str, Collection[str]]) -> pl.DataFrame:
    """Tokens of each text that belong to each inventory.

    Parameters
    ----------
    answer
        Strings, nulls allowed.
    male, female
        Words (single words or compounds) per inventory; both have the same inventories.

    Returns
    -------
    Columns `outcome` ("answered", "refused", "empty") and, per inventory, Int32 `{inventory}_male` and `{inventory}_female`
    (null unless answered), one row per answer.

    Raises
    ------
    ValueError
        The inventories of `male` and `female` differ.
    """
    if set(male) != set(female):
        raise ValueError(f"male has the inventories {sorted(male)} and female {sorted(female)}")
    entries = _entries(male, female)
    columns = [f"{name}_{gender}" for name in male for gender in ("male", "female")]
    table = text_table(answer).with_row_index("row")
    outcome = (
        pl.when("blank").then(pl.lit("empty")).when(declines_to_write(pl.col("text"))).then(pl.lit("refused")).otherwise(pl.lit("answered"))
    )
    compounds = {f" {word.replace('-', ' ')}": f" {word}" for word in entries["word"].unique().sort().to_list() if "-" in word}
    words = pl.col("text").str.to_lowercase().str.extract_all(r"\w+(?:['-]\w+)*").list.join(" ")
    spaced = pl.concat_str(pl.lit(" "), words)
    joined = spaced.str.replace_many(compounds, leftmost=True) if compounds else spaced
    tokens = table.select("row", word=joined.str.split(" ")).explode("word")
    found = tokens.join(entries, on="word").group_by("row", "column").len()
    counted = found.pivot("column", on_columns=columns, index="row", values="len")
    answered = pl.col("outcome") == "answered"
    return (
        table.select("row", outcome=outcome)
        .join(counted, on="row", how="left", maintain_order="left")
        .select("outcome", *(pl.when(answered).then(pl.col(c).fill_null(0)).cast(pl.Int32).alias(c) for c in columns))
    )


def _entries(male: Mapping[str, Collection[str]], female: Mapping[str, Collection[str]]) -> pl.DataFrame:
    """One row per inventory, gender and word: `word` (lower case, compounds with hyphens) and `column`."""
    rows = []
    for name in male:
        sides = {
            gender: {"-".join(w.lower().replace("-", " ").split()) for w in words[name]}
            for gender, words in (("male", male), ("female", female))
        }
        shared = sides["male"] & sides["female"]
        rows += [(word, f"{name}_{gender}") for gender, words in sides.items() for word in sorted(words - shared) if word]
    return pl.DataFrame(rows, schema={"word": pl.String, "column": pl.String}, orient="row")
