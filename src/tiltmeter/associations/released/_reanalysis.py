"""Reanalysis of released associations by rules that the published analysis did not apply."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import polars as pl
from polars import DataFrame, Int64, Series, col, lit, when

from tiltmeter.associations._definitions import BADF_CODE
from tiltmeter.associations._significance.discovery import compare_counts
from tiltmeter.associations.released._published import TEST, complete_counts, counts_behind
from tiltmeter.errors import InputError
from tiltmeter.schema import beside, q_values
from tiltmeter.stats import exact_independence_p

LEVEL: Final = 0.05
"""Significance level of each test, and level of the false discovery rate."""
MINIMUM: Final = 5
"""Minimum number of lists with the concept."""

RULES: Final = {
    "published": "as released",
    "fdr_released": "q < 0.05, Benjamini-Hochberg over the released tests alone: always met",
    "fdr": "q < 0.05, Benjamini-Hochberg over the whole family",
    "highest": "no identity has a higher rate",
    "support": f"at least {MINIMUM} lists of the identity contain the concept",
    "exact": "p < 0.05, exact if an expected count is below 5",
    "together": "highest and support, and q < 0.05 by the exact p over the tests with this support",
    "default": "Tiltmeter's default definition: the highest rate against all others, q < 0.05 over the same"
    " tests",
}
"""The rules, separately and together."""

FACTS: Final = {
    "not_highest": "another identity has a higher rate",
    "single": "only one list contains the concept",
    "needs_exact": "an expected count is below 5",
}
"""Further properties of the released rows."""

_SAME: Final = 1e-9
"""Relative tolerance between the released scores and p-values and those computed from the counts."""


class Families(NamedTuple):
    """Numbers of tests; only significant ones were released."""

    released: int
    """Number of tests (location category and concept) with a released row: a lower bound."""
    bound: int | None
    """Upper bound: each further concept needs a mention. None if the numbers of mentions are unknown."""
    used: int
    """Family size of the rule `fdr`: the stated number, or the bound."""
    supported: int
    """Family size of the rule `together`: the stated number, or the bound for concepts in at least MINIMUM
    lists."""
    stated: bool
    """Whether the number of tests was given."""


class Reanalysis(NamedTuple):
    """The results of `reanalyse`."""

    setting: str
    category: str
    associations: DataFrame
    """One row per released association, in the order of the file: context, identity, concept, score, p (as
    released); count, lists, rate, others_rate, effect with low and high (against the pooled others; 95%
    Newcombe interval); leader_rate and leader (the highest rate and its identity; null if several share it,
    or hidden counts cannot be distinguished); p_exact; q_released, q, q_together, q_default; whether the row
    meets each of RULES and has each of FACTS."""
    rules: DataFrame
    """Counts by identity (null: all of them) and rule: identity, rule, rows, of."""
    facts: DataFrame
    """Counts by identity (null: all of them) and fact: identity, fact, rows, of."""
    families: Families


def reanalyse(
    released: DataFrame,
    counts: DataFrame,
    *,
    setting: str | None = None,
    category: str | None = None,
    tests: int | None = None,
) -> Reanalysis:
    """Apply the RULES to released associations, separately and together.

    Only p-values below 0.05 were released, and the number of tests was not published, so the
    Benjamini-Hochberg procedure over the released tests alone always retains all of them. The rule `fdr`
    therefore uses the stated number of tests, or the largest possible one. With either, "q < 0.05" is exact
    if the tests that were not released have p >= 0.05, and conservative if significant ones were left out as
    exclusive.

    Parameters
    ----------
    released
        From `read_released`; rows judged exclusive are excluded.
    counts
        From `read_counts`.
    setting, category
        The part of the counts; None: the part that matches the released rows.
    tests
        The number of tests in the study (location categories times concepts), if known.

    Raises
    ------
    InputError
        The counts do not reproduce the released scores and p-values, `tests` is less than the number of
        released tests, or `tests` is not given and the mentions do not bound it.
    """
    block = counts_behind(released, counts, setting, category)
    complete = complete_counts(block)
    published = compare_counts(complete, BADF_CODE).select(score_again="score", p_again="p")
    described = compare_counts(complete, minimum=1).with_columns(published)
    _check_against_released(block, described)
    tested = _tests_of(described)
    families = _families_of(described, tested, tests)
    associations = _judge(block.filter(~col.exclusive), described, _with_q_values(tested, families))
    return Reanalysis(
        setting=block["setting"][0],
        category=block["category"][0],
        associations=associations,
        rules=_tally(associations, "rule", list(RULES)),
        facts=_tally(associations, "fact", list(FACTS)),
        families=families,
    )


def _check_against_released(block: DataFrame, described: DataFrame) -> None:
    """Check that the counts reproduce the released scores and p-values.

    They are computed by the definition of the released code.
    """
    recomputed = described.select(*TEST, "identity", "score_again", "p_again")
    both = beside(block, recomputed, *TEST, "identity")
    is_same_score = (col.score_again - col.score).abs() <= _SAME * col.score
    is_same_p = (col.p_again - col.p).abs() <= _SAME * col.p
    differing = both.filter(~(is_same_score & is_same_p).fill_null(False))
    if differing.height:
        row = differing.row(0, named=True)
        raise InputError(
            f"the counts of {row['concept']!r} for {row['identity']!r} in {row['context']!r} give score "
            f"{row['score_again']} and p {row['p_again']}, but {row['score']} and {row['p']} were released"
        )


def _tests_of(described: DataFrame) -> DataFrame:
    """Return one row per context and concept with the total and p-values.

    The p-values are those published, by the default definition, and exact where an expected count is low.
    """
    tested = described.group_by(TEST, maintain_order=True).agg(
        "count",
        col.lists.first(),
        total=col.count.sum(),
        p_published=col.p_again.first(),
        p_default=(col.p.min() * pl.len()).clip(0, 1),  # as in version 1 of the default definition
    )
    counts = np.array(tested["count"].to_list(), dtype=np.int64)
    lists = tested["lists"].to_numpy()
    total = tested["total"].to_numpy()
    k = counts.shape[1]
    needs_exact = np.minimum(total, k * lists - total) < 5 * k
    p_exact = tested["p_published"].to_numpy().copy()
    p_exact[needs_exact] = exact_independence_p(counts[needs_exact], lists[needs_exact])
    tested = tested.drop("count", "lists")
    return tested.with_columns(needs_exact=Series(needs_exact), p_exact=Series(p_exact))


def _families_of(described: DataFrame, tested: DataFrame, stated: int | None) -> Families:
    """Return the numbers of tests; `stated` is the number of tests that the user gives."""
    released = tested.height
    bound = _most_tests(described, tested, 1)
    supported = _most_tests(described, tested, MINIMUM)
    if stated is not None:
        if stated < released:
            raise InputError(
                f"--tests {stated}: the released rows alone are from {released} tests; "
                "give at least that number"
            )
        return Families(released, bound, used=stated, supported=stated, stated=True)
    if bound is None or supported is None:
        raise InputError(
            "an identity has no released row in some location category, "
            "so the number of tests is not bounded: give --tests N"
        )
    return Families(released, bound, used=bound, supported=supported, stated=False)


def _most_tests(described: DataFrame, tested: DataFrame, minimum: int) -> int | None:
    """Return the largest possible number of tests of concepts in at least `minimum` lists.

    In each context, the mentions that are not of released concepts bound the number of further concepts. None
    if the mentions are unknown.
    """
    cells = described.unique(["context", "identity"])
    if cells["mentions"].null_count():
        return None
    mentions = cells.group_by("context").agg(col.mentions.sum())
    of_released = tested.group_by("context").agg(col.total.sum())
    further = (col.mentions - col.total).clip(0) // minimum
    most_further = mentions.join(of_released, on="context").select(further.sum()).item()
    return int((tested["total"] >= minimum).sum()) + int(most_further)


def _with_q_values(tested: DataFrame, families: Families) -> DataFrame:
    """Add q-values over the released tests, over the whole family, and over the tests with support.

    The last are those of the exact p and of the p of the default definition.
    """
    has_support = col.total >= MINIMUM
    columns = {
        "q_released": (col.p_published, families.released),
        "q": (col.p_published, families.used),
        "q_together": (when(has_support).then("p_exact"), families.supported),
        "q_default": (when(has_support).then("p_default"), families.supported),
    }
    for name, (p, family) in columns.items():
        values = tested.select(p).to_series()
        # Tests that were not released have larger p, so q in a family of m is m / (number of tests here)
        # times q among the tests here.
        q = q_values(values) * (family / max(1, values.count()))
        tested = tested.with_columns(q.clip(upper_bound=1.0).alias(name))
    return tested


_EFFECTS: Final = ("rate", "others_rate", "effect", "low", "high")
_MEASURED: Final = (
    "count",
    "lists",
    *_EFFECTS,
    "leader",
    "leader_rate",
    "p_exact",
    "q_released",
    "q",
    "q_together",
    "q_default",
)
"""Numbers of an association, between its name and the rules."""


def _judge(rows: DataFrame, described: DataFrame, tested: DataFrame) -> DataFrame:
    """Return the associations with their effects and q-values, and the rules they meet."""
    highest = described.filter(col.count == col.count.max().over(TEST))
    leader = when((pl.len() == 1) & col.known.first()).then(col.identity.first())
    leaders = highest.group_by(TEST).agg(leader=leader, leaders=pl.len())
    effects = described.select(*TEST, "identity", *_EFFECTS)
    table = (
        rows.join(effects, on=[*TEST, "identity"], maintain_order="left")
        .join(tested, on=TEST, maintain_order="left")
        .join(leaders, on=TEST, maintain_order="left")
    )
    table = table.with_columns(
        leader_rate=col.greatest / col.lists,
        published=lit(True),
        fdr_released=col.q_released < LEVEL,
        fdr=col.q < LEVEL,
        highest=col.count == col.greatest,
        support=col.count >= MINIMUM,
        exact=col.p_exact < LEVEL,
        not_highest=col.count < col.greatest,
        single=col.count == 1,
    )
    is_only_leader = col.highest & (col.leaders == 1)
    table = table.with_columns(
        together=col.highest & col.support & (col.q_together < LEVEL),
        default=is_only_leader & (col.q_default < LEVEL).fill_null(False),
    )
    name = ("context", "identity", "concept", "score", "p")
    return table.select(*name, *_MEASURED, *RULES, *FACTS)


def _tally(rows: DataFrame, name: str, columns: list[str]) -> DataFrame:
    """Count the true values of each column, in total (identity null, first) and by identity."""
    by_identity = rows.group_by("identity").agg(col(columns).sum(), of=pl.len()).sort("identity")
    overall = rows.select(col(columns).sum(), of=pl.len())
    counts = pl.concat([overall, by_identity], how="diagonal")
    counts = counts.unpivot(columns, index=["identity", "of"], variable_name=name, value_name="rows")
    return counts.select("identity", name, col("rows", "of").cast(Int64))
