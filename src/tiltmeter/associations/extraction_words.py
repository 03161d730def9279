"""Extraction of what texts say of each person: content words, pairs of words, and verbs with their objects.

No judge is asked.

In texts about one person without a given name, all sentences count. Otherwise the words of a sentence belong
to the person who was last mentioned in it (or first, for the words before), by a first name, surname, pronoun
or, of the narrator, the first person. Sentences that mention no one are left out, and pronouns that could
refer to either of two people are not attributed.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from polars import DataFrame, Expr, Series, col, lit, when

from tiltmeter.associations.tables import LISTS, MENTIONS, OWNER
from tiltmeter.associations.terms import load_terms
from tiltmeter.readers.content_words import (
    PRONOUNS,
    lemmas_of,
    phrases_of,
    sentences_of,
    word_lists,
    words_of,
)
from tiltmeter.schema import beside, conform

_AT_ONCE = 5_000
"""Number of texts that are read together."""
_ENOUGH, _LEAST = 20, 0.1
"""A text of at least so many words, of which a smaller share are stop words of the language, is in another
language."""
_OTHER, _AMBIGUOUS = -1, -2
"""People who are none of the characters, and pronouns that could refer to either character."""


def extract(
    stories: DataFrame, prompts: DataFrame, language: str = "en", terms: str | None = None
) -> tuple[DataFrame, DataFrame]:
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
        YAML file of the user in the format of `terms.yaml`. Demographic terms of several words are read as
        one word.

    Returns
    -------
    tuple
        LISTS, in the order of `stories`, and MENTIONS.
    """
    texts = stories.group_by("attempt", maintain_order=True).agg(
        col.text.first().fill_null(""), col.name, col.character
    )
    joined = {form: form.replace(" ", "-") for form in load_terms(terms).forms() if " " in form}
    found = [_read(part, language, joined) for part in texts.iter_slices(_AT_ONCE)] or [
        _read(texts, language, joined)
    ]
    read, mentions = (pl.concat(tables) for tables in zip(*found, strict=True))
    mentions = mentions.with_columns(echo=_echoes(mentions, prompts, language))
    lists = conform(beside(stories, read, *OWNER), LISTS)
    kept = mentions.join(lists.filter(status="listed"), on=OWNER, how="semi", maintain_order="left")
    return lists, conform(kept, MENTIONS)


def _read(texts: DataFrame, language: str, joined: Mapping[str, str]) -> tuple[DataFrame, DataFrame]:
    """Return `attempt`, `character`, `status`, `problem` and `unattributed` of each list, and the phrases of each list."""
    people = (
        texts.with_row_index("row")
        .explode("character", "name")
        .with_columns(
            who=col.character.cast(pl.Int32),
            name=col.name.fill_null("").str.strip_chars(),
            several=pl.len().over("row") > 1,
        )
    )
    sentences = sentences_of(texts["text"])
    as_one = col.silent.str.replace_many(joined, ascii_case_insensitive=True)
    words = _attributed(words_of(sentences.with_columns(silent=as_one), language), people, language)
    phrases = phrases_of(words, language).filter(col.who >= 0)
    said = phrases.unique(["row", "who", "phrase"], keep="first", maintain_order=True)
    mentions = beside(beside(said, people, "row", "who"), sentences, "number")
    return _lists(words, said, people, language), mentions.select(*OWNER, "phrase", "sentence")


def _lists(words: DataFrame, said: DataFrame, people: DataFrame, language: str) -> DataFrame:
    """Return the status of the list of each person, the `problem` if none can be made, and the share of words that is `unattributed`."""
    is_word, of_nobody = col.form.str.contains(r"^\p{L}"), col.who < 0
    of_text = words.group_by("row").agg(
        words=is_word.sum(),
        known=col.form.filter(is_word).is_in(word_lists(language)["stop"]).mean(),
        doubtful=(col.mentions & of_nobody).any(),
        unattributed=of_nobody.filter("content").mean(),
    )
    named = words.filter("named").select("row", "who", is_named=lit(True)).unique()
    held = said.select("row", "who", held=lit(True)).unique()
    table = beside(beside(beside(people, of_text, "row"), named, "row", "who"), held, "row", "who")
    has_name = col.name != ""
    problem = (
        when(col.text.str.strip_chars() == "").then(lit("there is no text"))
        .when(col.several & ~has_name.all().over("row")).then(lit("a story with two characters needs the name of each"))
        .when((col.words >= _ENOUGH) & (col.known < _LEAST)).then(lit(f"the text is in another language than {language!r}"))
        .when(col.name.is_duplicated().over("row")).then(pl.format("both characters are called {}", "name"))
        .when(has_name & col.is_named.is_null()).then(pl.format("the story does not name {}", "name"))
        .when(has_name & ~col.several & col.held.is_null() & col.doubtful).then(lit("it is unclear whom the text describes"))
    )  # fmt: skip
    status = (
        when(problem.is_not_null())
        .then(lit("missing"))
        .when("held")
        .then(lit("listed"))
        .otherwise(lit("empty"))
    )
    return table.select(*OWNER, "unattributed", problem=problem, status=status)


# -- who a word is said of ----------------------------------------------------------------------------------------------


def _attributed(words: DataFrame, people: DataFrame, language: str) -> DataFrame:
    """Add `who` (the number of the character; negative: none of them), `named` and `mentions` (pronouns) to words, and mask names."""
    lists = word_lists(language)
    words = _with_names(
        words.with_columns(plain=_plain(col.form), capital=col.word.str.contains(r"^\p{Lu}")), people
    )
    pronoun = pl.coalesce(when(col.form.is_in(lists[name])).then(lit(name)) for name in PRONOUNS)
    texts = people.select("row", "several", free=~col.several & (col.name == "")).unique()
    words = _with_referents(
        beside(words.with_columns(pronoun=when(col.person.is_null()).then(pronoun)), texts, "row")
    )
    over = "row" if lists["idle_subjects"] else "number"
    who = (
        when("free")
        .then(0)
        .otherwise(col.meant.forward_fill().over(over).fill_null(col.meant.backward_fill().over("number")))
    )
    return words.select(
        "row", "number", "place", "word", "form", "kind",
        content=col.content & col.person.is_null(),
        who=who.fill_null(_OTHER),
        named=col.person.is_not_null(),
        mentions=col.pronoun.is_not_null(),
    )  # fmt: skip


def _plain(form: Expr) -> Expr:
    return form.str.normalize("NFD").str.replace_all(r"\p{M}", "")


def _near(column: str, steps: int) -> Expr:
    """Return the value of the word so many places later in the sentence, or earlier if negative."""
    return col(column).shift(-steps).over("number")


def _with_names(words: DataFrame, people: DataFrame) -> DataFrame:
    """Add `person`: the number of the character whose name a word is, _OTHER for another person's name, else null."""
    parts = people.select(
        "row",
        "who",
        plain=_plain(col.name.str.to_lowercase()).str.extract_all(r"[\p{L}\p{M}]+(?:[-'][\p{L}\p{M}]+)*"),
    )
    particle = col.plain.is_in(word_lists("en")["beside_names"])
    forms = (
        parts.with_columns(single=col.plain.list.len() == 1).explode("plain").drop_nulls().filter(~particle)
    )
    table = words.with_columns(before=_near("plain", -1), after=_near("plain", 1))
    table = table.filter("capital", ~particle, col.kind.is_in(["name", "noun", "adjective"]))
    surnames = table.join(forms, left_on=["row", "before"], right_on=["row", "plain"])
    first_names = table.filter(col.kind != "adjective").join(
        forms.filter("single"), left_on=["row", "after"], right_on=["row", "plain"]
    )
    forms = pl.concat([one.select("row", "plain", "who") for one in (forms, surnames, first_names)]).unique()
    forms = forms.filter(col.who.n_unique().over("row", "plain") == 1)
    made = beside(words, forms, "row", "plain").with_columns(own=when("capital").then("who"))
    for _ in range(2):  # "de la Cruz"
        made = made.with_columns(own=pl.coalesce("own", when(particle).then(_near("own", 1))))
    verb_after = (_near("kind", 1) == "verb") | _near("form", 1).is_in(["'s", "is", "was", "has", "had"])
    of_relative = _near("form", -1).is_in(word_lists("en")["relatives"])
    is_name = col.capital & ((col.kind == "name") | of_relative) & col.own.is_null()
    made = made.with_columns(stranger=is_name & (verb_after | of_relative | _near("own", 1).is_not_null()))
    made = made.with_columns(other=is_name & col.stranger.any().over("row", "plain"))
    of_other = _near("other", -1) & col.own.is_not_null()
    # "My brother is rude": what follows the verb is said of the brother.
    possessed = _near("form", -2).is_in(word_lists("en")["possessives"])
    said_of_relative = of_relative & possessed & (col.kind == "verb") & col.own.is_null()
    return made.with_columns(
        person=when(col.other | of_other | said_of_relative).then(_OTHER).otherwise("own").cast(pl.Int32)
    )


def _with_referents(words: DataFrame) -> DataFrame:
    """Add `meant`: the `person` or, for a pronoun, whom it refers to: the number of a character, _OTHER or _AMBIGUOUS; else null."""
    is_named, is_first, is_third = (
        (col.person == 0).fill_null(False),
        col.pronoun == "i",
        col.pronoun.is_in(["he", "she"]),
    )
    calls = _near("form", -1).is_in(["'m", "am", "is", "'s"]) & _near("form", -2).is_in(["i", "name"])
    calls = calls | _near("form", -1).is_in(word_lists("en")["called"])
    introduced = is_named & calls & (_near("form", 1) != "'s").fill_null(True)
    alone = is_named & (is_named | ~col.form.str.contains(r"^\p{L}")).all().over("number")
    words = beside(words.with_columns(introduced=introduced, alone=alone), _antecedents(words), "number")
    words = beside(words, _votes(words), "row", "pronoun").with_columns(third=is_third.any().over("row"))
    words = words.with_columns(
        narrator=(col.introduced.any() | (col.alone.any() & ~col.third.any())).over("row")
    )
    # The person is either the narrator or someone of whom the narrator speaks.
    one = (
        when(is_first | is_third).then(when(is_first == col.narrator).then(0).otherwise(_OTHER))
        .when(col.pronoun.is_not_null() & ~col.third & ~col.narrator).then(0)
    )  # fmt: skip
    two = when(is_first).then(_OTHER).when(is_third).then(pl.coalesce("voted", "only", lit(_AMBIGUOUS)))
    return words.with_columns(
        meant=pl.coalesce("person", when("several").then(two).otherwise(one)).cast(pl.Int32)
    )


def _antecedents(words: DataFrame) -> DataFrame:
    """Return for each sentence the only character named in it and the sentence before (`only`), and the last one so far (`last`)."""
    named = col.person.filter(col.person >= 0)
    sentences = words.group_by("row", "number", maintain_order=True).agg(
        least=named.min(), most=named.max(), latest=named.last()
    )
    least = pl.min_horizontal("least", col.least.shift(1).over("row"))
    most = pl.max_horizontal("most", col.most.shift(1).over("row"))
    return sentences.select(
        "number", only=when(least == most).then(least), last=col.latest.forward_fill().over("row")
    )


def _votes(words: DataFrame) -> DataFrame:
    """Return which of two characters "he" and "she" of a text refer to (`voted`), by the characters named before, if both occur."""
    lead = when(pl.col("only").is_not_null()).then(3).otherwise(1) * when(
        pl.coalesce("only", "last") == 0
    ).then(1).otherwise(-1)
    counts = (
        words.filter(col.pronoun.is_in(["he", "she"]), col.last.is_not_null())
        .group_by("row", "pronoun")
        .agg(lead=lead.sum())
    )
    counts = counts.filter(col.pronoun.n_unique().over("row") == 2).with_columns(
        lead=2 * col.lead - col.lead.sum().over("row")
    )
    return counts.select("row", "pronoun", voted=when(col.lead > 0).then(0).when(col.lead < 0).then(1))


# -- echo of the prompt -------------------------------------------------------------------------------------------------


def _echoes(mentions: DataFrame, prompts: DataFrame, language: str) -> Series:
    """Return whether each phrase has a content word that is in the prompt of its text."""
    texts = prompts.select(col.prompt.unique(maintain_order=True)).with_row_index("row")
    words = words_of(sentences_of(texts["prompt"]), language).filter("content")
    words = words.with_columns(lemma=lemmas_of(words["form"], language)).select("row", "lemma").unique()
    known = prompts.join(texts, on="prompt").join(words, on="row")
    rows = mentions.with_row_index("mention")
    split = rows.with_columns(form=col.phrase.str.split(" ")).explode("form")
    split = split.with_columns(lemma=lemmas_of(split["form"], language))
    echoed = split.join(known, on=["attempt", "lemma"], how="semi")["mention"].unique()
    return rows.select(col.mention.is_in(echoed.implode())).to_series()
