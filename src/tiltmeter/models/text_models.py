"""Models that make numbers of texts: sentence encoders and text classifiers. Each text is computed once, and kept.

The store is one SQLite file: a key (hash of model and text) and a value (bytes) a row. Any number of processes may share it; a value
once kept is never changed. What it lacks is computed in batches of similar length.
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
from typing import Any, ClassVar, Protocol

import numpy as np

from tiltmeter.arrays import Booleans, Vectors
from tiltmeter.errors import InputError
from tiltmeter.models.weights import check_device, find_weights, is_out_of_memory, load_pretrained, need_local, pick_device, quiet

CPU_BATCH = 4096
"""Characters in a batch on a CPU: about a thousand tokens, whose inner layers (1,536 wide in the smallest encoders) take a few MB."""
_APPLICATION = 0x54_69_6C_74
"""Marks an SQLite file as one of these ("Tilt")."""
_CHUNK = 900  # SQLite before 3.32 takes 999 parameters at most
_BUSY_SECONDS = 60.0
_AT_ONCE = 4096
"""Texts that one process computes between two writes to the store: what an interruption costs at most."""
_COUNTED_TOGETHER = 1024
"""Texts whose tokens are counted in one batch."""
_SPARE = 2
"""Positions some models (RoBERTa) reserve, left free where a tokenizer does not say how long a text may be."""


def text_keys(model: str, texts: Iterable[str]) -> list[bytes]:
    """Keys (20 bytes) of what the model of this fingerprint makes of each text."""
    start = model.encode() + b"\0"
    return [blake2b(start + text.encode("utf-8", "surrogatepass"), digest_size=20).digest() for text in texts]


class TextStore:
    """The store in the file at `path`, which is made when something is first kept.

    Each use opens the file (a millisecond), so that a store may be used from any thread, and after a fork.

    Raises
    ------
    InputError
        By all of its methods: the file is something else, is damaged, or cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, keys: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """Key and value of those that are kept, in any order."""
        if not self.path.exists():
            return
        with self._opened() as connection:
            for start in range(0, len(keys), _CHUNK):
                chunk = keys[start : start + _CHUNK]
                slots = ",".join("?" * len(chunk))
                yield from connection.execute(f"SELECT key, value FROM entries WHERE key IN ({slots})", chunk).fetchall()  # noqa: S608

    def write(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Keep all rows (key, value) in one transaction."""
        with self._opened() as connection, connection:
            connection.executemany("INSERT OR IGNORE INTO entries VALUES (?, ?)", rows)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level="IMMEDIATE")) as connection:
                if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
                    self._create(connection)
                yield connection
        except OSError as error:
            raise InputError(f"{self.path} cannot be used ({error.strerror}): choose a folder you may write to") from None
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # SQLite quotes what it cannot read
            said = "it is locked by another program" if "locked" in str(error) else str(error)
            raise InputError(f"{self.path} cannot be used ({said}): remove the file, what it held is computed again") from None

    def _create(self, connection: sqlite3.Connection) -> None:
        """Make the table; another process may have made it meanwhile."""
        if connection.execute("SELECT count(*) FROM sqlite_master WHERE tbl_name != 'entries'").fetchone()[0]:
            raise InputError(f"{self.path} is a database of something else: remove or rename it")
        connection.execute("CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY, value BLOB NOT NULL)")
        connection.execute(f"PRAGMA application_id={_APPLICATION}")


class RowCache:
    """Rows of float32 by text.

    Parameters
    ----------
    fingerprint
        What identifies the model and what it computes.
    compute
        Rows for texts, given the size of a batch; shape (texts, width).
    store
        Where rows are kept; None: nowhere.
    batch_size
        Texts computed together at most; halved when they do not fit into memory.
    workers
        Processes that compute at the same time.
    """

    def __init__(
        self,
        fingerprint: str,
        compute: Callable[[Sequence[str], int], Vectors],
        store: Path | None,
        batch_size: int,
        workers: int = 1,
    ) -> None:
        self._fingerprint, self._compute, self._batch_size = fingerprint, compute, batch_size
        self._at_once = _AT_ONCE * workers
        self._store = None if store is None else TextStore(store)

    def rows(self, texts: Sequence[str]) -> Vectors:
        """Return one row a text, in order: shape (texts, width).

        Raises
        ------
        InputError
            The store cannot be used.
        """
        if not texts:
            return self._compute([""], 1)[:0]  # a text has to be computed to know how many numbers there are
        unique = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        keys = dict(zip(unique, text_keys(self._fingerprint, unique), strict=True))
        rows: dict[bytes, Any] = {}  # SQLite may hold any value in a damaged file
        if self._store is not None:
            rows = dict(self._store.read(list(keys.values())))
            lengths = {len(row) if isinstance(row, bytes) else -1 for row in rows.values()}
            if len(lengths) > 1 or any(length % 4 for length in lengths):
                held = "rows of different length for one model, or what is no vector"
                raise InputError(f"the store of vectors {self._store.path} is damaged (it holds {held}): remove the file")
        # Long texts first: if a batch is too large for the memory, it shows at once. (Characters are used in place of tokens.)
        lacking = sorted((text for text in unique if keys[text] not in rows), key=len, reverse=True)
        for start in range(0, len(lacking), self._at_once):
            chunk = lacking[start : start + self._at_once]
            made = np.ascontiguousarray(self._computed(chunk), dtype="<f4")
            new = {keys[text]: row.tobytes() for text, row in zip(chunk, made, strict=True)}
            if self._store is not None:
                self._store.write(new.items())
            rows |= new
        table = np.empty((len(unique), len(rows[keys[texts[0]]]) // 4), dtype=np.float32)
        for text, number in unique.items():  # the memory of each row is free once it is in the table
            table[number] = np.frombuffer(rows.pop(keys[text]), dtype="<f4")
        return table if len(unique) == len(texts) else table[[unique[text] for text in texts]]

    def _computed(self, texts: Sequence[str]) -> Vectors:
        while True:
            try:
                return self._compute(texts, self._batch_size)
            except Exception as error:
                if not is_out_of_memory(error) or self._batch_size == 1:
                    raise
            self._batch_size //= 2


class Elsewhere(Protocol):
    """Other machines, and how many workers there are at most."""

    workers: int

    def __call__(self, what: str, batches: Sequence[Sequence[str]]) -> list[Vectors]:
        """Compute batches of texts, each as `compute` of the same encoder or classifier there does with this `what`.

        Raises MemoryError where a batch does not fit.
        """
        ...


class CachedTextModel(ABC):
    """A model of a folder or the Hugging Face hub that makes a row of numbers of each text, once; may be used from several threads.

    Its weights are read when they are first needed.

    Parameters
    ----------
    name
        A folder, or a name of the Hugging Face hub.
    store
        SQLite file in which rows are kept by model and text, shared by any number of models and processes; None: not kept.
    device
        "auto" (a GPU where there is one), "cpu", "cuda", "cuda:N" or "mps".
    elsewhere
        What computes rows that the store lacks, where that is not this process; `device` is then that of the other machines.

    Raises
    ------
    InputError
        There is no such folder, or it holds no such model.
    ProviderError
        The extra `local` is not installed, or the hub has no such model or cannot be reached.
    """

    kind: ClassVar[str]
    packages: ClassVar[tuple[str, ...]] = ("torch", "transformers")
    batch_size: ClassVar[int] = 128
    """Texts computed together at most."""

    def __init__(self, name: str | Path, *, store: Path | None, device: str = "auto", elsewhere: Elsewhere | None = None) -> None:
        check_device(device)
        need_local(f"the {self.kind} {name}", *self.packages)
        self._weights, self._device, self._elsewhere = find_weights(str(name)), device, elsewhere
        self.identity = self._weights.identity
        """What identifies its weights."""
        workers = elsewhere.workers if elsewhere else 1
        self._kept = RowCache(f"{self.kind}/1 {self.identity}", partial(self._in_batches, "rows"), store, self.batch_size, workers)
        self._ends = RowCache(f"cut/1 {self.identity}", partial(self._in_batches, "cut"), store, self.batch_size, workers)
        self._lock = threading.RLock()
        self._model: Any = None

    @property
    def name(self) -> str:
        """Its last name, and the beginning of what identifies its weights."""
        return f"{Path(self._weights.name).name}@{self.identity.rpartition(':')[2].rpartition('@')[2][:16]}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def cut(self, texts: Sequence[str]) -> Booleans:
        """Whether each text is longer than the model's window, so that its end is not read: shape (texts,). Raises as for rows."""
        return np.array(self._ends.rows(texts)[:, 0] > 0 if texts else [], dtype=np.bool_)

    def compute(self, what: str, texts: Sequence[str]) -> Vectors:
        """Compute one batch, neither read from the store nor kept.

        Parameters
        ----------
        what
            "rows": what the model makes of the texts, shape (texts, width); "cut": 1 where a text is longer than the window,
            shape (texts, 1).
        """
        with self._lock:
            return self._too_long(texts) if what == "cut" else self._compute(texts)

    def _loaded(self) -> Any:
        with self._lock:
            if self._model is None:
                self._model = self._load()
            return self._model

    @abstractmethod
    def _load(self) -> Any: ...

    @abstractmethod
    def _window(self) -> tuple[Any, int | None]:
        """The tokenizer, and how many tokens of a text are read (None: all)."""

    @abstractmethod
    def _compute(self, texts: Sequence[str]) -> Vectors: ...

    def _too_long(self, texts: Sequence[str]) -> Vectors:
        tokenizer, length = self._window()
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

    def _fitting(self, text: str, batch_size: int) -> int:
        """How many texts are computed together, of which this is the longest."""
        return batch_size

    def _in_batches(self, what: str, texts: Sequence[str], batch_size: int) -> Vectors:
        """Compute texts, longest first."""
        batches, start = [], 0
        while start < len(texts):
            size = self._fitting(texts[start], batch_size) if what == "rows" else _COUNTED_TOGETHER
            batches.append(texts[start : start + size])
            start += size
        return np.concatenate(self._elsewhere(what, batches) if self._elsewhere else [self.compute(what, batch) for batch in batches])


class SentenceEncoder(CachedTextModel):
    """Turns texts into vectors of length 1 (sentence-transformers). Parameters are those of `CachedTextModel`."""

    kind = "encoder"
    packages = ("torch", "transformers", "sentence_transformers")

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one row of length 1 per text: shape (texts, dimensions). Long texts are cut where the encoder's window ends.

        Raises
        ------
        InputError
            The store cannot be used, or the folder holds no encoder.
        ProviderError
            torch sees no such device, or the weights cannot be downloaded.
        """
        return self._kept.rows(texts)

    def _load(self) -> Any:
        from sentence_transformers import SentenceTransformer

        device, folder = pick_device(self._device), str(self._weights.fetch())
        try:
            with quiet():
                return SentenceTransformer(folder, device=device, local_files_only=True, model_kwargs={"use_safetensors": True})
        except Exception as error:
            raise InputError(
                f"{self._weights.name} cannot be loaded as a sentence encoder ({type(error).__name__}): name a folder or "
                "a repository made by sentence-transformers"
            ) from None

    def _window(self) -> tuple[Any, int | None]:
        model = self._loaded()
        return model.tokenizer, model.max_seq_length

    def _compute(self, texts: Sequence[str]) -> Vectors:
        rows: Vectors = self._loaded().encode(
            list(texts), batch_size=len(texts), normalize_embeddings=True, convert_to_numpy=True, show_progress_bar=False
        )
        return rows.astype("float32", copy=False)

    def _fitting(self, text: str, batch_size: int) -> int:
        """A GPU wants large batches. A CPU is faster when a batch stays in its cache."""
        on_cpu = (self._loaded().device.type if self._elsewhere is None else self._device) == "cpu"
        return min(batch_size, max(8, CPU_BATCH >> len(text).bit_length())) if on_cpu else batch_size


class TextClassifier(CachedTextModel):
    """Gives each text a score per label (transformers, sequence classification). Parameters are those of `CachedTextModel`."""

    kind = "classifier"
    batch_size = 64

    def __init__(self, name: str | Path, **how: Any) -> None:
        super().__init__(name, **how)
        architectures = self._weights.config.get("architectures") or ["nothing"]
        if not any("ForSequenceClassification" in str(architecture) for architecture in architectures):
            raise InputError(f"{name} is no text classifier: its config.json names {', '.join(map(str, architectures))}")
        # A configuration without labels means two, as transformers has it.
        named = self._weights.config.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}
        self.labels: Sequence[str] = [str(named[number]) for number in sorted(named, key=int)]
        """Names of the labels, in the order of the scores."""

    def scores(self, texts: Sequence[str]) -> Vectors:
        """Return one row per text, one column per label: shape (texts, labels). Long texts are cut where the model's window ends.

        Probabilities that sum to 1 where labels exclude each other; one probability a label where they do not (or where
        there is a single one); the bare number of a regression.

        Raises
        ------
        InputError
            The store cannot be used, or the folder holds no classifier.
        ProviderError
            torch sees no such device, or the weights cannot be downloaded.
        """
        return self._kept.rows(texts)

    def _load(self) -> tuple[Any, Any]:
        device = pick_device(self._device)
        model, tokenizer = load_pretrained(self._weights, "AutoModelForSequenceClassification", "text classifier", device)
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        model.config.pad_token_id = tokenizer.pad_token_id
        return model, tokenizer

    def _window(self) -> tuple[Any, int]:
        model, tokenizer = self._loaded()
        positions = getattr(model.config, "max_position_embeddings", None)
        declared = int(tokenizer.model_max_length)  # 10^30 where it does not say
        if declared <= (positions or 1 << 30):
            return tokenizer, declared
        return tokenizer, positions - _SPARE if positions else 512

    def _compute(self, texts: Sequence[str]) -> Vectors:
        import torch

        model, (tokenizer, length) = self._loaded()[0], self._window()
        with torch.inference_mode():
            given = tokenizer(list(texts), truncation=True, max_length=length, padding=True, return_tensors="pt")
            logits = model(**given.to(model.device)).logits.float()
            problem = self._weights.config.get("problem_type")
            if problem == "multi_label_classification" or (problem != "regression" and len(self.labels) == 1):
                logits = logits.sigmoid()
            elif problem != "regression":
                logits = logits.softmax(dim=-1)
            made: Vectors = logits.cpu().numpy()
        return made
