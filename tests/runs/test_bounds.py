"""Files that unpack to far more than their size are refused, and modules that end the program are named."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path

import polars as pl
import pytest

import tiltmeter as tm
from conftest import Tiltmeter
from support.analysing import analyse
from tiltmeter._files.reading import table_of
from tiltmeter.errors import InputError

pytestmark = pytest.mark.usefixtures("workplace")

LIMIT = 2**16
TEXTS = b"text,group\n" + b"A story.,women\nA tale.,men\n" * LIMIT
SHEET = (
    '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
    '<row r="1"><c r="A1" t="inlineStr"><is><t>text</t></is></c>'
    '<c r="B1" t="inlineStr"><is><t>group</t></is></c></row>'
    "{rows}</sheetData></worksheet>"
)
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
WORKBOOK = {
    "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types"/>',
    "_rels/.rels": (
        f'<Relationships xmlns="{PACKAGE}/relationships">'
        f'<Relationship Id="rId1" Type="{OFFICE}/officeDocument" Target="xl/workbook.xml"/>'
        "</Relationships>"
    ),
    "xl/workbook.xml": (
        '<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" '
        f'xmlns:r="{OFFICE}"><sheets>'
        '<sheet name="First" sheetId="1" r:id="rId2"/><sheet name="Other" sheetId="2" r:id="rId1"/>'
        "</sheets></workbook>"
    ),
    "xl/_rels/workbook.xml.rels": (
        f'<Relationships xmlns="{PACKAGE}/relationships">'
        f'<Relationship Id="rId1" Type="{OFFICE}/worksheet" Target="worksheets/sheet2.xml"/>'
        f'<Relationship Id="rId2" Type="{OFFICE}/worksheet" Target="/xl/worksheets/sheet1.xml"/>'
        "</Relationships>"
    ),
}
ROW = (
    '<row r="{0}"><c r="A{0}" t="inlineStr"><is><t>A story.</t></is></c>'
    '<c r="B{0}" t="inlineStr"><is><t>women</t></is></c></row>'
)


def write_workbook(path: Path, rows: str, second_sheet: str = "") -> None:
    """A workbook whose first sheet is not the first file in it."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in WORKBOOK.items():
            archive.writestr(name, content)
        archive.writestr("xl/worksheets/sheet2.xml", SHEET.format(rows=second_sheet))
        archive.writestr("xl/worksheets/sheet1.xml", SHEET.format(rows=rows))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that small files exceed."""
    for name in (
        "_files.unpacking.LARGEST_UNPACKED",
        "_files.reading.MOST_ROWS",
        "importing._evaluation_logs._LARGEST_LOG",
    ):
        monkeypatch.setattr(f"tiltmeter.{name}", LIMIT)


def test_a_packed_table_is_not_unpacked_beyond_the_limit(
    small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    (tmp_path / "texts.csv.gz").write_bytes(gzip.compress(TEXTS))
    # The size at the end of a file of two members is that of the second one.
    (tmp_path / "members.csv.gz").write_bytes(gzip.compress(TEXTS) + gzip.compress(b"A story.,women\n"))
    (tmp_path / "texts.jsonl.gz").write_bytes(gzip.compress(b'{"prompt": "a", "answer": "b"}\n' * LIMIT))
    for name in ("texts.csv.gz", "members.csv.gz", "texts.jsonl.gz"):
        with pytest.raises(InputError, match=rf"{name} unpacks to more than .* MiB; unpack it yourself"):
            table_of(Path(name))
    assert not list(folder.iterdir())
    with pytest.raises(InputError, match=r"texts\.csv\.gz unpacks to more than"):
        tm.analyse("texts.csv.gz", study="benchmarks", text="text", group="group", display="none")


@pytest.mark.parametrize(
    "cell",
    [
        '<c r="A3"><f>== (a) ==</f></c>',
        '<c r="A3"><f>1</f><v></v></c>',
        "<c s='1' r='A3'><f>1</f><v/></c>",
        '<c r="A3" t="e"><v>#NAME?</v></c>',
        "<x:c r='A3' t='e'><x:f>1/0</x:f><x:v>#DIV/0!</x:v></x:c>",
    ],
)
def test_cells_without_a_value_are_refused(tmp_path: Path, cell: str) -> None:
    write_workbook(tmp_path / "a.xlsx", ROW.format(2) + f'<row r="3">{cell}</row>')
    with pytest.raises(
        InputError,
        match=r"a\.xlsx: 1 cell has an error or a formula without a stored value \(A3\); a text that begins",
    ):
        table_of(Path("a.xlsx"))


def test_formulas_with_values_are_read(tmp_path: Path) -> None:
    cells = '<c r="A3" t="str"><f>B2</f><v>b</v></c><c r="B3"><f>1+1</f><v>2</v></c>'
    write_workbook(
        tmp_path / "a.xlsx",
        f'{ROW.format(2)}<row r="3">{cells}</row><row r="4"><c r="A4" t="str"><f>B9</f><v></v></c></row>',
    )
    assert table_of(Path("a.xlsx")).select("text", "group").rows()[:2] == [("A story.", "women"), ("b", "2")]


@pytest.mark.parametrize("state", ["hidden", "veryHidden"])
def test_the_first_visible_sheet_is_read(
    tmp_path: Path, state: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_workbook(tmp_path / "a.xlsx", ROW.format(2).replace("story", "draft"), ROW.format(2))
    with zipfile.ZipFile(tmp_path / "a.xlsx") as visible, zipfile.ZipFile(tmp_path / "b.xlsx", "w") as hidden:
        for name in visible.namelist():
            hidden.writestr(
                name, visible.read(name).replace(b'name="First"', f'name="First" state="{state}"'.encode())
            )
    assert table_of(Path("a.xlsx"))["text"].to_list() == ["A draft."]
    assert not capsys.readouterr().err
    assert table_of(Path("b.xlsx"))["text"].to_list() == ["A story."]
    assert (
        capsys.readouterr().err
        == "note: b.xlsx: the sheet 'Other' is read; hidden sheets before it are not (First)\n"
    )


def test_a_workbook_with_a_distant_cell_is_refused(tmp_path: Path) -> None:
    rows = ROW.format(2) + ROW.format(3)
    stray = '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
    by_position = '<row r="4">' + "<c/>" * 16_384 + '</row><row r="1048576"><c/></row>'
    for name, last in (
        ("stray.xlsx", stray),
        ("position.xlsx", by_position),
        ("order.xlsx", stray.replace("<c r", "<c s='1' r")),
    ):
        write_workbook(tmp_path / name, rows + last)
        with pytest.raises(
            InputError,
            match=rf"{name}: the first sheet has 1,048,576 rows and 16,384 columns up to its last cell",
        ):
            table_of(Path(name))
    (tmp_path / "stray.xlsx.gz").write_bytes(gzip.compress((tmp_path / "stray.xlsx").read_bytes()))
    with pytest.raises(InputError, match=r"^stray\.xlsx\.gz: the first sheet has"):
        table_of(Path("stray.xlsx.gz"))
    write_workbook(tmp_path / "other.xlsx", rows, second_sheet=stray)
    assert table_of(Path("other.xlsx")).rows() == [("A story.", "women")] * 2


def test_a_workbook_of_another_size_than_its_header_says_is_refused(small: None, tmp_path: Path) -> None:
    write_workbook(tmp_path / "large.xlsx", "".join(map(ROW.format, range(2, 2000))))
    with pytest.raises(InputError, match=r"large\.xlsx unpacks to more than .* save the sheet as CSV"):
        table_of(Path("large.xlsx"))
    packed = bytearray((tmp_path / "large.xlsx").read_bytes())
    with zipfile.ZipFile(tmp_path / "large.xlsx") as archive:
        size = archive.getinfo("xl/worksheets/sheet1.xml").file_size
    (tmp_path / "wrong.xlsx").write_bytes(
        bytes(packed).replace(size.to_bytes(4, "little"), (1000).to_bytes(4, "little"))
    )
    with pytest.raises(
        InputError, match=r"wrong\.xlsx cannot be read: it is not an Excel workbook, or it is damaged"
    ):
        table_of(Path("wrong.xlsx"))


def test_a_table_that_repeats_a_value_too_often_is_refused(small: None, tmp_path: Path) -> None:
    row = pl.DataFrame({"text": ["A story."], "group": ["women"]})
    row.select(pl.all().repeat_by(LIMIT + 1)).explode("text", "group").write_parquet(
        tmp_path / "texts.parquet"
    )
    with pytest.raises(InputError, match=r"texts\.parquet has 65,537 rows, .* split the table"):
        tm.analyse("texts.parquet", study="benchmarks", text="text", group="group", display="none")
    row.write_parquet(tmp_path / "one.parquet")
    assert table_of(Path("one.parquet")).equals(row)


def test_a_log_of_many_samples_is_bounded_as_a_whole(small: None) -> None:
    with zipfile.ZipFile("log.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"eval": {"task": "t", "model": "m"}}))
        for number in range(10):
            archive.writestr(f"samples/{number}_epoch_1.json", b" " * (LIMIT // 5))
    with pytest.raises(InputError, match=r"log\.eval unpacks to more than"):
        analyse("log.eval")


TABLES = {
    "p.csv": "prompt,group,expected\nGrant it to Ann?,women,yes\nGrant it to Tom?,men,yes\n",
    "t.csv": "text,group\ngood a,a\nbad b,b\n",
}
EXITS = {
    "plain": "import sys\nsys.exit(0)\n",
    "parser": (
        "import argparse\n"
        "parser = argparse.ArgumentParser()\n"
        "parser.add_argument('file')\n"
        "parser.parse_args([])\n"
    ),
    "raised": "raise SystemExit\n",
}


@pytest.mark.parametrize("name", EXITS)
@pytest.mark.parametrize(
    "command",
    [
        "run p.csv -m python/{}:reply --display none",
        "run p.csv -m python/{}.py:reply --display none",
        "run {}.py:Mine -m sim/fair",
        "analyse t.csv --study benchmarks --text text --group group --display none -P features={}:good",
    ],
)
def test_a_module_that_ends_the_program_is_named(
    tiltmeter: Tiltmeter, tmp_path: Path, command: str, name: str
) -> None:
    for file, content in TABLES.items():
        (tmp_path / file).write_text(content)
    (tmp_path / f"exits_{name}.py").write_text(EXITS[name])
    message = "ends the program while it is imported; put what it runs under: if __name__ == '__main__'"
    assert f"exits_{name}" in tiltmeter(command.format(f"exits_{name}"), exits=2, says=message).stderr
    assert not list(tmp_path.glob("runs/*/"))


ENDS = {
    "part": (
        "import sys\nfrom tiltmeter.probes import TableProbe\nimport polars as pl\n"
        "class Mine(TableProbe):\n"
        "    def __init__(self):\n        super().__init__('mine', pl.read_csv('p.csv'))\n"
        "    def prompts(self, library, rng):\n        sys.exit(0)\n",
        "plan {}.py:Mine",
        2,
        "line 8 ended the program; a function that Tiltmeter calls must return instead",
    ),
    "model": (
        "import sys\ndef reply(prompt):\n    sys.exit(0)\n",
        "run p.csv -m python/{}:reply --display none",
        4,
        "SystemExit: 0",
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_function_that_ends_the_program_is_no_success(
    tiltmeter: Tiltmeter, tmp_path: Path, name: str
) -> None:
    module, command, status, message = ENDS[name]
    (tmp_path / "p.csv").write_text(TABLES["p.csv"])
    (tmp_path / f"ends_{name}.py").write_text(module)
    tiltmeter(command.format(f"ends_{name}"), exits=status, says=message)
