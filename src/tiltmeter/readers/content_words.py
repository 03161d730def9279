"""Content words and phrases of many texts at once: words, adjective-noun and noun-noun pairs, and verbs with their objects.

English is tagged by word form with the Hanover tagger (see `grammar`), and the neighbours decide between a
noun and a verb. In other languages, whose words come from `simplemma`, any two adjacent content words are a
pair. Stop words and pronouns are data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path

import polars as pl
from polars import DataFrame, Expr, Series, String, UInt32, col, lit, when

from tiltmeter.errors import InputError, check_known
from tiltmeter.files.yaml import packaged_yaml
from tiltmeter.readers.grammar import LONGEST, sentences, speech, tagger

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
    every = packaged_yaml(Path(__file__).with_suffix(".yaml"))
    check_known(language, every, f"texts in {language!r} cannot be read without a judge")
    return {name: frozenset(text.split()) for name, text in every[language].items()}


# -- words ------------------------------------------------------------------------------------------------------------

_MOSTLY = 0.5
"""If a larger share of a text is direct speech, it is read as if it were not quoted."""
_LINE = re.compile(r"[^\s](?:.*[^\s])?")
_WORD = r"n't\b|'(?:s|re|ve|ll|d|m)\b|[\p{L}\p{M}\p{N}]+(?:[-'][\p{L}\p{M}\p{N}]+)*|[^\s\p{L}\p{M}\p{N}'\-]"


def sentences_of(texts: Series) -> DataFrame:
    """Return `row` (of the text), `number`, `sentence` and `silent`, the sentence without direct speech, of each sentence."""
    rows = [(row, *found) for row, text in enumerate(texts) for found in _sentences(text)]
    return DataFrame(
        rows, schema={"row": UInt32, "sentence": String, "silent": String}, orient="row"
    ).with_row_index("number")


def _sentences(text: str) -> Iterator[tuple[str, str]]:
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
    plain = col.silent.str.replace_all("[\u2019\u2018\u0060\u00b4]", "'").str.replace_all(
        "[\u2010\u2011]", "-"
    )
    split = plain.str.replace_all(r"(?i)n't\b", " n't") if language == "en" else plain
    words = rows.select(
        "row", "number", word=split.str.replace_all(r"'(s|re|ve|ll|d|m)\b", " '$1").str.extract_all(_WORD)
    )
    words = (
        words.explode("word")
        .drop_nulls()
        .with_columns(place=pl.int_range(pl.len()).over("number"), form=col.word.str.to_lowercase())
    )
    known = _form_table(words["form"].unique(maintain_order=True), language)
    words = words.join(known, on="form", how="left", maintain_order="left")
    kind = _kind_in_place() if language == "en" else when("is_word").then(lit("word")).otherwise(lit("other"))
    words = words.with_columns(kind=kind)
    content = (col.kind != "other") & ~col.form.is_in(lists["stop"])
    quantity = col.form.is_in(lists["quantities"]) & (col.form.shift(-1).over("number") == "of").fill_null(
        False
    )
    adverb = (col.kind == "adverb") & ~col.form.str.ends_with("ly")
    return words.select(
        "row",
        "number",
        "place",
        "word",
        "form",
        "kind",
        content=content & ~adverb & ~quantity & (col.form.str.len_chars() > 1),
    )


def _form_table(forms: Series, language: str) -> DataFrame:
    """Return for each word form whether it is a word, and in English its most likely kind and whether it can be of others."""
    is_word = forms.str.contains(r"^\p{L}") & (forms.str.len_chars() <= LONGEST)
    if language != "en":
        return DataFrame({"form": forms, "is_word": is_word})
    kinds = [_kinds(form) if letters else ("other",) for form, letters in zip(forms, is_word, strict=True)]
    can = {
        f"can_{kind}": Series([kind in found for found in kinds], dtype=pl.Boolean)
        for kind in ("noun", "adjective", "verb")
    }
    return DataFrame({"form": forms, "best": Series([found[0] for found in kinds], dtype=String), **can})


@lru_cache(maxsize=1 << 17)
def _kinds(form: str) -> tuple[str, ...]:
    """Return the possible kinds of an English word form, the most likely first."""
    found = tagger().tag_word(form) or [(tagger().analyze(form)[1], 0.0)]
    best = found[0][1]
    return tuple(
        dict.fromkeys(
            _KINDS.get(tag[:2], "other") for tag, probability in found if probability > best - _LIKELY
        )
    )


def _kind_in_place() -> Expr:
    """Return the kind of each word from its form and its neighbours in the sentence."""
    lists = word_lists("en")
    before, after = (col.form.shift(step).over("number") for step in (1, -1))
    noun_after = col.can_noun.shift(-1).over("number").fill_null(False) & ~after.is_in(lists["stop"])
    determined = before.is_in(
        lists["articles"] | lists["possessives"] | lists["links"] | {"this", "these", "those", "that"}
    )
    opens = (
        before.is_in(lists["before_verbs"])
        | (col.best.shift(1).over("number") == "name")
        | before.is_in([",", ";"])
    )
    determiner_after = after.is_in(lists["articles"] | lists["possessives"])
    has_object = col.can_verb & (noun_after | determiner_after) & (opens | col.place.eq(0) | ~col.can_noun)
    unlisted = determiner_after & ~col.can_adjective & col.place.gt(0)
    in_s = (has_object | unlisted) & col.form.str.ends_with("s") & ~determined
    verb = in_s | (col.can_verb & ~determined & ((col.best == "verb") | before.is_in(lists["before_verbs"])))
    noun = col.can_noun & (col.best.is_in(["noun", "verb"]) | (determined & ~noun_after))
    adjective = col.can_adjective & ~(
        col.best.eq("noun")
        & ~noun_after
        & ~before.is_in(["is", "are", "was", "were", "'s", "and", ",", "very", "so"])
    )
    first = (
        when(verb)
        .then(lit("verb"))
        .when(adjective & noun_after)
        .then(lit("adjective"))
        .when(noun)
        .then(lit("noun"))
    )
    return first.when(adjective).then(lit("adjective")).when(col.can_verb).then(lit("verb")).otherwise("best")


# -- phrases ----------------------------------------------------------------------------------------------------------

_SPOT = ["row", "number", "place"]
_NOT = when("negated").then(lit("not ")).otherwise(lit(""))
"""The beginning of a phrase."""


def phrases_of(words: DataFrame, language: str) -> DataFrame:
    """Return the phrases in sentences: content words, phrases of two and three of them, and in English verbs with their objects.

    A negated word has "not" before it. Pronouns and possessives are left out of phrases.

    Parameters
    ----------
    words
        From `words_of`, with any further columns, which are those of the first word of a phrase.

    Returns
    -------
    DataFrame
        The columns of `words`, with `phrase` in lower case.
    """
    lists = word_lists(language)
    here = words.with_columns(_negation(lists), _participles_as_adjectives(lists))
    second, third = (
        {name: col(name).shift(-step).over("number") for name in ("form", "kind", "content")}
        for step in (1, 2)
    )
    both = (col.content & second["content"]).fill_null(False)
    compound = inner = lit(False)
    if language == "en":
        noun, qualities = ["noun", "name"], ["adjective", "noun", "name"]
        compound = both & col.kind.is_in(["adverb", *noun]) & second["kind"].eq("adjective")
        inner = compound.shift(1).over("number").fill_null(False) & col.form.is_in(lists["compounds"])
        pair = compound | (both & col.kind.is_in(qualities) & second["kind"].is_in(noun) & ~inner)
        three = (
            (pair | (both & col.kind.eq("adjective") & second["kind"].eq("adjective")))
            & third["content"]
            & third["kind"].is_in(noun)
        )
    else:
        pair, three = both, lit(False)
    pair_of = pl.concat_str("form", second["form"], separator=" ")
    here = here.with_columns(
        pair=when(pair).then(_NOT + pair_of),
        three=when(three).then(_NOT + pl.concat_str(pair_of, third["form"], separator=" ")),
    )
    found = [here.select(*words.columns, phrase=one).drop_nulls("phrase") for one in ("pair", "three")]
    alone = here.filter(col.content & ~compound & ~inner & ~col.form.is_in(lists["bare"])).select(
        *words.columns, phrase=_NOT + col.form
    )
    if language == "en":
        predicates = _predicates(here, lists)
        found.append(predicates.drop("of_noun"))
        alone = alone.join(predicates.filter("of_noun"), on=_SPOT, how="anti")
    found.append(alone)
    return pl.concat(found, how="diagonal").select(*words.columns, "phrase").sort(_SPOT, maintain_order=True)


def _participles_as_adjectives(lists: Mapping[str, frozenset[str]]) -> Expr:
    """Return the kind of each word, with English participles before a noun as adjectives ("tightly coiled hair", "almond shaped eyes")."""
    one, two = ({name: col(name).shift(step).over("number") for name in ("form", "kind")} for step in (1, 2))
    subject = two["kind"].is_in(["noun", "name"]) | two["form"].is_in(
        frozenset().union(*(lists[name] for name in PRONOUNS)) - lists["possessives"]
    )
    qualified = one["kind"].eq("adverb") & one["form"].str.ends_with("ly") & ~subject.fill_null(False)
    qualified = qualified | (one["kind"].is_in(["noun", "adjective"]) & col.form.is_in(lists["compounds"]))
    participle = col.kind.eq("verb") & col.form.str.contains("e[dn]$") & qualified
    return when(participle.fill_null(False)).then(lit("adjective")).otherwise("kind").alias("kind")


def _negation(lists: Mapping[str, frozenset[str]]) -> Expr:
    """Return whether a negation is among the last words before each word, with no punctuation and no other content word in between."""
    negation = col.form.is_in(lists["negations"])
    stops = col.content | col.form.str.contains(r"^[^\p{L}]")
    last = when(negation | stops).then(when(negation).then("place").otherwise(-_NEGATED - 1))
    return (
        col.place - last.shift(1).forward_fill().over("number").fill_null(-_NEGATED - 1) <= _NEGATED
    ).alias("negated")


def _predicates(words: DataFrame, lists: Mapping[str, frozenset[str]]) -> DataFrame:
    """Return the verbs with the noun of their object or of the phrase with a preposition that follows ("sings in a choir").

    Each is returned with and without the adjectives of the noun; only with them, if the noun is too general.
    """
    verbs = words.filter((col.kind == "verb") & ~col.form.is_in(lists["idle"]))
    verbs = verbs.select(*words.columns, start="place", verb="form", step=pl.int_ranges(1, _GAP + 1)).explode(
        "step"
    )
    verbs = verbs.with_columns(place=col.start + col.step)
    around = words.select("number", "place", next="form", next_kind="kind", next_content="content")
    steps = verbs.join(around, on=["number", "place"], maintain_order="left")
    unsaid = lists["possessives"].union(
        *(lists[name] for name in PRONOUNS)
    )  # so that "makes her an asset" is as "makes him an asset"
    described = col.next_kind.is_in(["adjective", "adverb"]) | col.next.is_in(unsaid)
    shown = col.next.is_in(lists["articles"] | lists["links"])
    adjective = (col.next_kind == "adjective") & col.next_content
    is_object = col.next_content & col.next_kind.is_in(["noun", "name"])
    own = ["number", "start"]
    steps = steps.with_columns(ended=is_object | ~(described | shown)).with_columns(
        before=col.ended.cum_sum().over(own) - col.ended
    )
    steps = steps.filter(before=0)
    ends = is_object.last() & (col.step.last() == pl.len())
    made = steps.group_by(own, maintain_order=True).agg(
        pl.col([name for name in words.columns if name not in (*own, "place")]).first(),
        place=col.start.first(),
        verb=col.verb.first(),
        rest=col.next.filter(is_object | shown).str.join(" "),
        whole=col.next.filter(is_object | shown | adjective).str.join(" "),
        bare=col.next.last().is_in(lists["bare"]),
        of_noun=col.next_kind.last() == "noun",  # not a name: "talks to Ann" is also "talks"
        kept=ends,
    )
    made = made.filter("kept", ~col.bare | (col.rest != col.whole)).with_columns(
        rest=when(~col.bare).then("rest")
    )
    made = made.unpivot(
        ["rest", "whole"], index=[*words.columns, "verb", "of_noun"], value_name="object"
    ).drop_nulls("object")
    made = made.with_columns(phrase=pl.concat_str(_NOT + col.verb, "object", separator=" "))
    return made.select(*words.columns, "phrase", "of_noun").unique([*_SPOT, "phrase"], maintain_order=True)


# -- lemmas -----------------------------------------------------------------------------------------------------------

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
        known = set(lemmas)
        lemmas = [next((root for root in _roots(lemma) if root in known), lemma) for lemma in lemmas]
    return forms.replace_strict(distinct, lemmas, return_dtype=String)


def _roots(lemma: str) -> Iterator[str]:
    """Yield the adjectives from which a word may be derived."""
    for ending, instead in _DERIVED:
        root = lemma.removesuffix(ending) + instead
        if (
            lemma.endswith(ending)
            and len(root) > 3
            and "verb" not in (kinds := _kinds(root))
            and "adjective" in kinds
        ):
            yield root


def _lemmas(forms: Iterable[str], language: str) -> Iterable[str]:
    if language == "en":
        return map(_english_lemma, forms)
    try:
        from simplemma import lemmatize
    except ImportError as error:
        raise InputError(
            f'texts in {language!r} need a lemmatiser: pip install "tiltmeter[languages]"'
        ) from error
    return (lemmatize(form, lang=language).lower() for form in forms)


_OWN_LEMMA = frozenset(("blues", "born", "glasses", "goods", "shorts"))
"""Words that mean something else than their lemma ("short", "bear")."""


@lru_cache(maxsize=1 << 17)
def _english_lemma(form: str) -> str:
    """Return the lemma of a noun or verb; other words are unchanged."""
    kinds = _kinds(form)
    if (
        form in _OWN_LEMMA
        or len(form) > LONGEST
        or not form[0].isalpha()
        or not {"noun", "verb"} & set(kinds[:2])
    ):
        return form
    return str(tagger().analyze(form)[0]).lower() if kinds[0] in ("noun", "verb") else form
