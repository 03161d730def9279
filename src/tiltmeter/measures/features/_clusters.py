"""Clusters of texts within segments: who belongs together, how far each text lies from each centre, what the clusters are about."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import polars as pl

from tiltmeter.errors import InputError
from tiltmeter.measures.features._catalogue import Column
from tiltmeter.measures.features._given import gather
from tiltmeter.measures.features._kmeans import distances, partition
from tiltmeter.measures.features._models import Encodes
from tiltmeter.measures.features._themes import pick_theme, words_of_clusters
from tiltmeter.measures.features._vectors import Vectors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Clusters", "cluster_features"]

TEXTS: Final = "texts"
BASELINES: Final = "baselines"

_CLUSTER: Mapping[str, type[pl.DataType]] = {"of": pl.String, "segment": pl.String, "cluster": pl.Int64}


@dataclass(frozen=True, slots=True)
class Clusters:
    """Clusters and where each text belongs; numbers of clusters mean something within a segment only."""

    rows: pl.DataFrame
    """One row per text: `segment`; `cluster`, its number in the segment, the largest being 0; `distances`, Euclidean, to every centre of
    its segment (the nearest is its own cluster's); `anchor`, number of the nearest cluster of the segment's baselines. Null where the
    text or segment is null or blank, or the text could not be encoded; `anchor` also where the segment has no baselines."""
    clusters: pl.DataFrame
    """One row per cluster: `of` ("texts" or "baselines"), `segment`, `cluster`, `size` (rows), `theme` (list of up to three words)."""
    failed: int
    """Distinct texts that could not be encoded."""

    def features(self) -> tuple[Sequence[Column], pl.DataFrame]:
        """As columns of numbers, one row per text, null outside the segment.

        `cluster/SEGMENT/NUMBER`: 1 where the text belongs to the cluster, else 0; `anchor/...`: the same of the clusters of baselines;
        `centre/...`: the distance to the cluster's centre.
        """
        columns, values = [], []
        for of, segment, cluster, _, theme in self.clusters.iter_rows():
            about = f"{', '.join(theme) or f'cluster {cluster}'} ({segment})"
            here = pl.when(pl.col("segment") == segment)
            kind, number = ("cluster", pl.col("cluster")) if of == TEXTS else ("anchor", pl.col("anchor"))
            columns.append(Column(f"{kind}/{segment}/{cluster}", 0.0, 1.0, None, False, f"{kind.capitalize()} {about}"))
            values.append(here.then((number == cluster).cast(pl.Float64)).alias(columns[-1].name))
            if of == TEXTS:
                columns.append(Column(f"centre/{segment}/{cluster}", 0.0, 2.0, None, False, f"Distance to {about}"))
                values.append(here.then(pl.col("distances").list.get(cluster, null_on_oob=True)).alias(columns[-1].name))
        return columns, self.rows.select(values)


class _Parted(NamedTuple):
    """The distinct texts (or baselines) of one segment and their clusters."""

    numbers: NDArray[np.int64]
    """Of the texts, ascending."""
    counts: NDArray[np.int64]
    """Rows each stands in."""
    labels: NDArray[np.int64]
    centres: NDArray[np.float32]


def cluster_features(
    texts: pl.Series,
    segments: pl.Series,
    *,
    encoder: Encodes,
    k: int | Literal["silhouette"] = 3,
    seed: int = 0,
    baselines: pl.Series | None = None,
) -> Clusters:
    """Part the texts of each segment into clusters by k-means on their vectors; segments do not influence each other.

    What comes out does not depend on the order of rows. Every distinct text, word and segment name is encoded once. Where the baselines
    themselves should have values, give them among the texts too.

    Parameters
    ----------
    segments
        What each text belongs to (a concept, domain, source, ...), same length.
    k
        Clusters in a segment (fewer where fewer texts differ), or "silhouette": from 2 to 10, as many as part it best.
    baselines
        A baseline per text, same length: their clusters are the anchors texts are sorted to.

    Raises
    ------
    InputError
        `k` is no positive number, or the encoder cannot be used.
    ValueError
        The columns have different lengths.
    """
    import numpy as np

    if k != "silhouette" and k < 1:
        raise InputError(f"k={k}: a segment is parted into at least 1 cluster; give a larger number, or silhouette to have it chosen")
    if len(segments) != len(texts):
        raise ValueError(f"there are {len(segments)} segments for {len(texts)} texts")
    given = gather(texts, baselines)
    vectors = Vectors(encoder)
    points = vectors.of(given.distinct)
    unreadable = np.append(~np.isfinite(points[:, 0]), True)  # -1, no text, is the last one
    sources = {TEXTS: given.texts} | ({} if given.baselines is None else {BASELINES: given.baselines})
    numbers = {of: np.where(unreadable[one], -1, one) for of, one in sources.items()}
    names = segments.cast(pl.String).alias("segment")
    rows_of = _rows_by_segment(names)
    parted: dict[tuple[str, str], _Parted] = {}
    for of, segment in product(sources, rows_of):
        used, counts = np.unique(numbers[of][rows_of[segment]], return_counts=True)
        if (used >= 0).any():
            parted[of, segment] = _part(segment, used[used >= 0], counts[used >= 0], given.distinct, points, k, seed)
    return Clusters(
        rows=_place(names, rows_of, numbers[TEXTS], points, parted),
        clusters=_describe(parted, given.distinct, vectors),
        failed=int(unreadable.sum()) - 1,
    )


def _rows_by_segment(names: pl.Series) -> dict[str, NDArray[np.int64]]:
    """Numbers of the rows of each segment that has a name, segments in alphabetical order."""
    rows = names.to_frame().with_row_index("row").filter(pl.col("segment").str.strip_chars() != "")
    grouped = rows.group_by("segment").agg(pl.col("row").cast(pl.Int64)).sort("segment")
    return {segment: grouped["row"][place].to_numpy() for place, segment in enumerate(grouped["segment"])}


def _part(
    segment: str,
    numbers: NDArray[np.int64],
    counts: NDArray[np.int64],
    texts: Sequence[str],
    points: NDArray[np.float32],
    k: int | Literal["silhouette"],
    seed: int,
) -> _Parted:
    """Clusters of one segment, whatever the other segments are and in whatever order its texts come."""
    import numpy as np

    order = np.array(sorted(range(len(numbers)), key=lambda place: texts[int(numbers[place])]))
    drawn_by = int.from_bytes(hashlib.sha256(segment.encode()).digest()[:8], "big")
    made = partition(points[numbers[order]], counts[order].astype(np.float32), k, np.random.default_rng([seed, drawn_by]))
    labels = np.empty(len(numbers), np.int64)
    labels[order] = made.labels
    return _Parted(numbers, counts, labels, made.centres)


def _place(
    names: pl.Series,
    rows_of: Mapping[str, NDArray[np.int64]],
    numbers: NDArray[np.int64],
    points: NDArray[np.float32],
    parted: Mapping[tuple[str, str], _Parted],
) -> pl.DataFrame:
    """The table `Clusters.rows`."""
    parts = [_empty_rows()]
    for segment, rows in rows_of.items():
        if (own := parted.get((TEXTS, segment))) is None:
            continue
        rows = rows[numbers[rows] >= 0]
        place = own.numbers.searchsorted(numbers[rows])
        columns: dict[str, Any] = {"row": rows, "cluster": own.labels[place]}
        columns["distances"] = distances(points[own.numbers], own.centres)[place].tolist()
        anchors = parted.get((BASELINES, segment))
        nearest = None if anchors is None else distances(points[own.numbers], anchors.centres).argmin(axis=1)[place]
        parts.append(pl.DataFrame(columns | {"anchor": nearest}, schema=parts[0].schema))
    every = names.to_frame().with_row_index("row").with_columns(pl.col("row").cast(pl.Int64))
    return every.join(pl.concat(parts), on="row", how="left", maintain_order="left").drop("row")


def _empty_rows() -> pl.DataFrame:
    return pl.DataFrame(schema={"row": pl.Int64, "cluster": pl.Int64, "distances": pl.List(pl.Float64), "anchor": pl.Int64})


def _describe(parted: Mapping[tuple[str, str], _Parted], texts: Sequence[str], vectors: Vectors) -> pl.DataFrame:
    """The table `Clusters.clusters`."""
    import numpy as np

    parts = [pl.DataFrame(schema={**_CLUSTER, "number": pl.Int64, "count": pl.Int64})]
    for (of, segment), one in parted.items():
        columns = {"of": [of] * len(one.numbers), "segment": [segment] * len(one.numbers), "cluster": one.labels}
        parts.append(pl.DataFrame(columns | {"number": one.numbers, "count": one.counts}, schema=parts[0].schema))
    members = pl.concat(parts)
    held = words_of_clusters(texts, members.drop("count"))
    words = held["words"].explode(empty_as_null=False).unique().sort().to_list()
    segments = list(dict.fromkeys(segment for _, segment in parted))
    vectors.of([*words, *segments])
    themes = []
    for of, segment, cluster, some in held.iter_rows():
        centre, own = parted[of, segment].centres[cluster], vectors.of([segment])[0]
        themes.append(pick_theme(some, vectors.of(some), centre, np.nan_to_num(own)))
    sizes = members.group_by(list(_CLUSTER)).agg(size=pl.col("count").sum())
    told = held.drop("words").with_columns(theme=pl.Series(themes, dtype=pl.List(pl.String)))
    found = sizes.join(told, on=list(_CLUSTER), how="left").with_columns(pl.col("theme").fill_null([]))
    return found.sort(pl.col("of") != TEXTS, "segment", "cluster")
