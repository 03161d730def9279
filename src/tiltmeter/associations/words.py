"""Extraction of what texts say of each person: content words, pairs of words, and verbs with their objects. No judge is asked.

In texts about one person without a given name, all sentences count. Otherwise the words of a sentence belong to the person who was last
mentioned in it (or first, for the words before), by a first name, surname, pronoun or, of the narrator, the first person. Sentences that
mention no one are left out, and pronouns that could refer to either of two people are not attributed.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from polars import DataFrame, Expr, Series, String, col, lit, when

from tiltmeter.associations.stage_tables import LISTS, MENTIONS
from tiltmeter.associations.terms import load_terms
from tiltmeter.readers.content_words import PRONOUNS, lemmas_of, phrases_of, sentences_of, word_lists, words_of
from tiltmeter.study import beside, conform

_AT_ONCE = 5_000
"""Number of texts that are read together."""
_TITLES = [
    "mr",
    "mrs",
    "ms",
    "mx",
    "dr",
    "prof",
    "miss",
    "professor",
    "doctor",
    "sir",
    "dame",
    "jr",
    "sr",
    "ii",
    "iii",
    "ph.d",
    "phd",
    "md",
    "m.d",
    "esq",
]
_PARTICLES = ["de", "del", "la", "van", "von", "der", "den", "di", "da", "du", "le", "al", "el", "bin", "ibn", "dos", "y"]
_ENOUGH, _LEAST = 20, 0.1
"""A text of at least so many words, of which a smaller share are stop words of the language, is in another language."""
_OTHER, _AMBIGUOUS = -1, -2
"""People who are none of the characters, and pronouns that could refer to either character."""


def extract(stories: DataFrame, prompts: DataFrame, language: str = "en", terms: str | None = None) -> tuple[DataFrame, DataFrame]:
    """Extract the phrases that describe each character.

    Parameters
    ----------
    stories
        STORIES: one row per story and character; the characters of a story are in consecutive rows.
    prompts
        `attempt` and `prompt`: phrases of the prompt are marked as its echo. May have no rows.
    language
        "en", "de" or "es".
    terms
        YAML file of the user in the format of `terms.yaml`. Demographic terms of several words are read as one word.

    Returns
    -------
    tuple
        LISTS, in the order of `stories`, and MENTIONS.
    """
    texts = stories.group_by("attempt", maintain_order=True).agg(col.text.first().fill_null(""), col.name, col.character)
    joined = [form for form in load_terms(terms).forms() if " " in form]
    found = [_read(part, language, joined) for part in texts.iter_slices(_AT_ONCE)] or [_read(texts, language, joined)]
    problems, mentions, shares = (pl.concat(tables) for tables in zip(*found, strict=True))
    mentions = mentions.with_columns(echo=_echoes(mentions, prompts, language))
    owner = ["attempt", "character"]
    lists = beside(beside(stories, problems, *owner), shares, "attempt")
    lists = beside(lists, mentions.select(owner).unique().with_columns(held=True), *owner)
    status = when(col.problem.is_not_null()).then(lit("missing")).when("held").then(lit("listed")).otherwise(lit("empty"))
    lists = lists.with_columns(status=status)
    kept = mentions.join(lists.filter(col.status == "listed"), on=owner, how="semi", maintain_order="left")
    return conform(lists, LISTS), conform(kept, MENTIONS)


def _read(texts: DataFrame, language: str, joined: Sequence[str]) -> tuple[DataFrame, DataFrame, DataFrame]:
    """Return the `problem` of each list with one, the phrases of each list, and the share of each text that is `unattributed`."""
    owners = texts.with_row_index("row").select("row", "attempt", "character", "name")
    people = owners.explode("character", "name").with_columns(who=col.character, several=pl.len().over("row") > 1)
    sentences = sentences_of(texts["text"])
    as_one = col.silent.str.replace_many(list(joined), [form.replace(" ", "-") for form in joined], ascii_case_insensitive=True)
    words = _attributed(words_of(sentences.with_columns(silent=as_one), language), people, language)
    phrases = phrases_of(words, language).filter(col.who >= 0)
    said = phrases.unique(["row", "who", "phrase"], keep="first", maintain_order=True).with_columns(character=col.who.cast(pl.Int8))
    mentions = said.join(owners.select("row", "attempt"), on="row", maintain_order="left").join(
        sentences.select("number", "sentence"), on="number", maintain_order="left"
    )
    problems = _problems(texts["text"], words, said, people, language)
    shares = words.filter("content").group_by("row").agg(unattributed=(col.who < 0).mean()).join(owners, on="row")
    return problems, mentions.select("attempt", "character", "phrase", "sentence"), shares.select("attempt", "unattributed")


def _problems(texts: Series, words: DataFrame, said: DataFrame, people: DataFrame, language: str) -> DataFrame:
    """Return `attempt`, `character` and `problem` of the people for whom a list cannot be made."""
    letters = words.filter(col.form.str.contains(r"^\p{L}"))
    known = letters.group_by("row").agg(words=pl.len(), known=col.form.is_in(word_lists(language)["stop"]).mean())
    named = words.filter(col.named & (col.who >= 0)).select("row", who=col.who.cast(pl.Int8), is_named=lit(True)).unique()
    doubtful = words.filter(col.mentions & (col.who < 0)).select("row", doubtful=lit(True)).unique()
    held = said.select("row", who="character", held=lit(True)).unique()
    table = people.join(texts.alias("text").to_frame().with_row_index("row"), on="row", maintain_order="left")
    for part, on in ((known, ["row"]), (doubtful, ["row"]), (named, ["row", "who"]), (held, ["row", "who"])):
        table = table.join(part, on=on, how="left", maintain_order="left")
    foreign = (col.words >= _ENOUGH) & (col.known < _LEAST)
    who = col.name.fill_null("").str.strip_chars()
    lists = (
        when(col.text.str.strip_chars() == "").then(lit("there is no text"))
        .when(col.several & (who == "").any().over("row")).then(lit("a story with two characters needs the name of each"))
        .when(foreign).then(lit(f"the text is in another language than {language!r}"))
        .when(col.name.is_duplicated().over("row") & col.several).then(pl.format("both characters are called {}", who))
        .when((who != "") & col.is_named.is_null()).then(pl.format("the story does not name {}", who))
        .when((who != "") & ~col.several & col.held.is_null() & col.doubtful).then(lit("it is unclear whom the text describes"))
    )  # fmt: skip
    return table.select("attempt", "character", problem=lists).drop_nulls("problem")


# -- who a word is said of ----------------------------------------------------------------------------------------------


def _attributed(words: DataFrame, people: DataFrame, language: str) -> DataFrame:
    """Add `who` (the number of the character; negative: none of them), `named` and `mentions` (pronouns) to words, and mask names."""
    lists = word_lists(language)
    words = words.with_columns(plain=_plain(col.form), capital=col.word.str.contains(r"^\p{Lu}"))
    words = _with_names(words, people)
    kinds: Expr = lit(None, String)
    for pronoun in reversed(PRONOUNS):
        kinds = when(col.form.is_in(lists[pronoun])).then(lit(pronoun)).otherwise(kinds)
    words = words.with_columns(pronoun=when(col.person.is_null()).then(kinds))
    free = people.filter(~col.several & (col.name.fill_null("").str.strip_chars() == "")).select("row", free=lit(True))
    words = words.join(free, on="row", how="left", maintain_order="left")
    words = words.with_columns(meant=pl.coalesce("person", _referent(words, people)))
    over = "row" if lists["idle_subjects"] else "number"
    who = when("free").then(0).otherwise(col.meant.forward_fill().over(over).fill_null(col.meant.backward_fill().over("number")))
    return words.select(
        "row", "number", "place", "word", "form", "kind",
        content=col.content & col.person.is_null(),
        who=who.fill_null(_OTHER),
        named=col.person.is_not_null(),
        mentions=col.pronoun.is_not_null(),
    )  # fmt: skip


def _plain(form: Expr) -> Expr:
    return form.str.normalize("NFD").str.replace_all(r"\p{M}", "")


def _with_names(words: DataFrame, people: DataFrame) -> DataFrame:
    """Add `person`: the number of the character whose name a word is, _OTHER for another person's name, else null."""
    parts = people.select("row", "who", plain=_plain(col.name.str.to_lowercase()).str.extract_all(r"[\p{L}\p{M}]+(?:[-'][\p{L}\p{M}]+)*"))
    single = parts.select("row", "who", single=col.plain.list.len() == 1)
    particle = col.plain.is_in(_TITLES + _PARTICLES)
    forms = parts.explode("plain").drop_nulls().filter(~particle).cast({"who": pl.Int32})
    around = {name: col.plain.shift(step).over("number") for name, step in (("before", 1), ("after", -1))}
    table = words.with_columns(**around).filter("capital", ~particle, col.kind.is_in(["name", "noun", "adjective"]))
    surnames = table.join(forms, left_on=["row", "before"], right_on=["row", "plain"])
    first_names = table.filter(col.kind != "adjective").join(forms, left_on=["row", "after"], right_on=["row", "plain"])
    first_names = first_names.join(single.filter("single").cast({"who": pl.Int32}), on=["row", "who"])
    learned = pl.concat([one.select("row", "who", "plain") for one in (surnames, first_names)])
    forms = pl.concat([forms, learned]).unique().filter(col.who.n_unique().over("row", "plain") == 1)
    made = words.join(forms.select("row", "plain", own="who"), on=["row", "plain"], how="left", maintain_order="left")
    made = made.with_columns(own=when("capital").then("own"))
    for _ in range(2):  # "de la Cruz"
        made = made.with_columns(own=pl.coalesce("own", when(particle).then(col.own.shift(-1).over("number"))))
    verb_after = (col.kind.shift(-1).over("number") == "verb") | col.form.shift(-1).over("number").is_in(["'s", "is", "was", "has", "had"])
    of_relative = col.form.shift(1).over("number").is_in(word_lists("en")["relatives"])
    is_name = col.capital & ((col.kind == "name") | of_relative) & col.own.is_null()
    made = made.with_columns(stranger=is_name & (verb_after | of_relative | col.own.shift(-1).over("number").is_not_null()))
    made = made.with_columns(other=is_name & col.stranger.any().over("row", "plain"))
    made = made.with_columns(of_other=col.other.shift(1).over("number").fill_null(False) & col.own.is_not_null())
    # "My brother is rude": what follows the verb is said of the brother.
    possessed = col.form.shift(2).over("number").is_in(word_lists("en")["possessives"])
    said_of_relative = of_relative & possessed & (col.kind == "verb") & col.own.is_null()
    return made.with_columns(person=when(col.other | col.of_other | said_of_relative).then(_OTHER).otherwise("own").cast(pl.Int32))


def _referent(words: DataFrame, people: DataFrame) -> Series:
    """Return whom each pronoun refers to: the number of a character, _OTHER or _AMBIGUOUS; null for other words."""
    before = [col.form.shift(step).over("number") for step in (1, 2)]
    calls = before[0].is_in(["'m", "am", "is", "'s"]) & before[1].is_in(["i", "name"])
    calls = calls | before[0].is_in(["me", "heiße", "bin", "soy", "llamo"])
    introduced = (col.person == 0) & calls & (col.form.shift(-1).over("number") != "'s").fill_null(True)
    alone = ((col.person == 0).fill_null(False) | ~col.form.str.contains(r"^\p{L}")).all().over("number") & (col.person == 0)
    rows = words.group_by("row").agg(introduced=introduced.any(), alone=alone.any(), third=col.pronoun.is_in(["he", "she"]).any())
    rows = rows.join(people.select("row", "several").unique(), on="row")
    table = words.join(rows, on="row", how="left", maintain_order="left")
    table = table.join(_antecedents(words), on=["row", "number"], how="left", maintain_order="left")
    table = table.join(_votes(table), on=["row", "pronoun"], how="left", maintain_order="left")
    narrator = col.introduced | (col.alone & ~col.third)
    is_first, is_third = col.pronoun == "i", col.pronoun.is_in(["he", "she"])
    one = (
        when(is_first).then(when(narrator).then(0).otherwise(_OTHER))
        .when(is_third).then(when(narrator).then(_OTHER).otherwise(0))
        .when(~col.third & ~narrator).then(0)
    )  # fmt: skip
    two = when(is_first).then(_OTHER).when(is_third).then(pl.coalesce("voted", "only", lit(_AMBIGUOUS)))
    return table.select(when(col.pronoun.is_null()).then(None).when("several").then(two).otherwise(one).cast(pl.Int32)).to_series()


def _antecedents(words: DataFrame) -> DataFrame:
    """Return for each sentence the only character named in it and the sentence before (`only`), and the last one so far (`last`)."""
    named = col.person.filter(col.person >= 0)
    sentences = words.group_by("row", "number", maintain_order=True).agg(least=named.min(), most=named.max(), latest=named.last())
    least = pl.min_horizontal("least", col.least.shift(1).over("row"))
    most = pl.max_horizontal("most", col.most.shift(1).over("row"))
    return sentences.select("row", "number", only=when(least == most).then(least), last=col.latest.forward_fill().over("row"))


def _votes(words: DataFrame) -> DataFrame:
    """Return which of two characters "he" and "she" of a text refer to (`voted`), by the characters named before, if both occur."""
    lead = when(pl.col("only").is_not_null()).then(3).otherwise(1) * when(pl.coalesce("only", "last") == 0).then(1).otherwise(-1)
    counts = words.filter(col.pronoun.is_in(["he", "she"]), col.last.is_not_null()).group_by("row", "pronoun").agg(lead=lead.sum())
    counts = counts.filter(col.pronoun.n_unique().over("row") == 2).with_columns(lead=2 * col.lead - col.lead.sum().over("row"))
    return counts.select("row", "pronoun", voted=when(col.lead > 0).then(0).when(col.lead < 0).then(1))


# -- echo of the prompt -------------------------------------------------------------------------------------------------


def _echoes(mentions: DataFrame, prompts: DataFrame, language: str) -> Series:
    """Return whether each phrase has a content word that is in the prompt of its text."""
    asked = prompts.filter(col.prompt.str.strip_chars() != "")
    if asked.is_empty():
        return Series([False]).new_from_index(0, mentions.height)
    texts = asked["prompt"].unique(maintain_order=True)
    words = words_of(sentences_of(texts), language).filter("content")
    words = words.with_columns(lemma=lemmas_of(words["form"], language))
    of_prompt = texts.alias("prompt").to_frame().with_row_index("row").join(words.select("row", "lemma").unique(), on="row")
    known = asked.join(of_prompt, on="prompt").select("attempt", "lemma", known=lit(True))
    rows = mentions.select("attempt", "phrase").with_row_index("mention")
    split = rows.with_columns(form=col.phrase.str.split(" ")).explode("form")
    split = split.with_columns(lemma=lemmas_of(split["form"], language))
    echoed = split.join(known, on=["attempt", "lemma"], how="semi")["mention"].unique()
    return rows.select(col.mention.is_in(echoed.implode())).to_series()
