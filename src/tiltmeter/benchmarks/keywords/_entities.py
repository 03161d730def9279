"""Named entities by spaCy, where it and one of its models are installed; it is never downloaded."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

__all__ = ["entities"]

_PIECE = 100_000
"""Characters recognised at a time: spaCy refuses more than a million."""


def entities(text: str) -> frozenset[str] | None:
    """The entities named in a text, folded in case and without "the" before them; None where no model is installed."""
    model = _model()
    if model is None:
        return None
    pieces = [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]
    return frozenset(str(one.text).casefold().removeprefix("the ") for document in model.pipe(pieces) for one in document.ents)


@cache
def _model() -> Any:
    """The first installed model that recognises entities."""
    if find_spec("spacy") is None:
        return None
    import spacy

    for name in sorted(spacy.util.get_installed_models()):
        model = spacy.load(name)
        if "ner" in model.pipe_names or "entity_ruler" in model.pipe_names:
            return model
    return None
