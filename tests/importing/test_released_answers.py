"""Released answers to BBQ: a file is recognised, its columns become models, and wrong rows are named."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tiltmeter as tm
from conftest import Tiltmeter
from support.bbq import rows_of
from tiltmeter.errors import InputError

pytestmark = [
    pytest.mark.usefixtures("workplace"),
    pytest.mark.filterwarnings(
        "ignore::tiltmeter.IncompleteRun", "ignore::tiltmeter.Ungraded", "ignore::tiltmeter.Underpowered"
    ),
]
MODELS = [f"unifiedqa-t5-11b_pred_{prompt}" for prompt in ("race", "qonly", "arc")]
Rows = list[dict[str, Any]]


@pytest.fixture(scope="session")
def religion(shared: Path) -> Rows:
    """The first 80 released answers about religion, 20 items."""
    return rows_of(shared, "preds_Religion")[:80]


def written(folder: Path, rows: Rows, name: str = "preds.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_file_is_recognised_and_each_column_is_a_model(
    religion: Rows, workplace: Path, tiltmeter: Tiltmeter
) -> None:
    path = written(workplace, religion)
    tiltmeter(f"analyse {path} --out there", exits=3)
    run = tm.load(workplace / "there")
    assert run.about["study"] == "bbq/religion"
    assert [model["name"] for model in run.about["models"]] == MODELS
    responses = run.table("responses")
    assert responses.height == 240
    of_first = responses.filter(model=MODELS[0]).join(run.table("design"), on="prompt_id")
    by_example = dict(of_first.select("example_id", "answer").iter_rows())
    assert by_example == {row["example_id"]: row[MODELS[0]] for row in religion}
    # The prompts of the design that were answered are the questions of the file, in its order of options.
    first = of_first.filter(example_id=0).row(0, named=True)
    assert first["wording"] == "log"
    assert first["prompt"].startswith(
        f"{religion[0]['context']} {religion[0]['question']}\n(a) The Jewish one"
    )
    assert "the files answer 80 of 1,200 prompts" in " ".join(run.problems)


def test_the_parameter_column_chooses(religion: Rows, workplace: Path) -> None:
    path = written(workplace, religion)
    run = tm.analyse(path, params={"column": f"{MODELS[2]},{MODELS[0]}"}, display="none")
    assert [model["name"] for model in run.about["models"]] == [MODELS[2], MODELS[0]]
    with pytest.raises(
        InputError, match=r"-P column=answer: .*preds.jsonl has no such column of predictions"
    ):
        tm.analyse(path, params={"column": "answer"}, display="none")


def test_tables_in_memory_and_compressed_files_of_several_categories_are_read(
    shared: Path, religion: Rows, workplace: Path
) -> None:
    age = rows_of(shared, "preds_Age")[:40]
    path = workplace / "both.jsonl.gz"
    text = "".join(json.dumps(row) + "\n" for row in [*age, *religion])
    path.write_bytes(gzip.compress(text.encode()))
    run = tm.analyse(path, display="none")
    assert (run.about["study"], set(run.about["parts"])) == ("bbq", {"age", "religion"})
    again = tm.analyse(pl.DataFrame([*age, *religion]), display="none", out=workplace / "again")
    assert again.table("formulas").equals(run.table("formulas"))


def test_columns_that_are_no_predictions_may_stand_beside_them(religion: Rows, workplace: Path) -> None:
    rows = [{**row, "comment": "seen", "my_pred": row["ans0"]} for row in religion]
    run = tm.analyse(written(workplace, rows), display="none")
    assert [model["name"] for model in run.about["models"]] == [*MODELS, "my_pred"]


def test_a_prediction_that_is_no_option_is_unreadable(religion: Rows, workplace: Path) -> None:
    rows = [dict(row) for row in religion]
    rows[4][MODELS[0]] = "the buddhist one over there"
    rows[5][MODELS[0]] = None
    run = tm.analyse(written(workplace, rows), params={"column": MODELS[0]}, display="none")
    findings = run.table("findings").filter(pl.col("wording").is_null(), metric="undetected_rate_attempts")
    assert findings.select("attempts", "unreadable").row(0) == (79, 1)


def changed(row: int, **values: Any) -> Callable[[Rows], Rows]:
    def with_changes(rows: Rows) -> Rows:
        return [{**each, **values} if number == row else each for number, each in enumerate(rows)]

    return with_changes


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            changed(2, category="Religions"),
            r"row 3, column 'category': 'Religions' is no category of BBQ \(Age, Disability_status",
        ),
        (changed(6, example_id="x"), r"row 7, column 'example_id': 'x' is not the number of a question"),
        (
            changed(6, example_id=1200),
            r"row 7, column 'example_id': .* is not the number of a question of this study \(.* 1199\)",
        ),
        (changed(6, example_id=5), r"row 7 repeats row 6: 'Religion', '5' may occur only once"),
        (
            changed(3, question="Who came?"),
            r"row 4, column 'question': 'Who came\?' is not that of this example",
        ),
        (changed(3, context="Two met."), r"row 4, column 'context': 'Two met.' is not that of this example"),
        (
            lambda rows: [{**row, MODELS[1]: "yes"} for row in rows],
            r"row 1, column 'unifiedqa-t5-11b_pred_qonly': most values are none of the options",
        ),
        (
            lambda rows: [{name: value for name, value in row.items() if name != "label"} for row in rows],
            r"looks like answers to BBQ, but lacks the column 'label'",
        ),
        (
            lambda rows: [{**row, MODELS[0]: None} for row in rows],
            r"column 'unifiedqa-t5-11b_pred_race' has no predictions",
        ),
        (
            lambda rows: [{name: value for name, value in row.items() if name not in MODELS} for row in rows],
            r"holds the questions of BBQ, but no column of predictions",
        ),
    ],
)
def test_a_wrong_row_is_named(
    change: Callable[[Rows], Rows], message: str, religion: Rows, workplace: Path
) -> None:
    path = written(workplace, change(religion))
    with pytest.raises(InputError, match=message):
        tm.analyse(path, display="none")


def test_parameters_that_do_not_apply_are_refused(religion: Rows, workplace: Path) -> None:
    path = written(workplace, religion)
    with pytest.raises(InputError, match="has answers to another wording; remove -P wording="):
        tm.analyse(path, params={"wording": "plain"}, display="none")
    answers = pl.DataFrame({"prompt_id": ["age/0/0/plain"], "answer": ["(a)"]})
    with pytest.raises(InputError, match="-P column= names columns of released answers"):
        tm.analyse(answers, "bbq/age", params={"column": "answer"}, display="none")
