"""The files SAGED itself writes: JSON up to the sentences (its tiers keywords, source_finder, scraped_sentences), CSV from there on.

A JSON tier is an object, or a list of objects, with `category` (or `concept`: the compared group), `domain` and `keywords`, a mapping
of each keyword to what is known of it: `scraped_sentences`, a list of `[sentence, source_tag]`, and `targeted_source`, a list of
sources; `category_shared_source` holds the sources of the whole concept. `prompts` of a keyword, where somebody wrote them there, are
prompts of a benchmark. The CSV tiers (split_sentences, questions) are benchmarks with other names of columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from tiltmeter.benchmarks._tables import KEYWORDS, SENTENCES
from tiltmeter.benchmarks.files._raw import load_json
from tiltmeter.errors import InputError

__all__ = ["Tiers", "is_tier", "paired", "read_tiers", "tier_prompts"]

SOURCES = {
    "domain": pl.String,
    "concept": pl.String,
    "keyword": pl.String,  # null: for all keywords of the concept
    "source_tag": pl.String,
    "source_type": pl.String,  # "local_paths", "wiki_urls", "general_links" or "unknown"
    "source": pl.String,
}
_BRANCH_TAG = r"^br_(.*)_cat_(.*)$"
"""How SAGED marks a branch: its root's source tag and concept, written into its own source tag."""


class Tiers(NamedTuple):
    """What a JSON tier of SAGED holds."""

    keywords: pl.DataFrame
    """Columns KEYWORDS."""
    sentences: pl.DataFrame
    """Columns SENTENCES; `source` is null, since SAGED does not keep where a sentence was found."""
    sources: pl.DataFrame
    """Columns domain, concept, keyword, source_tag, source_type, source."""


def is_tier(loaded: object) -> bool:
    """Whether this is the content of one of SAGED's JSON files."""
    items = [loaded] if isinstance(loaded, dict) else loaded
    return isinstance(items, list) and bool(items) and all(isinstance(item, dict) and "keywords" in item for item in items)


def read_tiers(path: str | Path) -> Tiers:
    """Keywords, sentences and sources of one of SAGED's JSON files.

    Raises
    ------
    InputError
        It is no such file, or a value in it is not of its kind; the message names item and keyword.
    """
    path = Path(path)
    loaded = load_json(path)
    if not is_tier(loaded):
        raise InputError(f"{path} is no file of SAGED's: its objects need the keys 'category', 'domain' and 'keywords'")
    keywords: list[dict[str, Any]] = []
    sentences: list[dict[str, Any]] = []
    sources: list[dict[str, Any]] = []
    for own, item in _items(path, loaded):
        sources += _sources(path, own | {"keyword": None}, item.get("category_shared_source"))
        for keyword, known, place in _keywords(path, own, item):
            mine = own | {"keyword": keyword}
            keywords.append(mine | {"kind": "given", "similarity": None})
            sources += _sources(path, mine, known.get("targeted_source"))
            found = _list(known.get("scraped_sentences"), place, "scraped_sentences")
            for number, one in enumerate(found):
                sentence, tag = _tagged(one, f"{place}: sentence {number + 1}")
                sentences.append(mine | {"sentence": sentence, "source_tag": tag, "position": number, "source": None, "licence": None})
    return Tiers(
        pl.DataFrame(keywords, schema=dict(KEYWORDS)),
        pl.DataFrame(sentences, schema=dict(SENTENCES)),
        pl.DataFrame(sources, schema=SOURCES),
    )


def tier_prompts(path: Path, loaded: object) -> list[dict[str, Any]]:
    """Rows of the prompts that stand under keywords; raises InputError where there are sentences or keywords only."""
    rows = []
    for own, item in _items(path, loaded):
        for keyword, known, place in _keywords(path, own, item):
            for number, one in enumerate(_list(known.get("prompts"), place, "prompts")):
                prompt, tag = _tagged(one, f"{place}: prompt {number + 1}")
                rows.append(own | {"keyword": keyword, "prompt": prompt, "source_tag": tag})
    if not rows:
        raise InputError(
            f"{path} holds keywords or sentences of SAGED's, but no prompts yet; name it under 'saged' in a spec "
            "and make prompts of it with tiltmeter build"
        )
    return rows


def paired(table: pl.DataFrame) -> pl.DataFrame:
    """A table of SAGED's with its branches tied to their roots: `branched_from`, and `root` where it can be told.

    SAGED notes the root's concept only, in the source tag. A branch's rows stand together and in the order of the roots they were
    made from, so the n-th of a block belongs to the n-th root, if there are as many; in a shuffled or sampled file nobody can tell,
    and each row is then its own root.
    """
    tagged = table.drop("root").with_columns(
        branched_from=pl.col("source_tag").str.extract(_BRANCH_TAG, 2),
        source_tag=_root_tag(),
        key=(pl.int_range(pl.len()) + 1).cast(pl.String),
    )
    is_root = pl.col("branched_from").is_null()
    # SAGED lower-cases the names of branches: a concept keeps the name its roots have.
    names = tagged.filter(is_root).select("concept", folded=pl.col("concept").str.to_lowercase()).unique("folded", keep="first")
    named = tagged.with_columns(folded=pl.col("concept").str.to_lowercase()).join(
        names.rename({"concept": "name"}), on="folded", how="left", maintain_order="left"
    )
    blocks = named.with_columns(
        concept=pl.coalesce("name", "concept"), block=pl.struct("branched_from", "concept", "source_tag").rle_id()
    ).with_columns(turn=pl.int_range(pl.len()).over("branched_from", "concept", "source_tag"))
    group = ("branched_from", "concept", "source_tag")
    sizes = {"size": pl.len().over(group), "whole": pl.col("block").n_unique().over(group) == 1}
    blocks = blocks.with_columns(**sizes)
    roots = blocks.filter(is_root).select(pl.col("concept").alias("branched_from"), "source_tag", "turn", "size", "whole", root="key")
    tied = blocks.join(roots, on=["branched_from", "source_tag", "turn", "size"], how="left", maintain_order="left", suffix="_of_root")
    sure = pl.col("whole") & pl.col("whole_of_root")
    tag = pl.concat_str(pl.lit("branch of "), "branched_from", pl.lit(": "), "source_tag")  # as in a branch made here
    return tied.with_columns(root=pl.when(sure).then("root").otherwise("key"), source_tag=pl.coalesce(tag, "source_tag")).drop(
        "folded", "name", "block", "turn", "size", "whole", "whole_of_root"
    )


def _root_tag() -> pl.Expr:
    return pl.coalesce(pl.col("source_tag").str.extract(_BRANCH_TAG, 1), "source_tag")


def _items(path: Path, loaded: object) -> Iterator[tuple[dict[str, Any], Mapping[str, Any]]]:
    for number, item in enumerate(loaded if isinstance(loaded, list) else [loaded], 1):
        concept = item.get("concept") or item.get("category")
        if not isinstance(concept, str) or not concept.strip():
            raise InputError(f"{path}: item {number} has neither 'category' nor 'concept'; name the group its keywords belong to")
        domain = _text(item.get("domain"), f"{path}: item {number}", "domain")
        yield {"domain": domain, "concept": concept.strip()}, item


def _keywords(path: Path, own: Mapping[str, Any], item: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    given = item["keywords"]
    if isinstance(given, list):
        given = {one: {} for one in given if isinstance(one, str)}
    if not isinstance(given, dict):
        raise InputError(f"{path}: keywords of {own['concept']} must be a mapping of keywords, found {str(given)[:60]}")
    for keyword, known in given.items():
        yield keyword, known if isinstance(known, dict) else {}, f"{path}: {own['concept']}, keyword {keyword!r}"


def _sources(path: Path, own: Mapping[str, Any], given: object) -> list[dict[str, Any]]:
    found = []
    for one in _list(given, f"{path}: {own['concept']}", "sources"):
        if not isinstance(one, dict):
            raise InputError(f"{path}: {own['concept']}: a source must be an object with 'source_tag' and 'source_specification'")
        about = {key: _text(one.get(key), f"{path}: {own['concept']}", key) for key in ("source_tag", "source_type")}
        found += [
            {**own, **about, "source": str(place)} for place in _list(one.get("source_specification"), f"{path}", "source_specification")
        ]
    return found


def _list(given: object, place: str, what: str) -> Sequence[Any]:
    if given is None:
        return []
    if not isinstance(given, list):
        raise InputError(f"{place}: {what} must be a list, found {str(given)[:60]}")
    return given


def _text(given: object, place: str, what: str) -> str | None:
    if given is not None and not isinstance(given, str):
        raise InputError(f"{place}: {what} must be a text, found {str(given)[:60]}")
    return given


def _tagged(one: object, place: str) -> tuple[str, str | None]:
    """A text, alone or with the tag of its source."""
    if isinstance(one, str):
        return one, None
    if isinstance(one, list) and 1 <= len(one) <= 2 and all(isinstance(part, str) for part in one):
        return one[0], one[1] if len(one) == 2 else None
    raise InputError(f"{place} must be a text or [text, source tag], found {str(one)[:60]}")
