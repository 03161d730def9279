"""The document a study is written in (`study.yaml`), checked strictly. Import it only where a study is resolved: Pydantic takes long."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError

from tiltmeter._yaml import first_error
from tiltmeter.errors import InputError
from tiltmeter.registry import did_you_mean

__all__ = ["check"]

INFORMATION = ("models", "responses", "inputs", "judged_by", "columns")
"""Keys that a run writes into its study.yaml for readers; a study is the same without them."""

_EXPECTED = {
    "study": "the name of a study such as genderbench",
    "parts": "a list of part names such as [gest, direct]",
    "definition": "the name of a definition such as default",
    "seed": "a whole number",
    "limit": "a number of items (50), a range (0-99) or a share (0.1)",
    "repeats": "a whole number",
    "resamples": "a whole number",
    "system_message": "a text",
    "judge": "the name of a model such as openai/gpt-4o-mini",
    "params": "a mapping of names to texts or numbers such as {wording: all}",
    "sampling": "a mapping such as {temperature: 0.5}",
    "sampling.max_tokens": "a whole number",
    "sampling.seed": "a whole number",
    "sampling.stop": 'a text or a list of texts such as ["END"]',
    "sampling.extra": "a mapping of what JSON can hold, such as {top_k: 20}",
}
_BETWEEN = {"level": "a confidence level such as 0.95", "sampling.temperature": "0 to 10", "sampling.top_p": "0 to 1"}
"""What is said of a number whether its kind or its size is wrong."""


def _as_json(value: Any) -> Any:
    json.dumps(value, allow_nan=False)
    return value


class Sampling(BaseModel):
    """Fields of `tiltmeter.models.Sampling`; null is "as the method prescribes"."""

    model_config = ConfigDict(extra="forbid", strict=True)

    temperature: Annotated[float, Field(ge=0, le=10)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    seed: Annotated[int, Field(ge=0)] | None = None
    stop: Annotated[str | list[str], BeforeValidator(lambda value: list(value) if isinstance(value, tuple) else value)] | None = None
    extra: Annotated[dict[str, JsonValue], AfterValidator(_as_json)] | None = None


class Document(BaseModel):
    """A study, its settings and its sampling; null is the default."""

    model_config = ConfigDict(extra="forbid", strict=True)

    study: str
    parts: Annotated[list[str], Field(min_length=1)] | None = None
    definition: str | None = None
    seed: Annotated[int, Field(ge=0)] | None = None
    limit: int | float | str | None = None
    repeats: Annotated[int, Field(ge=1, le=1_000)] | None = None
    resamples: Annotated[int, Field(ge=20, le=100_000)] | None = None
    level: Annotated[float, Field(ge=0.5, lt=1)] | None = None
    system_message: str | None = None
    judge: str | None = None
    params: dict[str, str | int | float | bool] | None = None
    sampling: Sampling | None = None
    models: Any = None
    responses: Any = None
    inputs: Any = None
    judged_by: Any = None
    columns: Any = None


def check(document: object, place: str) -> dict[str, Any]:
    """What a document says, without what it leaves open.

    Parameters
    ----------
    place
        Where it stands, for the message: "mine.yaml: ", or "" for flags.

    Returns
    -------
    dict
        Only keys with a value; `params` as texts, with `definition` moved out of them.

    Raises
    ------
    InputError
        A key is unknown or its value is not of its kind or range; one sentence about the first.
    """
    try:
        checked = Document.model_validate(document).model_dump(exclude_none=True, exclude=set(INFORMATION))
    except ValidationError as error:
        raise InputError(place + _sentence(error, document)) from None
    params = {key: str(value) for key, value in checked.pop("params", {}).items()}
    if "definition" in params:
        checked["definition"] = params.pop("definition")
    return checked | {"params": params, "sampling": checked.get("sampling", {})}


def _sentence(error: ValidationError, document: object) -> str:
    first = first_error(error)
    where, kind = [str(key) for key in first["loc"]], first["type"]
    if not where or kind == "missing":
        return "a study file needs the key 'study', for instance 'study: genderbench'"
    inside = where[0] == "sampling" and len(where) > 1
    where = where[: 2 if inside else 1]
    if kind in ("extra_forbidden", "invalid_key"):
        fields = (Sampling if inside else Document).model_fields
        known = [name for name in fields if name not in INFORMATION]
        return f"{'sampling: ' if inside else ''}unknown key {where[-1]!r}: {did_you_mean(where[-1], known)}"
    name = ".".join(where)
    match kind:
        case _ if name in _BETWEEN:
            expected = _BETWEEN[name]
        case "greater_than_equal":
            expected = f"at least {first['ctx']['ge']:,}"
        case "less_than_equal":
            expected = f"at most {first['ctx']['le']:,}"
        case _:
            expected = _EXPECTED[name]
    return f"{name}: expected {expected}, found {_found(document, where)}"


def _found(document: object, where: list[str]) -> str:
    for key in where:
        document = document.get(key) if isinstance(document, Mapping) else None
    text = repr(document)
    return text if len(text) <= 60 else text[:59] + "…"
