"""`-M key=value` of a model that runs in this process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tiltmeter.errors import InputError
from tiltmeter.models._local import check_device
from tiltmeter.registry import did_you_mean

__all__ = ["DTYPES", "NAMES", "Options"]

DTYPES = ("auto", "float32", "bfloat16", "float16")
NAMES = frozenset({"batch_size", "device", "dtype", "placeholder", "revision", "runner", "source_layer", "target_layer"})
RUNNERS = ("transformers", "vllm")


@dataclass(frozen=True, slots=True)
class Options:
    """How a model is loaded and run. The layers and the placeholder matter to messages with a source prompt only (the open box)."""

    device: str = "auto"
    """auto: a GPU where there is one."""
    dtype: str = "auto"
    """auto: as the weights were saved on a GPU, float32 elsewhere."""
    batch_size: int = 32
    """Prompts answered together at most; halved when they do not fit."""
    revision: str | None = None
    """Branch, tag or commit of a repository of the hub."""
    runner: str = "transformers"
    """vllm: in bulk on the GPUs of a cluster, with `--engine ray`; no open box, and answers of a fingerprint of their own."""
    source_layer: int = 2
    """Block (from 0) after which the hidden states of the source are taken."""
    target_layer: int = 3
    """Block (from 0) after which they replace those of the placeholders."""
    placeholder: str = "X"
    """The word that stands once for each token of the source."""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Options:
        """From what the user wrote. Raises InputError: an unknown option, or a value that is none of its kind."""
        values: dict[str, str | int] = {}
        for name, value in given.items():
            if name not in NAMES:
                raise InputError(f"-M {name}={value}: hf takes no such option: {did_you_mean(name, sorted(NAMES))}")
            if name in ("batch_size", "source_layer", "target_layer"):
                values[name] = _whole(name, value, 1 if name == "batch_size" else 0)
            elif not value.strip():
                raise InputError(f"-M {name}=: give a value, or leave the option out")
            else:
                values[name] = value
        made = cls(**values)  # type: ignore[arg-type]
        if made.dtype not in DTYPES:
            raise InputError(f"-M dtype={made.dtype}: use one of {', '.join(DTYPES)}")
        if made.runner not in RUNNERS:
            raise InputError(f"-M runner={made.runner}: use one of {', '.join(RUNNERS)}")
        check_device(made.device)
        return made


def _whole(name: str, value: str, least: int) -> int:
    try:
        number = int(value)
    except ValueError:
        number = least - 1
    if number < least:
        raise InputError(f"-M {name}={value}: give a whole number of {least} or more")
    return number
