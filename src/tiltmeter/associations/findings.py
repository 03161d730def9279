"""Turn tested associations into findings: counts by identity and context, single associations, and contrasts between two models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
from polars import DataFrame, Expr, Float64, Int64, Series, String, col, lit, when

from tiltmeter.associations.definitions import AssociationOptions, options_of
from tiltmeter.associations.exclusivity import ECHO
from tiltmeter.associations.tables import NAMES_LIKE_THESE, OWNER, TEXTS_LIKE_THESE, THESE_NAMES
from tiltmeter.errors import InputError
from tiltmeter.readers.outcomes import outcome_counts
from tiltmeter.schema import CONTRASTS, beside, conform, sql_where
from tiltmeter.study import NotRun, Settings, as_findings

if TYPE_CHECKING:
    from tiltmeter.arrays import Floats
    from tiltmeter.study import Part, RunView

HARM = "stereotypical_reasoning"
INTERVAL = "Newcombe, of the difference of two shares of lists, with a cluster-robust variance"
SELECTED = (
    INTERVAL
    + "; the level is adjusted for selection, so that at least {}% of the intervals of all reported associations are expected to"
    " contain their true value (false coverage rate)"
)
EXAMPLES = 3
"""Number of example sentences kept for an association."""
SHUFFLES = 999
"""Maximum number of shuffles of the identities, to estimate the number of associations due to chance: the
smallest possible p is 0.001."""
LEAST_SHUFFLES, SHUFFLED_MENTIONS = 19, 200_000_000
"""Fewer shuffles are made if more than so many mentions would be shuffled in total, but at least
LEAST_SHUFFLES."""
DIFFERS = 0.05
"""Significance level of the test whether the share of missing lists differs between identities."""
FEW = 5
"""Expected count below which the chi-squared approximation is not used."""
_UNITS = {
    "associations": "count",
    "concepts": "count",
    "mean_effect": "difference",
    "mean_score": "score",
    "mean_p": "p",
    "missing": "share",
    "mean_unattributed": "share",
}
_PLACE = ["identity", "context"]
_PAIR = ["concept", "identity"]


@dataclass(frozen=True, slots=True)
class Basis:
    """The data and settings behind the associations of one model and part.

    Parameters
    ----------
    mentions
        MENTIONS with `concept`, `identity` and `context`.
    measures
        MEASURES: one row per story, with the outcome of the attempt.
    """

    lists: DataFrame
    mentions: DataFrame
    measures: DataFrame
    part: Part
    settings: Settings
    options: AssociationOptions

    @property
    def missing(self) -> str:
        """The number of missing lists, as a message."""
        return f"{self.lists.filter(status='missing').height:,} of {self.lists.height:,} character descriptions are missing"

    @property
    def population(self) -> str:
        """The population of the estimates: names or texts like those of the study, or only these names."""
        from tiltmeter.associations.significance import speaks_of_names

        if not self.lists["name"].count():
            return TEXTS_LIKE_THESE
        return NAMES_LIKE_THESE if speaks_of_names(self.lists) else THESE_NAMES

    def findings(self, rows: DataFrame) -> DataFrame:
        """Complete rows with `metric`, `identity` and `context` to FINDINGS.

        Rows without `attempts` get the counts of all stories, and rows without `level` the confidence level
        of the study.
        """
        counts = self.measures.select(outcome_counts()).drop("items").row(0, named=True)
        known = {
            "identity": String,
            "context": String,
            "evidence": String,
            "level": Float64,
            **dict.fromkeys(counts, Int64),
        }
        rows = beside(conform(rows, known, further=True), self._items(), *_PLACE)
        is_story = col.attempts.is_null()
        single = "score" if self.options.rules.published else "difference"
        rows = rows.with_columns(
            *(col(name).fill_null(when(is_story).then(count).otherwise(0)) for name, count in counts.items()),
            items=col.items.fill_null(0),
            group="identity",
            harm=lit(HARM),
            unit=col.metric.replace_strict(_UNITS, default=single),
            evidence=pl.coalesce("evidence", sql_where(part=self.part.name)),
        )
        completed = as_findings(rows, self.part, self.settings, self.options.rules)
        return completed.with_columns(level=pl.coalesce(rows["level"], completed["level"]))

    def _items(self) -> DataFrame:
        """Count the resampling units (`items`) with a list by identity and context and by identity, and the answered ones in total."""
        listed = self.lists.filter(col.status != "missing").select("attempt", *_PLACE)
        listed = listed.join(self.measures.select("attempt", "item"), on="attempt")
        answered = self.measures.filter(outcome="answered").select("item")
        every = pl.concat([listed, listed.drop("context"), answered], how="diagonal")
        return every.group_by(_PLACE).agg(items=col.item.n_unique())

    def stories_with(self, table: str, **values: Expr | str) -> Expr:
        """Return an SQL condition on `measures` for the stories with rows of a table that have these values."""
        part, model = self.part.name, str(self.measures["model"][0])
        rows = sql_where(model=model, part=part, **values)
        return pl.format(
            "{} AND attempt IN (SELECT attempt FROM {} WHERE {})", sql_where(part=part), lit(table), rows
        )


def findings_of(found: DataFrame, held_back: DataFrame, themes: DataFrame, basis: Basis) -> DataFrame:
    """Return the FINDINGS of one model and part.

    Parameters
    ----------
    found
        A table FOUND.
    held_back
        `concept` and `identity` of pairs that are never reported because the concept belongs to the identity
        by definition.
    themes
        From `find_themes`.
    """
    reported = found.filter("reported")
    tables = (
        _total(reported.height, held_back, basis),
        _of_identities(reported, basis),
        _of_contexts(found),
        _missing(basis),
        _associations(reported, basis),
        _associations(themes.with_columns(label="concept"), basis).with_columns(
            metric=lit("theme"), feature="concept", concept=lit(None, String), evidence=lit(None, String)
        ),
    )
    return basis.findings(pl.concat(tables, how="diagonal_relaxed"))


def definitional_of(held: DataFrame, exclusive: DataFrame, basis: Basis) -> DataFrame:
    """Return the table DEFINITIONAL, the strongest first.

    Parameters
    ----------
    held
        Rows of FOUND that would otherwise be reported.
    exclusive
        The table EXCLUSIVE.
    """
    who = col.by.replace({"terms": "the list of terms", "judge": "the judge", "user": "the table given"})
    why = pl.format(": {}", "reason").fill_null("")
    reason = (
        when(col.identity.is_null())
        .then("reason")
        .otherwise(pl.format("{} by definition, says {}{}", "identity", who, why))
    )
    reasons = exclusive.unique("concept", keep="first").select("concept", reason=reason, echo=col.by == ECHO)
    rows = _associations(beside(held, reasons, "concept"), basis)
    metric = when("echo").then(lit("echo")).otherwise(lit("definitional"))
    return basis.findings(rows.with_columns(metric=metric)).with_columns(
        evidence=lit(None, String), reason=rows["reason"]
    )


def identities_of(lists: DataFrame) -> DataFrame:
    """Return the table IDENTITIES of these lists."""
    return (
        lists.group_by("identity")
        .agg(lists=pl.len(), missing=(col.status == "missing").sum())
        .sort("identity")
    )


def nothing_to_compare(basis: Basis) -> DataFrame:
    """Return FINDINGS for fewer than two identities with a list: no estimate, the reason, and the outcomes of the attempts."""
    counts = identities_of(basis.lists)
    made = counts.filter(col.missing < col.lists)["identity"].to_list()
    reason = f"only {made[0]} has character descriptions" if made else "there are no character descriptions"
    note = f"nothing to compare: {reason}; {basis.missing}"
    own = counts.select(
        "identity", note=pl.format("{} ({}: {} of {})", lit(note), "identity", "missing", "lists")
    )
    rows = pl.concat([DataFrame({"note": [note]}), own], how="diagonal")
    return basis.findings(rows.with_columns(metric=lit("associations"), key=lit(True)))


def _total(number: int, held_back: DataFrame, basis: Basis) -> DataFrame:
    """Return the total number of associations and its null distribution under shuffled identities."""
    from tiltmeter.associations.significance import shuffled_counts

    options = basis.options
    runs = min(SHUFFLES, max(LEAST_SHUFFLES, SHUFFLED_MENTIONS // max(basis.mentions.height, 1)))
    by_chance = shuffled_counts(
        basis.lists,
        basis.mentions,
        rules=options.rules,
        runs=runs,
        seed=basis.settings.seed,
        minimum=options.minimum,
        by=options.shuffle,
        without=held_back,
        observed=number,
        against=options.against,
        reference=options.reference,
    )
    # p counts the observed data as one of the shuffles, unless shuffling stopped early (Besag and Clifford
    # 1991).
    reached, made = int((by_chance >= number).sum()), len(by_chance)
    among = {"list": "the lists", "descriptor": "whole descriptors"}[options.shuffle]
    instead = "" if options.rules.published else ": the false discovery rate is controlled instead"
    row = {
        "metric": "associations",
        "estimate": float(number),
        "null_value": float(by_chance.mean()),
        "p": reached / made if made < runs else (1 + reached) / (runs + 1),
        "key": True,
        "method": f"identities shuffled among {among}, {made:,} times; no interval{instead}",
        "note": basis.missing if "missing" in basis.lists["status"] else None,
    }
    return DataFrame([row])


def _of_identities(reported: DataFrame, basis: Basis) -> DataFrame:
    """Return the number of associations of every identity, including those with none, and descriptive means."""
    mean = "score" if basis.options.rules.published else "effect"
    means = {f"mean_{mean}": col(mean).mean(), "mean_p": col.p.mean()}
    numbers = reported.group_by("identity").agg(
        associations=pl.len(), concepts=col.concept.n_unique(), **means
    )
    unattributed = (
        {} if basis.options.rules.published else {"mean_unattributed": col.unattributed.sort().mean()}
    )
    every = basis.lists.group_by("identity").agg(**unattributed).join(numbers, on="identity", how="left")
    every = every.with_columns(col("associations", "concepts").fill_null(0))
    rows = every.unpivot(index="identity", variable_name="metric", value_name="estimate").sort(
        "identity", maintain_order=True
    )
    rows = rows.filter(
        col.estimate.is_not_null() | (col.metric != "mean_unattributed")
    )  # unknown with a judge
    return rows.with_columns(key=~col.metric.str.starts_with("mean_"))


def _of_contexts(found: DataFrame) -> DataFrame:
    """Return the number of associations of each identity within each context."""
    cells = found.drop_nulls("context").group_by(_PLACE).agg(estimate=col.reported.sum()).sort(_PLACE)
    return cells.with_columns(metric=lit("associations"))


def _missing(basis: Basis) -> DataFrame:
    """Return the share of missing lists, overall (with a test for differences between identities) and by identity.

    The evidence are the texts without a list.
    """
    from tiltmeter import stats

    counts = identities_of(basis.lists).select("identity", unreadable="missing", attempts="lists")
    a, n = counts["unreadable", "attempts"].to_numpy().T
    small = min(a.sum(), n.sum() - a.sum()) * n.min() < FEW * n.sum()
    p = (
        stats.permuted_independence_p(a, n, seed=basis.settings.seed)
        if small
        else float(stats.independence_p(a[None], n[None])[0])
    )
    tested = p if a.any() else None
    warning = "the share of missing descriptions differs between groups, so associations may be due to which texts could be parsed"
    row = {
        "estimate": float(a.sum() / n.sum()),
        "p": tested,
        "q": tested,
        "method": f"{'permutation' if small else 'chi-squared'} test of independence",
        "note": warning if p < DIFFERS else None,
    }
    each = counts.with_columns(estimate=col.unreadable / col.attempts, answered=col.attempts - col.unreadable)
    rows = pl.concat([DataFrame([row]), each], how="diagonal_relaxed")
    return rows.with_columns(
        metric=lit("missing"), evidence=basis.stories_with("lists", status="missing", identity=col.identity)
    )


def _associations(rows: DataFrame, basis: Basis) -> DataFrame:
    """Complete one row per association, the strongest first: by the lower end of the interval, or by the effect if there is none."""
    published, selected = basis.options.rules.published, SELECTED.format(f"{100 * basis.settings.level:g}")
    also = other_groups("identity", "concept", "context")
    shared = when(also.list.len() > 0).then(pl.format("also an association of {}", also.list.join(", ")))
    note = shared.when((col.runner_up_low <= 0) & col.against.is_null()).then(
        pl.format("{} may have the highest rate: the interval of the difference contains 0", "runner_up")
    )
    return rows.sort("effect" if published else "low", "concept", descending=[True, False]).with_columns(
        when(not published).then(col("low", "high", "level")),
        metric=lit("association"),
        concept="label",
        group_2="against",
        estimate="score" if published else "effect",
        null_value=lit(0.0),
        attempts="lists",
        answered="lists",
        estimand=lit(None if published else basis.population, String),
        method=lit("no interval")
        if published
        else when("reported").then(lit(selected)).otherwise(lit(INTERVAL)),
        note=lit(None, String) if published else note,
        evidence=basis.stories_with("shown", concept=col.label, identity=col.identity, context=col.context),
    )


def other_groups(group: str, *same: str) -> Expr:
    """Return the other groups of the rows with the same values in the columns `same`, sorted."""
    groups = col(group).unique().over(*same, mapping_strategy="join")
    return groups.list.set_difference(pl.concat_list(group)).list.sort()


# -- what an association is called, and its sentences -----------------------------------------------------------------


def labels_of(mentions: DataFrame, phrases: Series, *, specific: bool = False) -> DataFrame:
    """Return `concept`, `identity` and `label`, the phrase that expresses the concept in most lists of the identity.

    Ties are resolved in favour of the phrase that names the concept, then alphabetically. A concept name that
    is none of the study's `phrases` was given by the user and is kept as the label. If `specific`, a phrase
    of two words counts twice, and so on, so that a phrase that makes up at least half of the uses of a word
    names its family.
    """
    from tiltmeter.associations.concepts import normal_form
    from tiltmeter.associations.families import length

    uses = mentions.group_by(*_PAIR, "phrase", form=normal_form(col.phrase)).agg(uses=pl.len())
    whole = col.uses.sum().over(*_PAIR, "form") * (length(col.form) if specific else 1)
    best = uses.sort(whole, col.phrase == col.concept, "uses", "phrase", descending=[True, True, True, False])
    label = when(col.concept.is_in(phrases.implode())).then("phrase").otherwise("concept")
    return best.unique(_PAIR, keep="first").select(*_PAIR, label=label)


def labelled(rows: DataFrame, labels: DataFrame) -> DataFrame:
    """Add the `label` of each concept for its identity to rows with `concept` and `identity`.

    The default is the concept itself.
    """
    return beside(rows, labels, *_PAIR).with_columns(label=pl.coalesce("label", "concept"))


def with_examples(found: DataFrame, mentions: DataFrame) -> DataFrame:
    """Add the first sentences that contain the concept as `examples` to rows that are `reported`."""
    keys = [*_PAIR, "context"]
    reported = found.filter("reported").select(keys)
    said = mentions.drop_nulls("sentence").select(*keys, "sentence")
    whole = pl.concat([said.drop_nulls("context"), said.drop("context")], how="diagonal")
    whole = whole.join(reported, on=keys, how="semi", nulls_equal=True, maintain_order="left").unique(
        maintain_order=True
    )
    return beside(
        found, whole.group_by(keys, maintain_order=True).agg(examples=col.sentence.head(EXAMPLES)), *keys
    )


def with_permutation(found: DataFrame, basis: Basis) -> DataFrame:
    """Add `permutation_p` (identities permuted over whole descriptors) to `reported` rows, null elsewhere.

    No column if not requested.
    """
    from tiltmeter.associations.significance import permutation_p

    concepts = found.filter("reported")["concept"].unique().sort().to_list()
    if basis.options.shuffle != "descriptor" or not concepts:
        return found
    tested = permutation_p(basis.lists, basis.mentions, concepts, by="descriptor", seed=basis.settings.seed)
    tested = tested.select("context", "concept", permutation_p="p", reported=lit(True))
    return beside(found, tested, "context", "concept", "reported")


# -- two models compared ----------------------------------------------------------------------------------------------

RATE = "difference of shares of lists, Newcombe; p exact if an expected count is below 5, else chi-squared"
ASSOCIATION = (
    "difference of two differences of shares, Newcombe intervals combined by the square-and-add method"
)


def contrast_of(first: RunView, second: RunView, settings: Settings) -> DataFrame | None:
    """Return CONTRASTS with two rows per concept and identity, over all locations; None if either run has no lists.

    `rate` is the share of the identity's lists that contain the concept. `association` is that share minus
    the share of all other identities: a model may mention a concept more often for everyone without
    associating it with any identity.

    Every response is a new story, so the runs are compared as independent groups of lists. Concepts are left
    out if they occur in fewer lists, pooled over both runs and all identities, than the study's minimum;
    pooling avoids selecting differences by their size. A phrase has the concept of the first run; if it does
    not occur there, the concept of its own run, renamed as in the first run where possible.
    """
    sizes, held = [], []
    try:
        leading = first.stage("concepts").unique("phrase")["phrase", "concept"].get_columns()
        concept = col.phrase.replace_strict(*leading, default=col.concept.replace(*leading))
        for view in (first, second):
            vocabulary = view.stage("concepts").unique("phrase").select("phrase", concept=concept)
            lists = view.stage("lists").filter(col.status != "missing").select(*OWNER, "identity")
            lists = lists.join(view.measures, on="attempt", how="semi")
            sizes.append(lists.group_by("identity").agg(lists=pl.len()))
            named = view.stage("mentions").join(vocabulary, on="phrase").unique((*OWNER, "concept"))
            held.append(named.join(lists, on=OWNER).group_by(_PAIR).agg(count=pl.len()))
    except (InputError, NotRun):
        return None
    whole = pl.concat(held).group_by("concept").agg(support=col.count.sum())
    common = sizes[0].join(sizes[1], on="identity", suffix="_second")
    cells = (
        whole.filter(col.support >= options_of(settings).minimum).select("concept").join(common, how="cross")
    )
    cells = (
        cells.join(held[0], on=_PAIR, how="left")
        .join(held[1], on=_PAIR, how="left", suffix="_second")
        .fill_null(0)
    )
    return _tested(cells.sort("identity", "concept"), settings.level)


def _tested(cells: DataFrame, level: float) -> DataFrame:
    import numpy as np

    from tiltmeter import stats

    names = ["count_second", "lists_second", "count", "lists"]
    a, n, c, m = cells.select(names).to_numpy().T
    rate = stats.rate_difference(a, n, c, m, level)
    p = np.minimum(1.0, 2.0 * np.minimum(stats.greater(a, n, c, m), stats.greater(c, m, a, n)))
    made = [_contrasts(cells, "rate", RATE, *rate, p)]
    b, k, d, q = cells.select(col(names).sum().over("concept") - col(names)).to_numpy().T
    if (k > 0).all() and (q > 0).all():
        before, after = stats.rate_difference(c, m, d, q, level), stats.rate_difference(a, n, b, k, level)
        estimates, lows, highs = np.stack([before, after], axis=-1)
        contrast = stats.independent_difference(estimates, lows, highs, level)
        made.append(
            _contrasts(cells, "association", ASSOCIATION, after.estimate - before.estimate, *contrast)
        )
    return pl.concat(made)


def _contrasts(
    cells: DataFrame, metric: str, how: str, difference: Floats, low: Floats, high: Floats, p: Floats
) -> DataFrame:
    made = cells.with_columns(
        metric=lit(metric),
        group="identity",
        difference=Series(difference),
        low=Series(low),
        high=Series(high),
        p=Series(p),
        n=pl.min_horizontal("lists", "lists_second"),
        paired=lit(False),
        how=lit(how),
    )
    return conform(made, CONTRASTS)
