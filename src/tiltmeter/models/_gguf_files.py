"""GGUF files, the quantised models of llama.cpp: a dequantised copy of each, which transformers loads fast.

Reading a GGUF file takes transformers about half a minute for 100 million parameters. The copy is therefore
stored once in the cache folder (TILTMETER_CACHE), under the digest of the file: weights as safetensors,
configuration and tokenizer. A quantised weight is a product of numbers that a narrow type does not represent,
so that most weights are stored as float32; those that float16 or bfloat16 represent exactly are stored in
that type.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from filelock import FileLock

from tiltmeter._files.paths import default_cache, is_file
from tiltmeter._files.writing import IN_CACHE, writable
from tiltmeter.errors import InputError
from tiltmeter.models._memory import is_out_of_memory

if TYPE_CHECKING:
    from torch import Tensor

SUFFIX: Final = ".gguf"
_MAGIC = b"GGUF"
_LINK = f"model{SUFFIX}"
"""Name of the file while transformers reads it."""
_FORMAT = "1"
"""Version of the copies; another version is stored beside the older one."""
_TURN_END = "tokenizer.ggml.eot_token_id"
"""Key of the token that ends a turn, if it is another one than the token that ends a text."""
_TOKENS = "tokenizer.ggml.tokens"
_log = logging.getLogger("tiltmeter.models")


def find_gguf(name: str) -> Path:
    """Return the absolute path of a GGUF file.

    Raises
    ------
    InputError
        There is no such file, it cannot be read, or it does not begin as a GGUF file does.
    """
    path = Path(name).expanduser()
    if not is_file(path):
        raise InputError(
            f"there is no file {name}: give the path of a GGUF file, of a model folder, "
            "or a name on the Hugging Face hub"
        )
    try:
        with path.open("rb") as file:
            start = file.read(len(_MAGIC))
    except OSError as error:
        raise _unreadable(Path(name), error) from None
    if start != _MAGIC:
        raise InputError(
            f"{name} is not a GGUF file: it does not begin with {_MAGIC.decode()}; download it again"
        )
    return path.absolute()


def dequantised(path: Path, digest: str) -> Path:
    """Return the folder of the dequantised copy of a GGUF file, which is created unless it is in the cache.

    Only one process creates the copy; others wait for it. A copy is complete or absent, also if its process
    is killed.

    Parameters
    ----------
    digest
        The SHA-256 of the file.

    Raises
    ------
    InputError
        The file is damaged, transformers cannot read it, or the cache folder is not writable.
    MemoryError
        The weights do not fit into memory.
    """
    folder = default_cache() / "gguf" / f"{digest}-{_FORMAT}"
    if folder.is_dir():
        return folder
    unfinished = folder.with_name(f".{folder.name}")
    with writable(folder, IN_CACHE):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{folder}.lock"):
            if folder.is_dir():  # another process has created it
                return folder
            shutil.rmtree(unfinished, ignore_errors=True)  # of a process that was killed
            _log.warning("dequantising %s, once; the copy is kept in %s", path.name, folder)
            try:
                _save_copy(path, unfinished)
                unfinished.rename(folder)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def _save_copy(path: Path, folder: Path) -> None:
    from safetensors.torch import save_file

    architecture, turn_end = _read_header(path)
    source = folder / "source"
    source.mkdir(parents=True)
    try:
        _link(path, source)
        with _explained(path, architecture):
            model, tokenizer = _load(source)
            weights = _distinct_weights(model)
            if turn_end is not None:
                end_tokens = {turn_end, model.generation_config.eos_token_id} - {None}
                model.generation_config.eos_token_id = sorted(end_tokens)
            vars(model.config).pop("quantization_config", None)  # the copy is not quantised
    finally:
        shutil.rmtree(source)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    model.config.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@contextmanager
def _explained(path: Path, architecture: str) -> Iterator[None]:
    """Convert the errors of transformers to an InputError that says what to do, or to a MemoryError."""
    import transformers

    try:
        yield
    except Exception as error:
        _raise_if_not_the_content(path, error)
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = lines[0] if lines else type(error).__name__
        raise InputError(
            f"transformers {transformers.__version__} cannot load {path}, "
            f"a GGUF file of the architecture {architecture!r} ({reason[:160]}): "
            "use a newer transformers or another model, or serve the file with llama.cpp (llamacpp/NAME)"
        ) from None


def _raise_if_not_the_content(path: Path, error: Exception) -> None:
    """Raise MemoryError if memory ran out, and InputError if the file could not be read.

    Otherwise its content is at fault.
    """
    if is_out_of_memory(error):
        raise MemoryError(str(error)) from error
    if isinstance(error, OSError) and error.strerror:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> InputError:
    return InputError(f"{path} cannot be read ({error.strerror})")


def _read_header(path: Path) -> tuple[str, int | None]:
    """Return the architecture and the token that ends a turn, if it is named.

    Raises
    ------
    InputError
        The file cannot be read or is damaged, or the end token is no token of the vocabulary.
    MemoryError
        The file does not fit into memory.
    """
    import gguf

    try:
        fields = gguf.GGUFReader(path).fields
        turn_end = fields[_TURN_END].contents() if _TURN_END in fields else None
        vocabulary = len(fields[_TOKENS].data) if _TOKENS in fields else 0
        architecture = str(fields["general.architecture"].contents())
    except Exception as error:  # the reader trusts the lengths in the file
        _raise_if_not_the_content(path, error)
        raise InputError(
            f"{path} is damaged or incomplete ({type(error).__name__}): download it again"
        ) from None
    is_token = isinstance(turn_end, int) and not isinstance(turn_end, bool) and 0 <= turn_end < vocabulary
    if turn_end is not None and not is_token:
        raise InputError(
            f"{path}: {_TURN_END} is {turn_end!r}, which is none of the {vocabulary:,} tokens of its "
            "vocabulary; correct the file, or use another one"
        )
    return architecture, turn_end


def _link(path: Path, folder: Path) -> None:
    """Place the GGUF file in a folder, as a link if the file system has links."""
    link = folder / _LINK
    try:
        link.symlink_to(path)
        return
    except OSError:  # a file system without links
        pass
    try:
        shutil.copyfile(path, link)
    except OSError as error:
        if error.filename == str(path):
            raise _unreadable(path, error) from None
        raise


def _load(folder: Path) -> tuple[Any, Any]:
    """Return the model and the tokenizer of the GGUF file in a folder.

    The folder contains no other files, because transformers would read them, too.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    options = {"gguf_file": _LINK, "local_files_only": True, "trust_remote_code": False}
    with _no_bar():
        tokenizer = AutoTokenizer.from_pretrained(folder, **options)
        model, report = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, output_loading_info=True, **options
        )
    if report["missing_keys"]:
        raise ValueError(f"it lacks weights such as {min(report['missing_keys'])}")
    return model, tokenizer


@contextmanager
def _no_bar() -> Iterator[None]:
    """Disable the progress bar of the reader, which ignores the setting of transformers."""
    from transformers import modeling_gguf_pytorch_utils as reader

    bar = reader.tqdm
    reader.tqdm = partial(bar, disable=True)
    try:
        yield
    finally:
        reader.tqdm = bar


def _distinct_weights(model: Any) -> dict[str, Tensor]:
    """Return the weights by name, without those that share the memory of others.

    Input and output embeddings of many models share their memory.
    """
    weights: dict[str, Tensor] = {}
    addresses: set[int] = set()
    for name, values in model.state_dict().items():
        if values.data_ptr() not in addresses:
            addresses.add(values.data_ptr())
            weights[name] = _narrowed(values)
    return weights


def _narrowed(values: Tensor) -> Tensor:
    """Return the values in a type of 16 bits if it represents all of them exactly."""
    import torch

    for narrow in (torch.bfloat16, torch.float16):
        if values.dtype == torch.float32 and torch.equal(values.to(narrow).to(torch.float32), values):
            return values.to(narrow).contiguous()
    return values.contiguous()
