"""What all models that run in this process share: the extra they need, their weights and what identifies these, the device, loading."""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from tiltmeter.errors import InputError, ProviderError
from tiltmeter.paths import sha256

_READ = (".json", ".safetensors", ".model", ".txt", ".jinja")
"""Kinds of files a model is made of. Pickled weights are not among them: reading them may run code."""
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
_DEVICE = re.compile(r"auto|cpu|mps|cuda(:\d+)?")
_OUT_OF_MEMORY = re.compile("out of memory|can't allocate memory|not enough memory", re.IGNORECASE)
_CONNECT_SECONDS = 5.0

_digests: dict[tuple[Path, int, int], str] = {}
"""Digests of files by path, size and time of change: weights are hashed once a process."""


def need_local(user: str, *packages: str) -> None:
    """Raise ProviderError unless `packages` (of the extra `local`) are installed; import none of them. `user` is who needs them."""
    for package in packages:
        if find_spec(package) is None:
            raise ProviderError(f'{user} needs the package {package}: pip install "tiltmeter[local]"')


class Weights(NamedTuple):
    """Where a model is: a folder of this machine, or a repository of the hub at one commit."""

    name: str
    """What the user wrote."""
    folder: Path | None
    commit: str | None
    config: dict[str, Any]
    """What its config.json says."""

    @property
    def identity(self) -> str:
        """What is in it, not where it is: the digest of a folder's files, `name@commit` of the hub. Raises InputError."""
        return f"{self.name}@{self.commit}" if self.folder is None else f"sha256:{_folder_digest(self.folder)}"

    def fetch(self) -> Path:
        """Return the folder to load from; a model of the hub is downloaded (or taken from its cache). Raise ProviderError."""
        if self.folder is not None:
            return self.folder
        return _download(self.name, self.commit, [f"*{suffix}" for suffix in _READ])


def find_weights(name: str, revision: str | None = None) -> Weights:
    """Find the model in the folder `name`, or of that name on the Hugging Face hub; its weights are not read or downloaded yet.

    Raises
    ------
    InputError
        There is no such folder, it holds no model or only pickled weights, or a revision was given for a folder.
    ProviderError
        The hub has no such model, or cannot be reached and the model is not in its cache.
    """
    folder = Path(name).expanduser()
    if os.path.isdir(folder):  # noqa: PTH112 - False too for what can be no path at all
        if revision is not None:
            raise InputError(f"revision={revision}: {name} is a folder of this machine, which has no revisions; leave it out")
        if not any(folder.glob("*.safetensors")):
            raise InputError(
                f"the folder {name} holds no weights (*.safetensors): name the folder a model was saved to with save_pretrained"
            )
        return Weights(name, folder.absolute(), None, read_config(folder / "config.json"))
    if not _HUB_NAME.fullmatch(name) or name.startswith("."):
        raise InputError(f"there is no folder {name!r} that holds a model, and this is no name of the Hugging Face hub (owner/name)")
    folder = _download(name, revision, ["config.json"])
    return Weights(name, None, folder.name, read_config(folder / "config.json"))


@cache
def _hub_answers() -> bool:
    """Whether the hub can be connected to within seconds; its client would try again for half a minute, and report each attempt.

    Behind a proxy only the client can know, so it is asked.
    """
    from huggingface_hub import constants

    url = urlsplit(constants.ENDPOINT)
    host, port = url.hostname or "", url.port or (80 if url.scheme == "http" else 443)
    if constants.HF_HUB_OFFLINE or (url.scheme in getproxies() and not proxy_bypass(host)):
        return not constants.HF_HUB_OFFLINE
    answered = threading.Event()

    def connect() -> None:
        with suppress(OSError, ValueError), socket.create_connection((host, port), _CONNECT_SECONDS):
            answered.set()

    attempt = threading.Thread(target=connect, daemon=True)  # looking up a name has no time limit of its own
    attempt.start()
    attempt.join(_CONNECT_SECONDS)
    return answered.is_set()


def _download(name: str, revision: str | None, patterns: Sequence[str]) -> Path:
    """The folder of a model of the hub, with its files of these names, which are downloaded or taken from the hub's cache."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=patterns, local_files_only=not _hub_answers()))
    except Exception as error:  # of some dozen kinds, of several packages
        kind = type(error).__name__
    if kind == "GatedRepoError":
        raise ProviderError(f"{name} is gated: accept its terms at https://huggingface.co/{name}, then log in with `hf auth login`")
    if kind in ("RepositoryNotFoundError", "RevisionNotFoundError"):
        advice = "check the name, or give the path of a folder that holds it"
        raise ProviderError(f"the Hugging Face hub has no model {name} (of this revision): {advice}")
    raise ProviderError(
        f"{name} is neither a folder nor in the cache of this machine, and the Hugging Face hub cannot be reached ({kind}): "
        "check the network, or give the path of a folder that holds the model"
    )


def read_config(path: Path) -> dict[str, Any]:
    """Read a model's config.json. Raise InputError where there is none, or it is no JSON object."""
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"the folder {path.parent} holds no config.json: name the folder a model was saved to") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read as JSON ({error}): save the model again") from None
    if not isinstance(found, dict):
        raise InputError(f"{path} is not a model's configuration: save the model again")
    return found


def _folder_digest(folder: Path) -> str:
    """The digest of the files a model is made of: those of the folder itself, and of the modules a sentence encoder lists."""
    folders, modules = [folder], folder / "modules.json"
    if modules.is_file():
        try:
            folders += [folder / module["path"] for module in json.loads(modules.read_bytes()) if module["path"]]
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise InputError(f"{modules} cannot be read ({error}): save the encoder again") from None
    whole = hashlib.sha256()
    try:
        for path in sorted({path for one in folders for path in one.glob("*") if path.suffix in _READ and path.is_file()}):
            state = path.stat()
            key = (path.resolve(), state.st_size, state.st_mtime_ns)
            if key not in _digests:
                _digests[key] = sha256(path)
            whole.update(f"{path.relative_to(folder).as_posix()}\0{_digests[key]}\n".encode())
    except OSError as error:
        raise InputError(f"{error.filename} cannot be read ({error.strerror})") from None
    return whole.hexdigest()


def check_device(wanted: str) -> None:
    """Raise InputError where this is no device's name; torch is not imported."""
    if not _DEVICE.fullmatch(wanted):
        raise InputError(f"device={wanted}: use auto, cpu, cuda, cuda:N or mps")


def pick_device(wanted: str) -> str:
    """Return the device meant by "auto" (a GPU where torch sees one), "cpu", "mps", "cuda" or "cuda:N".

    Raises
    ------
    InputError
        This is no device's name.
    ProviderError
        torch sees no such device.
    """
    check_device(wanted)
    import torch

    seen = ["cpu", *(["mps"] if torch.backends.mps.is_available() else [])]
    if torch.cuda.is_available():
        seen += [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    if wanted == "auto":
        return seen[-1].partition(":")[0]
    if (f"{wanted}:0" if wanted == "cuda" else wanted) not in seen:
        here = f"torch sees no such device here, only {', '.join(seen)}"
        raise ProviderError(f"device={wanted}: {here}; use one of these or device=auto")
    return wanted


def load_pretrained(weights: Weights, kind: str, what: str, device: str | None = None, **more: Any) -> tuple[Any, Any]:
    """Load a model of transformers and its tokenizer; code that came with it is never run, and pickled weights are never read.

    Parameters
    ----------
    kind
        The class of transformers, such as "AutoModelForCausalLM".
    what
        For messages: what it should be.
    device
        As `pick_device` returns it; None where `kind` has no weights ("AutoConfig").
    more
        Further arguments of `from_pretrained`.

    Raises
    ------
    InputError
        The files are no such model, have no tokenizer, or are damaged.
    ProviderError
        The weights cannot be downloaded, or do not fit into memory.
    """
    import transformers

    folder, fixed = str(weights.fetch()), {"trust_remote_code": False, "local_files_only": True}
    load = getattr(transformers, kind).from_pretrained
    try:
        with quiet():
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **fixed)
            if device is None:
                return load(folder, **fixed, **more), tokenizer
            model, report = load(folder, use_safetensors=True, output_loading_info=True, **fixed, **more)
        if report["missing_keys"]:
            raise InputError(f"{weights.name} is no {what}: it lacks weights such as {min(report['missing_keys'])}")
        return model.to(device).eval(), tokenizer
    except InputError:
        raise
    except Exception as error:  # transformers raises whatever its many readers raise
        if is_out_of_memory(error):
            advice = "use a smaller model, a narrower dtype or another device"
            raise ProviderError(f"{weights.name} does not fit into the memory of {device}: {advice}") from None
        said = next((line for line in str(error).splitlines() if line.strip()), "").strip()
        raise InputError(
            f"{weights.name} cannot be loaded as a {what} ({type(error).__name__}: {said[:200]}): "
            "check that the folder holds its config.json, tokenizer and *.safetensors"
        ) from None


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the progress bars and remarks of transformers until the context is left: a run shows its own progress."""
    from transformers.utils import logging

    bar, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()


def is_out_of_memory(error: BaseException) -> bool:
    """Whether torch ran out of memory, of a GPU or of the machine."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and _OUT_OF_MEMORY.search(str(error)) is not None)
