"""The tables of the paper, made from a run and from released files, in Python, on the screen and as files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

import tiltmeter as tm
from associations.conftest import Study
from conftest import Tiltmeter
from tiltmeter.associations.paper_tables import by_location, summary, tables_of, top
from tiltmeter.associations.released import read_released
from tiltmeter.blocks import Table

RELEASED = "two1_QWEN3-32B_sim_gender_cb20_base.csv"
RUN = (
    "run",
    "associations/gender",
    "-m",
    "sim/biased",
    "--limit",
    "25",
    "-P",
    "encoder=none",
    "--display",
    "none",
)


ASSOCIATIONS = [
    ("a", "x", "bank", "calm", 0.3, 0.25, 0.01, True),
    ("a", "x", "bank", "shy", 0.4, 0.10, 0.02, True),
    ("a", "x", None, "calm", 0.2, 0.19, 0.001, True),
    ("a", "y", "gym", "tall", 0.5, 0.45, 0.001, True),
    ("b", "x", "bank", "calm", 0.6, 0.5, 0.001, True),
    ("b", "y", "gym", "tall", 0.7, 0.6, 0.001, False),
]
"""Rows of two models; the second has a group without an association, and a row that was not selected."""


def associations() -> pl.DataFrame:
    names = ["model", "identity", "context", "concept", "score", "low", "p", "reported"]
    return pl.DataFrame(ASSOCIATIONS, schema=names, orient="row").with_columns(
        part=pl.lit("gender"), label=pl.col("concept") + "!"
    )


def test_tables_keep_locations_totals_and_models_separate() -> None:
    table = summary(associations()).select("model", "scope", "identity", "count", "mean_score", "median_p")
    assert table.rows() == [
        ("a", "all", "x", 1, 0.2, 0.001),
        ("a", "location", "x", 2, pytest.approx(0.35), pytest.approx(0.015)),
        ("a", "location", "y", 1, 0.5, 0.001),
        ("b", "location", "x", 1, 0.6, 0.001),
        ("b", "location", "y", 0, None, None),
    ]
    counts = by_location(associations()).select("model", "identity", "context", "count").rows()
    assert counts == [
        *[("a", "x", "bank", 2), ("a", "x", "gym", 0), ("a", "y", "bank", 0), ("a", "y", "gym", 1)],
        *[("b", "x", "bank", 1), ("b", "x", "gym", 0), ("b", "y", "bank", 0), ("b", "y", "gym", 0)],
    ]


def test_the_strongest_associations_have_the_labels_of_reports() -> None:
    ranked = (
        top(associations(), 1, each_identity=True)
        .select("model", "scope", "identity", "rank", "concept")
        .rows()
    )
    assert ranked == [
        *[
            ("a", "all", "x", 1, "calm!"),
            ("a", "location", "x", 1, "shy!"),
            ("a", "location", "y", 1, "tall!"),
        ],
        ("b", "location", "x", 1, "calm!"),
    ]
    by_interval = top(associations().filter(model="a", identity="x"), 2, by="low").filter(scope="location")
    assert by_interval.select("rank", "concept").rows() == [(1, "calm!"), (2, "shy!")]
    overall = top(associations().filter(model="a"), 2).filter(scope="location")
    assert overall.select("rank", "identity", "concept").rows() == [(1, "y", "tall!"), (2, "x", "shy!")]


def test_texts_without_locations_have_no_counts_by_location(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiltmeter: Tiltmeter
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"text": f"She {'plays chess' if i % 10 else 'sings'}.", "group": "f"} for i in range(40)]
    rows += [{"text": f"He {'sings' if i % 10 else 'plays chess'}.", "group": "m"} for i in range(40)]
    run = tm.analyse(
        pl.DataFrame(rows), "associations", text="text", group="group", out="own", display="none"
    )
    assert run.table("locations").is_empty()
    assert "there are no locations" in tiltmeter("show", str(run.path), "--table", "locations").stdout
    assert run.table("summary").select("scope", "identity").rows() == [("all", "f"), ("all", "m")]
    listed = run.findings.filter(metric="association").select(
        "group", "concept", "estimate", "low", "high", "level", "q"
    )
    assert listed.height > 0
    assert sorted(
        run.table("top").select("identity", "concept", "score", "low", "high", "level", "q").rows()
    ) == sorted(listed.rows())


def shown_top(*, models: Sequence[str] = ("a",), **columns: Sequence[object]) -> Table:
    """Return the table `top` as it is shown, with associations of the first of these models."""
    count = len(next(iter(columns.values())))
    cells = {
        "identity": ["x"] * count,
        "concept": ["calm"] * count,
        "rate": [0.4] * count,
        "others_rate": [0.1] * count,
    }
    cells |= {
        "score": [0.3] * count,
        "low": [0.2] * count,
        "high": [0.4] * count,
        "level": [0.99] * count,
        "reported": [True] * count,
    }
    table = pl.DataFrame(cells | dict(columns)).with_columns(
        model=pl.lit(models[0]), part=pl.lit("gender"), label="concept"
    )
    findings = pl.DataFrame({"model": models, "part": "gender", "unit": "difference"})
    view: Any = SimpleNamespace(findings=findings, table=lambda name: table)
    entries = tables_of(view)["top"]
    return entries.present(entries.rows())


def test_the_table_top_names_the_compared_group_and_the_level_of_each_interval() -> None:
    table = shown_top(against=["y", "z"], level=[0.99, 0.975])
    values = {column.name: column.values for column in table.columns}
    assert values["compared with"] == ["y", "z"]
    assert values["level"] == ["99%", "97.5%"]
    assert "interval" in values
    assert "the same share for the group or groups that it is compared with" in table.note
    alone = shown_top(level=[0.99, 0.99])
    names = [column.name for column in alone.columns]
    assert "99% interval" in names
    assert "level" not in names
    assert "compared with" not in names
    assert "the same share for the other groups" in alone.note


def test_the_table_top_names_the_model_if_the_run_has_several() -> None:
    assert shown_top(models=("a", "b"), level=[0.99]).columns[0].name == "model"
    assert "model" not in [column.name for column in shown_top(level=[0.99]).columns]


def test_tables_of_a_run_without_associations_state_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiltmeter: Tiltmeter
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = pl.DataFrame([{"text": "Yes.", "group": group} for group in "fm"] * 5)
    run = tm.analyse(rows, "associations", text="text", group="group", out="own", display="none")
    for name in ("summary", "locations", "top"):
        assert run.table(name).is_empty()
        assert "no associations were found" in tiltmeter("show", str(run.path), "--table", name).stdout
        assert json.loads(tiltmeter("show", str(run.path), "--table", name, "-f", "json").stdout) == []


def silent(prompt: str) -> str:
    return ""


def test_tables_of_a_run_without_countable_associations_state_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiltmeter: Tiltmeter
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.warns(tm.IncompleteRun):
        run = tm.run(
            "associations/gender",
            model=silent,
            limit=2,
            params={"encoder": "none"},
            out="run",
            display="none",
            yes=True,
        )
    for name in ("summary", "locations", "top"):
        assert run.table(name).is_empty(), "no row of nulls"
        assert "associations could not be counted" in tiltmeter("show", str(run.path), "--table", name).stdout


@pytest.fixture(params=["default", "paper", "badf-code"])
def run(request: pytest.FixtureRequest, study_once: Study) -> tm.Run:
    return study_once(*RUN, "--definition", request.param)


@pytest.mark.verify
def test_the_tables_of_a_run_agree_with_its_findings(run: tm.Run) -> None:
    findings = (
        run.findings.filter(metric="associations")
        .drop_nulls("context")
        .select("group", "context", "estimate")
    )
    counts = run.table("locations").select("identity", "context", pl.col("count").cast(pl.Float64))
    assert sorted(counts.rows()) == sorted(findings.rows())
    single = run.findings.filter(metric="association")
    assert single.height > 0
    for identity, scope, count in run.table("summary").select("identity", "scope", "count").iter_rows():
        in_scope = pl.col("context").is_null() if scope == "all" else pl.col("context").is_not_null()
        own_rows = single.filter(in_scope, group=identity)
        assert own_rows.height == count
        ranked = run.table("top").filter(identity=identity, scope=scope)
        assert ranked["rank"].to_list() == list(range(1, min(count, 10) + 1))
        by = "estimate" if run.about["definition"] != "default" else "low"
        strongest = own_rows.sort(by, descending=True)["estimate" if by == "estimate" else "low"].head(10)
        assert ranked["score" if by == "estimate" else "low"].to_list() == pytest.approx(strongest.to_list())
    ends = run.table("top").select("low", "high", "level")
    assert ends.null_count().row(0) == (
        (0, 0, 0) if run.about["definition"] == "default" else (ends.height,) * 3
    )


@pytest.mark.verify
@pytest.mark.parametrize("definition", ["paper", "badf-code"])
def test_a_run_exported_in_the_format_of_the_authors_gives_the_same_tables(
    definition: str, study_once: Study, tmp_path: Path
) -> None:
    run = study_once(*RUN, "--definition", definition)
    columns = {
        "context": "Location Category",
        "identity": "Demographic Identity",
        "label": "Phrase",
        "score": "Score",
        "p": "P-Value",
    }
    released = (
        run.table("associations")
        .filter("reported")
        .select(*columns, pl.lit("NO").alias("Prompt Response"))
        .rename(columns)
    )
    released.write_csv(tmp_path / "released.csv")
    table = read_released(tmp_path / "released.csv")
    counted = run.table("summary").filter(pl.col("count") > 0)
    assert summary(table).equals(counted.drop("model", "part"))
    names = ["identity", "context", "count"]
    assert sorted(by_location(table).filter(pl.col("count") > 0).select(names).rows()) == sorted(
        run.table("locations").filter(pl.col("count") > 0).select(names).rows()
    )
    names = ["identity", "rank", "context", "concept", "score", "p"]
    assert top(table, each_identity=True).select(names).equals(run.table("top").select(names))


@pytest.mark.verify
def test_the_screen_and_exported_files_show_the_same_rows(run: tm.Run, tiltmeter: Tiltmeter) -> None:
    for name in ("summary", "locations", "top"):
        table = run.table(name)
        printed = tiltmeter("show", str(run.path), "--table", name, "-f", "json")
        assert [tuple(row.values()) for row in json.loads(printed.stdout)] == table.rows()
        screen = tiltmeter("show", str(run.path), "--table", name).stdout
        (document,) = tm.export(run, "markdown", table=name)
        (latex,) = tm.export(run, "latex", table=name)
        (parquet,) = tm.export(run, "parquet", table=name)
        assert pl.read_parquet(parquet).equals(table)
        text, tabular = Path(document).read_text(), Path(latex).read_text()
        named = [*table["identity"].unique(), *(table["concept"] if name == "top" else [])]
        assert all(word in place for word in named for place in (screen, text, tabular))
        assert tm.export(run, "csv", table=name, model="sim/biased")
    top_ten = tiltmeter("show", str(run.path), "--table", "top").stdout
    assert ("score" in top_ten) == (run.about["definition"] != "default")
    assert ("difference" in top_ten) == (run.about["definition"] == "default")


@pytest.mark.verify
def test_unknown_tables_and_options_that_do_not_apply_are_refused(
    study_once: Study, tiltmeter: Tiltmeter
) -> None:
    run = study_once(*RUN, "--definition", "default")
    for words, message in (
        (("--table", "tops"), "--table tops: show has no such table: did you mean top?"),
        (("--table", "mentions"), "tiltmeter export exports all other tables"),
        (("--table", "top", "--group", "female"), "--group does not apply to --table"),
        (("--table", "top", "--all"), "--all and --table cannot be combined"),
        (("--table", "top", "--model", "sim/fair"), "has the model 'sim/fair'"),
    ):
        failed = tiltmeter("show", str(run.path), *words)
        assert failed.returncode == 2
        assert message in failed.stderr
    with pytest.raises(tm.InputError, match="did you mean top"):
        run.table("tops")
    with pytest.raises(
        tm.InputError,
        match="supports only findings, normalised, summary, locations and top; export other tables",
    ):
        tm.export(run, "latex", table="mentions")


def test_tables_of_released_files_equal_the_published_ones(tiltmeter: Tiltmeter, shared: Path) -> None:
    file = shared / "data" / "badf" / RELEASED
    expected = json.loads((shared / "golden" / "badf" / "base__gender.json").read_text())
    rows = json.loads(tiltmeter("reanalyse", str(file), "--table", "top", "-f", "json").stdout)
    for identity, golden in expected["top10_by_identity"].items():
        of_identity = [row for row in rows if row["identity"] == identity]
        assert [(row["context"], row["concept"], row["score"], row["p"]) for row in of_identity] == [
            (row["location"], row["phrase"], row["score"], row["p"]) for row in golden
        ]
    counts = {
        row["identity"]: row["count"]
        for row in json.loads(tiltmeter("reanalyse", str(file), "--table", "summary", "-f", "json").stdout)
    }
    assert counts == {identity: figures["count"] for identity, figures in expected["identities"].items()}
    screen = tiltmeter("reanalyse", str(file), "--table", "locations").stdout
    assert "law policy" in screen
    for words, message in (
        ((), "give the counts behind the released rows with --counts FILE"),
        (("--table", "top", "--tests", "9"), "--tests does not apply to --table"),
        (("--table", "topp"), "did you mean top?"),
    ):
        failed = tiltmeter("reanalyse", str(file), *words)
        assert failed.returncode == 2
        assert message in failed.stderr
