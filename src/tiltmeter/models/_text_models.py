"""Models that turn texts into numbers: sentence encoders and text classifiers, with a cache.

The cache ("store") is one SQLite file with a key (hash of model and text) and a value (bytes) per row. Any
number of processes may share it; a stored value never changes. Missing values are computed in batches of
texts of similar length.
"""

from __future__ import annotations

import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

import numpy as np

from tiltmeter._arrays import Booleans, Vectors
from tiltmeter.errors import InputError
from tiltmeter.models._memory import is_out_of_memory
from tiltmeter.models._weights import (
    check_device,
    find_weights,
    load_pretrained,
    need_local,
    pick_device,
    quiet,
)

CPU_BATCH: Final = 4096
"""Characters per batch on a CPU: about a thousand tokens, whose hidden layers (1,536 wide in the smallest
encoders) take a few MB."""
_APPLICATION = 0x54_69_6C_74
"""SQLite application ID of these files ("Tilt")."""
_CHUNK = 900
"""Keys in one query; SQLite before 3.32 accepts at most 999 parameters."""
_BUSY_SECONDS = 60.0
_AT_ONCE = 4096
"""Texts that one process computes between two writes to the store, which is the most that an interruption
loses."""
_COUNTED_TOGETHER = 1024
"""Texts per batch when tokens are counted."""
_VALUE_BYTES = 4
"""Bytes of a number in the store (float32)."""
_SPARE = 2
"""Positions that some models (RoBERTa) reserve, subtracted if the tokenizer does not specify a maximum
length."""


def text_keys(model: str, texts: Iterable[str]) -> list[bytes]:
    """Return the key (20 bytes) of each text for the model with this fingerprint."""
    start = model.encode() + b"\0"
    return [blake2b(start + text.encode("utf-8", "surrogatepass"), digest_size=20).digest() for text in texts]


class TextStore:
    """A store in the file at `path`, which is created on the first write.

    Each use opens the file (which takes a millisecond), so that a store can be used from any thread, and
    after a fork.

    Raises
    ------
    InputError
        Raised by all methods: the file is not a store, is damaged, or cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, keys: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """Yield the key and value of stored keys, in any order."""
        if not self.path.exists():
            return
        with self._opened() as connection:
            for start in range(0, len(keys), _CHUNK):
                chunk = keys[start : start + _CHUNK]
                marks = ",".join("?" * len(chunk))  # the query contains no other text
                query = f"SELECT key, value FROM entries WHERE key IN ({marks})"  # noqa: S608
                yield from connection.execute(query, chunk).fetchall()

    def write(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Store all rows (key, value) in one transaction."""
        with self._opened() as connection, connection:
            connection.executemany("INSERT OR IGNORE INTO entries VALUES (?, ?)", rows)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            database = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level="IMMEDIATE")
            with closing(database) as connection:
                if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
                    self._create(connection)
                yield connection
        except OSError as error:
            raise InputError(
                f"{self.path} cannot be used ({error.strerror}): choose a folder with write permission"
            ) from None
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # SQLite quotes what it cannot read
            reason = "it is locked by another program" if "locked" in str(error) else str(error)
            raise InputError(
                f"{self.path} cannot be used ({reason}): remove the file, its content will be recomputed"
            ) from None

    def _create(self, connection: sqlite3.Connection) -> None:
        """Create the table, unless another process has created it in the meantime."""
        other_tables = connection.execute("SELECT count(*) FROM sqlite_master WHERE tbl_name != 'entries'")
        if other_tables.fetchone()[0] > 0:
            raise InputError(f"{self.path} is a database of another program: remove or rename it")
        connection.execute("CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY, value BLOB NOT NULL)")
        connection.execute(f"PRAGMA application_id={_APPLICATION}")


class RowCache:
    """A cache of rows of float32 by text.

    Parameters
    ----------
    fingerprint
        Identifies the model and the computed quantity.
    compute
        Function that returns the rows of texts, given the batch size; shape (texts, width).
    store
        File of the store; None: rows are not stored.
    batch_size
        Maximum number of texts per batch; halved if a batch does not fit into memory.
    workers
        Number of processes that compute in parallel.
    """

    def __init__(
        self,
        fingerprint: str,
        compute: Callable[[Sequence[str], int], Vectors],
        store: Path | None,
        batch_size: int,
        workers: int = 1,
    ) -> None:
        self._fingerprint = fingerprint
        self._compute = compute
        self._batch_size = batch_size
        self._at_once = _AT_ONCE * workers
        self._store = None if store is None else TextStore(store)

    def rows(self, texts: Sequence[str]) -> Vectors:
        """Return one row per text, in order: shape (texts, width).

        Raises
        ------
        InputError
            The store cannot be used.
        """
        if not texts:
            return self._compute([""], 1)[:0]  # a text has to be computed to determine the width
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        keys = dict(zip(numbers, text_keys(self._fingerprint, numbers), strict=True))
        rows = self._stored(list(keys.values()))
        # Long texts first, so that a batch too large for the memory fails early. (Length is measured in
        # characters, not tokens.)
        missing = sorted((text for text in numbers if keys[text] not in rows), key=len, reverse=True)
        for start in range(0, len(missing), self._at_once):
            chunk = missing[start : start + self._at_once]
            computed = np.ascontiguousarray(self._computed(chunk), dtype="<f4")
            new = {keys[text]: row.tobytes() for text, row in zip(chunk, computed, strict=True)}
            if self._store is not None:
                self._store.write(new.items())
            rows |= new
        width = len(rows[keys[texts[0]]]) // _VALUE_BYTES
        table = np.empty((len(numbers), width), dtype=np.float32)
        for text, number in numbers.items():  # frees the memory of each row once it is in the table
            table[number] = np.frombuffer(rows.pop(keys[text]), dtype="<f4")
        return table if len(numbers) == len(texts) else table[[numbers[text] for text in texts]]

    def _stored(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the rows of the store by key; raise InputError if they cannot be rows of one model."""
        if self._store is None:
            return {}
        rows: dict[bytes, Any] = dict(self._store.read(keys))  # a damaged SQLite file may contain any value
        lengths = {len(row) if isinstance(row, bytes) else -1 for row in rows.values()}
        if len(lengths) > 1 or any(length % _VALUE_BYTES for length in lengths):
            reason = "rows of different lengths for one model, or invalid vectors"
            raise InputError(
                f"the store of vectors {self._store.path} is damaged ({reason}): remove the file"
            )
        return rows

    def _computed(self, texts: Sequence[str]) -> Vectors:
        """Return the rows of texts, with a smaller batch size if a batch does not fit into memory."""
        while True:
            try:
                return self._compute(texts, self._batch_size)
            except Exception as error:
                if not is_out_of_memory(error) or self._batch_size == 1:
                    raise
            self._batch_size //= 2


class Elsewhere(Protocol):
    """A function that computes on other machines, with the maximum number of workers."""

    workers: int

    def __call__(self, quantity: str, batches: Sequence[Sequence[str]]) -> list[Vectors]:
        """Compute batches of texts with `CachedTextModel.compute` on other machines.

        Raise MemoryError if a batch does not fit.
        """
        ...


class CachedTextModel(ABC):
    """A model that turns each text into a row of numbers, which are cached in a store; thread-safe.

    The weights are loaded when they are first needed.

    Parameters
    ----------
    name
        A folder, or a name on the Hugging Face hub.
    store
        SQLite file in which rows are stored by model and text, shared by any number of models and processes;
        None: not stored.
    device
        "auto" (a GPU if there is one), "cpu", "cuda", "cuda:N" or "mps".
    elsewhere
        Function that computes missing rows on other machines; None: this process computes them. `device` is
        then a device of those machines.

    Raises
    ------
    InputError
        There is no such folder, or it contains no such model.
    ProviderError
        The extra `local` is not installed, or the hub has no such model or cannot be reached.
    """

    kind: ClassVar[str]
    packages: ClassVar[tuple[str, ...]] = ("torch", "transformers")
    batch_size: ClassVar[int] = 128
    """Maximum number of texts per batch."""

    def __init__(
        self,
        name: str | Path,
        *,
        store: Path | None,
        device: str = "auto",
        elsewhere: Elsewhere | None = None,
    ) -> None:
        check_device(device)
        need_local(f"the {self.kind} {name}", *self.packages)
        self._weights = find_weights(str(name))
        self._device = device
        self._elsewhere = elsewhere
        self.identity: str = self._weights.identity
        """The identity of its weights."""
        self._rows = self._cache_of("rows", f"{self.kind}/1 {self.identity}", store)
        self._cuts = self._cache_of("cut", f"cut/1 {self.identity}", store)
        self._lock = threading.RLock()
        self._model: Any = None

    def _cache_of(self, quantity: str, fingerprint: str, store: Path | None) -> RowCache:
        workers = self._elsewhere.workers if self._elsewhere else 1
        compute = partial(self._in_batches, quantity)
        return RowCache(fingerprint, compute, store, self.batch_size, workers)

    @property
    def name(self) -> str:
        """The last part of the name, and the beginning of the identity of the weights."""
        return f"{Path(self._weights.name).name}@{self.identity.rpartition(':')[2].rpartition('@')[2][:16]}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def cut(self, texts: Sequence[str]) -> Booleans:
        """Return whether each text is truncated, because it exceeds the context window: shape (texts,)."""
        if not texts:
            return np.zeros(0, dtype=np.bool_)
        return np.asarray(self._cuts.rows(texts)[:, 0] > 0, dtype=np.bool_)

    def compute(self, quantity: str, texts: Sequence[str]) -> Vectors:
        """Compute one batch without the store.

        Parameters
        ----------
        quantity
            "rows": the output of the model for the texts, shape (texts, width); "cut": 1 if a text exceeds
            the context window, else 0, shape (texts, 1).
        """
        with self._lock:
            return self._too_long(texts) if quantity == "cut" else self._compute(texts)

    def _loaded(self) -> Any:
        with self._lock:
            if self._model is None:
                self._model = self._load()
            return self._model

    @abstractmethod
    def _load(self) -> Any: ...

    @abstractmethod
    def _window(self) -> tuple[Any, int | None]:
        """Return the tokenizer, and the maximum number of tokens that are read (None: no limit)."""

    @abstractmethod
    def _compute(self, texts: Sequence[str]) -> Vectors: ...

    def _too_long(self, texts: Sequence[str]) -> Vectors:
        """Return 1 for each text that exceeds the context window, else 0: shape (texts, 1)."""
        tokenizer, length = self._window()
        too_long = np.zeros((len(texts), 1), dtype=np.float32)
        if length is None:
            return too_long
        # A token rarely takes less than a byte of its text, so short texts need not be tokenised.
        room = length - tokenizer.num_special_tokens_to_add()
        sizes = [len(text.encode("utf-8", "surrogatepass")) for text in texts]
        doubtful = [number for number, size in enumerate(sizes) if size > room]
        if doubtful:
            encoded = tokenizer([texts[number] for number in doubtful], truncation=False, verbose=False)
            too_long[doubtful, 0] = [len(tokens) > length for tokens in encoded["input_ids"]]
        return too_long

    def _fitting(self, text: str, batch_size: int) -> int:
        """Return the batch size for texts of which this is the longest."""
        return batch_size

    def _in_batches(self, quantity: str, texts: Sequence[str], batch_size: int) -> Vectors:
        """Compute texts, which are sorted longest first, in batches."""
        batches: list[Sequence[str]] = []
        start = 0
        while start < len(texts):
            size = self._fitting(texts[start], batch_size) if quantity == "rows" else _COUNTED_TOGETHER
            batches.append(texts[start : start + size])
            start += size
        if self._elsewhere:
            return np.concatenate(self._elsewhere(quantity, batches))
        return np.concatenate([self.compute(quantity, batch) for batch in batches])


class SentenceEncoder(CachedTextModel):
    """A sentence encoder, which turns texts into vectors of length 1 (sentence-transformers).

    See `CachedTextModel`.
    """

    kind = "encoder"
    packages: ClassVar[tuple[str, ...]] = ("torch", "transformers", "sentence_transformers")

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one vector of length 1 per text: shape (texts, dimensions).

        Long texts are truncated to the context window.

        Raises
        ------
        InputError
            The store cannot be used, or the folder contains no encoder.
        ProviderError
            torch finds no such device, or the weights cannot be downloaded.
        """
        return self._rows.rows(texts)

    def _load(self) -> Any:
        from sentence_transformers import SentenceTransformer

        device = pick_device(self._device)
        folder = str(self._weights.fetch())
        try:
            with quiet():
                return SentenceTransformer(
                    folder, device=device, local_files_only=True, model_kwargs={"use_safetensors": True}
                )
        except Exception as error:
            raise InputError(
                f"{self._weights.name} cannot be loaded as a sentence encoder ({type(error).__name__}): "
                "name a folder or a repository created with sentence-transformers"
            ) from None

    def _window(self) -> tuple[Any, int | None]:
        model = self._loaded()
        return model.tokenizer, model.max_seq_length

    def _compute(self, texts: Sequence[str]) -> Vectors:
        rows: Vectors = self._loaded().encode(
            list(texts),
            batch_size=len(texts),
            normalize_embeddings=True,
            convert_to_numpy=True,
            show_progress_bar=False,
        )
        return rows.astype("float32", copy=False)

    def _fitting(self, text: str, batch_size: int) -> int:
        """Return the batch size: large on a GPU, and small on a CPU.

        A CPU is faster if a batch fits into its cache.
        """
        device = self._loaded().device.type if self._elsewhere is None else self._device
        if device != "cpu":
            return batch_size
        return min(batch_size, max(8, CPU_BATCH >> len(text).bit_length()))


class TextClassifier(CachedTextModel):
    """A text classifier, which returns a score per label for each text (transformers).

    Its architecture is one for sequence classification. See `CachedTextModel`.
    """

    kind = "classifier"
    batch_size = 64

    def __init__(self, name: str | Path, **options: Any) -> None:
        super().__init__(name, **options)
        architectures = self._weights.config.get("architectures") or ["nothing"]
        if not any("ForSequenceClassification" in str(architecture) for architecture in architectures):
            raise InputError(
                f"{name} is not a text classifier: its config.json names {', '.join(map(str, architectures))}"
            )
        # A configuration without labels means two labels, as in transformers.
        labels = self._weights.config.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}
        self.labels: Sequence[str] = [str(labels[number]) for number in sorted(labels, key=int)]
        """Names of the labels, in the order of the scores."""

    def scores(self, texts: Sequence[str]) -> Vectors:
        """Return one row per text and one column per label: shape (texts, labels).

        Long texts are truncated to the context window.

        Scores are probabilities that sum to 1 if the labels are mutually exclusive, independent probabilities
        in a multi-label problem (or with a single label), and the raw output in a regression.

        Raises
        ------
        InputError
            The store cannot be used, or the folder contains no classifier.
        ProviderError
            torch finds no such device, or the weights cannot be downloaded.
        """
        return self._rows.rows(texts)

    def _load(self) -> tuple[Any, Any]:
        device = pick_device(self._device)
        model, tokenizer = load_pretrained(
            self._weights, "AutoModelForSequenceClassification", "text classifier", device
        )
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        model.config.pad_token_id = tokenizer.pad_token_id
        return model, tokenizer

    def _window(self) -> tuple[Any, int]:
        model, tokenizer = self._loaded()
        positions = getattr(model.config, "max_position_embeddings", None)
        declared = int(tokenizer.model_max_length)  # 10^30 if not specified
        if declared <= (positions or 1 << 30):
            return tokenizer, declared
        return tokenizer, positions - _SPARE if positions else 512

    def _compute(self, texts: Sequence[str]) -> Vectors:
        import torch

        model, _ = self._loaded()
        tokenizer, length = self._window()
        with torch.inference_mode():
            encoded = tokenizer(
                list(texts), truncation=True, max_length=length, padding=True, return_tensors="pt"
            )
            scores = model(**encoded.to(model.device)).logits.float()
            problem = self._weights.config.get("problem_type")
            if problem != "regression":
                independent = problem == "multi_label_classification" or len(self.labels) == 1
                scores = scores.sigmoid() if independent else scores.softmax(dim=-1)
            rows: Vectors = scores.cpu().numpy()
        return rows
