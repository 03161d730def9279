"""Models that run in this process: required packages, weights and their identity, devices, and loading."""

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

from tiltmeter._files.paths import sha256
from tiltmeter.errors import InputError, ProviderError
from tiltmeter.models._gguf_files import dequantised
from tiltmeter.models._memory import is_out_of_memory

_READ = (".json", ".safetensors", ".model", ".txt", ".jinja")
"""Suffixes of the files of a model. Pickled weights are excluded, because loading them may run code."""
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
_DEVICE = re.compile(r"auto|cpu|mps|cuda(:\d+)?")
_CONNECT_SECONDS = 5.0

_digests: dict[tuple[Path, int, int], str] = {}
"""Digests of files by path, size and modification time: weights are hashed once per process."""


def need_local(user: str, *packages: str) -> None:
    """Raise ProviderError unless `packages` (of the extra `local`) are installed, without importing them.

    `user` needs them.
    """
    for package in packages:
        if find_spec(package) is None:
            raise ProviderError(f'{user} needs the package {package}: pip install "tiltmeter[local]"')


class Weights(NamedTuple):
    """The location of a model: a local folder, a GGUF file, or a repository of the hub at one commit."""

    name: str
    """The name as the user wrote it."""
    folder: Path | None
    commit: str | None
    config: dict[str, Any]
    """The content of its config.json; empty for a GGUF file."""
    file: Path | None = None
    """The GGUF file."""
    catalogued: str | None = None
    """The name of the GGUF file in the catalogue of external files, if it is from there."""

    @property
    def identity(self) -> str:
        """The identity of the content, not of the location.

        It is the digest of the file or of those in the folder, or `name@commit` on the hub.
        """
        if self.file is not None:
            return f"sha256:{_file_digest(self.file)}"
        if self.folder is not None:
            return f"sha256:{_folder_digest(self.folder)}"
        return f"{self.name}@{self.commit}"

    def fetch(self) -> Path:
        """Return the folder to load from.

        A model of the hub is downloaded unless it is cached, and a GGUF file is dequantised once.

        Raises
        ------
        InputError
            The GGUF file is damaged, or transformers cannot read it.
        ProviderError
            The download fails, or the weights do not fit into memory.
        """
        if self.file is not None:
            return _dequantised(self.file)
        if self.folder is not None:
            return self.folder
        return _download(self.name, self.commit, [f"*{suffix}" for suffix in _READ])


def find_weights(name: str, revision: str | None = None) -> Weights:
    """Find the model in the folder `name`, or with that name on the Hugging Face hub.

    Its weights are neither loaded nor downloaded.

    Raises
    ------
    InputError
        There is no such folder, it contains no model or only pickled weights, or a revision was given for a
        folder.
    ProviderError
        The hub has no such model, or cannot be reached and the model is not in its cache.
    """
    folder = Path(name).expanduser()
    if os.path.isdir(folder):  # noqa: PTH112 - also False for invalid paths
        if revision is not None:
            raise InputError(
                f"revision={revision}: {name} is a local folder, which has no revisions; remove the option"
            )
        if not any(folder.glob("*.safetensors")):
            raise InputError(
                f"the folder {name} contains no weights (*.safetensors): "
                "name the folder in which save_pretrained saved the model"
            )
        return Weights(name, folder.absolute(), None, read_config(folder / "config.json"))
    if not _HUB_NAME.fullmatch(name) or name.startswith("."):
        raise InputError(
            f"{name!r} is neither an existing model folder nor a valid name on the Hugging Face hub "
            "(owner/name)"
        )
    folder = _download(name, revision, ["config.json"])
    return Weights(name, None, folder.name, read_config(folder / "config.json"))


def check_gguf_use(name: str, revision: str | None) -> None:
    """Check that a GGUF file can be used, without looking for the file.

    Parameters
    ----------
    name
        The name of the model as the user wrote it.

    Raises
    ------
    InputError
        A revision was given.
    ProviderError
        The packages that read GGUF files are not installed.
    """
    if revision is not None:
        raise InputError(
            f"revision={revision}: {name} is a local file, which has no revisions; remove the option"
        )
    need_local(f"the GGUF file {name}", "gguf", "accelerate")


def _dequantised(file: Path) -> Path:
    try:
        with quiet():
            return dequantised(file, _file_digest(file))
    except Exception as error:
        if is_out_of_memory(error):
            raise ProviderError(f"{file} does not fit into memory as float32: use a smaller model") from None
        raise


@cache
def _hub_answers() -> bool:
    """Return whether a connection to the hub succeeds within seconds.

    Its client would retry for half a minute and report each attempt. Behind a proxy this is always True,
    because only the client can test the connection.
    """
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    url = urlsplit(constants.ENDPOINT)
    host = url.hostname or ""
    port = url.port or (80 if url.scheme == "http" else 443)
    if url.scheme in getproxies() and not proxy_bypass(host):
        return True
    answered = threading.Event()

    def connect() -> None:
        with suppress(OSError, ValueError), socket.create_connection((host, port), _CONNECT_SECONDS):
            answered.set()

    attempt = threading.Thread(target=connect, daemon=True)  # DNS look-ups have no timeout
    attempt.start()
    attempt.join(_CONNECT_SECONDS)
    return answered.is_set()


def _download(name: str, revision: str | None, patterns: Sequence[str]) -> Path:
    """Return the folder of a model of the hub with the files that match these patterns.

    They are downloaded unless they are in the cache of the hub.
    """
    from huggingface_hub import snapshot_download

    try:
        folder = snapshot_download(
            name, revision=revision, allow_patterns=patterns, local_files_only=not _hub_answers()
        )
        return Path(folder)
    except Exception as error:  # one of about a dozen kinds from several packages
        kind = type(error).__name__
    if kind == "GatedRepoError":
        raise ProviderError(
            f"{name} is gated: accept its terms at https://huggingface.co/{name}, "
            "then log in with `hf auth login`"
        )
    if kind in ("RepositoryNotFoundError", "RevisionNotFoundError"):
        raise ProviderError(
            f"the Hugging Face hub has no model {name} (with this revision): "
            "check the name, or give the path of a folder that contains it"
        )
    raise ProviderError(
        f"{name} is neither a folder nor in the local cache, and the Hugging Face hub cannot be reached "
        f"({kind}): check the network, or give the path of a folder that contains the model"
    )


def read_config(path: Path) -> dict[str, Any]:
    """Read the config.json of a model; raise InputError if it is missing or not a JSON object."""
    try:
        config = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise InputError(
            f"the folder {path.parent} contains no config.json: name the folder of a saved model"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read as JSON ({error}): save the model again") from None
    if not isinstance(config, dict):
        raise InputError(f"{path} is not a model's configuration: save the model again")
    return config


def _folder_digest(folder: Path) -> str:
    """Return the digest of the files in the folder of a model, and in those of its modules."""
    digest = hashlib.sha256()
    try:
        paths: set[Path] = set()
        for part in [folder, *_module_folders(folder)]:
            paths |= {path for path in part.glob("*") if path.suffix in _READ and path.is_file()}
        for path in sorted(paths):
            digest.update(f"{path.relative_to(folder).as_posix()}\0{_file_digest(path)}\n".encode())
    except OSError as error:
        raise InputError(f"{error.filename} cannot be read ({error.strerror})") from None
    return digest.hexdigest()


def _module_folders(folder: Path) -> list[Path]:
    """Return the folders of the modules that a sentence encoder lists; none for any other model."""
    listing = folder / "modules.json"
    if not listing.is_file():
        return []
    try:
        paths = [module["path"] for module in json.loads(listing.read_bytes())]
        return [folder / path for path in paths if path]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{listing} cannot be read ({error}): save the encoder again") from None


def _file_digest(path: Path) -> str:
    """Return the digest of a file, which is computed once per process."""
    try:
        state = path.stat()
        key = (path.resolve(), state.st_size, state.st_mtime_ns)
        if key not in _digests:
            _digests[key] = sha256(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})") from None
    return _digests[key]


def check_device(name: str) -> None:
    """Raise InputError if this is not the name of a device; torch is not imported."""
    if not _DEVICE.fullmatch(name):
        raise InputError(f"device={name}: use auto, cpu, cuda, cuda:N or mps")


def pick_device(name: str) -> str:
    """Return the device for "auto" (a GPU if torch finds one), "cpu", "mps", "cuda" or "cuda:N".

    Raises
    ------
    InputError
        This is not the name of a device.
    ProviderError
        torch finds no such device.
    """
    check_device(name)
    import torch

    devices = ["cpu"]
    if torch.backends.mps.is_available():
        devices.append("mps")
    if torch.cuda.is_available():
        devices += [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    if name == "auto":
        return devices[-1].partition(":")[0]
    numbered = "cuda:0" if name == "cuda" else name
    if numbered not in devices:
        raise ProviderError(
            f"device={name}: torch finds only {', '.join(devices)}; use one of these or device=auto"
        )
    return name


def load_pretrained(
    weights: Weights, loader: str, kind: str, device: str | None = None, **options: Any
) -> tuple[Any, Any]:
    """Load a model of transformers and its tokenizer.

    Code in the repository is not run, and pickled weights are not loaded.

    Parameters
    ----------
    loader
        The class of transformers, such as "AutoModelForCausalLM".
    kind
        The kind of model in messages.
    device
        A device as returned by `pick_device`; None if `loader` reads no weights ("AutoConfig").
    **options
        Further arguments of `from_pretrained`.

    Raises
    ------
    InputError
        The files are not such a model, lack a tokenizer, or are damaged.
    ProviderError
        The weights cannot be downloaded, or do not fit into memory.
    """
    import transformers

    folder = str(weights.fetch())
    safe = {"trust_remote_code": False, "local_files_only": True}
    load = getattr(transformers, loader).from_pretrained
    try:
        with quiet():
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **safe)
            if device is None:
                return load(folder, **safe, **options), tokenizer
            model, report = load(folder, use_safetensors=True, output_loading_info=True, **safe, **options)
        if report["missing_keys"]:
            raise InputError(
                f"{weights.name} is not a {kind}: it lacks weights such as {min(report['missing_keys'])}"
            )
        return model.to(device).eval(), tokenizer
    except InputError:
        raise
    except Exception as error:  # transformers raises the exceptions of its many readers
        if is_out_of_memory(error):
            raise ProviderError(
                f"{weights.name} does not fit into the memory of {device}: "
                "use a smaller model, a narrower dtype or another device"
            ) from None
        reason = next((line for line in str(error).splitlines() if line.strip()), "").strip()
        raise InputError(
            f"{weights.name} cannot be loaded as a {kind} ({type(error).__name__}: {reason[:200]}): "
            "check that the folder contains config.json, the tokenizer and *.safetensors"
        ) from None


@contextmanager
def quiet() -> Iterator[None]:
    """Disable progress bars and warnings of transformers during the block.

    A run shows its own progress.
    """
    from transformers.utils import logging

    has_progress_bar = logging.is_progress_bar_enabled()
    verbosity = logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if has_progress_bar:
            logging.enable_progress_bar()
