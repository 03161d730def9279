"""Lemmas of word forms."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from polars import Series, String, col

from tiltmeter.errors import InputError
from tiltmeter.readers._word_forms import word_forms
from tiltmeter.readers._words_in_sentences import word_lists

_DERIVED = (("ly", ""), ("ily", "y"), ("ness", ""), ("iness", "y"), ("nce", "nt"), ("ncy", "nt"))
"""Endings of adverbs and nouns that are derived from adjectives, and what the adjectives have instead."""
_SHORTEST_STEM = 3
"""Smallest number of letters before a gender ending."""
_LONG_ENDING = 4
"""Number of letters of an ending that leaves no doubt, after which a stem may be shorter."""
_VOWELS = {"ä": "a", "ö": "o", "ü": "u"}
_UMLAUT = re.compile("[äöü](?=[^äöü]*$)")
"""The last umlaut of a word."""


def lemmas_of(forms: Series, language: str) -> Series:
    """Return the lemma of each word form.

    In languages with grammatical gender, forms for different genders among these words have one lemma
    ("Lehrerin" and "Lehrer", "honesta" and "honesto").

    Raises
    ------
    InputError
        The language needs a package that is not installed.
    """
    distinct = forms.unique(maintain_order=True)
    if language == "en":
        lemma_of_form = word_forms(distinct)
        return forms.replace_strict(distinct, lemma_of_form["lemma"], return_dtype=String)
    masculine = _masculine_forms(distinct, language)
    lemmas = Series(list(_lemmas(masculine, language)), dtype=String)
    return forms.replace_strict(distinct, lemmas, return_dtype=String)


def _masculine_forms(forms: Series, language: str) -> list[str]:
    """Return for each form the one for men if it differs by a gender ending and is among the forms.

    Of an inflected adjective that the lemmatiser does not know, it is the uninflected form.
    """
    lists = word_lists(language)
    of_people = [(pair.partition(":")[0], pair.partition(":")[2]) for pair in sorted(lists["agreement"])]
    of_adjectives = [(ending, "") for ending in sorted(lists["adjective_endings"])]
    if not of_people:
        return forms.to_list()
    _, is_known = _lemmatiser(language)
    every = frozenset(forms)
    masculine = []
    for form in forms:
        endings = of_people if is_known(form, lang=language) else of_people + of_adjectives
        candidates = [] if form in lists["own_meaning"] else _without_ending(form, endings)
        masculine.append(next((candidate for candidate in candidates if candidate in every), form))
    return masculine


def _without_ending(form: str, endings: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield what a form may be with the ending for men, also without the umlaut of its stem."""
    for ending, instead in endings:
        stem = form.removesuffix(ending)
        is_whole_word = form == ending
        shortest_stem = _SHORTEST_STEM if len(ending) < _LONG_ENDING else _SHORTEST_STEM - 1
        if is_whole_word or (form.endswith(ending) and len(stem) >= shortest_stem):
            yield stem + instead
            yield _UMLAUT.sub(lambda match: _VOWELS[match[0]], stem) + instead


def roots_of(forms: Series, language: str) -> Series:
    """Return the lemma of each word form, or the word from which it is derived.

    In English, an adverb or noun that is derived from an adjective among the words has its lemma
    ("resilience": "resilient").
    """
    lemmas = lemmas_of(forms, language)
    if language != "en":
        return lemmas
    distinct = lemmas.unique(maintain_order=True)
    every = frozenset(distinct)
    possible = {lemma: [root for root in _possible_roots(lemma) if root in every] for lemma in distinct}
    candidates = {root for roots in possible.values() for root in roots}
    forms_of_roots = word_forms(Series(sorted(candidates), dtype=String))
    adjectives = frozenset(forms_of_roots.filter(col.can_adjective & ~col.can_verb)["form"])
    roots = [next((root for root in possible[lemma] if root in adjectives), lemma) for lemma in distinct]
    return lemmas.replace_strict(distinct, roots, return_dtype=String)


def _possible_roots(lemma: str) -> Iterator[str]:
    """Yield the words from which a word may be derived by its ending."""
    for ending, instead in _DERIVED:
        root = lemma.removesuffix(ending) + instead
        if lemma.endswith(ending) and len(root) > 3:
            yield root


def _lemmas(forms: Iterable[str], language: str) -> Iterable[str]:
    lemmatize, _ = _lemmatiser(language)
    return (lemmatize(form, lang=language).lower() for form in forms)


def _lemmatiser(language: str) -> tuple[Callable[..., str], Callable[..., bool]]:
    """Return the functions that lemmatise a word, and that say whether a word is known."""
    try:
        from simplemma import is_known, lemmatize
    except ImportError as error:
        message = f'texts in {language!r} need a lemmatiser: pip install "tiltmeter[languages]"'
        raise InputError(message) from error
    return lemmatize, is_known
