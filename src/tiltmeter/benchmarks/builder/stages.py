"""Stages that build a benchmark from a spec: keywords, pages, sentences, prompts, replacements, branches, and the benchmark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, permutations
from pathlib import Path
from typing import Any, Literal

import polars as pl
from polars import DataFrame, String, col, lit

from tiltmeter.benchmarks.branching import Proposal, branch, find_descriptors, propose_replacements
from tiltmeter.benchmarks.builder.keywords import (
    ask_keywords,
    given_keywords,
    join_keywords,
    linked_keywords,
    nearest,
    non_containing,
    scrape,
    similar_keywords,
    without_sentences,
)
from tiltmeter.benchmarks.builder.prompts import DROPPED, continuations, questions
from tiltmeter.benchmarks.builder.sources import FoundPage, page_set, read_files, write_articles
from tiltmeter.benchmarks.builder.spec import Branch, Spec, Wikipedia, read_table
from tiltmeter.benchmarks.files import SagedTiers, read_benchmark, read_tiers, sample_benchmark
from tiltmeter.benchmarks.judge_replies import NO_ANSWER
from tiltmeter.benchmarks.tables import BENCHMARK, KEYWORDS, PAGES, SENTENCES, Schema
from tiltmeter.datasets import ENCODERS
from tiltmeter.errors import InputError, check_known
from tiltmeter.models import Encoder
from tiltmeter.schema import StageTable
from tiltmeter.study import Judge, NotRun, Settings, Stage, Tools

TEXTS: Schema = {"source": String, "text": String}
"""One row per page; paragraphs are separated by an empty line."""
REPLACEMENTS: Schema = {
    "root": String,
    "target": String,
    "old": String,
    "new": String,
    "by": String,  # "given" (in the spec), "name" (of the concept) or "judge"
}
LEFT_OUT: Schema = {"root": String, "target": String, "word": String, "reason": String}
"""Words without a counterpart from the judge, with the reason."""

LocalHosts = bool | Callable[[Sequence[str]], bool]
"""Whether hosts of this machine or its network may be asked: yes, no, or a function of the hosts, called
before the first request."""


class Builder:
    """The stages that build the benchmark of one spec.

    Parameters
    ----------
    spec
        The spec.
    home
        Folder of the spec, to which its file names are relative.
    cache
        Folder for fetched pages.
    offline
        Whether fetching pages is forbidden.
    local
        Whether pages may be fetched from hosts of this machine or its network; see `LocalHosts`.
    """

    def __init__(
        self, spec: Spec, home: Path, cache: Path, *, offline: bool = False, local: LocalHosts = False
    ) -> None:
        self._spec, self._home, self._cache, self._offline, self._local = spec, home, cache, offline, local
        self._branch = spec.branch or Branch()

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages in order; the last one produces the table `benchmark`."""
        spec, sources, assemble, domain = (
            self._spec,
            self._spec.sources,
            self._spec.assemble,
            {"domain": self._spec.domain},
        )
        given = assemble.kind == "given"
        prompt_table = StageTable(BENCHMARK, required=("key", "root", "concept", "prompt"))
        saged = self._files(sources.saged)
        keywords = Stage(
            "keywords",
            {
                "keywords": StageTable(
                    KEYWORDS, required=("concept", "keyword"), fill=domain | {"kind": "given"}
                )
            },
            (),
            self._keywords,
            asks=bool(spec.keywords.asked),
            rests_on=saged
            | self._of_spec(
                "domain", "definition", "keywords", concepts={"keywords", "wikipedia"}, sources={"wikipedia"}
            ),
        )
        pages = Stage(
            "pages",
            {
                "pages": StageTable(
                    PAGES, required=("concept", "source"), fill=domain | {"status": "ok", "depth": 0}
                ),
                "texts": StageTable(TEXTS, required=tuple(TEXTS)),
            },
            (),
            self._pages,
            asks=sources.written is not None,
            rests_on=self._files(
                *sources.local, *(name for concept in spec.sought.values() for name in concept.local)
            )
            | self._of_spec("domain", "sources", concepts={"wikipedia", "local", "urls"}),
        )
        sentences = Stage(
            "sentences",
            {"sentences": StageTable(SENTENCES, required=("concept", "sentence"), fill=domain)},
            ("keywords", "pages", "texts"),
            self._sentences,
            rests_on=saged,
        )
        prompts = Stage(
            "prompts",
            {"prompts": prompt_table, "dropped": StageTable(DROPPED, required=tuple(DROPPED))},
            () if given else ("sentences",),
            self._given_prompts if given else self._prompts,
            asks=assemble.kind == "question",
            rests_on=self._files(assemble.prompts)
            | self._of_spec("domain", "definition", "seed", "assemble"),
        )
        replacements = Stage(
            "replacements",
            {
                "replacements": StageTable(
                    REPLACEMENTS, required=("root", "target", "old", "new"), fill={"by": "given"}
                ),
                "left_out": StageTable(LEFT_OUT, required=tuple(LEFT_OUT)),
            },
            ("prompts",),
            self._replacements,
            asks=self._branch.descriptors is not None,
            rests_on=self._files(self._branch.table if isinstance(self._branch.table, str) else None)
            | self._of_spec("branch"),
        )
        branches = Stage(
            "branches",
            {"branches": prompt_table},
            ("prompts", "replacements"),
            self._branches,
            rests_on=self._of_spec(branch={"counterfactual_baseline"}),
        )
        benchmark = Stage(
            "benchmark",
            {"benchmark": prompt_table},
            ("branches" if spec.branch else "prompts",),
            lambda table, settings, tools: table,
        )
        found = () if given else (keywords, pages, sentences)
        return (*found, prompts, *((replacements, branches) if spec.branch else ()), benchmark)

    def _of_spec(self, *keys: str, concepts: Iterable[str] = (), **inside: set[str]) -> dict[str, Any]:
        """Return these keys of the spec; for some keys, only the named fields."""
        include: Any = {
            **dict.fromkeys(keys, True),
            **inside,
            "concepts": {"__all__": {"only_branched", *concepts}},
        }
        return self._spec.model_dump(include=include)

    def _files(self, *names: str | None) -> dict[str, Any]:
        """Return size and modification time of the named files, and of the files in named folders, to detect changes without reading."""
        found: dict[str, Any] = {}
        for path in {self._home / name for name in names if name}:
            inside = sorted(path.rglob("*")) if path.is_dir() else [path]
            found[str(path.relative_to(self._home) if path.is_relative_to(self._home) else path)] = [
                [str(one.relative_to(path)), one.stat().st_size, one.stat().st_mtime_ns]
                for one in inside
                if one.is_file()
            ]
        return {"files": dict(sorted(found.items()))}

    def _in_order(self, table: DataFrame) -> DataFrame:
        """Set the spec's domain and sort the table in the order of the spec's concepts."""
        order = pl.Enum(list(self._spec.concepts))
        ordered = table.sort(col.concept.cast(order, strict=False), maintain_order=True, nulls_last=True)
        return ordered.with_columns(domain=lit(self._spec.domain))

    def _check_concepts(self, path: Path, table: DataFrame) -> None:
        """Raise InputError if a file has a concept that is not in the spec."""
        for concept in table["concept"].unique(maintain_order=True):
            check_known(
                concept,
                self._spec.concepts,
                f"{path} has rows about {concept!r}, which is not a concept of the spec",
            )

    def _without_rows(self, table: DataFrame) -> str | None:
        """Return the first concept that needs its own prompts and has no row in the table; None if there is none."""
        return next((concept for concept in self._spec.sought if concept not in table["concept"]), None)

    def _judge(self, tools: Tools, key: str) -> Judge:
        """Return the judge, needed for a key of the spec; raises InputError if there is none."""
        if tools.judge is None:
            raise InputError(
                f"{key} requires a judge; give one with --judge PROVIDER/NAME, or remove {key} from the spec"
            )
        return tools.judge

    def _encoder(self, tools: Tools, key: str) -> Encoder:
        """Return the sentence encoder, needed for a key of the spec.

        Raises InputError if it is not available.
        """
        try:
            return tools.encoder(ENCODERS[0])
        except NotRun as reason:
            raise InputError(f"{key} requires a sentence encoder: {reason}") from None

    def _check_online(self, key: str) -> None:
        """Raise InputError if pages must be fetched although fetching is forbidden."""
        if self._offline:
            raise InputError(
                f"{key} requires network access, which --offline forbids; build once without it (stages are reused), "
                f"or remove {key} from the spec"
            )

    def _allowed_hosts(self, key: str, urls: Iterable[str]) -> list[str]:
        """Return the hosts of the URLs that are on this machine or its network.

        Raises InputError if they may not be read.
        """
        from tiltmeter.benchmarks.builder.addresses import local_hosts  # requires an extra

        hosts = local_hosts(urls)
        if not hosts:
            return []
        if callable(self._local):
            self._local = self._local(hosts)
        if not self._local:
            raise InputError(
                f"{key} names {', '.join(hosts)}, on this machine or its network; add --local (in Python local=True) to read pages there, "
                "or remove the address from the spec"
            )
        return hosts

    # Keywords, pages and sentences

    def _saged(self) -> SagedTiers | None:
        """Read keywords and sentences from the SAGED file of the spec."""
        if self._spec.sources.saged is None:
            return None
        path = self._home / self._spec.sources.saged
        tiers = read_tiers(path)
        self._check_concepts(path, tiers.keywords)
        return tiers

    def _keywords(self, settings: Settings, tools: Tools) -> DataFrame:
        """Collect keywords from the spec, the SAGED file, the judge and pages.

        Concepts without any get their own name.

        Given keywords are kept unchanged. Of the others, those that contain another keyword are removed, and
        the most similar are kept.
        """
        spec, saged = self._spec, self._saged()
        given = given_keywords({name: concept.keywords for name, concept in spec.sought.items()})
        given = join_keywords(given, *([saged.keywords] if saged else []))
        found = self._further_keywords(tools)
        if not found.is_empty():
            reduced = non_containing(join_keywords(given, found), spec.definition).filter(col.kind != "given")
            found = nearest(reduced, spec.keywords.keep, self._encoder(tools, "keywords.keep"))
        whole = join_keywords(given, found)
        with_any = set(whole["concept"])
        own_names = given_keywords({name: [name] for name in spec.sought if name not in with_any})
        return self._in_order(join_keywords(whole, own_names))

    def _further_keywords(self, tools: Tools) -> DataFrame:
        spec, wanted, found = self._spec, self._spec.keywords, []
        if wanted.asked:
            judge = self._judge(tools, "keywords.asked")
            asked = ask_keywords(
                judge,
                list(spec.sought),
                domain=spec.domain,
                rounds=wanted.rounds,
                kinds=wanted.asked,
                definition=spec.definition,
            )
            _report_unanswered(tools, "keywords", asked.unanswered)
            found.append(asked.keywords)
        if wanted.similar or wanted.linked:
            wiki = spec.sources.wikipedia or Wikipedia()
            own = page_set(self._wiki_pages(tools, wiki.model_copy(update={"depth": 0})))
            if wanted.similar:
                spare = max(
                    len(concept.keywords) for concept in spec.sought.values()
                )  # the most similar words may be given keywords
                found.append(
                    similar_keywords(
                        own, n=wanted.keep + spare, encoder=self._encoder(tools, "keywords.similar")
                    )
                )
            if wanted.linked:
                found.append(linked_keywords(own))
            _report_failed_pages(tools, "keywords", own.pages)
        return join_keywords(*found)

    def _wiki_pages(self, tools: Tools, wiki: Wikipedia) -> list[FoundPage]:
        from tiltmeter.benchmarks.builder.web import Manners, collect_pages  # requires an extra

        self._check_online("sources.wikipedia")
        titles = {name: concept.wikipedia or [name] for name, concept in self._spec.sought.items()}
        encoder = self._encoder(tools, "sources.wikipedia.pages") if wiki.depth else None
        allowed = self._allowed_hosts("sources.wikipedia.api", [wiki.api])
        manners = Manners(rate=wiki.rate, contact=wiki.contact, local=allowed)
        return collect_pages(titles, wiki, cache=self._cache, encoder=encoder, manners=manners)

    def _pages(self, settings: Settings, tools: Tools) -> dict[str, DataFrame]:
        """Collect files, web pages, wiki pages and written articles of all concepts, with their texts."""
        spec, sources = self._spec, self._spec.sources
        files = {name: [*concept.local, *sources.local] for name, concept in spec.sought.items()}
        found = read_files(files, licence=sources.licence, home=self._home)
        urls = {name: [*concept.urls, *sources.urls] for name, concept in spec.sought.items()}
        if any(urls.values()):
            from tiltmeter.benchmarks.builder.web import Manners, read_urls

            self._check_online("sources.urls")
            allowed = self._allowed_hosts("sources.urls", chain.from_iterable(urls.values()))
            found += read_urls(
                urls, cache=self._cache, licence=sources.licence, manners=Manners(local=allowed)
            )
        if sources.wikipedia is not None:
            found += self._wiki_pages(tools, sources.wikipedia)
        if sources.written is not None:
            judge = self._judge(tools, "sources.written")
            found += write_articles(judge, list(spec.sought), domain=spec.domain, words=sources.written.words)
        joined = page_set(found)
        _report_failed_pages(tools, "pages", joined.pages)
        return {
            "pages": self._in_order(joined.pages),
            "texts": DataFrame([*joined.texts.items()], schema=TEXTS, orient="row"),
        }

    def _sentences(
        self, keywords: DataFrame, pages: DataFrame, texts: DataFrame, settings: Settings, tools: Tools
    ) -> DataFrame:
        """Find the sentences with a keyword and add those of SAGED.

        Report concepts and keywords without sentences.
        """
        found, saged = scrape(pages, dict(texts.iter_rows()), keywords), self._saged()
        if saged is not None:
            found = pl.concat([found, saged.sentences]).unique(
                ["concept", "sentence"], keep="first", maintain_order=True
            )
        elif not pages.is_empty():
            for sentence in without_sentences(pages, keywords, found):
                tools.problem(f"sentences: {sentence}", final=True)
        return self._in_order(found)

    # Prompts

    def _prompts(self, sentences: DataFrame, settings: Settings, tools: Tools) -> dict[str, DataFrame]:
        """Make continuations or questions from the sentences, sample them to the requested size, and list dropped sentences."""
        spec = self._spec
        if (lacking := self._without_rows(sentences)) is not None:
            raise InputError(
                f"the concept {lacking!r} has no sentences; add keywords or sources, or remove the concept"
            )
        if spec.assemble.kind == "question":
            judge = self._judge(tools, "assemble.kind: question")
            made, dropped = questions(
                sentences, judge, check=spec.assemble.check, tried_with=[*spec.sought, *spec.concepts]
            )
            _report_unanswered(tools, "prompts", dropped.filter(col.reason.str.starts_with(NO_ANSWER)).height)
        else:
            made, dropped = continuations(sentences, definition=spec.definition)
            if spec.assemble.with_keyword:
                kept = col.keyword_in_prompt.fill_null(True)
                cut = made.filter(~kept).with_columns(
                    sentence="baseline", reason=lit("the keyword is after the cut")
                )
                made, dropped = made.filter(kept), pl.concat([dropped, cut.select(list(DROPPED))])
                if (lost := self._without_rows(made)) is not None:
                    raise InputError(
                        f"no prompt about {lost!r} contains its keyword; set assemble.with_keyword to false, add sources, "
                        "or remove the concept"
                    )
        return {"prompts": self._sized(made), "dropped": dropped}

    def _given_prompts(self, settings: Settings, tools: Tools) -> dict[str, DataFrame]:
        """Read the user's own prompts."""
        path = self._home / str(self._spec.assemble.prompts)
        table = read_benchmark(path)
        self._check_concepts(path, table)
        if (lacking := self._without_rows(table)) is not None:
            raise InputError(
                f"{path} has no prompt about the concept {lacking!r}; add prompts, or remove the concept from the spec"
            )
        table = table.with_columns(col.domain.fill_null(self._spec.domain))
        return {"prompts": self._sized(table), "dropped": DataFrame(schema=DROPPED)}

    def _sized(self, benchmark: DataFrame) -> DataFrame:
        size = self._spec.assemble.size
        return benchmark if size is None else sample_benchmark(benchmark, size, seed=self._spec.seed)

    # Branches

    def _replacements(self, prompts: DataFrame, settings: Settings, tools: Tools) -> dict[str, DataFrame]:
        """Collect the replacements of each branch: those of the spec, or else the concepts' names, and the proposals of the judge."""
        asked, with_prompts = self._branch, set(prompts["concept"])
        read = read_table(self._home / asked.table) if isinstance(asked.table, str) else asked.table or {}
        given = {(root, target): words for root, targets in read.items() for target, words in targets.items()}
        if asked.pairs == "all":
            pairs = list(given) or [
                pair for pair in permutations(self._spec.concepts, 2) if pair[0] in with_prompts
            ]
        else:
            pairs = [(root, target) for root, target in asked.pairs]
            for root, _ in pairs:
                check_known(root, sorted(with_prompts), f"branch.pairs: no prompt is about {root!r}")
        both = asked.direction == "both"
        wanted = pairs + [pair[::-1] for pair in pairs if both and pair[::-1] in given]
        rows = [(*pair, *words, "given") for pair in wanted for words in given.get(pair, {}).items()]
        rows += [(*pair, *pair, "name") for pair in pairs if pair not in given]
        proposals = (
            []
            if asked.descriptors is None
            else list(self._proposals(asked.descriptors.threshold, pairs, prompts, tools))
        )
        rows += [(*pair, *words, "judge") for pair, proposal in proposals for words in proposal.words.items()]
        left_out = [(*pair, *word) for pair, proposal in proposals for word in proposal.left_out.items()]
        table = DataFrame(rows, schema=REPLACEMENTS, orient="row").unique(
            ["root", "target", "old"], keep="first", maintain_order=True
        )
        if both:
            back = table.select(root="target", target="root", old="new", new="old", by="by").join(
                table, on=["root", "target"], how="anti"
            )
            unclear = back.filter(pl.struct("root", "target", col.old.str.to_lowercase()).is_duplicated())
            for root, target, old in unclear.select("root", "target", "old").head(1).iter_rows():
                raise InputError(
                    f"branch: for {root}, several words about {target} are replaced by {old!r}, so the reverse replacement of {old!r} is "
                    "ambiguous; add a table for the other direction"
                )
            table = pl.concat([table, back])
        return {"replacements": table, "left_out": DataFrame(left_out, schema=LEFT_OUT, orient="row")}

    def _proposals(
        self,
        threshold: float | Literal["auto"],
        pairs: list[tuple[str, str]],
        prompts: DataFrame,
        tools: Tools,
    ) -> Iterator[tuple[tuple[str, str], Proposal]]:
        """Yield the judge's proposals for each pair of root and target."""
        judge, encoder = self._judge(tools, "branch.descriptors"), self._encoder(tools, "branch.descriptors")
        for root in dict.fromkeys(root for root, _ in pairs):
            mine = prompts.filter(concept=root)
            texts = pl.concat(
                [mine["prompt"], *([mine["baseline"]] if self._branch.counterfactual_baseline else [])]
            )
            words = find_descriptors(
                texts, root, encoder, judge, threshold=None if threshold == "auto" else threshold
            )
            for pair in (pair for pair in pairs if pair[0] == root and words):
                yield pair, propose_replacements(words, *pair, judge)

    def _branches(
        self, prompts: DataFrame, replacements: DataFrame, settings: Settings, tools: Tools
    ) -> DataFrame:
        """Add branches to the prompts.

        Report branches without replacements and branches that still name the root.
        """
        table: dict[str, dict[str, dict[str, str]]] = {}
        for root, target, old, new in replacements.select("root", "target", "old", "new").iter_rows():
            table.setdefault(root, {}).setdefault(target, {})[old] = new
        made = branch(prompts, table, counterfactual_baseline=self._branch.counterfactual_baseline)
        for root, target, rows, unchanged, still_named in made.report.iter_rows():
            if unchanged:
                problem = f"{unchanged:,} of {rows:,} prompts about {root} are the same for {target}: no word was replaced"
                tools.problem(f"branches: {problem}", final=True)
            if still_named:
                problem = f"{still_named:,} of {rows:,} prompts about {target} still name {root}; add the missing words to the table"
                tools.problem(f"branches: {problem}", final=True)
        return made.benchmark


def _report_unanswered(tools: Tools, stage: str, number: int) -> None:
    """Report questions without an answer."""
    if number:
        tools.problem(
            f"{stage}: {number:,} questions to the judge failed; run the same command again to retry them"
        )


def _report_failed_pages(tools: Tools, stage: str, pages: DataFrame) -> None:
    """Report pages that could not be fetched or read, which may succeed later, and pages that were read in part."""
    failed = pages.filter(status="failed")
    cut = pages.filter(col.status == "ok", col.problem.is_not_null()).unique("source", maintain_order=True)
    for found, what, more in (
        (failed, "read", "; run the same command again to retry them"),
        (cut, "read completely", ""),
    ):
        for source, problem in found.select("source", "problem").head(1).iter_rows():
            sentence = f"{stage}: {found.height:,} of {pages.height:,} pages could not be {what}, such as {source} ({problem}){more}"
            tools.problem(sentence, final=not more)
