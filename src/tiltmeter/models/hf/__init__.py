"""`hf/NAME_OR_PATH`: a causal language model of transformers, from a folder or the Hugging Face hub, run in this process.

Options (`-M key=value`) are in `_options.Options`; `-M top_k=, min_p=, frequency_penalty=, presence_penalty=, repetition_penalty=`
and `-M chat_template_kwargs={"enable_thinking": false}` are understood besides the fields of `Sampling`.
"""

from __future__ import annotations

from collections.abc import Mapping

from tiltmeter.errors import InputError
from tiltmeter.models._local import find_weights, need_local
from tiltmeter.models.hf._model import LocalModel
from tiltmeter.models.hf._options import NAMES, Options
from tiltmeter.models.hf._vllm import BulkModel, Prompt

__all__ = ["OPTIONS", "BulkModel", "LocalModel", "Prompt", "create"]

OPTIONS: frozenset[str] = NAMES
"""Options `create` takes itself; all others are vendor extras."""


def create(provider: str, model: str, *, base_url: str | None = None, options: Mapping[str, str] | None = None) -> LocalModel | BulkModel:
    """The model in the folder `model`, or of that name on the hub; its weights are read when it is first entered.

    Raises
    ------
    InputError
        There is no such folder, or it holds no model; an option is unknown or out of range; or a base URL was given.
    ProviderError
        The extra `local` is not installed, or the hub has no such model or cannot be reached.
    """
    name = f"{provider}/{model}"
    if base_url is not None:
        raise InputError(f"{name} runs inside tiltmeter and has no address: remove --base-url")
    chosen = Options.parse(options or {})
    need_local(name, "torch", "transformers")
    made = BulkModel if chosen.runner == "vllm" else LocalModel
    return made(name, find_weights(model, chosen.revision), chosen)
