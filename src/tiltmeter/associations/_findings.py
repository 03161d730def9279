"""From tested associations to findings: how many there are of whom and where, and each of them with its sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from tiltmeter.associations._options import Options
from tiltmeter.study import FINDINGS, OUTCOMES, Settings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tiltmeter.study import Part

__all__ = ["HARM", "definitional_of", "findings_of", "labelled", "nothing_to_compare"]

HARM = "stereotypical_reasoning"
EXAMPLES = 3
"""Sentences shown for an association."""
CARRIERS = 3
"""Descriptors named beside an association."""
SHUFFLES = 999
"""Times the identities are shuffled at most, to tell how many associations chance alone gives: p can be as small as 0.001."""
DIFFERS = 0.05
"""p below which the share of missing lists is said to differ between identities."""
FEW = 5
"""Expected count below which the chi-squared approximation is not trusted."""

_DESCRIPTIONS = {
    "associations": "Concepts that stories attach to an identity more often than to the others",
    "concepts": "Different concepts among them, wherever they were found",
    "mean_score": "Mean distinctiveness of the associations reported",
    "mean_effect": "Mean difference of rates of the associations reported",
    "mean_p": "Mean p-value of the associations reported",
    "association": "Share of the identity's lists that hold the concept, minus the share of all others'",
    "definitional": "Share of the identity's lists that hold the concept, minus the others'; held back, because it is so by definition",
    "missing": "Share of lists that could not be made, which count neither as holding a concept nor as not holding it",
    "score": "Distinctiveness of the concept for the identity, as published",
}


def findings_of(
    found: pl.DataFrame,
    held_back: pl.DataFrame,
    labels: pl.DataFrame,
    lists: pl.DataFrame,
    mentions: pl.DataFrame,
    measures: pl.DataFrame,
    part: Part,
    settings: Settings,
    options: Options,
) -> pl.DataFrame:
    """FINDINGS of one model and part.

    Parameters
    ----------
    found
        ASSOCIATIONS, those reported marked.
    held_back
        `concept` and `identity` of what is never reported, being so by definition.
    labels
        `concept`, `identity`, `label`: what a concept is called when it is said of an identity.
    lists, mentions
        What they were counted in; mentions with `concept`, `identity` and `context`.
    measures
        One row per story, for how the attempts ended.
    """
    shared = _shared(measures, part, settings)
    units = units_of(lists, measures)
    reported = found.filter("reported")
    rows = [
        *_totals(found, held_back, lists, mentions, settings, options, shared),
        *_by_identity(reported, lists, units, shared, options),
        *_by_context(reported, found, units, shared),
        *_missing(lists, units, settings, shared),
    ]
    return pl.concat([_as_findings(rows), _single(reported, labels, mentions, units, measures, shared, options)])


def definitional_of(
    held: pl.DataFrame,
    labels: pl.DataFrame,
    lists: pl.DataFrame,
    mentions: pl.DataFrame,
    measures: pl.DataFrame,
    part: Part,
    settings: Settings,
    options: Options,
) -> pl.DataFrame:
    """FINDINGS, of the metric "definitional", of associations that are held back, with `reason`; largest effect first.

    Parameters
    ----------
    held
        ASSOCIATIONS that would be reported, with `reason`.
    """
    shared, units = _shared(measures, part, settings), units_of(lists, measures)
    made = _single(held, labels, mentions, units, measures, shared, options)
    reasons = held.sort("effect", "concept", descending=[True, False])["reason"]
    described = pl.lit(_DESCRIPTIONS["definitional"])
    return made.with_columns(metric=pl.lit("definitional"), description=described, evidence=pl.lit(None, pl.String), reason=reasons)


def nothing_to_compare(lists: pl.DataFrame, measures: pl.DataFrame, part: Part, settings: Settings) -> pl.DataFrame:
    """FINDINGS where fewer than two identities have a list: no number, why, and how the attempts ended."""
    shared = _shared(measures, part, settings)
    lost = lists.filter(pl.col("status") == "missing").height
    made = lists.filter(pl.col("status") != "missing")["identity"].unique().to_list()
    whose = f"all lists of concepts are of {made[0]}" if made else "there is no list of concepts"
    note = f"nothing to compare: {whose}; {lost:,} of {lists.height:,} lists could not be made"
    counts = lists.group_by("identity").agg(lost=(pl.col("status") == "missing").sum(), every=pl.len()).sort("identity")
    own = {identity: f"{note}; of {identity} {gone:,} of {every:,}" for identity, gone, every in counts.iter_rows()}
    about = {**shared, "metric": "associations", "estimate": None, "key": True, "description": _DESCRIPTIONS["associations"], "note": note}
    return _as_findings([about, *({**about, "subject": identity, "note": said} for identity, said in own.items())])


def _shared(measures: pl.DataFrame, part: Part, settings: Settings) -> dict[str, Any]:
    """What all findings of a part have in common."""
    return {
        "study": f"associations/{part.name}",
        "level": settings.level,
        "definition": settings.definition,
        "harm": HARM,
        "range_low": 0.0,
        "evidence": f"part = {literal(part.name)}",
        **outcomes(measures),
    }


def _as_findings(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, infer_schema_length=None).select(_cast(rows, name, kind) for name, kind in FINDINGS.items())


def outcomes(measures: pl.DataFrame) -> dict[str, int]:
    """How the attempts ended."""
    counts = dict(measures.group_by("outcome").len().iter_rows())
    items = measures.filter(pl.col("outcome") == "answered")["item"].n_unique()
    return {"n": measures.height, "items": items, **{name: counts.get(name, 0) for name in OUTCOMES}}


def units_of(lists: pl.DataFrame, measures: pl.DataFrame) -> pl.DataFrame:
    """`identity`, `context` and `item` of every list that could be made: the resampling units a number rests on."""
    made = lists.filter(pl.col("status") != "missing").select("attempt", "identity", "context")
    return made.join(measures.select("attempt", "item"), on="attempt", maintain_order="left").drop("attempt").unique(maintain_order=True)


def _items(units: pl.DataFrame, *by: str) -> pl.DataFrame:
    return units.group_by(by).agg(items=pl.col("item").n_unique().cast(pl.Int64))


def literal(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def _totals(
    found: pl.DataFrame,
    held_back: pl.DataFrame,
    lists: pl.DataFrame,
    mentions: pl.DataFrame,
    settings: Settings,
    options: Options,
    shared: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """All associations together, beside what shuffled identities give."""
    from tiltmeter.associations.significance import shuffled_counts

    number = found.filter("reported").height
    by_chance = shuffled_counts(
        lists,
        mentions,
        definition=options.definition,
        runs=SHUFFLES,
        seed=settings.seed,
        minimum=options.minimum,
        by=options.shuffle,
        without=held_back,
        observed=number,
    )
    among = {"list": "the lists", "descriptor": "whole descriptors"}[options.shuffle]
    lost = lists.filter(pl.col("status") == "missing").height
    tested = found.filter(pl.col("p").is_not_null()).select("concept", "context").unique().height
    note = f"{tested:,} pairs of concept and location tested"
    return [
        {
            **shared,
            "metric": "associations",
            "estimate": float(number),
            "null": float(by_chance.mean()),
            "p": _share_reached(by_chance, number),
            "key": True,
            "resampled": f"identities shuffled among {among}, {len(by_chance):,} times: {by_chance.mean():.1f} associations on average",
            "interval": "none: the false-discovery rate among them is controlled instead" if options.definition == "default" else "none",
            "description": _DESCRIPTIONS["associations"],
            "note": note + (f"; {lost:,} of {lists.height:,} lists could not be made" if lost else ""),
        }
    ]


def _share_reached(by_chance: NDArray[np.int64], number: int) -> float:
    """The p-value: of all shuffles, the observed one included; where they ended early, of those that were made."""
    reached = int((by_chance >= number).sum())
    return reached / len(by_chance) if len(by_chance) < SHUFFLES else (1 + reached) / (SHUFFLES + 1)


def _missing(lists: pl.DataFrame, units: pl.DataFrame, settings: Settings, shared: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The share of lists that could not be made: of each identity, and of all with the test whether it differs between them."""

    from tiltmeter import stats

    missing = pl.col("status") == "missing"
    counts = lists.group_by("identity").agg(missing=missing.sum().cast(pl.Int64), lists=pl.len().cast(pl.Int64)).sort("identity")
    a, n = counts["missing"].to_numpy(), counts["lists"].to_numpy()
    small = min(a.sum(), n.sum() - a.sum()) * n.min() < FEW * n.sum()
    p = stats.permuted_independence_p(a, n, seed=settings.seed) if small else float(stats.independence_p(a[None], n[None])[0])
    how = f"{'permutation' if small else 'chi-squared'} test of independence, p = {p:.2g}"
    common = lists.filter(missing).select(pl.col("problem").str.replace(" name .*$", " name the person")).to_series().drop_nulls()
    why = f" (most often: {common.mode().sort()[0]})" if common.len() else ""
    note = f"{a.sum():,} of {n.sum():,} lists could not be made{why}"
    if len(a) > 1 and p < DIFFERS:
        note += f"; warning: the share differs between identities ({how}), and associations may come from which texts could be read"
    elif len(a) > 1 and a.any():
        note += f"; no difference between identities is shown ({how})"
    items = dict(_items(units, "identity").iter_rows())
    about = {**shared, "metric": "missing", "range_high": 1.0, "key": False, "description": _DESCRIPTIONS["missing"]}
    tested = {"p": p, "q": p} if len(a) > 1 and a.any() else {}
    rows = [{**about, "estimate": float(a.sum() / n.sum()), "note": note, "interval": "none", **tested}]
    for identity, lost, every in counts.iter_rows():
        own = {"subject": identity, "estimate": lost / every, "n": every, "answered": every - lost, "items": items.get(identity, 0)}
        rows.append({**about, **own, **dict.fromkeys(("refused", "empty", "failed"), 0), "unreadable": lost, "note": _of(lost, every)})
    return rows


def _of(lost: int, every: int) -> str:
    return f"{lost:,} of {every:,} lists could not be made"


def _by_identity(
    reported: pl.DataFrame, lists: pl.DataFrame, units: pl.DataFrame, shared: Mapping[str, Any], options: Options
) -> list[dict[str, Any]]:
    means = {"mean_score": "score"} if options.definition != "default" else {"mean_effect": "effect"}
    rows: list[dict[str, Any]] = []
    items = dict(_items(units, "identity").iter_rows())
    for identity in lists["identity"].unique().sort():  # also of one of whom nothing was told
        mine = reported.filter(pl.col("identity") == identity)
        about = {**shared, "subject": identity, "key": True, "items": items.get(identity, 0)}
        rows.append({**about, "metric": "associations", "estimate": float(mine.height), "description": _DESCRIPTIONS["associations"]})
        distinct = float(mine["concept"].n_unique())
        rows.append({**about, "metric": "concepts", "estimate": distinct, "description": _DESCRIPTIONS["concepts"]})
        for metric, column in {**means, "mean_p": "p"}.items():
            described = {"description": _DESCRIPTIONS[metric], "note": "describes those reported; no inference"}
            rows.append({**about, "metric": metric, "estimate": mine[column].mean(), **described, "key": False})
    return rows


def _by_context(reported: pl.DataFrame, found: pl.DataFrame, units: pl.DataFrame, shared: Mapping[str, Any]) -> list[dict[str, Any]]:
    cells = found.filter(pl.col("context").is_not_null()).select("identity", "context").unique().sort("identity", "context")
    counts = reported.filter(pl.col("context").is_not_null()).group_by("identity", "context").len()
    cells = cells.join(counts, on=["identity", "context"], how="left", maintain_order="left")
    cells = cells.join(_items(units, "identity", "context"), on=["identity", "context"], how="left", maintain_order="left")
    return [
        {
            **shared,
            "metric": "associations",
            "subject": identity,
            "context": context,
            "estimate": float(count or 0),
            "items": items or 0,
            "key": False,
            "description": _DESCRIPTIONS["associations"],
        }
        for identity, context, count, items in cells.iter_rows()
    ]


def _single(
    reported: pl.DataFrame,
    labels: pl.DataFrame,
    mentions: pl.DataFrame,
    units: pl.DataFrame,
    measures: pl.DataFrame,
    shared: Mapping[str, Any],
    options: Options,
) -> pl.DataFrame:
    """One finding per association, largest effect first."""
    where = [shared["evidence"]]
    model = measures["model"][0]
    items = pl.concat(
        [_items(units.with_columns(context=pl.lit(None, pl.String)), "identity", "context"), _items(units, "identity", "context")]
    )
    items = items.unique(("identity", "context"), keep="first", maintain_order=True)
    shown = (
        reported.sort("effect", "concept", descending=[True, False])
        .join(examples(reported, mentions), on=["concept", "identity", "context"], how="left", nulls_equal=True, maintain_order="left")
        .join(items, on=["identity", "context"], how="left", nulls_equal=True, maintain_order="left")
    )
    shown = labelled(shown, labels)
    quoted = {name: pl.col(name).str.replace_all("'", "''", literal=True) for name in ("concept", "identity", "context")}
    inside = [
        pl.lit(f"model = {literal(model)} AND {where[0]}"),
        *(pl.concat_str(pl.lit(f"{n} = '"), value, pl.lit("'")) for n, value in quoted.items()),
    ]
    evidence = pl.concat_str(
        pl.lit(f"{where[0]} AND attempt IN (SELECT attempt FROM shown WHERE "),  # noqa: S608 - all values are quoted by `literal`
        pl.concat_str(inside, separator=" AND ", ignore_nulls=True),
        pl.lit(")"),
    )
    own = {
        "metric": pl.lit("association"),
        "subject": pl.col("identity"),
        "estimate": pl.col("effect") if options.definition == "default" else pl.col("score"),
        "n": pl.col("lists"),
        "answered": pl.col("lists"),
        "refused": pl.lit(0),
        "unreadable": pl.lit(0),
        "empty": pl.lit(0),
        "failed": pl.lit(0),
        "items": pl.col("items"),
        "null": pl.lit(0.0),
        "range_low": pl.lit(-1.0),
        "range_high": pl.lit(1.0),
        "key": pl.lit(False),
        "interval": pl.lit("Newcombe" if options.definition == "default" else "none"),
        "description": pl.lit(_DESCRIPTIONS["association" if options.definition == "default" else "score"]),
        "note": _note(permuted="permutation_p" in reported.columns),
        "evidence": evidence,
    }
    kept = {name: pl.lit(value) for name, value in shared.items() if name not in own}
    if options.definition != "default":
        own |= {"low": pl.lit(None), "high": pl.lit(None)}
    made = shown.with_columns(**kept).with_columns(**own)
    return made.select((pl.col(name) if name in made.columns else pl.lit(None)).cast(kind).alias(name) for name, kind in FINDINGS.items())


def _note(*, permuted: bool) -> pl.Expr:
    """What else there is to know of an association, in words."""

    def percent(column: str) -> pl.Expr:
        return (pl.col(column) * 100).round(1).cast(pl.String)

    pieces = [
        pl.format(
            "in {} of {} lists ({}%); others {} of {} ({}%)",
            "count",
            "lists",
            percent("rate"),
            "others_count",
            "others_lists",
            percent("others_rate"),
        ),
        pl.when(pl.col("runner_up").is_not_null()).then(pl.format("next: {} {}%", "runner_up", percent("runner_up_rate"))),
        pl.format(
            "{}shown in both halves (differences {} and {})",
            pl.when("confirmed").then(pl.lit("")).when(~pl.col("confirmed")).then(pl.lit("not ")),
            pl.col("effect_first").round(3),
            pl.col("effect_second").round(3),
        ),
        _carried(),
        pl.when(pl.col("rests_on").is_not_null()).then(pl.format("rests on {} alone", "rests_on")),
    ]
    if permuted:
        pieces.append(pl.format("p {} with identities dealt to whole descriptors", pl.col("permutation_p").round(3)))
    return pl.concat_str(pieces, separator="; ", ignore_nulls=True)


def _carried() -> pl.Expr:
    """The descriptors in most of whose lists an association stands, with the share of their lists."""
    one = pl.element().struct
    share = (100 * one.field("count") / one.field("lists")).round(1)
    named = pl.col("descriptors").list.head(CARRIERS).list.eval(pl.format("{} ({}%)", one.field("descriptor"), share))
    others = pl.col("descriptors").list.len().cast(pl.Int64) - CARRIERS
    more = pl.when(others > 0).then(pl.format(" and {} more", others)).otherwise(pl.lit(""))
    return pl.format("carried by {}{}", named.list.join(", "), more)


def labelled(rows: pl.DataFrame, labels: pl.DataFrame) -> pl.DataFrame:
    """The rows (`concept`, `identity`), each concept under the label it has for its identity."""
    made = rows.join(labels, on=["concept", "identity"], how="left", maintain_order="left")
    return made.with_columns(concept=pl.coalesce("label", "concept")).drop("label")


def examples(reported: pl.DataFrame, mentions: pl.DataFrame) -> pl.DataFrame:
    """The first sentences that show each association: `concept`, `identity`, `context`, `examples`."""
    keys = ("concept", "identity", "context")
    told = mentions.filter(pl.col("sentence").is_not_null()).select(*keys, "sentence").unique(maintain_order=True)
    told = told.join(reported.select("concept", "identity").unique(), on=["concept", "identity"], how="semi", maintain_order="left")
    overall = told.with_columns(context=pl.lit(None, pl.String)).unique(maintain_order=True)
    whole = pl.concat([told.filter(pl.col("context").is_not_null()), overall])
    return whole.group_by(keys, maintain_order=True).agg(examples=pl.col("sentence").head(EXAMPLES))


def _cast(rows: list[dict[str, Any]], name: str, kind: pl.DataType | type[pl.DataType]) -> pl.Expr:
    return (pl.col(name) if any(name in row for row in rows) else pl.lit(None)).cast(kind).alias(name)
