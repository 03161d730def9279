"""Content words and phrases of many texts at once.

Phrases are adjective-noun and noun-noun pairs, and verbs with their objects. English is tagged by word form
with the Hanover tagger (see `grammar`), and the neighbours decide between a noun and a verb. In other
languages, whose words come from `simplemma`, any two adjacent content words are a pair. Stop words and
pronouns are data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path

import polars as pl
from polars import DataFrame, Expr, Series, String, UInt32, col, lit, when

from tiltmeter._files.yaml import packaged_yaml
from tiltmeter.errors import InputError, check_known
from tiltmeter.readers._grammar import LONGEST, sentences, speech, tagger

PRONOUNS = ("he", "she", "they", "i")
"""Classes of pronouns that refer to people."""
_LIKELY = 3.5
"""A tag is possible if its log-probability is at most so much below that of the most probable tag of the word
form."""
_KINDS = {
    "NN": "noun",
    "AJ": "adjective",
    "VV": "verb",
    "VB": "verb",
    "VH": "verb",
    "VD": "verb",
    "AV": "adverb",
    "NP": "name",
    "UN": "name",
}
_GAP = 4
"""Maximum distance between a verb and the noun of its object, in words."""
_NEGATED = 3
"""Maximum distance between a negation and the word it negates, in words."""


@cache
def word_lists(language: str) -> Mapping[str, frozenset[str]]:
    """Return the lists of words of a language: pronouns, stop words and others, see `content_words.yaml`.

    Raises
    ------
    InputError
        There are no lists for the language.
    """
    every = packaged_yaml(Path(__file__).with_name("content_words.yaml"))
    check_known(language, every, f"texts in {language!r} cannot be read without a judge")
    return {name: frozenset(text.split()) for name, text in every[language].items()}


# -- words ---------------------------------------------------------------------------------------------

_MOSTLY = 0.5
"""If a larger share of a text is direct speech, it is read as if it were not quoted."""
_LINE = re.compile(r"[^\s](?:.*[^\s])?")
_WORD = r"n't\b|'(?:s|re|ve|ll|d|m)\b|[\p{L}\p{M}\p{N}]+(?:[-'][\p{L}\p{M}\p{N}]+)*|[^\s\p{L}\p{M}\p{N}'\-]"


def sentences_of(texts: Series) -> DataFrame:
    """Return one row per sentence.

    The columns are `number`, `row` (of the text), `sentence`, and `silent`, the sentence without direct
    speech.
    """
    rows = [(row, *sentence) for row, text in enumerate(texts) for sentence in _sentences(text)]
    schema = {"row": UInt32, "sentence": String, "silent": String}
    return DataFrame(rows, schema=schema, orient="row").with_row_index("number")


def _sentences(text: str) -> Iterator[tuple[str, str]]:
    """Yield each sentence, and the same without direct speech."""
    spoken = speech(text)
    silent = text
    if sum(end - start for start, end in spoken) <= _MOSTLY * len(text):
        for start, end in spoken:
            silent = f'{silent[:start]}"{" " * (end - start - 1)}{silent[end:]}'
    for start, end in sentences(text):
        for line in _LINE.finditer(text, start, end):
            yield line.group(), silent[slice(*line.span())]


def words_of(rows: DataFrame, language: str) -> DataFrame:
    """Split sentences into words.

    Parameters
    ----------
    rows
        From `sentences_of`.
    language
        "en", "de", ...

    Returns
    -------
    DataFrame
        One row per word or punctuation mark: `row` (of the text), `number` (of the sentence), `place` in the
        sentence, `word` as written, `form` in lower case, `kind` ("noun", "adjective", "verb", "adverb",
        "name" or "other"; "word": a content word of any kind), and `content` (whether it is a word with
        content of its own).
    """
    lists = word_lists(language)
    plain = col.silent.str.replace_all("[\u2019\u2018\u0060\u00b4]", "'")
    split = plain.str.replace_all("[\u2010\u2011]", "-")
    if language == "en":
        split = split.str.replace_all(r"(?i)n't\b", " n't")
    split = split.str.replace_all(r"'(s|re|ve|ll|d|m)\b", " '$1")
    words = rows.select("row", "number", word=split.str.extract_all(_WORD)).explode("word").drop_nulls()
    words = words.with_columns(
        place=pl.int_range(pl.len()).over("number"),
        form=col.word.str.to_lowercase(),
    )
    forms = _form_table(words["form"].unique(maintain_order=True), language)
    words = words.join(forms, on="form", how="left", maintain_order="left")
    if language == "en":
        words = words.with_columns(kind=_kind_in_place())
    else:
        words = words.with_columns(kind=when("is_word").then(lit("word")).otherwise(lit("other")))
    of_follows = (_next("form") == "of").fill_null(False)
    is_quantity = col.form.is_in(lists["quantities"]) & of_follows
    is_particle = (col.kind == "adverb") & ~col.form.str.ends_with("ly")
    has_content = (col.kind != "other") & ~col.form.is_in(lists["stop"]) & (col.form.str.len_chars() > 1)
    content = has_content & ~is_particle & ~is_quantity
    return words.select("row", "number", "place", "word", "form", "kind", content=content)


def _next(column: str, step: int = 1) -> Expr:
    """Return the value of a column for the word so many steps after each word of the sentence."""
    return col(column).shift(-step).over("number")


def _previous(column: str, step: int = 1) -> Expr:
    """Return the value of a column for the word so many steps before each word of the sentence."""
    return col(column).shift(step).over("number")


def _form_table(forms: Series, language: str) -> DataFrame:
    """Return for each word form whether it is a word, in English instead its kinds.

    These are the most likely kind, `best`, and whether it can be a noun, an adjective and a verb.
    """
    is_word = forms.str.contains(r"^\p{L}") & (forms.str.len_chars() <= LONGEST)
    if language != "en":
        return DataFrame({"form": forms, "is_word": is_word})
    kinds_of_forms = [
        _kinds(form) if letters else ("other",) for form, letters in zip(forms, is_word, strict=True)
    ]
    columns = {"form": forms, "best": Series([kinds[0] for kinds in kinds_of_forms], dtype=String)}
    for kind in ("noun", "adjective", "verb"):
        columns[f"can_{kind}"] = Series([kind in kinds for kinds in kinds_of_forms], dtype=pl.Boolean)
    return DataFrame(columns)


@lru_cache(maxsize=1 << 17)
def _kinds(form: str) -> tuple[str, ...]:
    """Return the possible kinds of an English word form, the most likely first."""
    tags = tagger().tag_word(form) or [(tagger().analyze(form)[1], 0.0)]
    best = tags[0][1]
    likely = [_KINDS.get(tag[:2], "other") for tag, probability in tags if probability > best - _LIKELY]
    return tuple(dict.fromkeys(likely))


_DEMONSTRATIVES = frozenset(("this", "these", "those", "that"))
_BEFORE_ADJECTIVES = frozenset(("is", "are", "was", "were", "'s", "and", ",", "very", "so"))
"""Words before a form that is an adjective rather than a noun."""


def _kind_in_place() -> Expr:
    """Return the kind of each word from its form and its neighbours in the sentence."""
    lists = word_lists("en")
    before = _previous("form")
    after = _next("form")
    determiners = lists["articles"] | lists["possessives"]
    noun_after = _next("can_noun").fill_null(False) & ~after.is_in(lists["stop"])
    determiner_after = after.is_in(determiners)
    determined = before.is_in(determiners | lists["links"] | _DEMONSTRATIVES)
    before_verb = before.is_in(lists["before_verbs"])
    subject_before = before_verb | (_previous("best") == "name") | before.is_in([",", ";"])
    has_object = col.can_verb & (noun_after | determiner_after)
    has_object = has_object & (subject_before | col.place.eq(0) | ~col.can_noun)
    unlisted = determiner_after & ~col.can_adjective & col.place.gt(0)
    verb_in_s = (has_object | unlisted) & col.form.str.ends_with("s") & ~determined
    verb = verb_in_s | (col.can_verb & ~determined & ((col.best == "verb") | before_verb))
    noun = col.can_noun & (col.best.is_in(["noun", "verb"]) | (determined & ~noun_after))
    rather_noun = col.best.eq("noun") & ~noun_after & ~before.is_in(_BEFORE_ADJECTIVES)
    adjective = col.can_adjective & ~rather_noun
    return (
        when(verb)
        .then(lit("verb"))
        .when(adjective & noun_after)
        .then(lit("adjective"))
        .when(noun)
        .then(lit("noun"))
        .when(adjective)
        .then(lit("adjective"))
        .when("can_verb")
        .then(lit("verb"))
        .otherwise("best")
    )


# -- phrases -------------------------------------------------------------------------------------------

_SPOT = ["row", "number", "place"]
_NOT = when("negated").then(lit("not ")).otherwise(lit(""))
"""The beginning of a phrase."""


def phrases_of(words: DataFrame, language: str) -> DataFrame:
    """Return the phrases in sentences.

    They are content words, phrases of two and three of them, and in English verbs with their objects. A
    negated word has "not" before it. Pronouns and possessives are left out of phrases.

    Parameters
    ----------
    words
        From `words_of`, with any additional columns, which are those of the first word of a phrase.

    Returns
    -------
    DataFrame
        The columns of `words`, with `phrase` in lower case.
    """
    lists = word_lists(language)
    marked = words.with_columns(_negation(lists), _participles_as_adjectives(lists))
    if language == "en":
        marked = marked.with_columns(compound=_is_compound())
        inner = _previous("compound").fill_null(False) & col.form.is_in(lists["compounds"])
        marked = marked.with_columns(inner=inner)
        marked = marked.with_columns(is_pair=_is_pair())
        marked = marked.with_columns(is_triple=_is_triple())
    else:
        marked = marked.with_columns(
            compound=lit(False), inner=lit(False), is_pair=_both_content(), is_triple=lit(False)
        )
    pair = pl.concat_str("form", _next("form"), separator=" ")
    triple = pl.concat_str(pair, _next("form", 2), separator=" ")
    marked = marked.with_columns(
        pair=when("is_pair").then(_NOT + pair),
        triple=when("is_triple").then(_NOT + triple),
    )
    pairs = marked.select(*words.columns, phrase="pair").drop_nulls("phrase")
    triples = marked.select(*words.columns, phrase="triple").drop_nulls("phrase")
    single = marked.filter(col.content & ~col.compound & ~col.inner & ~col.form.is_in(lists["bare"]))
    single = single.select(*words.columns, phrase=_NOT + col.form)
    if language == "en":
        predicates = _predicates(marked.select(*words.columns, "negated"), lists)
        single = single.join(predicates.filter("of_noun"), on=_SPOT, how="anti")
        phrases = [pairs, triples, predicates.drop("of_noun"), single]
    else:
        phrases = [pairs, triples, single]
    return pl.concat(phrases, how="diagonal").sort(_SPOT, maintain_order=True)


_NOUNS = ["noun", "name"]


def _both_content() -> Expr:
    """Return whether a word and the next one are content words."""
    return (col.content & _next("content")).fill_null(False)


def _is_compound() -> Expr:
    """Return whether a word and the next one are an adjective of two words ("tightly coiled")."""
    return _both_content() & col.kind.is_in(["adverb", *_NOUNS]) & _next("kind").eq("adjective")


def _is_pair() -> Expr:
    """Return whether a phrase of two words begins at each word."""
    qualifies = col.kind.is_in(["adjective", *_NOUNS])
    return col.compound | (_both_content() & qualifies & _next("kind").is_in(_NOUNS) & ~col.inner)


def _is_triple() -> Expr:
    """Return whether a phrase of three words begins at each word."""
    two_adjectives = _both_content() & col.kind.eq("adjective") & _next("kind").eq("adjective")
    noun_follows = _next("content", 2) & _next("kind", 2).is_in(_NOUNS)
    return (col.is_pair | two_adjectives) & noun_follows


def _participles_as_adjectives(lists: Mapping[str, frozenset[str]]) -> Expr:
    """Return the kind of each word, with English participles before a noun as adjectives.

    Examples are "tightly coiled hair" and "almond shaped eyes".
    """
    pronouns = frozenset().union(*(lists[name] for name in PRONOUNS)) - lists["possessives"]
    has_subject = _previous("kind", 2).is_in(_NOUNS) | _previous("form", 2).is_in(pronouns)
    after_adverb = _previous("kind").eq("adverb") & _previous("form").str.ends_with("ly")
    in_compound = _previous("kind").is_in(["noun", "adjective"]) & col.form.is_in(lists["compounds"])
    qualified = (after_adverb & ~has_subject.fill_null(False)) | in_compound
    participle = col.kind.eq("verb") & col.form.str.contains("e[dn]$") & qualified
    return when(participle.fill_null(False)).then(lit("adjective")).otherwise("kind").alias("kind")


def _negation(lists: Mapping[str, frozenset[str]]) -> Expr:
    """Return the column `negated`: whether a negation is among the last words before each word.

    Punctuation and other content words end its effect.
    """
    far_away = -_NEGATED - 1
    negation = col.form.is_in(lists["negations"])
    stops = col.content | col.form.str.contains(r"^[^\p{L}]")
    place = when(negation).then("place").when(stops).then(far_away)
    last = place.shift(1).forward_fill().over("number").fill_null(far_away)
    return (col.place - last <= _NEGATED).alias("negated")


def _predicates(words: DataFrame, lists: Mapping[str, frozenset[str]]) -> DataFrame:
    """Return the verbs with the noun of their object or of the prepositional phrase that follows.

    An example is "sings in a choir". Each is returned with and without the adjectives of the noun; only with
    them, if the noun is too general. `of_noun` says whether the noun is not a name.
    """
    objects = _objects_of_verbs(words, lists)
    objects = objects.filter(~col.is_general | (col.noun_phrase != col.full_phrase))
    objects = objects.with_columns(noun_phrase=when(~col.is_general).then("noun_phrase"))
    index = [*words.columns, "verb", "of_noun"]
    objects = objects.unpivot(["noun_phrase", "full_phrase"], index=index, value_name="object")
    phrase = pl.concat_str(_NOT + col.verb, "object", separator=" ")
    predicates = objects.drop_nulls("object").select(*words.columns, "of_noun", phrase=phrase)
    predicates = predicates.unique([*_SPOT, "phrase"], maintain_order=True)
    return predicates.drop("negated")


def _objects_of_verbs(words: DataFrame, lists: Mapping[str, frozenset[str]]) -> DataFrame:
    """Return one row per verb with an object: the columns of the verb and parts of the object.

    They are `noun_phrase` (without adjectives), `full_phrase` (with them), `is_general` (whether the noun
    says little alone) and `of_noun` (whether it is not a name).
    """
    verbs = words.filter((col.kind == "verb") & ~col.form.is_in(lists["idle"]))
    verbs = verbs.with_columns(start="place", verb="form", step=pl.int_ranges(1, _GAP + 1)).explode("step")
    verbs = verbs.with_columns(place=col.start + col.step)
    next_words = words.select("number", "place", next="form", next_kind="kind", next_content="content")
    steps = verbs.join(next_words, on=["number", "place"], maintain_order="left")
    # Pronouns are skipped, so that "makes her an asset" equals "makes him an asset".
    skipped = lists["possessives"].union(*(lists[name] for name in PRONOUNS))
    is_skipped = col.next_kind.is_in(["adjective", "adverb"]) | col.next.is_in(skipped)
    is_link = col.next.is_in(lists["articles"] | lists["links"])
    is_adjective = (col.next_kind == "adjective") & col.next_content
    is_object = col.next_content & col.next_kind.is_in(_NOUNS)
    verb_place = ["number", "start"]
    steps = steps.with_columns(
        is_object=is_object,
        in_noun_phrase=is_object | is_link,
        in_full_phrase=is_object | is_link | is_adjective,
        ends=is_object | ~(is_skipped | is_link),
    )
    steps = steps.filter(col.ends.cum_sum().over(verb_place) - col.ends == 0)
    ends_with_object = col.is_object.last() & (col.step.last() == pl.len())
    of_verb = [name for name in words.columns if name not in (*verb_place, "place")]
    objects = steps.group_by(verb_place, maintain_order=True).agg(
        pl.col(of_verb).first(),
        place=col.start.first(),
        verb=col.verb.first(),
        noun_phrase=col.next.filter("in_noun_phrase").str.join(" "),
        full_phrase=col.next.filter("in_full_phrase").str.join(" "),
        is_general=col.next.last().is_in(lists["bare"]),
        of_noun=col.next_kind.last() == "noun",  # not a name: "talks to Ann" is also "talks"
        has_object=ends_with_object,
    )
    return objects.filter("has_object")


# -- lemmas --------------------------------------------------------------------------------------------

_DERIVED = (("ly", ""), ("ily", "y"), ("ness", ""), ("iness", "y"), ("nce", "nt"), ("ncy", "nt"))
"""Endings of adverbs and nouns that are derived from adjectives, and what the adjectives have instead."""


def lemmas_of(forms: Series, language: str) -> Series:
    """Return the lemma of each word form.

    In English, an adverb or noun that is derived from an adjective among the words has its lemma
    ("resilience": "resilient").
    """
    distinct = list(dict.fromkeys(forms))
    lemmas = list(_lemmas(distinct, language))
    if language == "en":
        every = set(lemmas)
        lemmas = [next((root for root in _roots(lemma) if root in every), lemma) for lemma in lemmas]
    return forms.replace_strict(distinct, lemmas, return_dtype=String)


def _roots(lemma: str) -> Iterator[str]:
    """Yield the adjectives from which a word may be derived."""
    for ending, instead in _DERIVED:
        root = lemma.removesuffix(ending) + instead
        if not lemma.endswith(ending) or len(root) <= 3:
            continue
        kinds = _kinds(root)
        if "adjective" in kinds and "verb" not in kinds:
            yield root


def _lemmas(forms: Iterable[str], language: str) -> Iterable[str]:
    if language == "en":
        return map(_english_lemma, forms)
    try:
        from simplemma import lemmatize
    except ImportError as error:
        message = f'texts in {language!r} need a lemmatiser: pip install "tiltmeter[languages]"'
        raise InputError(message) from error
    return (lemmatize(form, lang=language).lower() for form in forms)


_OWN_LEMMA = frozenset(("blues", "born", "glasses", "goods", "shorts"))
"""Words that mean something else than their lemma ("short", "bear")."""


@lru_cache(maxsize=1 << 17)
def _english_lemma(form: str) -> str:
    """Return the lemma of a noun or verb; other words are unchanged."""
    if form in _OWN_LEMMA or len(form) > LONGEST or not form[0].isalpha():
        return form
    if _kinds(form)[0] not in ("noun", "verb"):
        return form
    return str(tagger().analyze(form)[0]).lower()
