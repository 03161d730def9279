"""Catalogue of features, and the parsing of feature names given by the user."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tiltmeter.errors import InputError, did_you_mean
from tiltmeter.features.kinds import (
    ByClassifier,
    ByFunction,
    ByLexicon,
    ByWords,
    Described,
    Distance,
    Feature,
)
from tiltmeter.features.scoring import FeatureColumn
from tiltmeter.files.yaml import packaged_yaml
from tiltmeter.models import Classifier, Encoder
from tiltmeter.plugins.functions import is_function, load_function
from tiltmeter.plugins.registry import Registry


def _read_catalogue() -> dict[str, Described]:
    return {
        name: Described(
            name=name,
            labels=given.get("labels", {}),
            columns=[FeatureColumn(column, **one) for column, one in given["columns"].items()],
            **{key: given[key] for key in ("title", "kind", "model", "licence", "formula")},
        )
        for name, given in packaged_yaml(Path(__file__).with_name("features.yaml")).items()
    }


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
        Each name has one of these forms: `NAME`: a feature of the catalogue (`sentiment`) or of a plugin
        (entry point group `tiltmeter.features`); `NAME=MODEL`: the feature with another model (a folder, or a
        model on the Hugging Face Hub); `NAME=MODEL?WANTED=LABEL&...`: the same for a classifier with
        different labels (`sentiment=folder?positive=LABEL_1&...`); `MODULE:FUNCTION` or
        `NAME=MODULE:FUNCTION`: a function of one text that returns a number or a mapping of names to numbers.
        It may replace a feature of the catalogue.
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
        if not equals and is_function(name):
            feature: Feature = _user_function(name.rpartition(":")[2], name, free=False)
        elif equals and is_function(model):
            feature = _user_function(name, model, free=True)
        elif name in OUTSIDE_FEATURES.names():
            feature = outside_feature(name, model)
        elif name not in FEATURES:
            known = [*FEATURES, *OUTSIDE_FEATURES.names()]
            raise InputError(
                f"unknown feature {name!r}: {did_you_mean(name, known)}; name your own function as MODULE:FUNCTION"
            )
        elif equals and not model:
            raise InputError(
                f"{written!r}: write a model after the = (a folder, or a model on the Hugging Face Hub)"
            )
        else:
            feature = _known_feature(FEATURES[name], model, encoder, classifier)
        if any(feature.name == other.name for other in opened):
            raise InputError(f"the feature {feature.name} is listed twice; remove one of the two")
        opened.append(feature)
    return opened


def _known_feature(
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
        return (ByLexicon if described.kind == "lexicon" else ByWords)(described)
    place = model or described.model
    if described.kind == "distance":
        return Distance(described, encoder(place), place)
    place, _, mapped = place.partition("?")
    called = classifier(place)
    return ByClassifier(
        described, called, _label_places(described, called, place, _mapping(described, mapped))
    )


def _mapping(described: Described, written: str) -> Mapping[str, str]:
    """Parse a mapping of labels such as "positive=LABEL_1&negative=LABEL_0"."""
    pairs = [one.partition("=") for one in written.split("&")] if written else []
    for wanted, equals, label in pairs:
        if not equals or not label or wanted not in _formula_labels(described):
            raise InputError(
                f"{described.name}: {wanted + equals + label!r} after the ? is not of the form WANTED=LABEL with WANTED one of "
                + ", ".join(_formula_labels(described))
            )
    return {wanted: label for wanted, _, label in pairs}


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
    plain = [_plain_label(label) for label in labels]
    places: dict[str, int] = {}
    for wanted in _formula_labels(described):
        names = [mapped[wanted]] if wanted in mapped else [wanted, *described.labels.get(wanted, ())]
        is_exact = wanted in mapped and mapped[wanted] in labels
        found = [labels.index(mapped[wanted])] if is_exact else _places_of(names, plain)
        if len(found) > 1:
            raise InputError(
                f"{described.name}: the labels {' and '.join(labels[one] for one in found)} of {place} both match {wanted}"
            )
        if not found:
            meant = wanted if names[0] == wanted else f"{names[0]} (for {wanted})"
            mapping = (
                f"{described.name}={place}?{'&'.join(f'{one}=LABEL' for one in _formula_labels(described))}"
            )
            only = f"{place} has no label {meant}, only {', '.join(labels)}"
            raise InputError(
                f"{described.name}: {only}; use another classifier, or map its labels: {mapping}"
            )
        places[wanted] = found[0]
    if len(set(places.values())) < len(places):
        raise InputError(
            f"{described.name}: two of {', '.join(places)} are mapped to the same label of {place}; change one of them"
        )
    return places


def _places_of(names: Sequence[str], plain: Sequence[str]) -> list[int]:
    """Return the places of the normalised labels that equal one of the names."""
    accepted = {_plain_label(name) for name in names}
    return [place for place, label in enumerate(plain) if label in accepted]


def outside_feature(name: str, model: str = "") -> ByFunction:
    """Return the feature of a plugin by name.

    Raises
    ------
    InputError
        The name is that of a built-in feature or is not an identifier, or a model was given.
    """
    place = OUTSIDE_FEATURES.reference(name)
    if name in FEATURES or not name.isidentifier():
        why = (
            "it is the name of a built-in feature"
            if name in FEATURES
            else "use letters, digits and underscores only"
        )
        raise InputError(f"{place} cannot be used as the feature {name!r}: {why}; rename its entry point")
    if model:
        raise InputError(f"{name}={model}: {name} uses no model; write only {name}")
    return ByFunction(name, OUTSIDE_FEATURES.load(name), place)


def _user_function(name: str, place: str, *, free: bool) -> ByFunction:
    """Load the user's function as a feature.

    Only a name that the user chose (`free`) may be the name of a built-in feature.
    """
    found = load_function(place)
    if not name.isidentifier() or (name in FEATURES and not free):
        raise InputError(
            f"{place}: {name!r} cannot be the name of a feature; write NAME={place} with a NAME of letters, digits and underscores"
        )
    return ByFunction(name, found, place)
