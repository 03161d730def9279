"""Extraction of what texts say of each person: content words, pairs of words, and verbs with their objects.

No judge is asked.

In texts about one person without a given name, all sentences count. Otherwise the words of a sentence belong
to the person who was last mentioned in it (or first, for the words before), by a first name, surname, pronoun
or, of the narrator, the first person. Sentences that mention no one are left out, and pronouns that could
refer to either of two people are not attributed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import polars as pl
from polars import DataFrame, Expr, Int64, Series, col, lit, when

from tiltmeter.associations._tables import LISTS, MENTIONS, OWNER
from tiltmeter.associations._terms import load_terms
from tiltmeter.readers._content_words import phrases_of
from tiltmeter.readers._lemmas import roots_of
from tiltmeter.readers._text_languages import languages_of
from tiltmeter.readers._words_in_sentences import PRONOUNS, next_word, sentences_of, word_lists, words_of
from tiltmeter.schema import beside, conform

_TEXTS_AT_ONCE: Final = 5_000
"""Number of texts that are read together."""
_SHORTEST_TEXT: Final = 20
"""Smallest number of words of a text whose language is checked."""
_LEAST_STOP_WORDS: Final = 0.1
"""A text of which a smaller share of the words are stop words of the language is in another language."""
_OTHER: Final = -1
"""Number of people who are none of the characters."""
_AMBIGUOUS: Final = -2
"""Number for pronouns that could refer to either character."""


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
    parts_of_names = stories.select(_parts_of(col.name.unique().str.to_lowercase()).explode())
    names = frozenset(parts_of_names["name"].drop_nulls())
    slices = [texts] if texts.is_empty() else list(texts.iter_slices(_TEXTS_AT_ONCE))
    states = []
    phrases = []
    for part in slices:
        states_of_part, phrases_of_part = _read(part, language, joined, names)
        states.append(states_of_part)
        phrases.append(phrases_of_part)
    mentions = pl.concat(phrases)
    mentions = mentions.with_columns(echo=_echoes(mentions, prompts, language))
    lists = conform(beside(stories, pl.concat(states), *OWNER), LISTS)
    listed = mentions.join(lists.filter(status="listed"), on=OWNER, how="semi", maintain_order="left")
    return lists, conform(listed, MENTIONS)


def _read(
    texts: DataFrame, language: str, joined: Mapping[str, str], names: Collection[str]
) -> tuple[DataFrame, DataFrame]:
    """Return the state of each list, and the phrases of each list.

    The columns of the states are `attempt`, `character`, `status`, `problem` and `unattributed`; those of the
    phrases are `attempt`, `character`, `phrase` and `sentence`.

    Parameters
    ----------
    joined
        Terms of several words, which are read as one, with the word that replaces each.
    names
        Parts of the names of all people, in lower case.
    """
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
    with_joined_terms = col.silent.str.replace_many(joined, ascii_case_insensitive=True)
    words = words_of(sentences.with_columns(silent=with_joined_terms), language, names)
    words = _attributed(words, people, language)
    phrases = phrases_of(words, language).filter(col.who >= 0)
    separated = {word: term for term, word in joined.items()}
    phrases = phrases.with_columns(phrase=col.phrase.str.replace_many(separated))
    phrases = phrases.group_by("row", "who", "phrase", maintain_order=True).agg(
        col.number.first(), col.proper.all(), times=pl.len().cast(Int64)
    )
    mentions = beside(beside(phrases, people, "row", "who"), sentences, "number")
    languages = DataFrame({"language": languages_of(texts["text"])}).with_row_index("row")
    states = _states(words, phrases, beside(people, languages, "row"), language)
    return states, mentions.select(*OWNER, "phrase", "sentence", "proper", "times")


def _states(words: DataFrame, phrases: DataFrame, people: DataFrame, language: str) -> DataFrame:
    """Return the `status` of the list of each person, the `problem` if none can be made, and counts of words.

    These are `words`, the number of words said of the person, and `unattributed`, the share of the content
    words of the text that are said of none of its people.
    """
    is_word = col.form.str.contains(r"^\p{L}")
    is_unattributed = col.who < 0
    is_stop_word = col.form.filter(is_word).is_in(word_lists(language)["stop"])
    of_text = words.group_by("row").agg(
        words_of_text=is_word.sum(),
        stop_words=is_stop_word.mean(),
        uncertain=(col.mentions & is_unattributed).any(),
        unattributed=is_unattributed.filter("content").mean(),
    )
    names = words.filter("named").select("row", "who", is_named=lit(True)).unique()
    described = phrases.select("row", "who", is_described=lit(True)).unique()
    of_person = words.filter(is_word).group_by("row", "who").agg(words=pl.len().cast(Int64))
    lists = beside(beside(people, of_text, "row"), of_person, "row", "who")
    lists = beside(lists, names, "row", "who")
    lists = beside(lists, described, "row", "who")
    problem = _why_missing(language)
    status = (
        when(problem.is_not_null())
        .then(lit("missing"))
        .when("is_described")
        .then(lit("listed"))
        .otherwise(lit("empty"))
    )
    return lists.select(*OWNER, "unattributed", "words", problem=problem, status=status)


def _why_missing(language: str) -> Expr:
    """Return why no list can be made of a text for a person; null if it can."""
    has_name = col.name != ""
    lacks_names = col.several & ~has_name.all().over("row")
    has_few_stop_words = (col.words_of_text >= _SHORTEST_TEXT) & (col.stop_words < _LEAST_STOP_WORDS)
    is_foreign = has_few_stop_words | (col.language != language).fill_null(False)
    is_unclear = has_name & ~col.several & col.is_described.is_null() & col.uncertain
    is_repeated = col.name.is_duplicated().over("row")
    is_unnamed = has_name & col.is_named.is_null()
    reasons = [
        (col.text.str.strip_chars() == "", lit("there is no text")),
        (lacks_names, lit("a story with two characters needs the name of each")),
        (is_foreign, lit(f"the text is in another language than {language!r}")),
        (is_repeated, pl.format("both characters are called {}", "name")),
        (is_unnamed, pl.format("the story does not name {}", "name")),
        (is_unclear, lit("it is unclear whom the text describes")),
    ]
    return pl.coalesce(when(condition).then(reason) for condition, reason in reasons)


# -- whom a word describes -------------------------------------------------------------------------


def _attributed(words: DataFrame, people: DataFrame, language: str) -> DataFrame:
    """Add `who` (the number of the character; negative: none of them), `named` and `mentions` to words.

    Names are no content words. `mentions` says whether a word is a pronoun.
    """
    lists = word_lists(language)
    words = words.with_columns(plain=_plain(col.form), capital=col.word.str.contains(r"^\p{Lu}"))
    words = _with_names(words, people)
    kind_of_pronoun = pl.coalesce(when(col.form.is_in(lists[name])).then(lit(name)) for name in PRONOUNS)
    words = words.with_columns(pronoun=when(col.person.is_null()).then(kind_of_pronoun))
    texts = people.select("row", "several", free=~col.several & (col.name == "")).unique()
    words = _with_referents(beside(words, texts, "row"))
    # Without subjects in sentences, as in Spanish, the person of the sentence before is meant.
    span = "row" if lists["idle_subjects"] else "number"
    last_before = col.referent.forward_fill().over(span)
    first_after = col.referent.backward_fill().over("number")
    who = when("free").then(0).otherwise(last_before.fill_null(first_after))
    return words.select(
        "row",
        "number",
        "place",
        "word",
        "form",
        "kind",
        "role",
        "personal",
        content=col.content & col.person.is_null(),
        who=who.fill_null(_OTHER),
        named=col.person.is_not_null(),
        mentions=col.pronoun.is_not_null(),
    )


def _plain(form: Expr) -> Expr:
    """Return a word without accents."""
    return form.str.normalize("NFD").str.replace_all(r"\p{M}", "")


def _near(column: str, steps: int) -> Expr:
    """Return the value of the word so many places later in the sentence, or earlier if negative."""
    return next_word(column, steps)


def _with_names(words: DataFrame, people: DataFrame) -> DataFrame:
    """Add `person`, the number of the character whose name a word is.

    It is _OTHER for another person's name, and null for other words.
    """
    names = _forms_of_names(words, people)
    named = beside(words, names, "row", "plain").with_columns(named=when("capital").then("who"))
    for _ in range(2):  # "de la Cruz"
        of_next = when(_is_particle()).then(_near("named", 1))
        named = named.with_columns(named=pl.coalesce("named", of_next))
    verb_follows = (_near("kind", 1) == "verb") | _near("form", 1).is_in(["'s", "is", "was", "has", "had"])
    after_relative = _near("form", -1).is_in(word_lists("en")["relatives"])
    is_name = col.capital & ((col.kind == "name") | after_relative) & col.named.is_null()
    is_of_stranger = is_name & (verb_follows | after_relative | _near("named", 1).is_not_null())
    named = named.with_columns(stranger=is_of_stranger)
    named = named.with_columns(other=is_name & col.stranger.any().over("row", "plain"))
    follows_other = _near("other", -1) & col.named.is_not_null()
    # "My brother is rude": what follows the verb describes the brother.
    is_possessed = _near("form", -2).is_in(word_lists("en")["possessives"])
    describes_relative = after_relative & is_possessed & (col.kind == "verb") & col.named.is_null()
    is_other = col.other | follows_other | describes_relative
    return named.with_columns(person=when(is_other).then(_OTHER).otherwise("named").cast(pl.Int32))


def _is_particle() -> Expr:
    """Return whether a word is part of names, such as "de"."""
    return col.plain.is_in(word_lists("en")["beside_names"])


def _forms_of_names(words: DataFrame, people: DataFrame) -> DataFrame:
    """Return the forms (`plain`) of names in each text with `who` they name, without those of two people.

    The forms are the parts of the name, a capitalised word after one of them (a surname), and, if the name is
    a single word, a capitalised word before it.
    """
    parts = _parts_of(_plain(col.name.str.to_lowercase()))
    names = (
        people.select("row", "who", plain=parts)
        .with_columns(single=col.plain.list.len() == 1)
        .explode("plain")
        .drop_nulls()
        .filter(~_is_particle())
    )
    neighbours = words.with_columns(before=_near("plain", -1), after=_near("plain", 1))
    neighbours = neighbours.filter("capital", ~_is_particle(), col.kind.is_in(["name", "noun", "adjective"]))
    surnames = neighbours.join(names, left_on=["row", "before"], right_on=["row", "plain"])
    first_names = neighbours.filter(col.kind != "adjective").join(
        names.filter("single"), left_on=["row", "after"], right_on=["row", "plain"]
    )
    columns = ("row", "plain", "who")
    forms = pl.concat([names.select(columns), surnames.select(columns), first_names.select(columns)])
    return forms.unique().filter(col.who.n_unique().over("row", "plain") == 1)


def _parts_of(name: Expr) -> Expr:
    """Return the words of a name as a list."""
    return name.str.extract_all(r"[\p{L}\p{M}]+(?:[-'][\p{L}\p{M}]+)*")


def _with_referents(words: DataFrame) -> DataFrame:
    """Add `referent`, the `person` or, for a pronoun, whom it refers to.

    It is the number of a character, _OTHER or _AMBIGUOUS, and null for other words.
    """
    is_first = col.pronoun == "i"
    is_third = col.pronoun.is_in(["he", "she"])
    words = words.with_columns(introduced=_is_introduced(), alone=_is_alone())
    words = beside(words, _antecedents(words), "number")
    words = beside(words, _votes(words), "row", "pronoun").with_columns(third=is_third.any().over("row"))
    is_narrator = col.introduced.any() | (col.alone.any() & ~col.third.any())
    words = words.with_columns(narrator=is_narrator.over("row"))
    # In a text about one person, the person is either the narrator or someone of whom the narrator speaks.
    is_about_person = col.pronoun.is_not_null() & ~col.third & ~col.narrator
    of_one = (
        when(is_first | is_third)
        .then(when(is_first == col.narrator).then(0).otherwise(_OTHER))
        .when(is_about_person)
        .then(0)
    )
    third_person = pl.coalesce("voted", "only", lit(_AMBIGUOUS))
    of_two = when(is_first).then(_OTHER).when(is_third).then(third_person)
    referent = pl.coalesce("person", when("several").then(of_two).otherwise(of_one))
    return words.with_columns(referent=referent.cast(pl.Int32))


def _is_first_character() -> Expr:
    return (col.person == 0).fill_null(False)


def _is_introduced() -> Expr:
    """Return whether a word is the name with which the narrator introduces himself ("I'm Ann")."""
    follows_verb = _near("form", -1).is_in(["'m", "am", "is", "'s"]) & _near("form", -2).is_in(["i", "name"])
    follows_called = _near("form", -1).is_in(word_lists("en")["called"])
    is_no_possessor = (_near("form", 1) != "'s").fill_null(True)
    return _is_first_character() & (follows_verb | follows_called) & is_no_possessor


def _is_alone() -> Expr:
    """Return whether a word is a name in a sentence without other words, such as a signature."""
    is_named = _is_first_character()
    is_no_other_word = is_named | ~col.form.str.contains(r"^\p{L}")
    return is_named & is_no_other_word.all().over("number")


def _antecedents(words: DataFrame) -> DataFrame:
    """Return the characters named near each sentence.

    `only` is the only character named in a sentence and the one before, and `last` the last one so far.

    The columns are `number` (of the sentence), `only` and `last`.
    """
    named = col.person.filter(col.person >= 0)
    sentences = words.group_by("row", "number", maintain_order=True).agg(
        first=named.min(), second=named.max(), latest=named.last()
    )
    first = pl.min_horizontal("first", col("first").shift(1).over("row"))
    second = pl.max_horizontal("second", col("second").shift(1).over("row"))
    only = when(first == second).then(first)
    return sentences.select("number", only=only, last=col.latest.forward_fill().over("row"))


def _votes(words: DataFrame) -> DataFrame:
    """Return which of two characters "he" and "she" of a text refer to (`voted`), if both pronouns occur.

    Each pronoun votes for the character named before it, with the weight 3 if no other one was named.
    """
    weight = when(pl.col("only").is_not_null()).then(3).otherwise(1)
    sign = when(pl.coalesce("only", "last") == 0).then(1).otherwise(-1)
    pronouns = words.filter(col.pronoun.is_in(["he", "she"]), col.last.is_not_null())
    counts = pronouns.group_by("row", "pronoun").agg(lead=(weight * sign).sum())
    both = counts.filter(col.pronoun.n_unique().over("row") == 2)
    lead = 2 * col.lead - col.lead.sum().over("row")
    return both.select("row", "pronoun", voted=when(lead > 0).then(0).when(lead < 0).then(1))


# -- echo of the prompt ----------------------------------------------------------------------------


def _echoes(mentions: DataFrame, prompts: DataFrame, language: str) -> Series:
    """Return whether each phrase has a content word that is in the prompt of its text."""
    texts = (
        prompts.filter(col.prompt != "").select(col.prompt.unique(maintain_order=True)).with_row_index("row")
    )
    if texts.is_empty():
        return Series([False]).new_from_index(0, mentions.height)
    words = words_of(sentences_of(texts["prompt"]), language).filter("content")
    words = words.with_columns(lemma=roots_of(words["form"], language)).select("row", "lemma").unique()
    prompt_words = prompts.join(texts, on="prompt").join(words, on="row")
    rows = mentions.with_row_index("mention")
    forms = rows.with_columns(form=col.phrase.str.split(" ")).explode("form")
    forms = forms.with_columns(lemma=roots_of(forms["form"], language))
    echoes = forms.join(prompt_words, on=["attempt", "lemma"], how="semi")["mention"].unique()
    return rows.select(col.mention.is_in(echoes.implode())).to_series()
