"""Which released associations survive rules that the published analysis did not apply."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from polars import DataFrame, Int64, Series, col, lit, when

from tiltmeter.associations.definitions import BADF_CODE
from tiltmeter.associations.released.published import TEST, complete_counts, counts_behind
from tiltmeter.associations.significance import compare_counts
from tiltmeter.errors import InputError
from tiltmeter.stats import benjamini_hochberg, exact_independence_p
from tiltmeter.study import beside

LEVEL = 0.05
"""Of every test and of the false-discovery rate."""
MINIMUM = 5
"""Least number of lists an association rests on."""

RULES = {
    "published": "as released",
    "fdr_released": "q < 0.05, Benjamini-Hochberg over the released tests alone: by construction all",
    "fdr": "q < 0.05, Benjamini-Hochberg over the whole family",
    "highest": "no identity has a higher rate",
    "support": f"at least {MINIMUM} lists of the identity hold the concept",
    "exact": "p < 0.05, exact where an expected count is below 5",
    "together": "highest and support, and q < 0.05 by the exact p over the tests with such support",
    "default": "Tiltmeter's default definition: the highest against all others, q < 0.05 likewise",
}
"""The rules, each by itself, and together."""

FACTS = {
    "not_highest": "another identity has a higher rate",
    "single": "one list alone holds the concept",
    "needs_exact": "an expected count is below 5",
}
"""What else is counted of the released rows."""

_SAME = 1e-9
"""How close, relatively, the counts must come to the released scores and p-values."""


class Families(NamedTuple):
    """How many tests there were, of which only the significant ones were released."""

    released: int
    """Location categories and concepts with a released row: at least so many."""
    bound: int | None
    """At most so many: each further concept takes a mention of its own, and the mentions are known. None: they are not."""
    used: int
    """The family of the rule `fdr`: the stated number, or the bound."""
    supported: int
    """The family of the rule `together`: the stated number, or the bound for concepts that stand in at least MINIMUM lists."""
    stated: bool


class Reanalysis(NamedTuple):
    """What `reanalyse` gives."""

    setting: str
    category: str
    associations: DataFrame
    """One row per released association, in the order of the file: context, identity, concept, score, p (as released); count, lists,
    rate, others_rate, effect with low and high (against the pooled others; 95% Newcombe interval); leader_rate and leader (the
    greatest rate and whose it is; null where several share it, or hidden counts cannot be distinguished); p_exact; q_released, q,
    q_together, q_default; whether the row keeps each of RULES and shows each of FACTS."""
    rules: DataFrame
    """identity (null: all of them), rule, rows, of."""
    facts: DataFrame
    """identity (null: all of them), fact, rows, of."""
    families: Families


def reanalyse(
    released: DataFrame,
    counts: DataFrame,
    *,
    setting: str | None = None,
    category: str | None = None,
    tests: int | None = None,
) -> Reanalysis:
    """Apply each of RULES to released associations, by itself and together.

    The released p-values are those below 0.05 of tests whose number was not published, so Benjamini and Hochberg's procedure over
    the released tests alone keeps all of them, whatever they are. The rule `fdr` therefore uses the number of tests that is stated,
    or the greatest possible one. With either, "q < 0.05" is exact as long as the tests that were not released have p >= 0.05, and
    errs towards dropping where significant ones were left out as exclusive.

    Parameters
    ----------
    released
        From `read_released`; rows judged exclusive are no associations and are not judged.
    counts
        From `read_counts`.
    setting, category
        Part of the counts; None: the part that fits the released rows.
    tests
        Number of tests the study made (location categories x concepts), if it is known.

    Raises
    ------
    InputError
        The counts do not give the released scores and p-values; or there is no family: `tests` is not given and the mentions do not
        bound it, or it is less than the number of released tests.
    """
    block = counts_behind(released, counts, setting, category)
    whole = complete_counts(block)
    again = compare_counts(whole, BADF_CODE).select(score_again="score", p_again="p")
    described = compare_counts(whole, minimum=1).with_columns(again)
    _check_against_released(block, described)
    made = _tests_of(described)
    families = _families_of(described, made, tests)
    rows = _judge(block.filter(~col.exclusive), described, _with_q_values(made, families))
    about = block["setting"][0], block["category"][0]
    return Reanalysis(*about, rows, _tally(rows, "rule", list(RULES)), _tally(rows, "fact", list(FACTS)), families)


def _check_against_released(block: DataFrame, described: DataFrame) -> None:
    """Refuse counts that do not give the released scores and p-values by the definition of the released code."""
    again = described.select(*TEST, "identity", "score_again", "p_again")
    both = beside(block, again, *TEST, "identity")
    near = [(col(f"{name}_again") - col(name)).abs() <= _SAME * col(name) for name in ("score", "p")]
    wrong = both.filter(~pl.all_horizontal(near).fill_null(False))
    if wrong.height:
        row = wrong.row(0, named=True)
        raise InputError(
            f"the counts of {row['concept']!r} for {row['identity']!r} in {row['context']!r} give score {row['score_again']} and "
            f"p {row['p_again']}, but {row['score']} and {row['p']} were released"
        )


def _tests_of(described: DataFrame) -> DataFrame:
    """One row per context and concept: total, p as published, exact where an expected count is below 5, and by the default definition."""
    made = described.group_by(TEST, maintain_order=True).agg(
        "count",
        col.lists.first(),
        total=col.count.sum(),
        p_published=col.p_again.first(),
        p_default=col.p.drop_nulls().first(),
    )
    counts, lists, total = np.array(made["count"].to_list(), dtype=np.int64), made["lists"].to_numpy(), made["total"].to_numpy()
    k = counts.shape[1]
    needs_exact = np.minimum(total, k * lists - total) < 5 * k
    p_exact = made["p_published"].to_numpy().copy()
    p_exact[needs_exact] = exact_independence_p(counts[needs_exact], lists[needs_exact])
    return made.drop("count", "lists").with_columns(needs_exact=Series(needs_exact), p_exact=Series(p_exact))


def _families_of(described: DataFrame, made: DataFrame, tests: int | None) -> Families:
    bound, supported = (_most_tests(described, made, minimum) for minimum in (1, MINIMUM))
    if tests is not None:
        if tests < made.height:
            raise InputError(f"--tests {tests}: the released rows alone are of {made.height} tests")
        return Families(made.height, bound, tests, tests, stated=True)
    if bound is None or supported is None:
        raise InputError("an identity has no released row in some location category, so the number of tests has no bound: give --tests N")
    return Families(made.height, bound, bound, supported, stated=False)


def _most_tests(described: DataFrame, made: DataFrame, minimum: int) -> int | None:
    """The greatest possible number of tests of concepts that are in at least `minimum` lists; None where mentions are not known.

    In each context the mentions that the released concepts do not use up can be shared among so many others at most.
    """
    cells = described.unique(["context", "identity"])
    if cells["mentions"].null_count():
        return None
    mentions = cells.group_by("context").agg(col.mentions.sum())
    used = made.group_by("context").agg(col.total.sum())
    left = (col.mentions - col.total).clip(0) // minimum
    return int((made["total"] >= minimum).sum()) + int(mentions.join(used, on="context").select(left.sum()).item())


def _with_q_values(made: DataFrame, families: Families) -> DataFrame:
    """With q over the released tests, over the family, and, by exact and default p, over that of tests with support."""
    supported = col.total >= MINIMUM
    columns = {
        "q_released": (col.p_published, families.released),
        "q": (col.p_published, families.used),
        "q_together": (when(supported).then("p_exact"), families.supported),
        "q_default": (when(supported).then("p_default"), families.supported),
    }
    for name, (p, family) in columns.items():
        values = made.select(p.fill_null(np.nan)).to_series().to_numpy()
        # Tests that were not released rank behind, so q in a family of m is m / (tests at hand) times q among the tests at hand.
        q = benjamini_hochberg(values) * (family / max(1, int((~np.isnan(values)).sum())))
        made = made.with_columns(Series(name, np.minimum(1.0, q)).fill_nan(None))
    return made


def _judge(rows: DataFrame, described: DataFrame, made: DataFrame) -> DataFrame:
    """Associations with their effects, q-values, and the rules they keep."""
    effects = ["rate", "others_rate", "effect", "low", "high"]
    highest = described.filter(col.count == col.count.max().over(TEST))
    named = when((pl.len() == 1) & col.known.first()).then(col.identity.first())
    leaders = highest.group_by(TEST).agg(leader=named, leaders=pl.len())
    count, greatest = col.count, col.greatest
    table = (
        rows.join(described.select(*TEST, "identity", *effects), on=[*TEST, "identity"], maintain_order="left")
        .join(made, on=TEST, maintain_order="left")
        .join(leaders, on=TEST, maintain_order="left")
        .with_columns(
            leader_rate=greatest / col.lists,
            published=lit(True),
            fdr_released=col.q_released < LEVEL,
            fdr=col.q < LEVEL,
            highest=count == greatest,
            support=count >= MINIMUM,
            exact=col.p_exact < LEVEL,
            not_highest=count < greatest,
            single=count == 1,
        )
    )
    table = table.with_columns(
        together=col.highest & col.support & (col.q_together < LEVEL).fill_null(False),
        default=col.highest & (col.leaders == 1) & (col.q_default < LEVEL).fill_null(False),
    )
    measured = ["count", "lists", *effects, "leader", "leader_rate", "p_exact", "q_released", "q", "q_together", "q_default"]
    return table.select("context", "identity", "concept", "score", "p", *measured, *RULES, *FACTS)


def _tally(rows: DataFrame, name: str, columns: list[str]) -> DataFrame:
    """For each column of truth values how many rows of each identity, and of all (identity null, first), have it."""
    by_identity = rows.group_by("identity").agg(col(columns).sum(), of=pl.len()).sort("identity")
    overall = rows.select(col(columns).sum(), of=pl.len())
    both = pl.concat([overall, by_identity], how="diagonal").unpivot(
        columns, index=["identity", "of"], variable_name=name, value_name="rows"
    )
    return both.select("identity", name, col("rows", "of").cast(Int64))
