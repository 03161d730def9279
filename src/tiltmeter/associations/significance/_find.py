"""Which concepts a model attaches to which identity more than chance would: the published definitions by name, and a better one.

Two ways in. `find_associations` takes lists and mentions. `score_counts` and `compare_counts` take counts alone, a table with these
columns:

    context   location category; null where there is none
    concept
    identity
    count     lists of the identity in the context that hold the concept
    lists     lists of the identity in the context, whatever the concept
    mentions  mentions of any concept in them; may be null (the score of "badf-code" and the log-odds are null then)

It holds one row for *every* identity of a context beside each concept in it, count 0 included; `lists` and `mentions` are the same
for all concepts of a context and identity; an identity that has no list in a context has no row there, or rows with 0 lists. Both
functions give the rows back in their order with columns added. Other columns are kept.

For identity i and concept x in a context: a_i lists with x, of n_i lists with T_i mentions.

    "paper"      score (a_i - least other a_j) / n_i; chi-squared of independence (Yates' correction for two identities);
                 reported where the score is above 0 and p < 0.05, within contexts only
    "badf-code"  the same over T_i: what the released code computes, and every published score
    "default"    the concept is credited to the identity with the highest rate a_i/n_i (a tie: to nobody), by a one-sided test of it
                 against all others together, exact where an expected count is below 5, p times the number of identities compared;
                 only concepts in at least `minimum` lists; within contexts, and over all of them within strata (Mantel-Haenszel);
                 Benjamini-Hochberg over all of these as one family; reported where q < 0.05

Descriptor types (`stratum`, such as "male" and "female" descriptors of all identities) are pooled, as in the original.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltmeter.associations._tables import ASSOCIATIONS
from tiltmeter.associations.significance._backing import BACKING, backing_of, halves_of
from tiltmeter.associations.significance._counts import Cells, Incidence, incidence_of, read_cells
from tiltmeter.associations.significance._described import background_of, described
from tiltmeter.associations.significance._shuffled import permutation_p, shuffled_counts
from tiltmeter.associations.significance._verdicts import (
    DEFAULT,
    DEFINITIONS,
    RAW,
    Block,
    blocks_of,
    check_definition,
    reported_of,
    verdicts_of,
)
from tiltmeter.errors import InputError

__all__ = ["DEFINITIONS", "compare_counts", "find_associations", "permutation_p", "score_counts", "shuffled_counts"]

Index = NDArray[np.intp]


def find_associations(
    lists: pl.DataFrame,
    mentions: pl.DataFrame,
    *,
    definition: str = "default",
    level: float = 0.95,
    seed: int = 123,
    minimum: int = 5,
    q: float = 0.05,
) -> pl.DataFrame:
    """Count, test and describe every concept in every context.

    Parameters
    ----------
    lists
        With the columns of LISTS. Lists with status "missing" do not count. Lists in no context, where others have one, count in
        the tests over all contexts only.
    mentions
        `attempt`, `character` and `concept` (null: of none that is looked at). A list that mentions a concept twice counts once.
    definition
        One of DEFINITIONS; see the top of this module.
    level
        Confidence level of the intervals (Newcombe; over all contexts in the stratified form).
    seed
        Deals repetitions to the two halves.
    minimum
        Lists, over all identities, that a concept must be in to be tested by the default definition.
    q
        False-discovery rate at which the default definition reports.

    Returns
    -------
    pl.DataFrame
        ASSOCIATIONS, in the order context (null, over all contexts, last), concept, identity. By the default definition the p-value
        of a concept stands on the row of the identity with the highest rate (the first of them in a tie), so that each test has one row
        with a p-value, and an identity that never has a concept has a row only where the concept is tested. By the published ones it
        stands on every row. In rows over all contexts `rate` and `others_rate` are plain shares, and the effect is the Mantel-Haenszel
        difference, which equals theirs where the design is balanced. Halves, descriptors and `rests_on` are given for reported rows only.

    Raises
    ------
    InputError
        The definition is unknown, or the lists are of fewer than two identities.
    """
    check_definition(definition)
    incidence = incidence_of(lists, mentions)
    cells = incidence.cells
    blocks = list(blocks_of(cells, definition))
    verdicts = [verdicts_of(block, definition, minimum) for block in blocks]
    adjusted, reported = reported_of(verdicts, definition, q)
    background, halves = background_of(cells), halves_of(incidence, seed)
    parts = []
    for block, verdict, adjustment, found in zip(blocks, verdicts, adjusted, reported, strict=True):
        taking_part = (block.lists > 0).any(axis=2)
        rows = _places(taking_part & (~np.isnan(verdict.p)[:, None] | (block.held > 0).any(axis=2)))
        frame = described(cells, background, block, verdict, adjustment, level, rows).with_columns(reported=pl.Series(found[rows]))
        parts.append(_with_backing(frame, incidence, block, _places(found), definition, halves))
    whole = pl.concat(parts) if parts else pl.DataFrame(schema=dict(ASSOCIATIONS))
    return whole.sort("context", "concept", "identity", nulls_last=True)


def score_counts(counts: pl.DataFrame, definition: str) -> pl.DataFrame:
    """Score and test counts by a published definition: adds `score`, `p` and `reported`.

    Parameters
    ----------
    counts
        As described at the top of this module.
    definition
        "paper" or "badf-code".

    Returns
    -------
    pl.DataFrame
        `counts` with `score` (null where the divisor is 0 or not known), `p` (the same for all identities of a context and concept)
        and `reported` (score above 0 and p < 0.05); all null, and not reported, where fewer than two identities have lists.

    Raises
    ------
    InputError
        The definition is unknown or not a published one, or the counts break their contract.
    """
    check_definition(definition)
    if definition == DEFAULT:
        raise InputError("counts are scored by the published definitions paper and badf-code; compare_counts tests by the default one")
    cells, block, rows = _block_of(counts)
    verdicts = verdicts_of(block, definition, 0)
    reported = reported_of([verdicts], definition, RAW)[1][0]
    added = described(cells, background_of(cells), block, verdicts, np.full(len(verdicts.p), np.nan), 0.95, rows).select("score", "p")
    return counts.with_columns(added["score"], added["p"], pl.Series("reported", reported[rows]))


def compare_counts(counts: pl.DataFrame, minimum: int = 5, level: float = 0.95, q: float = 0.05) -> pl.DataFrame:
    """Test counts by the default definition, within contexts: adds the columns of ASSOCIATIONS from `others_count` to `reported`.

    The family of q is what the table holds: where it holds only the concepts that were found significant, q is too small.

    Parameters
    ----------
    counts
        As described at the top of this module.
    minimum, level, q
        As for `find_associations`.

    Raises
    ------
    InputError
        The counts break their contract.
    """
    cells, block, rows = _block_of(counts)
    verdicts = verdicts_of(block, DEFAULT, minimum)
    adjusted, reported = reported_of([verdicts], DEFAULT, q)
    frame = described(cells, background_of(cells), block, verdicts, adjusted[0], level, rows)
    added = frame.drop("context", "concept", "identity", "count", "lists", "mentions")
    return counts.with_columns(*added.get_columns(), pl.Series("reported", reported[0][rows]))


def _block_of(counts: pl.DataFrame) -> tuple[Cells, Block, tuple[Index, Index]]:
    cells, test, identity = read_cells(counts)
    block = Block(cells.context, cells.concept, cells.held[..., None], cells.lists[cells.context][..., None], cells.mentions[cells.context])
    return cells, block, (test, identity)


def _places(chosen: NDArray[np.bool_]) -> tuple[Index, Index]:
    test, identity = np.nonzero(chosen)
    return test, identity


def _with_backing(
    frame: pl.DataFrame, incidence: Incidence, block: Block, found: tuple[Index, Index], definition: str, halves: Index
) -> pl.DataFrame:
    """All columns of ASSOCIATIONS: with what reported rows stand on, null in the others."""
    rest = frame.filter(~pl.col("reported")).with_columns(pl.lit(None, ASSOCIATIONS[name]).alias(name) for name in BACKING)
    if not found[0].size:
        return rest
    backing = backing_of(incidence, block, found, definition, halves)
    return pl.concat([rest, pl.concat([frame.filter("reported"), backing], how="horizontal")])
