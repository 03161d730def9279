"""The features we know, and from the names a user writes to features that are ready to measure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tiltmeter import registry
from tiltmeter.errors import InputError
from tiltmeter.features.kinds import ByClassifier, ByFunction, ByLexicon, Described, Distance, Feature
from tiltmeter.features.scoring import FeatureColumn
from tiltmeter.models import Classifier, Encoder
from tiltmeter.registry import did_you_mean
from tiltmeter.user_functions import is_function, load_function
from tiltmeter.yaml_files import packaged_yaml


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
"""What can be measured, by name."""


def open_features(names: Sequence[str], *, encoder: Callable[[str], Encoder], classifier: Callable[[str], Classifier]) -> Sequence[Feature]:
    """The features a user names, in order; their models are opened, so that missing models fail before any paid request.

    Parameters
    ----------
    names
        Each one of
        `NAME`, a feature of the catalogue (`sentiment`) or of an outside package (entry point group `tiltmeter.features`);
        `NAME=MODEL`, the same with another model (a folder, or a name of the hub);
        `NAME=MODEL?WANTED=LABEL&...`, where that classifier calls its labels otherwise (`sentiment=folder?positive=LABEL_1&...`);
        `MODULE:FUNCTION` or `NAME=MODULE:FUNCTION`, a function of one text that gives a number or a mapping of numbers by name; under the
        name of a feature of the catalogue it takes its place.
    encoder, classifier
        Open the model of that name.

    Raises
    ------
    InputError
        There is no such feature or function, one is named twice, or a classifier lacks a label that the formula needs. What
        `encoder` and `classifier` raise is passed on.
    """
    opened: list[Feature] = []
    for written in names:
        name, equals, model = written.strip().partition("=")
        if not equals and is_function(name):
            feature: Feature = _user_function(name.rpartition(":")[2], name, free=False)
        elif equals and is_function(model):
            feature = _user_function(name, model, free=True)
        elif name in registry.names("features"):
            feature = outside_feature(name, model)
        elif name not in FEATURES:
            known = [*FEATURES, *registry.names("features")]
            raise InputError(f"unknown feature {name!r}: {did_you_mean(name, known)}; your own is written MODULE:FUNCTION")
        elif equals and not model:
            raise InputError(f"{written!r}: after the = the feature needs a model (a folder, or a name of the Hugging Face hub)")
        else:
            feature = _known_feature(FEATURES[name], model, encoder, classifier)
        if any(feature.name == other.name for other in opened):
            raise InputError(f"the feature {feature.name} is named twice: leave one of the two out")
        opened.append(feature)
    return opened


def _known_feature(described: Described, model: str, encoder: Callable[[str], Encoder], classifier: Callable[[str], Classifier]) -> Feature:
    if described.kind == "lexicon":
        if model:
            raise InputError(f"{described.name}={model}: {described.name} uses no model; write {described.name} alone")
        return ByLexicon(described)
    place = model or described.model or ""
    if described.kind == "distance":
        return Distance(described, encoder(place), place)
    place, _, mapped = place.partition("?")
    called = classifier(place)
    return ByClassifier(described, called, _label_places(described, called, place, _mapping(described, mapped)))


def _mapping(described: Described, written: str) -> Mapping[str, str]:
    """What the classifier calls our labels, from "positive=LABEL_1&negative=LABEL_0"."""
    pairs = [one.partition("=") for one in written.split("&")] if written else []
    for wanted, equals, label in pairs:
        if not equals or not label or wanted not in _wanted(described):
            raise InputError(
                f"{described.name}: {wanted + equals + label!r} after the ? should be written WANTED=LABEL, WANTED being one of "
                + ", ".join(_wanted(described))
            )
    return {wanted: label for wanted, _, label in pairs}


def _wanted(described: Described) -> list[str]:
    return list(dict.fromkeys(label for column in described.columns for label in column.weights))


def _plain_label(label: str) -> str:
    """A label without what does not matter: case, blanks and marks between words."""
    return re.sub(r"[\W_]+", "_", label.casefold()).strip("_")


def _label_places(described: Described, classifier: Classifier, place: str, mapped: Mapping[str, str]) -> Mapping[str, int]:
    """Number of the classifier's label for each label the formulas name."""
    labels = list(classifier.labels)
    plain = [_plain_label(label) for label in labels]
    places: dict[str, int] = {}
    for wanted in _wanted(described):
        names = [mapped[wanted]] if wanted in mapped else [wanted, *described.labels.get(wanted, ())]
        found = [number for number, label in enumerate(plain) if label in map(_plain_label, names)]
        if len(found) > 1:
            raise InputError(f"{described.name}: the labels {' and '.join(labels[one] for one in found)} of {place} both mean {wanted}")
        if not found:
            meant = wanted if names[0] == wanted else f"{names[0]} (for {wanted})"
            mapping = f"{described.name}={place}?{'&'.join(f'{one}=LABEL' for one in _wanted(described))}"
            only = f"{place} has no label {meant}, only {', '.join(labels)}"
            raise InputError(f"{described.name}: {only}; use another classifier, or map labels: {mapping}")
        places[wanted] = found[0]
    if len(set(places.values())) < len(places):
        raise InputError(f"{described.name}: two of {', '.join(places)} are the same label of {place}; name another for one of them")
    return places


def outside_feature(name: str, model: str = "") -> ByFunction:
    """The feature of that name that an outside package brings; raises InputError where it cannot be used."""
    place = registry.reference("features", name)
    if name in FEATURES or not name.isidentifier():
        why = "the catalogue has a feature of that name" if name in FEATURES else "a name has letters, digits and underscores only"
        raise InputError(f"{place} cannot be the feature {name!r}: {why}; rename its entry point")
    if model:
        raise InputError(f"{name}={model}: {name} uses no model; write {name} alone")
    return ByFunction(name, registry.load("features", name), place)


def _user_function(name: str, place: str, *, free: bool) -> ByFunction:
    """Its name is `free` where it was chosen; else it is the function's, which must not pass for a feature of the catalogue."""
    found = load_function(place)
    if not name.isidentifier() or (name in FEATURES and not free):
        raise InputError(f"{place}: the feature cannot be called {name!r}; write NAME={place}, NAME of letters, digits and underscores")
    return ByFunction(name, found, place)
