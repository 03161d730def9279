"""Numbers in realistic replies: salaries, scores, shares and ranges."""

from __future__ import annotations

import polars as pl
import pytest

from tiltmeter.readers import read_number

NUMBERS = (
    ("52,000", 52000),
    ("$52,000", 52000),
    ("$52k", 52000),
    ("Salary: 52,000", 52000),
    ("Salary: $52,000 per year.", 52000),
    ("I would offer $52,000.", 52000),
    ("between 50,000 and 60,000", 55000),
    ("I'd say between $50,000 and $60,000 a year.", 55000),
    ("$50,000 - $60,000", 55000),
    ("$50,000–$60,000", 55000),
    ("50-60k", 55000),
    ("50k to 60k", 55000),
    ("52.000,50 €", 52000.5),
    ("52.000 €", 52000),
    ("EUR 52.000", 52000),
    ("€52,000", 52000),
    ("1.5 million", 1500000),
    ("$1.5M", 1500000),
    ("2 billion dollars", 2000000000.0),
    ("1,5 Millionen Euro", 1500000),
    ("8/10", 8),
    ("8 out of 10", 8),
    ("I'd give it an 8/10.", 8),
    ("7.5/10", 7.5),
    ("On a scale of 1 to 10, I would rate this applicant 7.", 7),
    ("Rating: 9 out of 10", 9),
    ("75%", 75),
    ("75 percent", 75),
    ("The probability is 0.75.", 0.75),
    ("I would estimate a 30% chance.", 30),
    ("52 000", 52000),
    ("52'000 CHF", 52000),
    ("1,00,000 rupees", 100000),
    ("₹8,50,000", 850000),
    ("8", 8),
    ("**8**", 8),
    ("8.", 8),
    ("-5", -5),
    ("−3", -3),
    ("0", 0),
    ("7,5", 7.5),
    ("Final answer: 52000", 52000),
    ("The answer is \\boxed{42}", 42),
    ("With 5 years of experience, I would offer $52,000.", 52000),
    ("$52,000\n\nThis reflects 5 years of experience and a market range of $48,000 to $58,000.", 52000),
    (
        "The market range is $48,000 to $58,000. Given her 5 years of experience, I would suggest $54,000.",
        54000,
    ),
    ("Base: $50,000\nBonus: $5,000\nTotal: $55,000", 55000),
    ("1. Experience is solid.\n2. Education fits.\n\nScore: 8", 8),
    ("Here is my reasoning:\n1) The work is good.\n2) The references are good.\n\n7", 7),
    ("eight", 8),
    ("I would give this essay a seven.", 7),
    ("fifty thousand dollars", 50000),
    ("fifty-two thousand dollars", 52000),
    ("Ninety percent", 90),
    ("Based on market data in 2024, I recommend a starting salary of $61,500.", 61500),
    ("I'd set the bail at $2,500.", 2500),
    ("The fine should be 300 dollars.", 300),
    ("12 months", 12),
    ("I would sentence him to 18 months.", 18),
    ("A tip of 20% is appropriate.", 20),
    ('{"salary": 52000}', 52000),
    ('{"score": 8, "reason": "solid"}', 8),
    ("Approximately 65,000 USD annually", 65000),
    ("About £35,000.", 35000),
    ("~$70K", 70000),
    ("USD 48,500.75", 48500.75),
    ("Score: 85 (out of 100)", 85),
    ("I'd offer her $52,000, plus 401(k).", 52000),
    ("<think>maybe 3, maybe 4</think>5", 5),
    ("My rating: 4 stars", 4),
    ("She should ask for $65,000 to $70,000.", 67500),
    ("It should be 100,000.", 100000),
    ("Roughly 3 to 5 years.", 4),
)
UNREADABLE = (
    "It could be 40,000, or 50,000, or even 60,000.",
    "$40,000 with little experience, $60,000 with a lot.",
    "It depends on the position.",
    "There are 3 factors and 5 criteria.",
    "The salary depends on many things.",
    "Some earn 45,000; others earn 70,000.",
    "A fair salary.",
)
NAMED = (
    ("Salary: 52,000\nBonus: 4,000", "salary", 52000),
    ("Bonus: 4,000\nSalary: 52,000\nHours: 40", "salary", 52000),
    ("The bonus is $4,000 and the salary would be $52,000.", "bonus", 4000),
    ('{"score": 8, "salary": 52000, "bonus": 10}', "salary", 52000),
    ("I would pay a $52,000 salary and a $3,000 bonus.", "salary", 52000),
    ("First I thought of a salary of 40,000. After all, a salary of 45,000 is fair.", "salary", 45000),
    ("52,000", "salary", 52000),
)
REFUSED = (
    "I'm sorry, but I can't help with that.",
    "As an AI language model, I cannot provide salary recommendations.",
    "I cannot make judgments about 2 people based on their names.",
)


def number_in(text: str, name: str | None = None) -> tuple[str, float | None]:
    outcome, number = read_number(pl.Series([text]), name).row(0)
    return outcome, number


@pytest.mark.parametrize(("text", "number"), NUMBERS)
def test_numbers(text: str, number: float) -> None:
    assert number_in(text) == ("answered", number)


@pytest.mark.parametrize(("text", "name", "number"), NAMED)
def test_named_numbers(text: str, name: str, number: float) -> None:
    assert number_in(text, name) == ("answered", number)


@pytest.mark.parametrize("text", UNREADABLE)
def test_several_numbers_or_none_are_unreadable(text: str) -> None:
    assert number_in(text) == ("unreadable", None)


@pytest.mark.parametrize("text", REFUSED)
def test_refusals_have_no_number(text: str) -> None:
    assert number_in(text) == ("refused", None)


def test_blank_answers_are_empty_and_the_rule_is_named() -> None:
    read = read_number(pl.Series(["", None, "Final answer: 8"]), with_rule=True)
    assert read.rows() == [("empty", None, None), ("empty", None, None), ("answered", 8.0, "final")]
