"""Answers constrained to a list, token by token: which tokens may follow those that were generated.

Every way in which the tokens of the model spell an allowed answer is allowed, as in the grammars of llama.cpp
and the guided choices of vLLM: "(a)" may be one token, or "(", "a" and ")". The spelling of the tokenizer is
allowed in any case, also where a token is part of a character. The end token is allowed only after a complete
answer; if no allowed answer is longer, the answer ends without it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeAlias

Place: TypeAlias = str | tuple[int, ...]
"""What was generated so far: the beginning of an answer, or tokens of the tokenizer's own spelling that are
not such a beginning."""
START: Place = ""


class TokenList(NamedTuple):
    """The allowed answers of a prompt as tokens."""

    steps: Mapping[Place, Mapping[int, Place]]
    """The tokens that may follow at each place, with the place that they lead to."""
    answers: frozenset[str]

    def complete(self, place: Place) -> str | None:
        """Return the answer that is complete at this place, or None."""
        return place if isinstance(place, str) and place in self.answers else None

    def tokens(self, place: Place, ends: Iterable[int]) -> list[int]:
        """Return the tokens that may follow at a place; `ends` are the end tokens."""
        return [*self.steps.get(place, {}), *(ends if self.complete(place) is not None else ())]


class Vocabulary:
    """The tokens of a tokenizer by the text that they add to an answer."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.token_list = lru_cache(maxsize=1024)(self._token_list)

    def _spelling(self, text: str) -> list[int]:
        tokens: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return tokens

    @cached_property
    def _tokens(self) -> Mapping[str, Sequence[int]]:
        """The tokens by text, as they are read after another token.

        At the start of a text, some tokenizers drop a blank.
        """
        first = self._spelling("a")[-1]
        special = set(self._tokenizer.all_special_ids)
        pairs = [[first, token] for token in range(len(self._tokenizer)) if token not in special]
        texts = self._tokenizer.batch_decode([[first], *pairs], clean_up_tokenization_spaces=False)
        tokens = defaultdict(list)
        for (_, token), text in zip(pairs, texts[1:], strict=True):
            tokens[text.removeprefix(texts[0])].append(token)
        return tokens

    def _token_list(self, answers: tuple[str, ...]) -> TokenList:
        """Return the tokens of these answers; raise ValueError if the tokenizer cannot spell one of them."""
        steps: dict[Place, dict[int, Place]] = defaultdict(dict)
        for answer in answers:
            for start in range(len(answer)):
                for end in range(start + 1, len(answer) + 1):
                    tokens = self._tokens.get(answer[start:end], ())
                    steps[answer[:start]] |= dict.fromkeys(tokens, answer[:end])
        spellings = {answer: self._spelling(answer) for answer in answers}
        # The spelling of an answer may begin with that of another one ("yes", "yes sir"), which must lead to
        # the shorter answer.
        for answer in sorted(spellings, key=lambda answer: (len(spellings[answer]), answer)):
            self._add_spelling(steps, answer, spellings[answer])
        reached = _connected({place: list(following.values()) for place, following in steps.items()}, [START])
        usable = reached & _connected(_reversed(steps), answers)
        if unspelled := [answer for answer in answers if answer not in usable]:
            raise ValueError(f"the tokenizer has no tokens for {unspelled[0]!r}")
        usable_steps: dict[Place, dict[int, Place]] = {}
        for place, following in steps.items():
            if place in usable:
                usable_steps[place] = {token: after for token, after in following.items() if after in usable}
        return TokenList(usable_steps, frozenset(answers))

    def _add_spelling(
        self, steps: dict[Place, dict[int, Place]], answer: str, spelling: Sequence[int]
    ) -> None:
        """Add the spelling of the tokenizer, which may begin with a blank, or divide a character."""
        place = START
        if not spelling or self._tokenizer.unk_token_id in spelling:
            return
        for number, token in enumerate(spelling, start=1):
            after = answer if number == len(spelling) else tuple(spelling[:number])
            place = steps[place].setdefault(token, after)


def _reversed(steps: Mapping[Place, Mapping[int, Place]]) -> Mapping[Place, list[Place]]:
    """Return the places from which a token leads to each place."""
    before: dict[Place, list[Place]] = defaultdict(list)
    for place, following in steps.items():
        for after in following.values():
            before[after].append(place)
    return before


def _connected(edges: Mapping[Place, Sequence[Place]], starts: Iterable[Place]) -> set[Place]:
    """Return the places that can be reached from the starts, with the starts."""
    reached: set[Place] = set()
    pending = list(starts)
    while pending:
        place = pending.pop()
        if place not in reached:
            reached.add(place)
            pending += edges.get(place, ())
    return reached
