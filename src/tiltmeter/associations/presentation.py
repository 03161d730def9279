"""Report blocks for associations: counts by group and location, the strongest with example sentences, and overlap between models."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from operator import eq
from typing import Any

import polars as pl
from polars import DataFrame, Expr, String, col, lit, when

from tiltmeter.associations.findings import other_groups
from tiltmeter.associations.paper_tables import SHARE_OF_OTHERS
from tiltmeter.associations.tables import (
    ASSOCIATIONS,
    DEFINITIONAL,
    FOUND,
    NAMES_LIKE_THESE,
    TEXTS_LIKE_THESE,
    THESE_NAMES,
)
from tiltmeter.blocks import (
    Block,
    Callout,
    Column,
    Details,
    Heading,
    Headline,
    Heatmap,
    Kind,
    PairRow,
    Pairs,
    Response,
    Responses,
    Table,
    Text,
    columns_of,
    named_model,
)
from tiltmeter.quantities import confidence, interval, quantity
from tiltmeter.readers.outcomes import OUTCOMES
from tiltmeter.schema import Schema, beside, conform
from tiltmeter.study import ReportView

TOP = 10
"""Number of associations shown for each model, and in the details of each group."""
FEW = 5
"""Number of associations shown for each location and group, and among those specific to one of two models."""
CARRIERS = 3
"""Number of descriptors named for an association."""
LONGEST, LONGEST_SENTENCE = 120, 300
"""Maximum number of characters shown of a concept and of a sentence."""
_STEM = 5
"""Number of first letters by which words of the judge and of the text are taken for the same."""
_OWNER = {"model": String, "part": String}
_NAME = ["group", "concept", "context"]
_MEANING = (
    "An association is a concept that the texts mention more often for one group than for others. It"
    " describes the texts, not people. A difference is a difference of two shares of character descriptions."
    " Means are descriptive only. Descriptions that could not be extracted are excluded: they count neither"
    " as containing a concept nor as lacking it."
)
_SELECTED = (
    "Adjustment for selection: an association is listed if q < 0.05 and its interval excludes 0. q is the"
    " smallest false discovery rate at which it would be selected, first the concept and then the group and"
    " location. Intervals are widened for the number of associations listed: at least {level} of them are"
    " expected to contain their true values. The differences themselves are not adjusted. Because only the"
    " strongest are listed, they are too large on average, the more so the fewer texts there are: in simulated studies"
    " of gender by 6 to 11% with 8,700 texts, and by 35 to 40% at single locations with 400 texts."
)
_PUBLISHED = (
    "An association is listed if its score, the published distinctiveness, is above 0 and p < 0.05, not"
    " adjusted for the number of tests. q is p adjusted for all tests (Benjamini-Hochberg); the published"
    " rule does not use it."
)
_POPULATIONS = {
    NAMES_LIKE_THESE: "These results are about texts like these with first names like these, not only about the names of this study.",
    THESE_NAMES: "These results are about the names of this study: with fewer than 20 first names of a group, an association may belong to"
    " a name rather than to the group.",
    TEXTS_LIKE_THESE: "These results are about texts like these.",
}
"""Sentences about the population of the associations, by their `estimand`."""
_ATTRIBUTED = "Words not attributed: share of the words of these texts that are about none of the characters; they count for no group."
_HOW = (
    "To list all associations: tiltmeter show RUN --all. To read the stories of one: tiltmeter show RUN"
    " --metric association --part PART --model MODEL --group GROUP --concept CONCEPT. Add --context LOCATION"
    " for an association at one location."
)
_SHARED = (
    "Associations of two models or settings: shared, and specific to one. A missing association may also have"
    " been too weak to be detected with this number of stories. Overlap is the number of shared associations"
    " divided by the number found in either."
)


def present(view: ReportView) -> list[Block]:
    """Return the blocks of all parts and models, followed by the associations that models and settings share."""
    single = _described(view.findings.filter(metric="association"), view)
    held = _described(_table(view, "definitional", DEFINITIONAL), view)
    lists = _table(view, "lists", {**_OWNER, "status": String, "problem": String})
    themes, by_words = (_table(view, name, {**_OWNER, **ASSOCIATIONS}) for name in ("themes", "by_words"))
    blocks: list[Block] = []
    for part in view.findings["part"].unique(maintain_order=True):
        blocks.append(Heading(view.titles.get(part, part)))
        blocks += _part(
            *(rows.filter(part=part) for rows in (view.findings, single, held, lists, themes, by_words))
        )
    if view.findings.is_empty():
        return []
    # The level of the study; levels of intervals after selection are higher.
    level: float = view.findings.select(col.level.min()).item()
    selection = _PUBLISHED if "score" in view.findings["unit"] else _SELECTED.format(level=confidence(level))
    if "score" not in view.findings["unit"]:
        selection += _size_of(view.findings)
    explanations = [Text(text, small=True) for text in (_MEANING, selection, _HOW)]
    return [*blocks, *_shared(view.findings, single), *explanations]


def _size_of(findings: DataFrame) -> str:
    """Return a sentence with the number of texts of each model and part; empty if it is unknown."""
    totals = findings.filter(col.group.is_null(), col.context.is_null(), metric="associations")[
        "attempts"
    ].drop_nulls()
    sizes = [f"{size:,}" for size in totals.unique().sort()]
    return (
        f" This run has {' to '.join(dict.fromkeys((sizes[0], sizes[-1])))} texts of each model."
        if sizes
        else ""
    )


def _table(view: ReportView, name: str, columns: Schema) -> DataFrame:
    found = view.table(name)
    return conform(found, columns) if found.width else DataFrame(schema=dict(columns))


def _described(findings: DataFrame, view: ReportView) -> DataFrame:
    """Join findings of single concepts with their row of `associations`.

    Add display columns such as `said` (the concept) and `counts`.

    Rows are sorted by the lower end of the interval (by the estimate where there is none), the strongest
    first.
    """
    counted = _table(view, "associations", {**_OWNER, **FOUND})
    counted = counted.with_columns(group="identity", concept="label", group_2="against", facing=_facing())
    counted = counted.drop("low", "high", "p", "q").rename({"level": "stored_level"})
    name = (*_OWNER, *_NAME, "group_2")
    rows = beside(findings, counted.unique(name), *name)
    # The findings of runs before version 4 have the level before the adjustment for selection, and their
    # table has none.
    rows = rows.with_columns(level=when(col.count.is_null()).then("level").otherwise("stored_level"))
    also = other_groups("group", *_OWNER, "concept", "context")
    doubtful = (col.runner_up_low <= 0) & col.against.is_null() & ~also.list.contains(col.runner_up)
    own, other = (
        ("count", "lists", _percent("rate")),
        ("others_count", "others_lists", _percent("others_rate")),
    )
    rows = rows.with_columns(
        said=_shortened(col.concept, LONGEST),
        where=col.context.fill_null("all"),
        whose=when(doubtful).then(pl.format("{} or {}", "group", "runner_up")).otherwise("group"),
        also=when(also.list.len() > 0).then(also.list.join(", ")),
        counts=pl.format("in {} of {} descriptions ({}%); {} {} of {} ({}%)", *own, "facing", *other),
        examples=col.examples.list.eval(_shortened(pl.element(), LONGEST_SENTENCE)),
    )
    return rows.sort(
        pl.coalesce("low", "estimate"), *_NAME, descending=[True, False, False, False], nulls_last=True
    )


def _facing() -> Expr:
    """Return what an `identity` is compared with: the one it is `against`, the only other one of the study, or "others"."""
    others = other_groups("identity", *_OWNER)
    return pl.coalesce("against", when(others.list.len() == 1).then(others.list.first()), lit("others"))


def _percent(column: str) -> Expr:
    return (col(column) * 100).round(1)


def _shortened(text: Expr, longest: int) -> Expr:
    return (
        when(text.str.len_chars() > longest)
        .then(pl.concat_str(text.str.head(longest - 1), lit("…")))
        .otherwise(text)
    )


# -- one part of a study, all models together -------------------------------------------------------------------------


def _part(
    findings: DataFrame,
    single: DataFrame,
    held: DataFrame,
    lists: DataFrame,
    themes: DataFrame,
    by_words: DataFrame,
) -> list[Block]:
    totals = findings.filter(col.group.is_null(), metric="associations")
    over_all = col.context.is_null()
    first = single.filter(
        over_all | ~over_all.any().over("model")
    )  # without tests over all locations, show those of each location
    missing = findings.filter(metric="missing")
    blocks: list[Block] = [_headline(row, first, single, missing) for row in totals.iter_rows(named=True)]
    populations = set(findings["estimand"])
    blocks += [Text(sentence) for population, sentence in _POPULATIONS.items() if population in populations]
    blocks += [
        Callout(f"{model}: {note}.")
        for model, note in totals.filter(col.estimate.is_null())["model", "note"].iter_rows()
    ]
    counts = findings.filter(col.group.is_not_null() & col.concept.is_null() & col.feature.is_null())
    if single.height:
        strongest = first.group_by("model", maintain_order=True).head(TOP)
        title = f"Strongest associations ({strongest.height:,} of {single.height:,})"
        blocks.append(_strongest(title, strongest))
        blocks += [
            _backing(str(model), mine) for (model,), mine in first.group_by("model", maintain_order=True)
        ]
    blocks += _themes(themes)
    if totals["estimate"].count():
        blocks.append(_of_groups(counts.filter(over_all), single))
    if single.height:
        blocks += _by_location(counts.drop_nulls("context"), single)
    blocks += [
        _held_back(rows, str(metric)) for (metric,), rows in held.group_by("metric", maintain_order=True)
    ]
    return [*blocks, *_missing(missing, lists), *_by_both(single, by_words)]


def _strongest(title: str, rows: DataFrame, what: str = "concept") -> Pairs | Table:
    """Return associations, or themes in which groups differ: their shares as a figure with a table, or a table if they are unknown."""
    names, numbers = _names_of(rows, what=what), _numbers_of(rows)
    if "also" in rows.columns and rows["also"].count():
        numbers.append(Column.of(rows, "also", "also for", "name"))
    if not rows["others_rate"].count():
        return Table(title, [*names, *numbers], lead=len(names))
    facing = [Column.of(rows, "facing", "compared with", "name")] if rows["against"].count() else []
    shares = [
        Column.of(rows, "rate", "share", "percent"),
        *facing,
        Column.of(rows, "others_rate", "others", "percent"),
    ]
    said = "a word of the theme" if what == "theme" else "the concept"
    others = SHARE_OF_OTHERS[bool(rows["against"].count())]
    note = f"Share: of the group's descriptions, those that contain {said}; others: {others}."
    model = pl.format(", {}", "model") if rows["model"].n_unique() > 1 else lit("")
    label = pl.concat_str("said", pl.format(" ({})", "context").fill_null(""), model)
    pairs = rows.drop_nulls("others_rate").select(label, "whose", "rate", "others_rate", "facing")
    table = Table(title, [*names, *shares, *numbers], lead=len(names), note=note)
    return Pairs(title, [PairRow(*row) for row in pairs.iter_rows()], table)


def _themes(themes: DataFrame) -> list[Block]:
    """Return the themes in which a group differs, as a figure, and the share of descriptions with a word of each theme, by group."""
    shown = themes.with_columns(
        group="identity", whose="identity", said="concept", where=lit("all"), facing=_facing()
    )
    shown = shown.with_columns(estimate="effect", unit=lit("difference"))
    made: list[Block] = []
    for (model,), rows in shown.group_by("model", maintain_order=True):
        about = f", {model}" if themes["model"].n_unique() > 1 else ""
        differs = rows.filter("reported").sort("low", descending=True).head(TOP)
        if differs.height:
            made.append(_strongest(f"Groups differ in these themes{about}", differs, "theme"))
        made.append(
            Heatmap.of(
                f"Descriptions with a word of each theme{about}",
                _by_group(rows, "concept", "rate"),
                "percent",
            )
        )
    return made


def _by_both(single: DataFrame, by_words: DataFrame) -> list[Block]:
    """Return one table of what the judge and words found over all locations.

    Concepts are the same if they share the stem of a word.
    """
    if by_words.is_empty():
        return []
    owner = ["model", "group"]
    sides = {"judge": single.filter(col.context.is_null()), "words": by_words.with_columns(group="identity")}
    both = pl.concat([side.select(*owner, "concept", "effect", by=lit(name)) for name, side in sides.items()])
    stems = (
        col.concept.str.to_lowercase()
        .str.split(" ")
        .list.eval(pl.element().filter(pl.element().str.len_chars() > 2).str.head(_STEM))
    )
    found = (
        both.with_columns(stem=stems)
        .explode("stem")
        .with_columns(shared=col.by.n_unique().over(*owner, "stem") > 1)
    )
    found = (
        found.group_by(*owner, "by", "concept")
        .agg(col.shared.any(), col.effect.first())
        .sort("effect", descending=True)
    )
    judged = col.by == "judge"
    counts = {
        "found by judge": judged.sum(),
        "found by words": (~judged).sum(),
        "shared": (judged & col.shared).sum(),
    }
    sides_only = {"by judge only": judged & ~col.shared, "by words only": ~judged & ~col.shared}
    only = {name: col.concept.filter(chosen).head(FEW).str.join(", ") for name, chosen in sides_only.items()}
    table = found.group_by(owner).agg(**counts, **only)
    kinds: dict[str, Kind] = {**dict.fromkeys(counts, "count"), **dict.fromkeys(only, "text")}
    columns = columns_of(table.sort(owner), kinds)
    return [Table("Associations found with the judge and with words", columns, lead=2)]


def _headline(
    row: Mapping[str, Any], strongest: DataFrame, single: DataFrame, missing: DataFrame
) -> Headline:
    """Return the headline of one model: the number of associations, the first of the `strongest`, numbers of texts."""
    model, found = named_model(row["model"]), row["estimate"]
    ended = ", ".join(f"{row[name]:,} {name}" for name in OUTCOMES if row[name] and name != "answered")
    texts = f"Texts: {row['attempts']:,}{f' ({ended})' if ended else ''}."
    texts += _descriptions(missing.filter(model=row["model"]))
    if found is None:
        return Headline(f"{model}: associations could not be counted", texts)
    text, detail = f"{model}: {found:,.0f} association{'' if found == 1 else 's'} found", []
    for first in strongest.filter(model=row["model"]).head(1).iter_rows(named=True):
        where = f" ({first['context']})" if first["context"] else ""
        text += f". Strongest: {first['whose']} → {first['said']}{where}"
        if first["others_rate"] is not None:
            text += f": in {100 * first['rate']:.0f}% of {first['lists']:,} descriptions, "
            text += f"{first['facing']} {100 * first['others_rate']:.0f}% of {first['others_lists']:,}"
        if first["low"] is not None:
            numbers = first["estimate"], first["low"], first["high"]
            value, ends = quantity(*numbers, first["unit"]), interval(*numbers[1:], first["unit"])
            name = _interval_at(first["level"])
            detail.append(f"The difference is {value} ({name} {ends}, adjusted for selection).")
    if (concepts := single.filter(model=row["model"])["concept"].n_unique()) < found:
        detail.append(
            f"All associations: {concepts} different concept{'' if concepts == 1 else 's'}, some for several groups or locations."
        )
    chance = f"{row['null_value']:.1f}" if row["null_value"] >= 0.05 else "fewer than 0.1"
    detail.append(
        f"By chance, {chance} associations would be found (groups shuffled, p = {row['p']:.2g}). {texts}"
    )
    return Headline(text, " ".join(detail))


def _descriptions(missing: DataFrame) -> str:
    """Return a sentence: how many character descriptions results rest on, of those that the texts should give.

    Parameters
    ----------
    missing
        Findings `missing` of one model.
    """
    expected, used = missing.drop_nulls("group").select(col("attempts", "answered").sum()).row(0)
    if not expected:
        return ""
    percent = 100 * used / expected
    # Rounding must not turn a share below 100% into 100%.
    share = ">99.9%" if 99.9 < percent < 100 else f"{percent:.3g}%"
    return f" Character descriptions used: {used:,} of {expected:,} ({share})."


_OF_GROUPS: Mapping[str, tuple[str, Kind, int]] = {
    "associations": ("associations", "count", 0),
    "overall": ("all locations together", "count", 2),
    "concepts": ("different concepts", "count", 1),
    "mean_effect": ("mean difference", "number", 3),
    "mean_score": ("mean score", "number", 3),
    "mean_p": ("mean p", "probability", 4),
    "missing": ("missing descriptions", "percent", 0),
    "mean_unattributed": ("words not attributed", "percent", 5),
}
"""Title, kind and rank of the numbers of a group."""


def _of_groups(counts: DataFrame, single: DataFrame) -> Table:
    rows = counts.pivot("metric", index=["model", "group"], values="estimate", maintain_order=True)
    if single["context"].count():
        overall = single.group_by("model", "group").agg(overall=col.context.null_count())
        rows = beside(rows, overall, "model", "group").with_columns(col.overall.fill_null(0))
    names = [
        Column.of(rows, name, kind="name")
        for name in ("model", "group")
        if name == "group" or rows[name].n_unique() > 1
    ]
    columns = [Column.of(rows, name, *how) for name, how in _OF_GROUPS.items() if name in rows.columns]
    note = _ATTRIBUTED if "mean_unattributed" in rows.columns else ""
    return Table("Associations of each group", [*names, *columns], lead=len(names), note=note)


def _by_location(cells: DataFrame, single: DataFrame) -> list[Block]:
    """Return the number of associations at each location, and the strongest of each."""
    made: list[Block] = []
    place = ["model", "context", "group"]
    named = pl.format("{} ({})", "said", col.estimate.round(2))
    said = single.group_by(place).agg(said=named.head(FEW).str.join(", "))
    for (model,), mine in cells.join(said, on=place, how="left").group_by("model", maintain_order=True):
        made.append(
            Heatmap.of(
                f"{model}: associations by location and group",
                _by_group(mine, "context", "estimate"),
                "count",
            )
        )
        words = _by_group(mine, "context", "said")
        columns = [
            Column.of(words, "context", "location", "name"),
            *(Column.of(words, group) for group in words.columns[1:]),
        ]
        made.append(
            Details(
                f"{model}: the strongest at each location",
                [Table("Up to five per location and group", columns)],
            )
        )
    return made


def _by_group(rows: DataFrame, index: str, values: str) -> DataFrame:
    """Return the values with one column per group, sorted, after the `index`.

    Of several values, the first.
    """
    return rows.pivot(
        "group", index=index, values=values, aggregate_function="first", sort_columns=True
    ).sort(index)


def _backing(model: str, first: DataFrame) -> Details:
    """Return the evidence for the strongest associations of each group, with example sentences."""
    one, more = pl.element().struct, col.descriptors.list.slice(CARRIERS).list.len()
    carrier = pl.format(
        "{} ({}%)", one.field("descriptor"), (100 * one.field("count") / one.field("lists")).round(1)
    )
    carriers = col.descriptors.list.head(CARRIERS).list.eval(carrier).list.join(", ")
    and_more = when(more > 0).then(pl.format(" and {} more", more)).otherwise(lit(""))
    words = {
        "counts": col.counts,
        "next group": pl.format("{} {}%", "runner_up", _percent("runner_up_rate")),
        "SD between names": pl.format("{} points", _percent("name_spread")),
        "confirmed in both halves": when("confirmed").then(lit("yes")).when(~col.confirmed).then(lit("no")),
        "difference in each half": pl.format(
            "{} and {}", col.effect_first.round(3), col.effect_second.round(3)
        ),
        "top descriptors": pl.concat_str(carriers, and_more),
        "depends on": col.rests_on,
        "p, descriptors shuffled": col.permutation_p.round(3).cast(String),
    }
    backed = first.group_by("group", maintain_order=True).head(TOP).with_columns(**words)
    blocks: list[Block] = []
    for (group,), rows in backed.group_by("group", maintain_order=True):
        known = [Column.of(rows, name) for name in words if rows[name].count()]
        blocks.append(
            Table(
                f"{group}: the strongest", [*_names_of(rows, without=("whose",)), *_numbers_of(rows), *known]
            )
        )
        said = rows.explode("examples").drop_nulls("examples")
        sentences = [
            Response(None, text, label=concept)
            for concept, text in said.select("said", "examples").iter_rows()
        ]
        blocks.append(Responses(f"{group}: sentences from the texts", sentences))
    return Details(f"{model}: the strongest of each group, with sentences", blocks)


_HELD_BACK = {
    "definitional": ("Excluded as definitional", "belong to the group by definition"),
    "echo": ("Excluded as echo of the prompt", "contain a word of the prompt of a text"),
}
"""Title and reason for each kind of excluded concepts; the kind is the value of -P keep."""


def _held_back(held: DataFrame, kind: str) -> Table:
    """Return one row per model, group and concept: the association over all locations if there is one, else the strongest."""
    whole = held.sort(col.context.is_null(), descending=True, maintain_order=True)
    rows = whole.unique(["model", "group", "concept"], keep="first", maintain_order=True)
    names = _names_of(rows)
    title, why = _HELD_BACK[kind]
    columns = [*names, _numbers_of(rows)[-1], Column.of(rows, "counts"), Column.of(rows, "reason")]
    note = f"These {rows.height:,} concepts {why}; they are not counted as associations. To include them: -P keep={kind}."
    return Table(title, columns, lead=len(names), note=note)


def _missing(findings: DataFrame, lists: DataFrame) -> list[Block]:
    """Report the number of missing lists, the most frequent reason, and whether their share differs between groups."""
    blocks: list[Block] = []
    for row in findings.filter(col.group.is_null() & (col.estimate > 0)).iter_rows(named=True):
        mine = lists.filter(model=row["model"])
        lost = mine.filter(status="missing")
        why = lost["problem"].str.replace(" name .*$", " name the person").drop_nulls().mode().sort().head(1)
        often = "".join(f" (most frequent reason: {one})" for one in why)
        text = (
            f"{row['model']}: {lost.height:,} of {mine.height:,} character descriptions are missing{often}; "
        )
        text += f"{row['note'] or 'no difference between groups was shown'} ({row['method']}, p = {row['p']:.2g})."
        blocks.append(Callout(text) if row["note"] else Text(text))
    return blocks


def _names_of(rows: DataFrame, *, what: str = "concept", without: Sequence[str] = ()) -> list[Column]:
    """Return the columns that name an association.

    Those of the model and the location only if they tell rows apart.
    """
    titles = {"model": "model", "whose": "group", "said": what, "where": "where"}
    told = {"model": rows["model"].n_unique() > 1, "where": set(rows["where"]) != {"all"}}
    return [
        Column.of(rows, name, title, "name")
        for name, title in titles.items()
        if told.get(name, True) and name not in without
    ]


def _numbers_of(rows: DataFrame) -> list[Column]:
    """Return the columns of estimate, interval and q.

    The level is a column of its own if intervals have different ones.
    """
    numbers = rows.select("estimate", "low", "high", "unit").rows()
    levels = rows["level"].unique()
    name = _interval_at(levels[0] if levels.len() == 1 else None)
    columns = [
        Column(
            "score" if "score" in rows["unit"] else "difference",
            [quantity(*one) for one in numbers],
            "quantity",
        ),
        Column(name, [interval(*ends) for _, *ends in numbers], "quantity"),
    ]
    if levels.len() > 1:
        written = [None if level is None else confidence(level) for level in rows["level"]]
        columns.append(Column("level", written, "quantity"))
    return [*columns, Column.of(rows, "q", kind="probability")]


def _interval_at(level: float | None) -> str:
    """Return "99.8% interval", or "interval" if the level is unknown."""
    return "interval" if level is None else f"{confidence(level)} interval"


# -- what models and settings share -----------------------------------------------------------------------------------


def _shared(findings: DataFrame, single: DataFrame) -> list[Block]:
    """Compare models and settings with the same groups: the number of shared associations, and the strongest that only one has."""
    about = (
        findings.filter(col.concept.is_null())
        .group_by(list(_OWNER), maintain_order=True)
        .agg(col.group.unique().sort())
    )
    blocks: list[Block] = []
    for _, sets in about.group_by("group", maintain_order=True):
        blocks += _family(sets.select(list(_OWNER)).rows(), single)
    return [Heading("Shared associations"), Text(_SHARED), *blocks] if blocks else []


def _family(owners: Sequence[tuple[str, str]], single: DataFrame) -> list[Block]:
    differs = [len(set(names)) > 1 for names in zip(*owners, strict=True)]
    labels = [" · ".join(itertools.compress(owner, differs)) for owner in owners]
    sets = [single.filter(model=model, part=part) for model, part in owners]
    names = [set(rows.select(_NAME).iter_rows()) for rows in sets]
    overlap = [
        [
            len(mine & theirs) / len(mine | theirs) if mine is not theirs and mine | theirs else None
            for theirs in names
        ]
        for mine in names
    ]
    pairs, alone = [], []
    for i, j in itertools.combinations(range(len(owners)), 2):
        if any(map(eq, owners[i], owners[j])):
            only = [_only(labels[a], sets[a], labels[b], sets[b]) for a, b in ((i, j), (j, i))]
            pairs.append(
                (
                    labels[i],
                    labels[j],
                    len(names[i] & names[j]),
                    only[0].height,
                    only[1].height,
                    overlap[i][j],
                )
            )
            alone += [rows.head(FEW) for rows in only]
    if not pairs:  # no two share a model or a part
        return []
    table = DataFrame(
        pairs, schema=["first", "second", "shared", "only first", "only second", "overlap"], orient="row"
    )
    kinds: dict[str, Kind] = {
        "shared": "count",
        "only first": "count",
        "only second": "count",
        "overlap": "number",
    }
    columns = columns_of(table, kinds)
    blocks: list[Block] = [Table("Associations shared by two models or settings", columns, lead=2)]
    if len(owners) > 2:
        blocks.append(Heatmap("Overlap of associations", labels, labels, overlap))
    if (rows := pl.concat(alone)).height:
        columns = [
            *(Column.of(rows, name) for name in ("only in", "not in")),
            *_names_of(rows, without=("model",)),
            *_numbers_of(rows)[:1],
        ]
        blocks.append(
            Details(
                "Associations of one model or setting only",
                [Table("The strongest associations of one only", columns, lead=5)],
            )
        )
    return blocks


def _only(label: str, mine: DataFrame, other: str, theirs: DataFrame) -> DataFrame:
    """Return the associations that the first has and the second lacks."""
    only = mine.join(theirs, on=_NAME, how="anti", nulls_equal=True, maintain_order="left")
    return only.with_columns(**{"only in": lit(label), "not in": lit(other)})
