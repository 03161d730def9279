"""Catalogue of features, and the parsing of feature names given by the user."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tiltmeter._files.yaml import packaged_yaml
from tiltmeter._plugins.functions import file_of, is_function, load_function
from tiltmeter._plugins.registry import Registry
from tiltmeter.errors import InputError, did_you_mean
from tiltmeter.features._kinds import (
    ByClassifier,
    ByFunction,
    ByLexicon,
    ByWords,
    Described,
    Distance,
    Feature,
)
from tiltmeter.features._scoring import FeatureColumn
from tiltmeter.models import Classifier, Encoder


def _read_catalogue() -> dict[str, Described]:
    entries = packaged_yaml(Path(__file__).with_name("features.yaml"))
    return {name: _described(name, entry) for name, entry in entries.items()}


def _described(name: str, entry: Mapping[str, Any]) -> Described:
    """Return the description in an entry of features.yaml."""
    columns = [FeatureColumn(column, **meaning) for column, meaning in entry["columns"].items()]
    return Described(
        name=name,
        title=entry["title"],
        kind=entry["kind"],
        model=entry["model"],
        licence=entry["licence"],
        formula=entry["formula"],
        labels=entry.get("labels", {}),
        columns=columns,
    )


FEATURES: Final[Mapping[str, Described]] = _read_catalogue()
"""Built-in features by name."""
OUTSIDE_FEATURES: Final = Registry("features", "feature", {}, required="a function of one text")
"""Features of other packages (entry points in the group `tiltmeter.features`)."""


def open_features(
    names: Sequence[str], *, encoder: Callable[[str], Encoder], classifier: Callable[[str], Classifier]
) -> Sequence[Feature]:
    """Open the features named by the user, in order.

    Their models are opened as well, so that missing models fail before any paid request.

    Parameters
    ----------
    names
        Each name has one of these forms:

        - `NAME`: a feature of the catalogue (`sentiment`) or of a plugin (entry point group
          `tiltmeter.features`);
        - `NAME=MODEL`: the feature with another model (a folder, or a model on the Hugging Face Hub);
        - `NAME=MODEL?WANTED=LABEL&...`: the same for a classifier with different labels
          (`sentiment=folder?positive=LABEL_1&...`);
        - `MODULE:FUNCTION` or `NAME=MODULE:FUNCTION`: a function of one text that returns a number or a
          mapping of names to numbers, also as `FILE.py:FUNCTION`. It may replace a feature of the catalogue.
    encoder, classifier
        Functions that open a model by name.

    Raises
    ------
    InputError
        A feature or function is unknown or listed twice, or a classifier lacks a label that the formula
        needs. Errors of `encoder` and `classifier` are passed on.
    """
    opened: list[Feature] = []
    for written in names:
        name, equals, model = written.strip().partition("=")
        if not equals and _is_of_user(name):
            feature: Feature = _user_function(name.rpartition(":")[2], name, free=False)
        elif equals and _is_of_user(model):
            feature = _user_function(name, model, free=True)
        elif name in OUTSIDE_FEATURES.names():
            feature = outside_feature(name, model)
        elif name not in FEATURES:
            hint = did_you_mean(name, [*FEATURES, *OUTSIDE_FEATURES.names()])
            raise InputError(f"unknown feature {name!r}: {hint}; name your own function as MODULE:FUNCTION")
        elif equals and not model:
            raise InputError(
                f"{written!r}: write a model after the = (a folder, or a model on the Hugging Face Hub)"
            )
        else:
            feature = _built_in_feature(FEATURES[name], model, encoder, classifier)
        if any(feature.name == earlier.name for earlier in opened):
            raise InputError(f"the feature {feature.name} is listed twice; remove one of the two")
        opened.append(feature)
    return opened


def _is_of_user(place: str) -> bool:
    """Return whether a text has the form MODULE:FUNCTION or FILE.py:FUNCTION."""
    return is_function(place) or file_of(place) is not None


def _built_in_feature(
    described: Described,
    model: str,
    encoder: Callable[[str], Encoder],
    classifier: Callable[[str], Classifier],
) -> Feature:
    if described.model is None:
        if model:
            raise InputError(
                f"{described.name}={model}: {described.name} uses no model; write only {described.name}"
            )
        return ByLexicon(described) if described.kind == "lexicon" else ByWords(described)
    place = model or described.model
    if described.kind == "distance":
        return Distance(described, encoder(place), place)
    place, _, written = place.partition("?")
    opened = classifier(place)
    mapping = _mapping(described, written)
    return ByClassifier(described, opened, _label_places(described, opened, place, mapping))


def _mapping(described: Described, written: str) -> Mapping[str, str]:
    """Parse a mapping of labels such as "positive=LABEL_1&negative=LABEL_0"."""
    if not written:
        return {}
    wanted_labels = _formula_labels(described)
    mapping = {}
    for pair in written.split("&"):
        wanted, _, label = pair.partition("=")
        if not label or wanted not in wanted_labels:
            raise InputError(
                f"{described.name}: {pair!r} after the ? is not of the form WANTED=LABEL with WANTED one of "
                f"{', '.join(wanted_labels)}"
            )
        mapping[wanted] = label
    return mapping


def _formula_labels(described: Described) -> list[str]:
    return list(dict.fromkeys(label for column in described.columns for label in column.weights))


def _plain_label(label: str) -> str:
    """Normalise a label: ignore case, and blanks and punctuation between words.

    Leave a label of signs ("+").
    """
    words = re.sub(r"[\W_]+", "_", label.casefold()).strip("_")
    return words or label


def _label_places(
    described: Described, classifier: Classifier, place: str, mapped: Mapping[str, str]
) -> Mapping[str, int]:
    """Map each label in the formulas to its index among the labels of the classifier."""
    labels = list(classifier.labels)
    places: dict[str, int] = {}
    for wanted in _formula_labels(described):
        names = [mapped[wanted]] if wanted in mapped else [wanted, *described.labels.get(wanted, ())]
        matching = _matching_places(names, labels, exact=wanted in mapped)
        if len(matching) > 1:
            ambiguous = " and ".join(labels[index] for index in matching)
            raise InputError(f"{described.name}: the labels {ambiguous} of {place} both match {wanted}")
        if not matching:
            meant = wanted if names[0] == wanted else f"{names[0]} (for {wanted})"
            pairs = "&".join(f"{label}=LABEL" for label in _formula_labels(described))
            raise InputError(
                f"{described.name}: {place} has no label {meant}, only {', '.join(labels)}; "
                f"use another classifier, or map its labels: {described.name}={place}?{pairs}"
            )
        places[wanted] = matching[0]
    if len(set(places.values())) < len(places):
        same = f"two of {', '.join(places)} are mapped to the same label of {place}"
        raise InputError(f"{described.name}: {same}; change one of them")
    return places


def _matching_places(names: Sequence[str], labels: Sequence[str], *, exact: bool) -> list[int]:
    """Return the indices of the labels that equal one of the names after normalisation.

    With `exact`, a label that equals the first name as written is the only match.
    """
    if exact and names[0] in labels:
        return [labels.index(names[0])]
    accepted = {_plain_label(name) for name in names}
    return [index for index, label in enumerate(labels) if _plain_label(label) in accepted]


def outside_feature(name: str, model: str = "") -> ByFunction:
    """Return the feature of a plugin by name.

    Raises
    ------
    InputError
        The name is that of a built-in feature or is not an identifier, or a model was given.
    """
    place = OUTSIDE_FEATURES.reference(name)
    if name in FEATURES or not name.isidentifier():
        if name in FEATURES:
            why = "it is the name of a built-in feature"
        else:
            why = "use letters, digits and underscores only"
        raise InputError(f"{place} cannot be used as the feature {name!r}: {why}; rename its entry point")
    if model:
        raise InputError(f"{name}={model}: {name} uses no model; write only {name}")
    return ByFunction(name, OUTSIDE_FEATURES.load(name), place)


def _user_function(name: str, place: str, *, free: bool) -> ByFunction:
    """Load the user's function as a feature.

    Only a name that the user chose (`free`) may be the name of a built-in feature.
    """
    function = load_function(place)
    if not name.isidentifier() or (name in FEATURES and not free):
        raise InputError(
            f"{place}: {name!r} cannot be the name of a feature; "
            f"write NAME={place} with a NAME of letters, digits and underscores"
        )
    return ByFunction(name, function, place)
