"""Matched sets from marked prompts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import polars as pl
from polars import DataFrame, Int32, String

from tiltmeter._sanitising import shortened
from tiltmeter.designs.slots._checks import check_filled, check_template
from tiltmeter.designs.slots._filling import fill
from tiltmeter.designs.slots._gendered_words import is_relation, places_by_gender
from tiltmeter.designs.slots._lists import FIELDS
from tiltmeter.designs.slots._people import Draws, MatchedSet
from tiltmeter.designs.slots._swap import Identities, Swap
from tiltmeter.designs.slots._template import Template, names_in, parse
from tiltmeter.errors import InputError, error_prefix

MOST_PROMPTS: Final = 10_000
"""Largest number of prompts after filling."""
_LONGEST_QUOTATION: Final = 60
_HOW_TO_MARK: Final = (
    "mark where it speaks of the person, such as {first_name}, {he/she/they} {works/work} or {person};"
    " tiltmeter swap FILE suggests marks"
)


def swapped(prompts: DataFrame, swap: Swap, *, seed: int) -> DataFrame:
    """Fill the slots of marked prompts for every group, so that each prompt becomes a matched set.

    The prompts of a set differ only in the identity. What is not swapped but has a slot is drawn once for
    each set (a first name if only ages are swapped). Names are drawn so that all are used equally often.

    Parameters
    ----------
    prompts
        The column `prompt` with marked prompts, and any others, which are kept. Slots are `{first_name}` and
        other fields, `{he/she/they}` and other pronouns in any order, `{works/work}` for verbs after them,
        `{a/an}`, and `{{waitress/waiter}}` with a form for each group.
    swap
        What is swapped.
    seed
        Seed of the draws. The sets of a prompt do not depend on the prompts after it.

    Returns
    -------
    DataFrame
        One row for each prompt and combination of groups: the given columns with the filled `prompt`, `item`
        (number of the marked prompt from 0, unless there is a column of this name), a column for each
        attribute with the group, and a column for each field that a prompt uses.

    Raises
    ------
    InputError
        A prompt has no slots, an unknown slot, or none that differs between the groups; its words do not
        agree with some of the groups; or there would be more than `MOST_PROMPTS` prompts.

    Examples
    --------
    >>> table = pl.DataFrame({"prompt": ["{Person} says {he/she/they} {is/are} late."]})
    >>> swapped(table, Swap.of("gender"), seed=1)["prompt"].to_list()[1:]
    ['A man says he is late.', 'A nonbinary person says they are late.']
    """
    texts = _texts(prompts)
    _refuse_unmarked(texts)
    identities, templates = _parsed(texts, swap)
    count = len(templates) * len(identities.identities)
    if count > MOST_PROMPTS:
        raise InputError(
            f"{len(templates):,} prompts for {len(identities.identities):,} combinations of groups are"
            f" {count:,} prompts; at most {MOST_PROMPTS:,} are filled: use fewer prompts or groups"
        )
    fields = _recorded_fields(templates, identities)
    added = [*identities.groups, *(name for name in fields if name not in identities.groups)]
    for name in added:
        if name in prompts.columns:
            raise InputError(
                f"the table of prompts already has a column {name!r}, which the swap adds; rename it"
            )
    draws = Draws(seed)
    rows: list[dict[str, Any]] = []
    for number, template in enumerate(templates):
        with error_prefix(f"prompt {number + 1}: "):
            rows += _filled_rows(template, number, identities, draws, fields)
    filled = DataFrame(rows, schema={"_row": pl.UInt32, "_prompt": String} | dict.fromkeys(added, String))
    numbered = prompts.with_row_index("_row")
    if "item" not in prompts.columns:
        numbered = numbered.with_columns(item=pl.col("_row").cast(Int32))
    joined = filled.join(numbered, on="_row", how="left", maintain_order="left")
    columns = [name for name in prompts.columns if name not in ("prompt", "item")]
    return joined.select(pl.col("_prompt").alias("prompt"), "item", *added, *columns)


def attributes_of(prompts: DataFrame, swap: Swap) -> Sequence[str]:
    """Return the attributes that are swapped in marked prompts.

    Parameters
    ----------
    prompts, swap
        See `swapped`.

    Raises
    ------
    InputError
        See `swapped`.
    """
    texts = _texts(prompts)
    _refuse_unmarked(texts)
    identities, _ = _parsed(texts, swap)
    return list(identities.groups)


def first_slot(prompts: Sequence[str]) -> str | None:
    """Return the first slot of prompts, such as "{he/she/they}"; None if they have none.

    Examples
    --------
    >>> first_slot(["Is it late?", "Is {he/she/they} late?"])
    '{he/she/they}'
    """
    for prompt in prompts:
        with suppress(InputError):
            slots = parse(prompt, FIELDS).slots
            if slots:
                return slots[0].source
    return None


def _texts(prompts: DataFrame) -> Sequence[str]:
    if "prompt" not in prompts.columns:
        raise InputError("the table has no column 'prompt'; it must contain the marked prompts")
    if prompts.is_empty():
        raise InputError("there are no prompts")
    texts = prompts["prompt"].cast(String)
    if texts.null_count():
        raise InputError(f"prompt {texts.is_null().arg_true()[0] + 1} is empty; fill it in or remove the row")
    return texts.to_list()


def _refuse_unmarked(texts: Sequence[str]) -> None:
    """Raise InputError if a prompt has nothing between braces that may be a slot."""
    for number, text in enumerate(texts, 1):
        if "{" not in text:
            _raise_unmarked(number, text)


def _raise_unmarked(number: int, text: str) -> None:
    raise InputError(f"prompt {number} has no slot ({shortened(text, _LONGEST_QUOTATION)!r}); {_HOW_TO_MARK}")


def _parsed(texts: Sequence[str], swap: Swap) -> tuple[Identities, Sequence[Template]]:
    """Return identities and parsed prompts."""
    used = [name for text in texts for name in names_in(text)]
    is_variants = swap.table is None and not swap.lists
    fields: Sequence[str] = FIELDS
    if not is_variants:
        identities = swap.identities(used)
        fields = identities.fields
    templates = []
    for number, text in enumerate(texts, 1):
        with error_prefix(f"prompt {number}: "):
            template = parse(text, fields)
        if not template.slots:
            _raise_unmarked(number, text)
        templates.append(template)
    if is_variants:
        identities = swap.variants(templates)
    return identities, templates


def _recorded_fields(templates: Sequence[Template], identities: Identities) -> Sequence[str]:
    """Return the fields that prompts use, in a stable order; pronouns are one of them."""
    used = {name for template in templates for name in _used_fields(template)}
    fields = [name.lower() for name in (*FIELDS, *identities.fields)]
    return [name for name in dict.fromkeys(fields) if name in used]


def _filled_rows(
    template: Template, number: int, identities: Identities, draws: Draws, fields: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the rows of the matched set of a prompt."""
    used = _used_fields(template)
    of_set = MatchedSet(draws, used, _has_gendered_words(template))
    people = [of_set.person(identity) for identity in identities.identities]
    check_template(template, uses_they=any(person.pronoun == "they" for person in people))
    rows: list[dict[str, Any]] = []
    for person in people:
        prompt, contents = fill(template, person, identities)
        check_filled(template, contents)
        row: dict[str, Any] = {name: person.contents[name] if name in used else None for name in fields}
        rows.append(row | dict(person.identity.groups) | {"_row": number, "_prompt": prompt})
    _refuse_alike([row["_prompt"] for row in rows], identities)
    return rows


def _used_fields(template: Template) -> frozenset[str]:
    """Return the fields of a prompt; pronouns are one of them."""
    return template.fields | {"pronouns"} if template.has_pronouns else template.fields


def _has_gendered_words(template: Template) -> bool:
    """Return whether a prompt has pronouns, titles or gendered nouns."""
    if template.has_pronouns or not template.fields.isdisjoint({"title", "pronouns"}):
        return True
    forms = [slot.forms for slot in template.group_slots]
    return any(places_by_gender(words) is not None or is_relation(words) for words in forms)


def _refuse_alike(prompts: Sequence[str], identities: Identities) -> None:
    """Raise InputError if the prompt is the same for several groups."""
    if len(set(prompts)) == len(prompts):
        return
    combinations = [dict(identity.groups) for identity in identities.identities]
    for attribute in identities.groups:
        without = [{**combination, attribute: ""} for combination in combinations]
        of_attribute = [
            prompt for prompt, groups in zip(prompts, without, strict=True) if groups == without[0]
        ]
        if len(set(of_attribute)) == 1 and len(of_attribute) > 1:
            raise InputError(
                f"it is the same for all groups of {attribute}; add a slot that differs between them, such as"
                " {person}"
            )
    position = next(index for index, prompt in enumerate(prompts) if prompt in prompts[:index])
    first = combinations[prompts.index(prompts[position])]
    raise InputError(
        f"it is the same for {', '.join(first.values())} and {', '.join(combinations[position].values())};"
        " add a slot that differs between them"
    )
