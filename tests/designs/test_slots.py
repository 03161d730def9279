"""Marked prompts: what each slot becomes, which attributes a swap has, and which prompts are refused."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from polars import DataFrame

from tiltmeter.designs.slots import MOST_PROMPTS, Swap, swapped
from tiltmeter.errors import InputError

NAMES = DataFrame(
    {
        "gender": ["women", "women", "women", "men", "men"],
        "first_name": ["Ada", "Bea", "Cleo", "Tom", "Uwe"],
    }
)


def filled(prompt: str, swap: Swap | str, seed: int = 1) -> list[str]:
    """Return the prompts of the matched set of one marked prompt."""
    choice = Swap.of(swap) if isinstance(swap, str) else swap
    return swapped(DataFrame({"prompt": [prompt]}), choice, seed=seed)["prompt"].to_list()


@pytest.mark.parametrize(
    ("prompt", "she", "he", "they"),
    [
        ("{he/she/they} {is/are} here", "she is here", "he is here", "they are here"),
        ("ask {him/her/them}", "ask her", "ask him", "ask them"),
        ("ask {her/him}", "ask her", "ask him", "ask them"),
        ("{her/his/their} car", "her car", "his car", "their car"),
        ("{their/her} car", "her car", "his car", "their car"),
        ("it is {his/hers/theirs}.", "it is hers.", "it is his.", "it is theirs."),
        ("{himself/herself/themself}", "herself", "himself", "themself"),
        ("{himself/herself}", "herself", "himself", "themselves"),
        ("{herself/himself/themselves}", "herself", "himself", "themselves"),
        ("{She/He} {has been/have been} ill", "She has been ill", "He has been ill", "They have been ill"),
        ("{HE/SHE} {WORKS/WORK}", "SHE WORKS", "HE WORKS", "THEY WORK"),
        ("{Is/Are} {she/he/they} ill?", "Is she ill?", "Is he ill?", "Are they ill?"),
        ("{carry/carries} {his/her/their}s", "carries hers", "carries hiss", "carry theirs"),
        ("{he's/she's/they're} tired", "she's tired", "he's tired", "they're tired"),
        ("{He’s/She’s/They’ve} left", "She’s left", "He’s left", "They’ve left"),
        ("{she/he/they}'ll go", "she'll go", "he'll go", "they'll go"),
        ("{she/he/they}{'s/'re} ill", "she's ill", "he's ill", "they're ill"),
        ("{a/an} {{actress/actor/performer}}", "an actress", "an actor", "a performer"),
        ("{A/An} {{heir/hour/use}}", "An heir", "An hour", "A use"),
        ("{pronouns}", "she/her", "he/him", "they/them"),
        ("Dear {title} Smith", "Dear Ms Smith", "Dear Mr Smith", "Dear Mx Smith"),
        ("{person}", "A woman", "A man", "A nonbinary person"),
        ("Is it {person}? {person}", "Is it a woman? A woman", "Is it a man? A man",
         "Is it a nonbinary person? A nonbinary person"),
        ("e.g. {person}", "e.g. a woman", "e.g. a man", "e.g. a nonbinary person"),
        ('{"a": {"b": 1}} { x } {} {1} {person}', '{"a": {"b": 1}} { x } {} {1} a woman',
         '{"a": {"b": 1}} { x } {} {1} a man', '{"a": {"b": 1}} { x } {} {1} a nonbinary person'),
    ],
)  # fmt: skip
def test_slots_agree_with_gender(prompt: str, she: str, he: str, they: str) -> None:
    assert filled(prompt, "gender") == [she, he, they]


def test_descriptions_are_composed() -> None:
    swap = Swap.of("age:18/72,race:Asian/Black,gender:women/men,disability:no disability/wheelchair user")
    prompts = filled("Patient: {person}.", swap)
    assert prompts[0] == "Patient: an 18-year-old Asian woman."
    assert prompts[-1] == "Patient: a 72-year-old Black man who uses a wheelchair."
    assert len(prompts) == 16
    assert filled("{person} who", "disability:no disability/wheelchair user")[1] == (
        "A person who uses a wheelchair and who"
    )
    nationalities = filled("I am {person} from {country}.", "nationality")
    assert nationalities[0] == "I am an American person from the United States."


def test_names_carry_what_is_swapped_and_nothing_else() -> None:
    prompts = DataFrame({"prompt": ["{first_name} {last_name}: {he/she/they}, {person}"] * 12})
    rows = swapped(prompts, Swap.of("race,gender"), seed=3)
    assert rows.columns == [
        "prompt",
        "item",
        "race",
        "gender",
        "person",
        "first_name",
        "last_name",
        "pronouns",
    ]
    by_race = rows.group_by("last_name").agg(pl.col("race").n_unique())
    assert by_race["race"].max() == 1, "a last name signals one race"
    assert rows.group_by("item").agg(pl.col("first_name").n_unique())["first_name"].to_list() == [12] * 12
    by_age = swapped(prompts, Swap.of("age"), seed=3)
    assert by_age["first_name"].n_unique() == 12
    for column in ("first_name", "last_name", "pronouns"):
        assert by_age.group_by("item").agg(pl.col(column).n_unique())[column].max() == 1
    assert set(by_age["pronouns"]) == {"she/her", "he/him"}


def test_names_of_a_table_are_used_equally_often() -> None:
    prompts = DataFrame({"prompt": ["{first_name} asks for a raise."] * 12})
    rows = swapped(prompts, Swap.of(NAMES), seed=5)
    assert rows.height == 24
    counts = Counter(rows["first_name"])
    assert counts == {"Ada": 4, "Bea": 4, "Cleo": 4, "Tom": 6, "Uwe": 6}
    assert filled("{first_name} says {he/she} is late", Swap.of(NAMES))[1].split()[2] == "he"


def test_a_table_says_which_columns_are_groups(tmp_path: Path) -> None:
    table = DataFrame({"faith": ["Muslim", "Christian"], "house": ["mosque", "church"]})
    rows = swapped(DataFrame({"prompt": ["I left the {house}."]}), Swap.of(table), seed=1)
    assert rows.columns == ["prompt", "item", "faith", "house"]
    prompts = DataFrame({"prompt": ["The {house} of my {faith} neighbour"]})
    named = swapped(prompts, Swap.of(table, groups="house"), seed=1)
    assert named["house"].to_list() == ["mosque", "church"]
    with pytest.raises(InputError, match=r"every column .* is a slot, .* --group"):
        filled("{faith} {house}", Swap.of(table))
    single = tmp_path / "faiths.csv"
    single.write_text("faith\nMuslim\nChristian\n")
    assert filled("My {faith} neighbour", Swap.of(str(single))) == [
        "My Muslim neighbour",
        "My Christian neighbour",
    ]
    with pytest.raises(InputError, match="no column 'nation'"):
        Swap.of(table, groups=["nation"]).identities([])


def test_combinations_of_a_table_are_those_that_occur() -> None:
    table = DataFrame(
        {"race": ["A", "A", "B"], "gender": ["women", "men", "women"], "name": ["Xia", "Xu", "Bea"]}
    )
    rows = swapped(DataFrame({"prompt": ["{name} is here"]}), Swap.of(table), seed=1)
    assert rows.select("race", "gender").rows() == [("A", "women"), ("A", "men"), ("B", "women")]


def test_alternatives_are_groups_without_a_swap() -> None:
    prompts = DataFrame(
        {"prompt": ["{{A Muslim/A Christian}} asks. {He/She} waits.", "Ask the {{Muslim/Christian}}."]}
    )
    rows = swapped(prompts, Swap.of(), seed=1)
    assert rows["variant"].to_list() == ["A Muslim", "A Christian"] * 2
    assert rows.filter(item=0)["pronouns"].n_unique() == 1
    assert "religion" in swapped(prompts, Swap.of(None, groups="religion"), seed=1).columns
    assert filled("A person{{ with a hearing aid/}} asks.", Swap.of()) == [
        "A person with a hearing aid asks.",
        "A person asks.",
    ]
    with pytest.raises(InputError, match="prompt 2 has the alternatives Jew, Sikh, and prompt 1 has"):
        swapped(DataFrame({"prompt": ["{{Muslim/Christian}}", "{{Jew/Sikh}}"]}), Swap.of(), seed=1)
    with pytest.raises(InputError, match="prompt 1 has no alternatives"):
        filled("{person}", Swap.of())


def test_columns_of_the_user_are_kept() -> None:
    prompts = DataFrame({"prompt": ["{person}?", "{person}!"], "item": ["x", "y"], "expected": ["yes", "no"]})
    rows = swapped(prompts, Swap.of("gender:women/men"), seed=1)
    assert rows["item"].to_list() == ["x", "x", "y", "y"]
    assert rows["expected"].to_list() == ["yes", "yes", "no", "no"]
    with pytest.raises(InputError, match="already has a column 'gender'"):
        swapped(prompts.with_columns(gender=pl.lit("x")), Swap.of("gender"), seed=1)


@pytest.mark.parametrize(
    ("prompt", "swap", "message"),
    [
        ("Is it?", "gender", r"prompt 1 has no slot \('Is it\?'\); mark .*tiltmeter swap FILE"),
        ("{firstname} asks", "gender", r"unknown slot \{firstname\}: did you mean first_name"),
        ("{dog/cat} {person}", "gender", r"write \{\{dog/cat\}\} for forms by group"),
        ("{he/him} {person}", "gender", "are not the same case"),
        ("{first_name} asks", "age", "prompt 1: it is the same for all groups of age"),
        ("{he/she/they} ask", "race,gender", "it is the same for all groups of race"),
        ("{{x/x/y}}", "gender", "it is the same for women and men"),
        ("{{waitress/waiter}}", "gender", r"has 2 forms .* gender has 3 .*--swap gender:women/men"),
        ("{{a/b/c/d}} {person}", "race,age:20/30/40/50", "may be those of race or age"),
        ("{he/she/they}'s late", "gender", r"write \{he's/she's/they're\} \(is\)"),
        ("{he/she/they} often works", "gender", r"mark the verb: \{he/she/they\} \{works/work\}"),
        ("Does {he/she/they} work?", "gender", r"mark the verb: \{Does/Do\}"),
        ("{he/she/they} are late", "gender", "does not agree with she and he"),
        ("Are {he/she/they} late?", "gender", "does not agree with she and he"),
        ("a letter to {he/she/they}", "gender", r"follows a preposition; write \{him/her/them\}"),
        ("the choice is {his/her/their}.", "gender", r"write \{his/hers/theirs\}"),
        ("{first_name} {is/are} late", "gender", "singular for every group: write is in place"),
        ("a {nationality} nurse", "nationality", r"'a American' needs the other article; write \{a/an\}"),
        ("the {person}", "gender", "remove 'the' before the slot"),
        ("a nurse {{from Rome/}} asks", None, "move the blank before it into the braces"),
        ("What is {person}'s salary?", "disability", r"write 'of \{person\}'"),
        ("{person}", "gendre", "no built-in list 'gendre': did you mean gender"),
        ("{person}", "gender:women/child", "gender has no group 'child'"),
        ("{person}", "gender:women", "name at least two groups"),
        ("{person}", "gender,gender", "names gender twice"),
        ("{person}", "age:7/30", "'7' is not an age"),
        ("{person}", "nobody.csv", "there is no file nobody.csv"),
    ],
)  # fmt: skip
def test_mistakes_are_named(prompt: str, swap: str | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        filled(prompt, Swap.of(swap))


def test_two_groups_need_no_forms_for_a_third() -> None:
    assert filled("{he/she} works, {he/she}'s paid", "gender:women/men") == [
        "she works, she's paid",
        "he works, he's paid",
    ]
    assert filled("{{waitress/waiter/server}}", "gender:men/women") == ["waiter", "waitress"]


def test_gendered_nouns_agree_in_any_order_and_under_any_swap() -> None:
    assert filled("{{young man/young person/young woman}}", "gender") == [
        "young woman",
        "young man",
        "young person",
    ]
    prompts = filled("{He/She} is {person}, {{waitress/waiter/server}} and {{mother/father/parent}}.", "race")
    words = {re.sub("Asian|Black|Hispanic|white|an? ", "", prompt) for prompt in prompts}
    assert words in ({"She is  woman, waitress and mother."}, {"He is  man, waiter and father."})
    assert filled("{His/Her} {{husband/wife/spouse}}", "gender") == [
        "Her husband",
        "His wife",
        "Their spouse",
    ]


def test_too_many_prompts_are_refused() -> None:
    prompts = DataFrame({"prompt": ["{person}"] * (MOST_PROMPTS // 3 + 1)})
    with pytest.raises(InputError, match="at most 10,000 are filled"):
        swapped(prompts, Swap.of("gender"), seed=1)


def test_names_without_pronouns_in_a_table_are_refused_next_to_pronouns() -> None:
    table = DataFrame({"origin": ["north", "south"], "name": ["Ada", "Tom"]})
    with pytest.raises(InputError, match="add a column pronouns"):
        filled("{name} says {he/she/they} {is/are} late", Swap.of(table))
    with_pronouns = table.with_columns(pronouns=pl.Series(["she/her", "they"]))
    assert filled("{name} says {he/she/they} {is/are} late", Swap.of(with_pronouns)) == [
        "Ada says she is late",
        "Tom says they are late",
    ]


def test_columns_of_a_table_may_have_blanks_and_names_must_fit() -> None:
    table = DataFrame({"faith": ["Muslim", "Christian"], "House of prayer": ["mosque", "church"]})
    assert filled("The {House of prayer} is old", Swap.of(table)) == [
        "The mosque is old",
        "The church is old",
    ]
    assert filled("The {house of prayer} is old", Swap.of(table)) == [
        "The mosque is old",
        "The church is old",
    ]
    names = DataFrame({"origin": ["north", "south"], "name": ["Ada Berg", "Tom Lee"]})
    with pytest.raises(InputError, match="has a column name and none first_name"):
        filled("{first_name} is {name}", Swap.of(names))
    empty = DataFrame({"origin": ["north", "south"], "name": ["Ada Berg", ""]})
    with pytest.raises(InputError, match="row 2, column 'name' is empty"):
        filled("{name} is here", Swap.of(empty))
    ages = DataFrame({"age": ["old", "young"], "name": ["Ada Berg", "Tom Lee"]})
    assert filled("{name} is {person}", Swap.of(ages))[0] == "Ada Berg is a person"
    people = DataFrame({"x": ["1", "2"], "person": ["a nun", "a Sikh man"], "pronouns": ["she", ""]})
    assert filled("{person}: {he/she} waits", Swap.of(people)) == ["A nun: she waits", "A Sikh man: he waits"]


def test_a_swap_tells_the_origin_of_its_groups() -> None:
    assert list(Swap.of("race,gender").origins) == ["race", "gender"]
    assert "Tzioumis" in Swap.of("race").origins["race"]
