"""One function and one command for all formats."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from conftest import Tiltmeter
from exports.conftest import exported
from tiltmeter.errors import InputError
from tiltmeter.exports import FORMATS, export
from tiltmeter.runs import load

csv.field_size_limit(sys.maxsize)
FILES = [name for name, format in FORMATS.items() if format.suffix and name != "modelcard"]


@pytest.mark.parametrize("format", FILES)
def test_the_command_writes_every_format(tiltmeter: Tiltmeter, run: Path, format: str) -> None:
    done = tiltmeter("export", run, "--format", format)
    assert done.returncode == 0, done.stderr
    place = Path(done.stdout.strip())
    assert place == run / "exports" / f"findings{FORMATS[format].suffix}"
    words = "agreement with the statements" if format in ("markdown", "latex") else "fail_rate"
    assert words in (
        pl.read_parquet(place)["metric"] if format == "parquet" else place.read_text().replace("\\", "")
    )
    assert [path.name for path in (run / "exports").iterdir()] == [place.name], "nothing is left beside it"


def test_json_holds_every_row_and_is_strict(run: Path) -> None:
    lost = pl.read_parquet(run / "findings.parquet").with_columns(
        estimate=pl.when(pl.col("key")).then(float("nan")).otherwise("estimate"), high=pl.lit(float("inf"))
    )
    lost.write_parquet(run / "findings.parquet")
    rows = json.loads(
        exported(run, "json").read_text(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON")
    )
    assert rows == [json.loads(line) for line in exported(run, "jsonl").read_text().splitlines()]
    expected = lost.with_columns(pl.col("estimate").fill_nan(None), high=pl.lit(None, pl.Float64)).to_dicts()
    assert [list(row) for row in rows] == [list(row) for row in expected]
    assert [row["estimate"] for row in rows] == pytest.approx([row["estimate"] for row in expected])


def test_a_table_without_rows_is_exported(run: Path) -> None:
    for table in ("findings", "responses"):
        pl.read_parquet(run / f"{table}.parquet").clear().write_parquet(run / f"{table}.parquet")
    by_name = {
        format: exported(run, format, table="responses") for format in ("json", "jsonl", "csv", "parquet")
    }
    assert json.loads(by_name["json"].read_text()) == []
    assert by_name["jsonl"].read_text() == ""
    assert by_name["csv"].read_text().startswith('"model","prompt_id"')
    assert pl.read_parquet(by_name["parquet"]).schema == load(run).responses.schema
    assert "No metric could be computed" in exported(run, "markdown").read_text()


@pytest.mark.parametrize("format", ["json", "jsonl", "parquet", "csv"])
def test_untrusted_texts_are_read_back_unchanged(evil: Path, format: str) -> None:
    truth = pl.read_parquet(evil / "responses.parquet").select("model", "answer").to_dicts()
    content = exported(evil, format, table="responses").read_bytes()
    match format:
        case "json":
            rows = json.loads(content)
        case "jsonl":
            rows = [json.loads(line) for line in content.split(b"\n")[:-1]]
        case "csv":
            rows = list(csv.DictReader(io.StringIO(content.decode(), newline="")))
            assert not [row for row in rows if row["answer"].startswith("=") or row["model"].startswith("=")]
            rows = [{name: text.removeprefix("'") for name, text in row.items()} for row in rows]
        case _:
            rows = pl.read_parquet(content).to_dicts()
    assert [{name: row[name] for name in ("model", "answer")} for row in rows] == truth


def test_tables_for_readers_show_the_key_findings_or_all(run: Path) -> None:
    findings = load(run).findings
    key = findings.filter("key")
    for every, rows in ((False, key.height // 2), (True, findings.height)):
        lines = exported(run, "markdown", every=every).read_text().splitlines()
        assert len([line for line in lines if line.startswith("| ")]) == 2 + rows
    text = exported(run, "latex", model="sim/mild", every=True).read_text()
    mild = findings.filter(model="sim/mild")
    assert text.count(r" \\") == 1 + mild.height
    assert "sim/fair" not in text
    row = mild.filter(metric="fail_rate").row(0, named=True)
    assert f"{row['estimate']:.3f} & {row['low']:.3f} to {row['high']:.3f}" in text
    assert f"& {row['mark']}" in text


def braces_of(text: str) -> int:
    """Return the number of braces that remain open; escaped ones do not count."""
    bare = re.sub(r"\\[{}\\]", "", text)
    assert all(bare[:end].count("}") <= bare[:end].count("{") for end in range(len(bare)))
    return bare.count("{") - bare.count("}")


def test_latex_has_tests_as_rows_models_as_columns_and_a_caption(run: Path) -> None:
    text = exported(run, "latex").read_text()
    body = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    assert braces_of(body) == 0
    for environment in ("table", "tabular"):
        assert body.count(rf"\begin{{{environment}}}") == body.count(rf"\end{{{environment}}}") == 1
    (columns,) = re.findall(r"\\begin\{tabular\}\{(.*)\}$", body, re.MULTILINE)
    assert columns == r"p{0.4\linewidth}lrr"
    rows = [line.removesuffix(r" \\").split(" & ") for line in body.splitlines() if line.endswith(r" \\")]
    assert rows[0] == ["test", "unit", "sim/mild", "sim/fair"]
    assert {len(row) for row in rows} == {4}
    key = load(run).findings.filter("key")
    assert len(rows) == 1 + key.height // 2
    rate = key.filter(metric="fail_rate", model="sim/mild").row(0, named=True)
    (cells,) = [row for row in rows if row[0] == "Agreement with stereotypes: agreement with the statements"]
    percents = [f"{100 * rate[name]:.0f}" for name in ("estimate", "low", "high")]
    assert cells[1:2] == [r"\%"]
    assert cells[2].startswith("{} ({} to {})".format(*percents))
    (caption,) = re.findall(r"\\caption\{(.*)\}$", body, re.MULTILINE)
    for words in (r"95\% interval", "like these", "12 items per test and model", "Definition", "A healthy"):
        assert words in caption
    assert "_" not in body.replace(r"\_", ""), "names of metrics are in words"


def test_the_normalised_table_ends_with_the_averages(run: Path) -> None:
    table = pl.read_csv(exported(run, "csv", table="normalised"))
    assert table.columns == ["part", "metric", "harm", "sim/mild", "sim/fair"]
    assert table["metric"].to_list()[-1] == "average"
    for format in ("markdown", "latex"):
        text = exported(run, format, table="normalised").read_text()
        last = next(line for line in text.splitlines() if "average " in line and "mean" not in line)
        assert all(f" {mean:.3f} " in last for mean in table.row(-1)[3:])


def test_exports_name_missing_parts_and_failed_answers(run: Path) -> None:
    about = json.loads((run / "run.json").read_text())
    about["parts"]["gest"] = {"title": "Who said it", "status": "not run", "reason": "the data cannot be had"}
    about |= {
        "complete": False,
        "problems": ["gest not run: the data cannot be had", "direct: 3 answers failed"],
    }
    (run / "run.json").write_text(json.dumps(about))
    for format in ("markdown", "latex", "huggingface"):
        place = exported(run, format)
        text = (place / "README.md" if format == "huggingface" else place).read_text()
        assert all(
            words in text
            for words in ("run is incomplete", "Who said it (the data cannot be had)", "3 answers failed")
        ), format


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "xlsx"], "there is no format 'xlsx'"),
        (["--format", "markdwn"], "did you mean markdown or"),
        (["--format", "csv", "--table", "finding"], "did you mean findings?"),
        (["--format", "latex", "--table", "responses"], "export other tables as csv, json, jsonl, parquet"),
        (["--format", "csv", "--model", "sim/mid"], "did you mean sim/mild"),
        (["--format", "modelcard"], "choose one with --model: sim/mild, sim/fair"),
        (["--format", "huggingface", "--model", "sim/mild"], "omit --model"),
        (["--format", "mlflow", "-o", "x"], "omit -o"),
        (["--format", "parquet", "-o", "run/findings.parquet"], "belongs to the run"),
        (["--format", "huggingface", "-o", "run"], "belongs to the run"),
        (["--format", "csv", "-o", "run/stages/x.csv"], "belongs to the run"),
        (["--format", "csv", "-o", "run/study.yaml/x.csv"], "belongs to the run"),
        (["--format", "json", "-o", "."], "is a folder"),
        (["--format", "json", "-o", "afile/x.json"], "cannot write afile/x.json"),
    ],
)
def test_mistakes_in_the_options_of_export_are_explained(
    tiltmeter: Tiltmeter, run: Path, arguments: list[str], message: str
) -> None:
    (run.parent / "afile").write_text("")
    before = sorted(run.rglob("*"))
    done = tiltmeter("export", "run", *arguments)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert message in done.stderr
    assert sorted(run.rglob("*")) == before


def test_only_probes_are_normalised(run: Path) -> None:
    pl.read_parquet(run / "findings.parquet").with_columns(key=pl.lit(False)).write_parquet(
        run / "findings.parquet"
    )
    with pytest.raises(InputError, match="normalised score"):
        export(run, "csv", table="normalised")


@pytest.mark.parametrize(("format", "more"), [("csv", {"table": "responses"}), ("huggingface", {})])
def test_a_damaged_table_leaves_nothing_behind(run: Path, format: str, more: dict[str, Any]) -> None:
    table, out = run / "responses.parquet", run.parent / "out"
    content = table.read_bytes()
    table.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match="damaged"):
        export(run, format, out / "x.csv", **more)
    assert not out.exists() or not list(out.iterdir())
