"""One function and one command for all formats."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from conftest import Tiltmeter
from tiltmeter.errors import InputError
from tiltmeter.exports import FORMATS, export
from tiltmeter.runs import load

FILES = [name for name, one in FORMATS.items() if one.suffix and name != "modelcard"]


@pytest.mark.parametrize("format", FILES)
def test_every_format_of_the_command(tiltmeter: Tiltmeter, run: Path, format: str) -> None:
    done = tiltmeter("export", run, "--format", format)
    assert done.returncode == 0, done.stderr
    place = Path(done.stdout.strip())
    assert place == run / "exports" / f"findings{FORMATS[format].suffix}"
    assert (pl.read_parquet(place)["metric"].to_list() if format == "parquet" else place.read_text().replace("\\", "")).count("fail_rate")
    assert [one.name for one in (run / "exports").iterdir()] == [place.name], "nothing is left beside it"


def test_json_holds_every_row_and_is_strict(run: Path) -> None:
    lost = pl.read_parquet(run / "findings.parquet").with_columns(
        estimate=pl.when(pl.col("key")).then(float("nan")).otherwise("estimate"), high=pl.lit(float("inf"))
    )
    lost.write_parquet(run / "findings.parquet")
    (place,) = export(run, "json")
    (lines,) = export(run, "jsonl")
    rows = json.loads(Path(place).read_text(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert rows == [json.loads(line) for line in Path(lines).read_text().splitlines()]
    expected = lost.with_columns(pl.col("estimate").fill_nan(None), high=pl.lit(None, pl.Float64)).to_dicts()
    assert [list(row) for row in rows] == [list(row) for row in expected]
    assert [row["estimate"] for row in rows] == pytest.approx([row["estimate"] for row in expected])


def test_a_table_without_rows(run: Path) -> None:
    for table in ("findings", "responses"):
        pl.read_parquet(run / f"{table}.parquet").clear().write_parquet(run / f"{table}.parquet")
    for format in ("json", "jsonl", "csv", "parquet"):
        export(run, format, table="responses")
    made = run / "exports"
    assert json.loads((made / "responses.json").read_text()) == []
    assert (made / "responses.jsonl").read_text() == ""
    assert (made / "responses.csv").read_text().startswith('"model","prompt_id"')
    assert pl.read_parquet(made / "responses.parquet").schema == load(run).responses.schema
    (place,) = export(run, "markdown")
    assert "No number could be measured" in Path(place).read_text()


@pytest.mark.parametrize("format", ["json", "jsonl", "parquet"])
def test_untrusted_texts_come_back(evil: Path, format: str) -> None:
    truth = pl.read_parquet(evil / "responses.parquet").select("model", "answer").to_dicts()
    (place,) = export(evil, format, table="responses")
    match format:
        case "json":
            rows = json.loads(Path(place).read_text())
        case "jsonl":
            rows = [json.loads(line) for line in Path(place).read_bytes().split(b"\n")[:-1]]
        case _:
            rows = pl.read_parquet(place).to_dicts()
    assert [{name: row[name] for name in ("model", "answer")} for row in rows] == truth


def test_tables_for_readers_show_the_key_findings_or_all(run: Path) -> None:
    findings = load(run).findings
    key = findings.filter(pl.col("key"))
    for every, shown in ((False, key), (True, findings)):
        (place,) = export(run, "markdown", every=every)
        rows = [line for line in Path(place).read_text().splitlines() if line.startswith("| ")][2:]
        assert len(rows) == shown.height
    (place,) = export(run, "latex", model="sim/mild")
    text = Path(place).read_text()
    assert text.count(r" \\") == 1 + key.filter(pl.col("model") == "sim/mild").height
    assert "sim/fair" not in text
    row = key.filter(pl.col("model") == "sim/mild", pl.col("metric") == "fail_rate").row(0, named=True)
    assert f"{row['estimate']:.3f} & {row['low']:.3f} \\ldots{{}} {row['high']:.3f}" in text
    assert f"& {row['mark']}" in text


def test_the_normalised_table(run: Path) -> None:
    (place,) = export(run, "csv", table="normalised")
    table = pl.read_csv(place)
    assert table.columns == ["part", "metric", "harm", "sim/mild", "sim/fair"]
    assert table["metric"].to_list()[-1] == "average"
    for format in ("markdown", "latex"):
        (place,) = export(run, format, table="normalised")
        last = next(line for line in Path(place).read_text().splitlines() if "average " in line and "mean" not in line)
        for mean in table.row(-1)[3:]:
            assert f" {mean:.3f} " in last


def test_what_is_missing_is_said(run: Path) -> None:
    about = json.loads((run / "run.json").read_text())
    about["complete"] = False
    about["parts"]["gest"] = {"title": "Who said it", "status": "not run", "reason": "the data cannot be had"}
    about["problems"] = ["gest not run: the data cannot be had", "direct: 3 answers failed"]
    (run / "run.json").write_text(json.dumps(about))
    for format in ("markdown", "latex", "huggingface"):
        (place,) = export(run, format)
        text = (Path(place) / "README.md" if format == "huggingface" else Path(place)).read_text()
        assert "not complete" in text
        assert "Who said it (the data cannot be had)" in text
        assert "3 answers failed" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--format", "xlsx"], "there is no format 'xlsx'"),
        (["--format", "markdwn"], "did you mean markdown or"),
        (["--format", "csv", "--table", "finding"], "did you mean findings?"),
        (["--format", "latex", "--table", "responses"], "tables go into csv, json, jsonl, parquet"),
        (["--format", "csv", "--model", "sim/mid"], "did you mean sim/mild"),
        (["--format", "modelcard"], "choose with --model: sim/mild, sim/fair"),
        (["--format", "huggingface", "--model", "sim/mild"], "leave out --model"),
        (["--format", "mlflow", "-o", "x"], "leave out -o"),
        (["--format", "parquet", "-o", "run/findings.parquet"], "belongs to the run itself"),
        (["--format", "huggingface", "-o", "run"], "belongs to the run itself"),
        (["--format", "csv", "-o", "run/stages/x.csv"], "belongs to the run itself"),
        (["--format", "csv", "-o", "run/study.yaml/x.csv"], "belongs to the run itself"),
        (["--format", "json", "-o", "."], "is a folder"),
        (["--format", "json", "-o", "afile/x.json"], "cannot write afile/x.json"),
    ],
)
def test_mistakes(tiltmeter: Tiltmeter, run: Path, arguments: list[str], said: str) -> None:
    (run.parent / "afile").write_text("")
    before = sorted(run.rglob("*"))
    done = tiltmeter("export", "run", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert sorted(run.rglob("*")) == before


def test_only_probes_are_normalised(run: Path) -> None:
    pl.read_parquet(run / "findings.parquet").with_columns(key=pl.lit(False)).write_parquet(run / "findings.parquet")
    with pytest.raises(InputError, match="normalised score"):
        export(run, "csv", table="normalised")


def test_a_damaged_table_leaves_nothing_behind(run: Path) -> None:
    table = run / "responses.parquet"
    content = table.read_bytes()
    table.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match="damaged"):
        export(run, "csv", run.parent / "out" / "x.csv", table="responses")
    with pytest.raises(InputError, match="damaged"):
        export(run, "huggingface", run.parent / "out" / "dataset")
    assert not (run.parent / "out").exists() or not list((run.parent / "out").iterdir())
