"""From weights on a disk to a model in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tiltmeter.errors import InputError, ProviderError
from tiltmeter.models._local import Weights, is_out_of_memory, pick_device
from tiltmeter.models._quiet import quiet
from tiltmeter.models.hf._sampling import DEFAULTS

__all__ = ["Loaded", "dtype_of", "load"]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A causal language model with its tokenizer, ready to generate."""

    model: Any
    tokenizer: Any
    device: str
    ends: frozenset[int]
    """Tokens that end an answer."""
    pad: int
    positions: int | None
    """Tokens a prompt and its answer may have together; None where the model sets no bound."""
    defaults: Mapping[str, Any]
    """What the model's generation configuration says of DEFAULTS."""


def dtype_of(wanted: str, device: str, config: Mapping[str, Any]) -> str:
    """The type of numbers meant by "auto" on this device: as saved on a GPU, float32 elsewhere (narrower types are slow there)."""
    if wanted != "auto":
        return wanted
    inner = config.get("text_config")
    places = (config, inner) if isinstance(inner, Mapping) else (config,)
    saved = next((str(place[name]) for place in places for name in ("dtype", "torch_dtype") if place.get(name)), "float32")
    return "float32" if device.partition(":")[0] == "cpu" or saved not in ("bfloat16", "float16") else saved


def load(weights: Weights, device: str, dtype: str, who: str) -> Loaded:
    """Load the model; code that came with it is never run, and pickled weights are never read.

    Parameters
    ----------
    who
        What the user wrote, for messages.

    Raises
    ------
    InputError
        What lies there is no causal language model, has no tokenizer, or is damaged.
    ProviderError
        torch sees no such device, the weights cannot be downloaded, or do not fit into memory.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    device = pick_device(device)
    folder = str(weights.fetch())
    fixed: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
    try:
        with quiet():
            tokenizer = AutoTokenizer.from_pretrained(folder, **fixed)
            model, report = AutoModelForCausalLM.from_pretrained(
                folder, dtype=getattr(torch, dtype), use_safetensors=True, output_loading_info=True, **fixed
            )
        missing = sorted(report["missing_keys"])
        if missing:
            raise InputError(f"{who} is no causal language model: it lacks weights such as {missing[0]}")
        model.to(device).eval()
    except InputError:
        raise
    except Exception as error:  # transformers raises whatever its many readers raise
        if is_out_of_memory(error):
            raise ProviderError(f"{who} does not fit into the memory of {device}: use a smaller model or -M dtype=bfloat16") from None
        said = next((line for line in str(error).splitlines() if line.strip()), "").strip()
        raise InputError(
            f"{who} cannot be loaded as a causal language model ({type(error).__name__}: {said[:200]}): "
            "check that the folder holds its config.json, tokenizer and *.safetensors"
        ) from None
    return _loaded(model, tokenizer, device)


def _loaded(model: Any, tokenizer: Any, device: str) -> Loaded:
    from transformers import GenerationConfig

    own = model.generation_config.to_dict()
    named = own.get("eos_token_id")
    ends = {*(named if isinstance(named, list) else [named]), tokenizer.eos_token_id} - {None}
    pad = next((one for one in (tokenizer.pad_token_id, tokenizer.eos_token_id, *sorted(ends)) if one is not None), 0)
    # Whatever else that configuration says (beams, bans) would silently be added to what a request asks for.
    model.generation_config = GenerationConfig()
    config = model.config.get_text_config()
    positions = getattr(config, "max_position_embeddings", None)
    defaults = {name: own[name] for name in DEFAULTS if own.get(name) is not None}
    return Loaded(model, tokenizer, device, frozenset(ends), pad, positions if isinstance(positions, int) else None, defaults)
