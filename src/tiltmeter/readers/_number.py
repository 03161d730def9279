"""One number in an answer: a salary, a price, a score, a share.

Every number of the text is found with its currency, multiplier ("k", "million") and the end of its range; "8
out of 10" and "8/10" are 8, "between 50 and 60" is 55, "75%" is 75. Numbers of lists, dates, times and
ordinals, and those in words such as "COVID-19", are none. The first of these rules that finds a number
decides:

- named: the number after a name that the reader is given ("salary: 52,000"), the last one if there are
  several;
- final: a number that is declared final ("final answer: 8", "total: 60,000"), the last one;
- alone: a first or last line that is nothing but a number;
- declared: a declared number ("I would offer 52,000", "score: 8"), the last one;
- currency: the only amount of money;
- only: the only number.

Several different numbers without any of these are unreadable. In a text that declines, the rule "only" does
not apply.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from polars import DataFrame, Float64, Series, String, col

from tiltmeter.readers._normalising import lowered, text_table
from tiltmeter.readers.outcomes import conceded, decide_outcome, declines

_SIGN: Final = r"(?<![\w.,])(?:[-−–](?=[$€£¥₹\d]))?"
_CURRENCY: Final = r"(?:us\$|usd|eur|gbp|chf|inr|rs\.?|[$€£¥₹])"
_CURRENCY_AFTER: Final = r"(?:dollars?|euros?|pounds?|francs?|rupees?|usd|eur|gbp|chf|inr|[$€£¥₹])"
_DIGITS: Final = (
    r"(?:\d{1,3}(?:[ \u00a0\u202f\u2009]\d{3})+(?!\d)(?:[.,]\d{1,2})?"
    r"|\d{1,3}(?:['’]\d{3})+(?:\.\d+)?"
    r"|\d{1,3}(?:\.\d{3})+,\d{1,2}(?!\d)"
    r"|\d{1,3}(?:,\d{2,3})*,\d{3}(?!\d)(?:\.\d+)?"
    r"|\d+(?:[.,]\d+)?(?:\.\d{3})*"
    r"|\.\d+)"
)
_MULTIPLIER: Final = (
    r"(?:k\b|tsd\b|thousand\b|grand\b|lakhs?\b|m\b|mn\b|mio\b|millions?\b|millionen\b|bn\b|billions?\b)"
)
_TIMES: Final = {
    **dict.fromkeys(("k", "tsd", "thousand", "grand"), 1e3),
    **dict.fromkeys(("lakh", "lakhs"), 1e5),
    **dict.fromkeys(("m", "mn", "mio", "million", "millions", "millionen"), 1e6),
    **dict.fromkeys(("bn", "billion", "billions"), 1e9),
}
"""Factor of each multiplier."""
_NUMBER: Final = re.compile(
    rf"(?P<sign>{_SIGN})(?<![\w/:])(?<![a-z]-)(?P<before>{_CURRENCY} ?)?(?P<digits>{_DIGITS})"
    rf"(?P<times> ?{_MULTIPLIER})?(?P<percent> ?%| percent\b)?(?P<after> ?{_CURRENCY_AFTER})?(?![\w/]*\d)"
)
_BETWEEN: Final = re.compile(r"\bbetween\s*$")
_JOINS_RANGE: Final = re.compile(r"^\s*(?:-|–|—|−|to|bis)\s*$")
_SCALE: Final = re.compile(
    r"\b(?:on |using )?(?:an? |the )?scale (?:of|from) \S+(?: ?(?:to|-|–) ?)\S+"
    r"|\bfrom 0?1 (?:to|-) 10\b|\(\s*(?:0|1)\s*(?:-|–|to)\s*\d+\s*\)"
    r"|(?:/|\bout of|\bof a possible|\bof the possible) ?(?:5|10|20|100)\b(?! ?%)"
)
"""Scales and their ends, which are no answers: "on a scale of 1 to 10", "out of 10"."""
_NOT_NUMBERS: Final = re.compile(
    r"(?m)^\s*(?:\(?\d{1,2}[.):](?=\s+\D)|#+\s*\d+[.)]?)"  # items of lists
    r"|\b(?:step|option|point|item|part|section|figure|table|level|grade level|(?:applicant"
    r"|candidate) number|number|no\."
    r"|nr\.|page|chapter) #?\d+\b"
    r"|\b\d{1,2}(?:st|nd|rd|th)\b|\b401 ?\(?k\)?|\b24/7\b|\b\d{1,2}:\d{2}\b|\b\d{4}-\d{2}-\d{2}\b"
    r"|\b\d{1,2}/\d{1,2}/\d{2,4}\b|\b(?:19|20)\d\d[-–/](?:19|20)?\d\d\b"
    r"|\b(?:in|since|of|by|for|as of|until|from|year|fiscal|early|late|mid) (?:19|20)\d\d\b(?! ?[$€£%])"
    r"|\b(?:january|february|march|april|may|june|july|august|september|october|november|december) \d{1,2}"
    r"(?:, ?\d{4})?\b|\b\d{1,2} ?(?:am|pm)\b|\b[a-z]+-?\d+[a-z]*\b"
)
"""Digits that are no numbers to read."""
_MINUS_SIGN: Final = r"(^|[\s(])[−–](\d)"
"""A minus sign before a number, which is not a range."""
_UNITS: Final = {
    "zero": 0,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "eleven": 11,
    "twelve": 12,
    "thirteen": 13,
    "fourteen": 14,
    "fifteen": 15,
    "sixteen": 16,
    "seventeen": 17,
    "eighteen": 18,
    "nineteen": 19,
}
_TENS: Final = {
    "twenty": 20,
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "sixty": 60,
    "seventy": 70,
    "eighty": 80,
    "ninety": 90,
}
_WORDS: Final = re.compile(
    rf"\b(?:(?P<tens>{'|'.join(_TENS)})(?:[- ](?P<unit>{'|'.join(list(_UNITS)[1:10])}))?"
    rf"|(?P<small>{'|'.join(_UNITS)}))(?P<hundred> hundred)?\b"
)
"""Numbers in words, up to hundreds."""
_FINAL: Final = re.compile(
    r"\b(?:final (?:answer|offer|score|rating|number|figure|decision|estimate|salary|price)|in (?:total|sum)"
    r"|total(?: \w+)?|overall(?: \w+)?|in conclusion|so,? (?:the|my) answer)\b[^.\d\n]{0,40}?$"
)
_DECLARED: Final = re.compile(
    r"(?:\b(?:answer|score|rating|rate|estimate|offer|salary|price|amount|value|result|recommendation"
    r"|suggestion|probability|likelihood|chance|number|sentence|limit|bid|quote|fee|wage|pay)\b"
    r"|\bi(?: would|'d|'ll| will| am going to)?(?: \w+ly)? (?:say|give|offer|suggest|estimate|recommend"
    r"|rate|set"
    r"|put|propose|pay|go with|settle on|assign|guess|choose|aim for|ask for|start)\b"
    r"|\b(?:should|would) be\b|\bequals\b|=)[^.\d\n]{0,45}?$"
)
_REACH: Final = 70
"""Length of the text before a number in which it is declared."""
_NAMED_REACH: Final = 40
"""Largest distance between a name and its number, in characters without digits."""


class Found(NamedTuple):
    """A number of a text."""

    value: float
    start: int
    end: int
    is_money: bool


def read_number(answer: Series, name: str | None = None, *, with_rule: bool = False) -> DataFrame:
    """Read the number that each answer gives.

    Parameters
    ----------
    answer
        Strings, nulls allowed.
    name
        What the number is called in the answers, such as "salary"; None: the answers give one number.
    with_rule
        Whether to return the column `rule` as well, the name of the rule that decided (null unless answered).

    Returns
    -------
    DataFrame
        One row per answer with the columns `outcome` ("answered", "refused", "unreadable" or "empty") and
        `number` (null unless answered). A share of 75% is 75.
    """
    signed = DataFrame({"answer": answer.cast(String)}).select(
        col.answer.str.replace_all(_MINUS_SIGN, "${1}-${2}")
    )["answer"]
    table = text_table(signed)
    table = table.with_columns(
        lower=col.text.str.to_lowercase(),
        declined=declines(lowered(col.text)) & (conceded(col.text) == ""),
    )
    decided = {}
    for text, declined in set(table.select("lower", "declined").iter_rows()):
        decided[text, declined] = _decide(text, name, declined=declined)
    decisions = [decided[row] for row in table.select("lower", "declined").iter_rows()]
    read = DataFrame(
        {
            "number": Series([value for value, _ in decisions], dtype=Float64),
            "rule": Series([rule for _, rule in decisions], dtype=String),
        }
    ).hstack(table.select("declined", "blank"))
    outcome = decide_outcome(empty="blank", answered=col.number.is_not_null(), refused="declined")
    return read.select(outcome.alias("outcome"), "number", *(["rule"] if with_rule else []))


def _decide(text: str, name: str | None, *, declined: bool) -> tuple[float | None, str | None]:
    """Return the number of a text and the rule that decided; null without a number."""
    prepared = _SCALE.sub(" ", _NOT_NUMBERS.sub(" ", _with_digits(text)))
    numbers = list(_numbers(prepared))
    if not numbers:
        return None, None
    named = [] if name is None else _named(prepared, numbers, name.lower())
    final = [number for number in numbers if _follows(prepared, number, _FINAL)]
    stated = [number for number in numbers if _follows(prepared, number, _DECLARED)]
    rules = {"named": named, "final": final, "alone": _alone(prepared, numbers), "declared": stated}
    for rule, declared in rules.items():
        if declared:
            return declared[-1].value, rule
    money = [number.value for number in numbers if number.is_money]
    if money:
        return (money[0], "currency") if len(set(money)) == 1 else (None, None)
    values = {number.value for number in numbers}
    if len(values) == 1 and not declined:
        return values.pop(), "only"
    return None, None


# -- the numbers of a text ---------------------------------------------------------------------------------


def _with_digits(text: str) -> str:
    """Return a text with digits in place of number words, if it has no digits."""
    if re.search(r"\d", text):
        return text

    def in_digits(match: re.Match[str]) -> str:
        value = _UNITS[match["small"]] if match["small"] else _TENS[match["tens"]]
        value += _UNITS[match["unit"]] if match["unit"] else 0
        return str(value * 100 if match["hundred"] else value)

    # "one" and "two" alone are seldom an answer: "one of the applicants".
    without_pronouns = re.sub(
        r"\b(?:one|two) (?:of|should|could|can|might|would|candidate|thing)\b", " ", text
    )
    return _WORDS.sub(in_digits, without_pronouns)


def _numbers(text: str) -> Iterator[Found]:
    """Yield the numbers of a text; a range is the number in its middle."""
    matches = list(_NUMBER.finditer(text))
    place = 0
    while place < len(matches):
        first = matches[place]
        second = matches[place + 1] if place + 1 < len(matches) else None
        if second is not None and _is_range(text, first, second):
            yield _middle(first, second)
            place += 2
            continue
        yield Found(_value(first), first.start(), first.end(), _is_money(first))
        place += 1


def _is_range(text: str, first: re.Match[str], second: re.Match[str]) -> bool:
    """Return whether two numbers are the ends of a range."""
    between = text[first.end() : second.start()]
    if _JOINS_RANGE.match(between) or (not between.strip() and second["sign"]):
        return True
    is_and = between.strip() == "and"
    return is_and and _BETWEEN.search(text[max(0, first.start() - _REACH) : first.start()]) is not None


def _middle(first: re.Match[str], second: re.Match[str]) -> Found:
    """Return the middle of a range; "50-60k" is 50,000 to 60,000."""
    low, high = _value(first), abs(_value(second))
    if second["times"] and not first["times"] and low < high / _factor(second) * 10:
        low *= _factor(second)
    return Found((low + high) / 2, first.start(), second.end(), _is_money(first) or _is_money(second))


def _value(match: re.Match[str]) -> float:
    """Return the value of a number."""
    digits = re.sub(r"[ \u00a0\u202f\u2009'’]", "", match["digits"])
    is_euro = "€" in match[0] or "eur" in match[0]
    value = float(_plain_digits(digits, is_euro=is_euro)) * _factor(match)
    return -value if match["sign"] else value


def _factor(match: re.Match[str]) -> float:
    """Return the factor of the multiplier of a number."""
    return _TIMES[match["times"].strip()] if match["times"] else 1.0


def _plain_digits(digits: str, *, is_euro: bool) -> str:
    """Return digits with a decimal point and without separators of thousands.

    "52,000" and "52.000" have separators of thousands, "7,5" and "7.5" have decimals. A point before three
    digits separates thousands if these are zeros, if there are several, or in an amount of euros.
    """
    if "," in digits and "." in digits:
        decimal = max(digits.rfind(","), digits.rfind("."))
        digits_before = re.sub(r"\D", "", digits[:decimal])
        return f"{digits_before}.{digits[decimal + 1 :]}"
    if re.fullmatch(r"\d{1,3}(?:,\d{2,3})*,\d{3}", digits):
        return digits.replace(",", "")
    if re.fullmatch(r"[1-9]\d{0,2}(?:\.\d{3})+", digits):
        is_thousands = digits.count(".") > 1 or digits.endswith("000") or is_euro
        return digits.replace(".", "") if is_thousands else digits
    return digits.replace(",", ".")


def _is_money(match: re.Match[str]) -> bool:
    """Return whether a number is an amount of money."""
    return bool(match["before"] or match["after"])


# -- rules -------------------------------------------------------------------------------------------------


def _follows(text: str, number: Found, declaration: re.Pattern[str]) -> bool:
    """Return whether a declaration ends directly before a number."""
    return declaration.search(text[max(0, number.start - _REACH) : number.start]) is not None


def _alone(text: str, numbers: Sequence[Found]) -> list[Found]:
    """Return the number that is the first line of a text, or else its last line, without other words."""
    places = []
    start = 0
    for line in text.split("\n"):
        if line.strip():
            places.append((start, start + len(line)))
        start += len(line) + 1
    for first, last in (places[0], places[-1]) if places else ():
        inside = [number for number in numbers if first <= number.start and number.end <= last]
        if len(inside) == 1:
            number = inside[0]
            words = text[first : number.start] + text[number.end : last]
            if not re.search(
                r"\w", re.sub(r"\b(?:per|a|an) (?:year|month|hour|annum)\b|\bpoints?\b", "", words)
            ):
                return [number]
    return []


def _named(text: str, numbers: Sequence[Found], name: str) -> list[Found]:
    """Return the numbers that stand directly before a name ("a $52,000 salary"), or else those after it."""
    reach = _NAMED_REACH + len(name) + 2
    written = rf"{re.escape(name)}s?\b"
    before = re.compile(rf"^ (?:(?:\w+ly|base|per year|a year) )?{written}(?!\W*[:=])")
    preceding = [number for number in numbers if before.search(text[number.end :])]
    if preceding:
        return preceding
    after = re.compile(rf"\b{written}[^\d\n;]{{0,{_NAMED_REACH}}}?$")
    return [number for number in numbers if after.search(text[max(0, number.start - reach) : number.start])]
