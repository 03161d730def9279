"""What all models that run in this process share: the extra they need, where their weights lie, what identifies them, the device."""

from __future__ import annotations

import hashlib
import json
import re
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from tiltmeter._paths import sha256
from tiltmeter.errors import InputError, ProviderError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Weights", "check_device", "find_weights", "is_out_of_memory", "need_local", "pick_device", "too_long"]

_READ = (".json", ".safetensors", ".model", ".txt", ".jinja")
"""Kinds of files a model is made of. Pickled weights are not among them: reading them may run code."""
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
_DEVICE = re.compile(r"auto|cpu|mps|cuda(:\d+)?")

_PORTS = {"http": 80, "https": 443}
_CONNECT_SECONDS = 5.0

_digests: dict[tuple[Path, int, int], str] = {}
"""Digests of files by path, size and time of change: weights are hashed once a process."""


def need_local(user: str, *packages: str) -> None:
    """Raise ProviderError unless `packages` (of the extra `local`) are installed; imports none of them. `user` is who needs them."""
    for package in packages:
        try:
            found = find_spec(package) is not None
        except (ImportError, ValueError):
            found = False
        if not found:
            raise ProviderError(f'{user} needs the package {package}: pip install "tiltmeter[local]"')


class Weights(NamedTuple):
    """Where a model lies: a folder of this machine, or a repository of the hub at one commit."""

    name: str
    """What the user wrote."""
    folder: Path | None
    commit: str | None
    config: dict[str, Any]
    """What its config.json says."""

    @property
    def identity(self) -> str:
        """What is in it, not where it lies: the digest of a folder's files, `name@commit` of the hub. Raises InputError."""
        if self.folder is None:
            return f"{self.name}@{self.commit}"
        return f"sha256:{_digest(self.folder)}"

    def fetch(self) -> Path:
        """The folder to load from; what lies on the hub is downloaded (or taken from its cache). Raises ProviderError."""
        if self.folder is not None:
            return self.folder
        from huggingface_hub import snapshot_download

        patterns = [f"*{suffix}" for suffix in _READ]
        try:
            return Path(snapshot_download(self.name, revision=self.commit, allow_patterns=patterns, local_files_only=not _hub_answers()))
        except Exception as error:
            raise _hub_error(self.name, error) from None


def find_weights(name: str, revision: str | None = None) -> Weights:
    """The model in the folder `name`, or of that name on the Hugging Face hub; its weights are not read or downloaded yet.

    Raises
    ------
    InputError
        There is no such folder, it holds no model or only pickled weights, or a revision was given for a folder.
    ProviderError
        The hub has no such model, or cannot be reached and the model is not in its cache.
    """
    folder = Path(name).expanduser()
    if _is_folder(folder):
        if revision is not None:
            raise InputError(f"revision={revision}: {name} is a folder of this machine, which has no revisions; leave it out")
        if not any(folder.glob("*.safetensors")):
            raise InputError(
                f"the folder {name} holds no weights (*.safetensors): name the folder a model was saved to with save_pretrained"
            )
        return Weights(name, folder, None, _config(folder / "config.json"))
    if not _HUB_NAME.fullmatch(name) or name.startswith("."):
        raise InputError(f"there is no folder {name!r} that holds a model, and this is no name of the Hugging Face hub (owner/name)")
    from huggingface_hub import hf_hub_download

    try:
        path = Path(hf_hub_download(name, "config.json", revision=revision, local_files_only=not _hub_answers()))
    except Exception as error:
        raise _hub_error(name, error) from None
    return Weights(name, None, path.parent.name, _config(path))


@cache
def _hub_answers() -> bool:
    """Whether the hub can be connected to within seconds; its client would try again for half a minute, and report each attempt.

    Behind a proxy only the client can know, so it is asked.
    """
    from huggingface_hub import constants

    url = urlsplit(constants.ENDPOINT)
    host = url.hostname or ""
    if constants.HF_HUB_OFFLINE or (url.scheme in getproxies() and not proxy_bypass(host)):
        return not constants.HF_HUB_OFFLINE
    answered: list[bool] = []

    def connect() -> None:
        with suppress(OSError, ValueError), socket.create_connection((host, url.port or _PORTS.get(url.scheme, 443)), _CONNECT_SECONDS):
            answered.append(True)

    attempt = threading.Thread(target=connect, daemon=True)  # looking up a name has no time limit of its own
    attempt.start()
    attempt.join(_CONNECT_SECONDS)
    return bool(answered)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _config(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"the folder {path.parent} holds no config.json: name the folder a model was saved to") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read as JSON ({error}): save the model again") from None
    if not isinstance(found, dict):
        raise InputError(f"{path} is not a model's configuration: save the model again")
    return found


def _hub_error(name: str, error: Exception) -> ProviderError:
    """One sentence for what the hub's client raised (it raises some dozen kinds, of several packages)."""
    kind = type(error).__name__
    if kind == "GatedRepoError":
        said = f"{name} is gated: accept its terms at https://huggingface.co/{name}, then log in with `hf auth login`"
    elif kind in ("RepositoryNotFoundError", "RevisionNotFoundError", "EntryNotFoundError", "RemoteEntryNotFoundError"):
        said = f"the Hugging Face hub has no model {name} (of this revision): check the name, or give the path of a folder that holds it"
    else:
        said = f"{name} is neither a folder nor in the cache of this machine, and the Hugging Face hub cannot be reached ({kind}): "
        said += "check the network, or give the path of a folder that holds the model"
    return ProviderError(said)


def _files(folder: Path) -> Iterator[Path]:
    """The files a model is made of: those of the folder itself, and of the modules a sentence encoder lists."""
    folders = [folder]
    modules = folder / "modules.json"
    if modules.is_file():
        try:
            named = [str(module["path"]) for module in json.loads(modules.read_bytes())]
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise InputError(f"{modules} cannot be read ({error}): save the encoder again") from None
        folders += [folder / path for path in named if path]
    for one in folders:
        yield from (path for path in one.glob("*") if path.suffix in _READ and path.is_file())


def _digest(folder: Path) -> str:
    whole = hashlib.sha256()
    try:
        for path in sorted(set(_files(folder))):
            state = path.stat()
            key = (path.resolve(), state.st_size, state.st_mtime_ns)
            if key not in _digests:
                _digests[key] = sha256(path)
            whole.update(f"{path.relative_to(folder).as_posix()}\0{_digests[key]}\n".encode())
    except OSError as error:
        raise InputError(f"{error.filename} cannot be read ({error.strerror})") from None
    return whole.hexdigest()


def pick_device(wanted: str) -> str:
    """The device meant by "auto" (a GPU where torch sees one), "cpu", "mps", "cuda" or "cuda:N".

    Raises
    ------
    InputError
        This is no device's name.
    ProviderError
        torch sees no such device.
    """
    check_device(wanted)
    import torch

    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    mps = torch.backends.mps.is_available()
    if wanted == "auto":
        return "cuda" if gpus else "mps" if mps else "cpu"
    kind, _, number = wanted.partition(":")
    if (kind == "cuda" and int(number or 0) >= gpus) or (kind == "mps" and not mps):
        seen = ", ".join(["cpu", *(f"cuda:{one}" for one in range(gpus)), *(["mps"] if mps else [])])
        raise ProviderError(f"device={wanted}: torch sees no such device here, only {seen}; use one of these or device=auto")
    return wanted


def check_device(wanted: str) -> None:
    """Raise InputError where this is no device's name; torch is not imported."""
    if not _DEVICE.fullmatch(wanted):
        raise InputError(f"device={wanted}: use auto, cpu, cuda, cuda:N or mps")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether torch ran out of memory, of a GPU or of the machine."""
    if type(error).__name__ == "OutOfMemoryError" or isinstance(error, MemoryError):
        return True
    said = str(error).lower()
    return isinstance(error, RuntimeError) and ("out of memory" in said or "can't allocate memory" in said or "not enough memory" in said)


def too_long(tokenizer: Any, texts: Sequence[str], length: int | None) -> NDArray[np.float32]:
    """1 for each text of more than `length` tokens, else 0 (None: any length is read); shape (texts, 1)."""
    import numpy as np

    found = np.zeros((len(texts), 1), dtype=np.float32)
    if length is None:
        return found
    # A token hardly ever takes less than a byte of its text, so short texts need not be cut into tokens.
    room = length - tokenizer.num_special_tokens_to_add()
    doubtful = [number for number, text in enumerate(texts) if len(text.encode("utf-8", "surrogatepass")) > room]
    if doubtful:
        counted = tokenizer([texts[number] for number in doubtful], truncation=False, verbose=False)["input_ids"]
        found[doubtful, 0] = [len(tokens) > length for tokens in counted]
    return found
