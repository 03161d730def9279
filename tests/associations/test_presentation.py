"""Reports of associations: counts by group and location, the strongest with evidence, shared associations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from types import SimpleNamespace
from typing import Any, TypeVar

import polars as pl
import pytest

from tiltmeter.associations._presentation_rows import (
    LONGEST_CONCEPT,
    TOP,
    TOP_OF_GROUP,
    TOP_OF_PLACE,
)
from tiltmeter.associations._suite import suite
from tiltmeter.associations._tables import DEFINITIONAL, FOUND
from tiltmeter.blocks import (
    Block,
    Callout,
    Details,
    Heading,
    Headline,
    Heatmap,
    Pairs,
    Responses,
    Table,
    Text,
)
from tiltmeter.schema import EXAMPLES, FINDINGS, conform

Row = dict[str, Any]
Shape = TypeVar("Shape")


def findings(*rows: Row, model: str = "m", part: str = "gender") -> pl.DataFrame:
    shared = {
        "study": "associations",
        "model": model,
        "part": part,
        "level": 0.95,
        "attempts": 10,
        "answered": 10,
        "key": False,
    }
    return conform(pl.DataFrame([shared | row for row in rows], infer_schema_length=None), FINDINGS)


def single(group: str, concept: str, estimate: float, context: str | None = None) -> Row:
    about = {
        "metric": "association",
        "group": group,
        "concept": concept,
        "context": context,
        "unit": "difference",
    }
    return about | {
        "estimate": estimate,
        "low": estimate - 0.05,
        "high": estimate + 0.05,
        "p": 0.001,
        "q": 0.01,
    }


def count(group: str | None, number: float, context: str | None = None) -> Row:
    about = {
        "metric": "associations",
        "group": group,
        "context": context,
        "estimate": number,
        "key": context is None,
        "unit": "count",
    }
    return about | ({"null_value": 0.5, "p": 0.01} if group is None else {})


def counted(female: int, male: int) -> list[Row]:
    """Return the findings of every study about the numbers of associations of two groups."""
    means = [
        {"metric": "mean_effect", "group": "female", "estimate": 0.25},
        {"metric": "mean_p", "group": "female", "estimate": 0.002},
    ]
    return [count(None, female + male), count("female", female), count("male", male), *means]


WHOLE = [
    count(None, 3), count("female", 2), count("male", 1), count("female", 4, "sports"),
    count("female", 0, "media"), count("male", 1, "sports"), count("male", 0, "media"),
]  # fmt: skip
COUNTS = "in 12 of 40 descriptions (30.0%); others 3 of 120 (2.5%)"


def found(
    group: str, label: str, context: str | None = None, *, model: str = "m", **more: object
) -> pl.DataFrame:
    """Return one row of the table `associations`."""
    row: Row = {
        "model": model,
        "part": "gender",
        "identity": group,
        "concept": f"{label}!",
        "label": label,
        "context": context,
    }
    counts: Row = {
        "count": 12,
        "lists": 40,
        "rate": 0.3,
        "others_count": 3,
        "others_lists": 120,
        "others_rate": 0.025,
        "reported": True,
    }
    columns = {"model": pl.String, "part": pl.String, **FOUND}
    return conform(pl.DataFrame([row | counts | more], infer_schema_length=None), columns)


def shown(*findings: pl.DataFrame, **tables: pl.DataFrame) -> list[Block]:
    """Return the blocks of a report of findings and other tables."""
    view: Any = SimpleNamespace(
        findings=pl.concat(findings),
        examples=pl.DataFrame(schema=dict(EXAMPLES)),
        titles={"gender": "Gender"},
    )
    view.table = lambda name: tables.get(name, pl.DataFrame())
    return suite.present(view)


def blocks(kind: type[Shape], among: Sequence[Block], title: str = "") -> list[Shape]:
    return [block for block in among if isinstance(block, kind) and title in getattr(block, "title", "")]


def rows(table: Table, *names: str) -> list[tuple[object, ...]]:
    columns = {column.name: column.values for column in table.columns}
    return list(zip(*(columns[name] for name in names or columns), strict=True))


def test_a_report_begins_with_counts_of_groups_and_the_strongest_associations() -> None:
    many = [single("female", f"c{i:02}", i / 100) for i in range(1, 21)]
    report = shown(
        findings(*WHOLE, *many, single("male", "calm", 0.5), single("male", "calm", 0.9, "sports"))
    )
    assert report[0] == Heading("Gender")
    (head,) = blocks(Headline, report)
    assert report[1] == head
    assert head.text.startswith("m: 19 associated concepts found. Strongest: male → calm")
    assert head.detail == (
        "The difference for “calm” is 50 points (95% interval 45 to 55, widened for selection). "
        "Of 22 associations in all, 2 differ by less than 3 points, 1 repeats a concept for another group or "
        "location. By chance, 0.5 associations would be found (groups shuffled, p = 0.01). Texts: 10."
    )
    (groups,) = blocks(Table, report, "of each group")
    assert rows(groups, "group", "associations", "all locations together") == [
        ("female", 2, 20),
        ("male", 1, 1),
    ]
    (strongest,) = blocks(Table, report, "Strongest associations, all locations together (6 of 19)")
    assert rows(strongest, "group", "concept", "difference")[:2] == [
        ("male", "calm", "50 points"),
        ("female", "c20", "20 points"),
    ]
    assert rows(strongest, "95% interval", "q")[0] == ("45 to 55", 0.01)
    assert len(rows(strongest)) == TOP_OF_GROUP + 1
    (places,) = blocks(Details, report, "m: associations at each location")
    (heat,) = blocks(Heatmap, places.blocks)
    assert (heat.rows, heat.columns, heat.values) == (
        ["media", "sports"],
        ["female", "male"],
        [(0, 0), (4, 1)],
    )
    assert "describes the texts, not people" in " ".join(block.text for block in blocks(Text, report))


@pytest.mark.parametrize(
    ("rate", "low", "sentence"),
    [
        (0.25, -0.01, "Next is male with 25.0%, and may be as high."),
        (0.05, 0.1, "Next is male with 5.0%."),
        (0.35, -0.2, "male has a higher share, 35.0%, which may be chance."),
    ],
)
def test_the_headline_names_the_next_group_beside_the_group_of_the_share(
    rate: float, low: float, sentence: str
) -> None:
    first = found(
        "female", "calm", runner_up="male", runner_up_rate=rate, runner_up_low=low, runner_up_high=0.3
    )
    others = [found(group, "calm", reported=False) for group in ("male", "nonbinary")]
    table = pl.concat([first, *others])
    (head,) = blocks(Headline, shown(findings(*WHOLE, single("female", "calm", 0.3)), associations=table))
    assert "Strongest: female → calm: in 30.0% of 40 descriptions, others 2.5% of 120" in head.text
    assert sentence in head.detail


def test_the_headline_states_the_number_of_descriptions_used() -> None:
    lost = {"metric": "missing", "unit": "share"}
    each = [
        lost | {"group": group, "attempts": 800, "answered": used, "unreadable": 800 - used}
        for group, used in (("a", 600), ("b", 472))
    ]
    (head,) = blocks(
        Headline, shown(findings(*WHOLE, lost | {"estimate": 0.33, "p": 0.5, "method": "chi-squared"}, *each))
    )
    assert head.detail.endswith("Texts: 10. Character descriptions used: 1,072 of 1,600 (67%).")
    (head,) = blocks(
        Headline, shown(findings(count(None, 0), lost | {"group": "a", "attempts": 800, "answered": 800}))
    )
    assert head.detail.endswith("Character descriptions used: 800 of 800 (100%).")
    (head,) = blocks(
        Headline, shown(findings(count(None, 0), lost | {"group": "a", "attempts": 4000, "answered": 3998}))
    )
    assert head.detail.endswith("Character descriptions used: 3,998 of 4,000 (>99.9%).")


@pytest.mark.parametrize(
    ("estimand", "message"),
    [
        ("names like these", "first names like these, not only about the names of this study"),
        ("these names", "about the names of this study: with fewer than 20 first names"),
        ("texts like these", "These results are about texts like these."),
    ],
)
def test_the_population_of_the_results_is_stated_once(estimand: str, message: str) -> None:
    row = single("female", "calm", 0.3) | {"estimand": estimand}
    texts = [
        block.text
        for block in blocks(
            Text, shown(findings(*WHOLE, row, row | {"concept": "witty"}, model="a"), findings(row))
        )
    ]
    assert len([text for text in texts if message in text]) == 1
    other_estimands = {"names like these", "these names", "texts like these"} - {estimand}
    assert not any("results are about" in text and message not in text for text in texts), other_estimands


def test_the_adjustment_for_selection_and_its_limit_are_stated_once() -> None:
    texts = [
        block.text
        for block in blocks(
            Text, shown(findings(*WHOLE, single("female", "calm", 0.3)), findings(*WHOLE, model="n"))
        )
    ]
    (selection,) = [text for text in texts if "selection" in text]
    assert "q is the smallest false discovery rate at which it would be selected" in selection
    assert "at least 95% of them are expected to contain their true values" in selection
    assert "too large on average, the more so the fewer texts there are" in selection
    assert "by 6 to 11% with 8,700 texts, and by 35 to 40% at single locations with 400 texts." in selection
    assert "This run has 10 texts of each model." in selection
    assert not any("expected share" in text for text in texts)


def test_the_level_of_an_interval_is_that_of_its_association() -> None:
    rows_of = [
        single("female", "calm", 0.3) | {"level": 0.99834},
        single("male", "witty", 0.2) | {"level": 0.99834},
    ]
    report = shown(findings(*WHOLE, *rows_of))
    (strongest,) = blocks(Table, report, "Strongest associations")
    assert rows(strongest, "99.8% interval") == [("25 to 35",), ("15 to 25",)]
    (head,) = blocks(Headline, report)
    assert "99.8% interval 25 to 35, widened for selection" in head.detail
    assert not any(
        "95% interval" in column.name for table in blocks(Table, report) for column in table.columns
    )
    second_model = findings(*WHOLE, single("female", "calm", 0.1) | {"level": 0.99996}, model="n")
    (strongest,) = blocks(Table, shown(findings(*WHOLE, *rows_of), second_model), "Strongest associations")
    assert rows(strongest, "interval", "level") == [
        ("25 to 35", "99.8%"),
        ("15 to 25", "99.8%"),
        ("5 to 15", "99.996%"),
    ]


def test_details_of_an_association_show_its_descriptors_and_sentences() -> None:
    carriers = [{"descriptor": f"Emily {i}", "count": 4, "lists": 10} for i in range(5)]
    sentence = "<img src=x>" + "y" * 1000
    table = found(
        "female", "x" * 1000, runner_up="male", runner_up_rate=0.2, effect_first=0.25, effect_second=0.31,
        confirmed=True, descriptors=carriers, rests_on="Emily 0", permutation_p=0.04, examples=[sentence],
    )  # fmt: skip
    report = shown(findings(*WHOLE, single("female", "x" * 1000, 0.3)), associations=table)
    (pairs,) = blocks(Pairs, report, "Strongest associations")
    strongest = pairs.table
    assert rows(strongest, "concept", "share", "others") == [("x" * (LONGEST_CONCEPT - 1) + "…", 0.3, 0.025)]
    (details,) = blocks(Details, report, "with sentences")
    (backing,) = blocks(Table, details.blocks, "female")
    names = (
        "next group",
        "confirmed in both halves",
        "difference in each half",
        "top descriptors",
        "depends on",
        "p, descriptors shuffled",
    )
    carried = "Emily 0 (40.0%), Emily 1 (40.0%), Emily 2 (40.0%) and 2 more"
    assert rows(backing, *names) == [("male 20.0%", "yes", "0.25 and 0.31", carried, "Emily 0", "0.04")]
    (sentences,) = blocks(Responses, details.blocks)
    (answer,) = [row.answer for row in sentences.rows]
    assert answer is not None
    assert answer.startswith("<img src=x>yyy")
    assert len(answer) <= 300


def test_a_study_without_a_comparison_is_reported_as_such() -> None:
    nothing = {
        "metric": "associations",
        "estimate": None,
        "key": True,
        "refused": 10,
        "answered": 0,
        "note": "nothing to compare: why",
    }
    report = shown(findings(nothing, nothing | {"group": "female"}))
    assert report[1:3] == [
        Headline("m: associations could not be counted", "Texts: 10 (10 refused).", model="m"),
        Callout("m: nothing to compare: why."),
    ]
    assert not blocks(Table, report)


@pytest.mark.parametrize("differs", [True, False])
def test_missing_lists_are_reported_with_the_test_of_their_shares(differs: bool) -> None:
    warning = "the share of missing descriptions differs between groups" if differs else None
    missing = {
        "metric": "missing",
        "estimate": 0.25,
        "p": 0.02,
        "method": "permutation test of independence",
        "note": warning,
    }
    each = [
        {"metric": "missing", "group": group, "estimate": share}
        for group, share in (("female", 0.5), ("male", 0.0))
    ]
    ends = {
        "status": ["missing", "listed", "listed", "empty"],
        "problem": ["the story does not name Emily", None, None, None],
    }
    report = shown(
        findings(*WHOLE, missing, *each), lists=pl.DataFrame({"model": "m", "part": "gender"} | ends)
    )
    text = (
        "m: 1 of 4 character descriptions are missing "
        "(most frequent reason: the story does not name the person); "
        f"{warning or 'no difference between groups was shown'} (permutation test of independence, p = 0.02)."
    )
    assert (Callout(text) if differs else Text(text)) in report
    assert rows(blocks(Table, report, "of each group")[0], "missing descriptions") == [(0.5,), (0.0,)]


def test_definitional_concepts_are_shown_once_with_counts_and_reason() -> None:
    excluded = [
        single("male", "family man", 0.4, "sports"),
        single("male", "family man", 0.3),
        single("male", "man", 0.2, "media"),
    ]
    definitional = findings(*(row | {"metric": "definitional"} for row in excluded)).with_columns(
        reason=pl.lit("male by definition")
    )
    assert set(definitional.columns) == set(DEFINITIONAL)
    report = shown(findings(*WHOLE), definitional=definitional, associations=found("male", "family man"))
    (table,) = blocks(Table, report, "definitional")
    expected = [("male", "family man", "all", COUNTS), ("male", "man", "media", None)]
    assert rows(table, "group", "concept", "where", "counts", "reason") == [
        (*row, "male by definition") for row in expected
    ]


def test_the_strongest_associations_of_each_location_are_shown() -> None:
    many = [single("female", f"c{i}", i / 10, "sports") for i in range(1, 8)]
    report = shown(
        findings(*WHOLE, *many, single("male", "tired", 0.2, "media"), single("male", "calm", 0.9))
    )
    (details,) = blocks(Details, report, "each location")
    (table,) = blocks(Table, details.blocks)
    of_sports = "c7 (0.7), c6 (0.6), c5 (0.5), c4 (0.4), c3 (0.3)"
    assert rows(table, "location", "female", "male") == [
        ("media", None, "tired (0.2)"),
        ("sports", of_sports, None),
    ]


def test_associations_that_two_models_share_are_shown() -> None:
    first = [
        single("female", "calm", 0.3),
        single("female", "witty", 0.2),
        single("male", "calm", 0.1, "sports"),
    ]
    first_model = findings(*counted(2, 1), *first, model="one")
    second_model = findings(
        *counted(1, 1), single("female", "calm", 0.1), single("male", "calm", 0.4, "media"), model="two"
    )
    report = shown(first_model, second_model)
    assert Heading("Shared associations") in report
    (pairs,) = blocks(Table, report, "share")
    assert rows(pairs) == [("one", "two", 1, 2, 1, pytest.approx(1 / 4))]
    (details,) = blocks(Details, report, "one model or setting only")
    (table,) = blocks(Table, details.blocks)
    assert rows(table, "only in", "not in", "concept", "where") == [
        ("one", "two", "witty", "all"), ("one", "two", "calm", "sports"), ("two", "one", "calm", "media"),
    ]  # fmt: skip
    (groups,) = blocks(Table, report, "of each group")
    assert rows(groups, "model", "group", "mean difference", "mean p")[0] == ("one", "female", 0.25, 0.002)


def test_models_and_settings_are_compared_in_pairs() -> None:
    """Compare pairs that differ in the model or in the setting, and not in both; the matrix has all pairs."""
    sets = []
    for number, (model, part) in enumerate(product(("a", "b"), ("gender", "gender_single")), 1):
        associations = [single("female", f"c{place}", 0.1) for place in range(number)]
        sets.append(findings(*counted(number, 0), *associations, model=model, part=part))
    report = shown(*sets)
    (pairs,) = blocks(Table, report, "share")
    names = ["a · gender", "a · gender_single", "b · gender", "b · gender_single"]
    assert rows(pairs, "first", "second") == [
        (names[i], names[j]) for i, j in ((0, 1), (0, 2), (1, 3), (2, 3))
    ]
    (overlap,) = blocks(Heatmap, report, "Overlap")
    assert list(overlap.rows) == names
    assert overlap.values[0] == [None, 1 / 2, 1 / 3, 1 / 4]


def test_studies_of_different_groups_are_not_compared() -> None:
    gender = findings(*counted(1, 0), single("female", "calm", 0.3))
    race = findings(count(None, 1), count("black", 1), count("white", 0), part="race")
    assert Heading("Shared associations") not in shown(gender, race)
    second_model = findings(
        *counted(1, 0), single("female", "calm", 0.3), model="other", part="gender_single"
    )
    # Neither the model nor the part is the same.
    assert Heading("Shared associations") not in shown(gender, second_model)


def test_the_level_of_an_association_without_a_stored_level_is_not_stated() -> None:
    """Show a run before version 4: its findings have the level of the study, and its tables have none."""
    table = found("female", "calm", level=None)
    report = shown(findings(*WHOLE, single("female", "calm", 0.3)), associations=table)
    (head,) = blocks(Headline, report)
    assert "(interval 25 to 35, widened for selection)" in head.detail
    (pairs,) = blocks(Pairs, report, "Strongest associations")
    assert rows(pairs.table, "interval") == [("25 to 35",)]


def test_published_scores_have_no_interval() -> None:
    row = single("female", "calm", 0.4, "sports") | {"unit": "score", "low": None, "high": None}
    report = shown(findings(*WHOLE, row))
    (strongest,) = blocks(Table, report, "Strongest associations")
    assert rows(strongest, "where", "score", "95% interval") == [("sports", "0.400", "–")]
    texts = " ".join(block.text for block in blocks(Text, report))
    assert "p < 0.05, not adjusted for the number of tests" in texts
    assert "Adjustment for selection" not in texts


def test_thousands_of_associations_are_shown_in_few_rows() -> None:
    places = [f"place {i}" for i in range(10)]
    cells = [count(group, 300, place) for place in places for group in ("female", "male")]
    every = [
        single(("female", "male")[i % 2], f"concept number {i}", 1 / (1 + i), places[i // 2 % 10])
        for i in range(6000)
    ]
    report = shown(
        *(findings(*counted(3000, 3000), *cells, *every, model=f"vendor/model-{k}") for k in range(3))
    )
    tables = blocks(Table, report) + [
        table for details in blocks(Details, report) for table in blocks(Table, details.blocks)
    ]
    assert max(len(rows(table)) for table in tables) <= max(3 * TOP, 6 * TOP_OF_PLACE)
    assert "Strongest associations (30 of 99)" in [table.title for table in tables]


def test_of_several_models_the_one_with_most_associated_concepts_is_first() -> None:
    none = findings(count(None, 0), count("female", 0), count("male", 0), model="none")
    one = findings(
        *WHOLE, single("female", "calm", 0.9), single("female", "calm", 0.9, "sports"), model="one"
    )
    two = findings(*WHOLE, single("female", "calm", 0.2), single("male", "loud", 0.2), model="two")
    report = shown(none, one, two)
    assert [head.text.partition(".")[0] for head in blocks(Headline, report)] == [
        "two: 2 associated concepts found",
        "one: 1 associated concept found",
        "none: 0 associated concepts found",
    ]
    (strongest,) = blocks(Table, report, "Strongest associations")
    assert rows(strongest, "model") == [("two",), ("two",), ("one",)]
