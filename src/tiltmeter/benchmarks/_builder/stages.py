"""Stages that build a benchmark from a spec.

They are keywords, pages, sentences, prompts, replacements, branches, and the benchmark.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, permutations
from pathlib import Path
from typing import Any, Literal

import polars as pl
from polars import DataFrame, String, col, lit

from tiltmeter.benchmarks._branching import Proposal, branch, find_descriptors, propose_replacements
from tiltmeter.benchmarks._builder.keywords import (
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
from tiltmeter.benchmarks._builder.prompts import DROPPED, Assembled, continuations, questions
from tiltmeter.benchmarks._builder.sources import FoundPage, page_set, read_files, write_articles
from tiltmeter.benchmarks._builder.spec import Branch, Spec, Wikipedia, read_table
from tiltmeter.benchmarks._files import SagedTiers, read_benchmark, read_tiers, sample_benchmark
from tiltmeter.benchmarks._judge_replies import NO_ANSWER
from tiltmeter.benchmarks._tables import BENCHMARK, KEYWORDS, PAGES, SENTENCES, Schema
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

_PROMPT_TABLE = StageTable(BENCHMARK, required=("key", "root", "concept", "prompt"))
_DROPPED_BY_CUT = "the keyword is after the cut"
_Pair = tuple[str, str]
"""A root and a target of branching."""

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
        self._spec = spec
        self._home = home
        self._cache = cache
        self._offline = offline
        self._local = local
        self._branch = spec.branch or Branch()

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages in order; the last one produces the table `benchmark`."""
        stages: list[Stage] = []
        if self._spec.assemble.kind != "given":
            stages += [self._stage_keywords(), self._stage_pages(), self._stage_sentences()]
        stages.append(self._stage_prompts())
        if self._spec.branch:
            stages += [self._stage_replacements(), self._stage_branches()]
        stages.append(
            Stage(
                "benchmark",
                {"benchmark": _PROMPT_TABLE},
                ("branches" if self._spec.branch else "prompts",),
                lambda table, settings, tools: table,
            )
        )
        return tuple(stages)

    def _stage_keywords(self) -> Stage:
        domain = {"domain": self._spec.domain}
        table = StageTable(KEYWORDS, required=("concept", "keyword"), fill=domain | {"kind": "given"})
        of_spec = self._of_spec(
            "domain", "definition", "keywords", concepts={"keywords", "wikipedia"}, sources={"wikipedia"}
        )
        return Stage(
            "keywords",
            {"keywords": table},
            (),
            self._keywords,
            asks=bool(self._spec.keywords.asked),
            rests_on=self._files(self._spec.sources.saged) | of_spec,
        )

    def _stage_pages(self) -> Stage:
        sources = self._spec.sources
        defaults = {"domain": self._spec.domain, "status": "ok", "depth": 0}
        files_of_concepts = chain.from_iterable(concept.local for concept in self._spec.sought.values())
        files = self._files(*sources.local, *files_of_concepts)
        return Stage(
            "pages",
            {
                "pages": StageTable(PAGES, required=("concept", "source"), fill=defaults),
                "texts": StageTable(TEXTS, required=tuple(TEXTS)),
            },
            (),
            self._pages,
            asks=sources.written is not None,
            rests_on=files | self._of_spec("domain", "sources", concepts={"wikipedia", "local", "urls"}),
        )

    def _stage_sentences(self) -> Stage:
        domain = {"domain": self._spec.domain}
        return Stage(
            "sentences",
            {"sentences": StageTable(SENTENCES, required=("concept", "sentence"), fill=domain)},
            ("keywords", "pages", "texts"),
            self._sentences,
            rests_on=self._files(self._spec.sources.saged),
        )

    def _stage_prompts(self) -> Stage:
        assemble = self._spec.assemble
        of_spec = self._of_spec("domain", "definition", "seed", "assemble")
        are_given = assemble.kind == "given"
        return Stage(
            "prompts",
            {"prompts": _PROMPT_TABLE, "dropped": StageTable(DROPPED, required=tuple(DROPPED))},
            () if are_given else ("sentences",),
            self._given_prompts if are_given else self._prompts,
            asks=assemble.kind == "question",
            rests_on=self._files(assemble.prompts) | of_spec,
        )

    def _stage_replacements(self) -> Stage:
        required = ("root", "target", "old", "new")
        file = self._branch.table if isinstance(self._branch.table, str) else None
        return Stage(
            "replacements",
            {
                "replacements": StageTable(REPLACEMENTS, required=required, fill={"by": "given"}),
                "left_out": StageTable(LEFT_OUT, required=tuple(LEFT_OUT)),
            },
            ("prompts",),
            self._replacements,
            asks=self._branch.descriptors is not None,
            rests_on=self._files(file) | self._of_spec("branch"),
        )

    def _stage_branches(self) -> Stage:
        return Stage(
            "branches",
            {"branches": _PROMPT_TABLE},
            ("prompts", "replacements"),
            self._branches,
            rests_on=self._of_spec(branch={"counterfactual_baseline"}),
        )

    def _of_spec(self, *keys: str, concepts: Iterable[str] = (), **inside: set[str]) -> dict[str, Any]:
        """Return these keys of the spec; for some keys, only the named fields."""
        include: Any = dict.fromkeys(keys, True)
        include |= inside
        include["concepts"] = {"__all__": {"only_branched", *concepts}}
        return self._spec.model_dump(include=include)

    def _files(self, *names: str | None) -> dict[str, Any]:
        """Return size and modification time of the named files, and of the files in named folders.

        Changes are detected by these, without reading the files.
        """
        states: dict[str, Any] = {}
        for path in {self._home / name for name in names if name}:
            name = path.relative_to(self._home) if path.is_relative_to(self._home) else path
            paths = sorted(path.rglob("*")) if path.is_dir() else [path]
            files = [file for file in paths if file.is_file()]
            states[str(name)] = [
                [str(file.relative_to(path)), file.stat().st_size, file.stat().st_mtime_ns] for file in files
            ]
        return {"files": dict(sorted(states.items()))}

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
        """Return the first concept that needs prompts and has no row in the table; None if there is none."""
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
                f"{key} requires network access, which --offline forbids; "
                f"build once without it (stages are reused), or remove {key} from the spec"
            )

    def _allowed_hosts(self, key: str, urls: Iterable[str]) -> list[str]:
        """Return the hosts of the URLs that are on this machine or its network.

        Raises InputError if they may not be read.
        """
        from tiltmeter.benchmarks._builder.addresses import local_hosts  # requires an extra

        hosts = local_hosts(urls)
        if not hosts:
            return []
        if callable(self._local):
            self._local = self._local(hosts)
        if not self._local:
            raise InputError(
                f"{key} names {', '.join(hosts)}, on this machine or its network; "
                "add --local (in Python local=True) to read pages there, or remove the address from the spec"
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
        spec = self._spec
        from_spec = given_keywords({name: concept.keywords for name, concept in spec.sought.items()})
        saged = self._saged()
        if saged is not None:
            from_spec = join_keywords(from_spec, saged.keywords)
        collected = self._collected_keywords(tools)
        if not collected.is_empty():
            reduced = non_containing(join_keywords(from_spec, collected), spec.definition)
            reduced = reduced.filter(col.kind != "given")
            collected = nearest(reduced, spec.keywords.keep, self._encoder(tools, "keywords.keep"))
        keywords = join_keywords(from_spec, collected)
        with_keywords = set(keywords["concept"])
        names = given_keywords({name: [name] for name in spec.sought if name not in with_keywords})
        return self._in_order(join_keywords(keywords, names))

    def _collected_keywords(self, tools: Tools) -> DataFrame:
        """Collect keywords from the judge and from the pages of the concepts, as the spec says."""
        spec = self._spec
        settings = spec.keywords
        tables = []
        if settings.asked:
            from_judge = ask_keywords(
                self._judge(tools, "keywords.asked"),
                list(spec.sought),
                domain=spec.domain,
                rounds=settings.rounds,
                kinds=settings.asked,
                definition=spec.definition,
            )
            _report_unanswered(tools, "keywords", from_judge.unanswered)
            tables.append(from_judge.keywords)
        if settings.similar or settings.linked:
            wiki = spec.sources.wikipedia or Wikipedia()
            pages = page_set(self._wiki_pages(tools, wiki.model_copy(update={"depth": 0})))
            if settings.similar:
                # The most similar words may be keywords of the spec.
                spare = max(len(concept.keywords) for concept in spec.sought.values())
                encoder = self._encoder(tools, "keywords.similar")
                tables.append(similar_keywords(pages, n=settings.keep + spare, encoder=encoder))
            if settings.linked:
                tables.append(linked_keywords(pages))
            _report_failed_pages(tools, "keywords", pages.pages)
        return join_keywords(*tables)

    def _wiki_pages(self, tools: Tools, wiki: Wikipedia) -> list[FoundPage]:
        from tiltmeter.benchmarks._builder.web import Manners, collect_pages  # requires an extra

        self._check_online("sources.wikipedia")
        titles = {name: concept.wikipedia or [name] for name, concept in self._spec.sought.items()}
        encoder = self._encoder(tools, "sources.wikipedia.pages") if wiki.depth else None
        allowed = self._allowed_hosts("sources.wikipedia.api", [wiki.api])
        manners = Manners(rate=wiki.rate, contact=wiki.contact, local=allowed)
        return collect_pages(titles, wiki, cache=self._cache, encoder=encoder, manners=manners)

    def _pages(self, settings: Settings, tools: Tools) -> dict[str, DataFrame]:
        """Collect files, web pages, wiki pages and written articles of all concepts, with their texts."""
        spec = self._spec
        sources = spec.sources
        files = {name: [*concept.local, *sources.local] for name, concept in spec.sought.items()}
        pages = read_files(files, licence=sources.licence, home=self._home)
        urls = {name: [*concept.urls, *sources.urls] for name, concept in spec.sought.items()}
        if any(urls.values()):
            from tiltmeter.benchmarks._builder.web import Manners, read_urls

            self._check_online("sources.urls")
            manners = Manners(local=self._allowed_hosts("sources.urls", chain.from_iterable(urls.values())))
            pages += read_urls(urls, cache=self._cache, licence=sources.licence, manners=manners)
        if sources.wikipedia is not None:
            pages += self._wiki_pages(tools, sources.wikipedia)
        if sources.written is not None:
            judge = self._judge(tools, "sources.written")
            pages += write_articles(judge, list(spec.sought), domain=spec.domain, words=sources.written.words)
        joined = page_set(pages)
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
        sentences = scrape(pages, dict(texts.iter_rows()), keywords)
        saged = self._saged()
        if saged is not None:
            sentences = pl.concat([sentences, saged.sentences])
            sentences = sentences.unique(["concept", "sentence"], keep="first", maintain_order=True)
        elif not pages.is_empty():
            for problem in without_sentences(pages, keywords, sentences):
                tools.problem(f"sentences: {problem}", final=True)
        return self._in_order(sentences)

    # Prompts

    def _prompts(self, sentences: DataFrame, settings: Settings, tools: Tools) -> dict[str, DataFrame]:
        """Make prompts from the sentences, sample them to the requested size, and list dropped sentences."""
        spec = self._spec
        concept = self._without_rows(sentences)
        if concept is not None:
            raise InputError(
                f"the concept {concept!r} has no sentences; add keywords or sources, or remove the concept"
            )
        if spec.assemble.kind == "question":
            judge = self._judge(tools, "assemble.kind: question")
            concepts = [*spec.sought, *spec.concepts]
            assembled = questions(sentences, judge, check=spec.assemble.check, tried_with=concepts)
            unanswered = assembled.dropped.filter(col.reason.str.starts_with(NO_ANSWER))
            _report_unanswered(tools, "prompts", unanswered.height)
        else:
            assembled = continuations(sentences, definition=spec.definition)
            if spec.assemble.with_keyword:
                assembled = self._with_keyword(assembled)
        return {"prompts": self._sized(assembled.benchmark), "dropped": assembled.dropped}

    def _with_keyword(self, assembled: Assembled) -> Assembled:
        """Drop the prompts that do not contain their keyword; raises InputError if a concept loses all."""
        has_keyword = col.keyword_in_prompt.fill_null(True)
        prompts = assembled.benchmark.filter(has_keyword)
        concept = self._without_rows(prompts)
        if concept is not None:
            raise InputError(
                f"no prompt about {concept!r} contains its keyword; "
                "set assemble.with_keyword to false, add sources, or remove the concept"
            )
        without = assembled.benchmark.filter(~has_keyword)
        without = without.with_columns(sentence="baseline", reason=lit(_DROPPED_BY_CUT))
        return Assembled(prompts, pl.concat([assembled.dropped, without.select(list(DROPPED))]))

    def _given_prompts(self, settings: Settings, tools: Tools) -> dict[str, DataFrame]:
        """Read the user's own prompts."""
        path = self._home / str(self._spec.assemble.prompts)
        table = read_benchmark(path)
        self._check_concepts(path, table)
        concept = self._without_rows(table)
        if concept is not None:
            raise InputError(
                f"{path} has no prompt about the concept {concept!r}; "
                "add prompts, or remove the concept from the spec"
            )
        table = table.with_columns(col.domain.fill_null(self._spec.domain))
        return {"prompts": self._sized(table), "dropped": DataFrame(schema=DROPPED)}

    def _sized(self, benchmark: DataFrame) -> DataFrame:
        size = self._spec.assemble.size
        return benchmark if size is None else sample_benchmark(benchmark, size, seed=self._spec.seed)

    # Branches

    def _replacements(self, prompts: DataFrame, settings: Settings, tools: Tools) -> dict[str, DataFrame]:
        """Collect the replacements of each branch.

        They are those of the spec, or else the names of the concepts, and the proposals of the judge.
        """
        branching = self._branch
        in_spec = self._replacements_of_spec()
        pairs = self._branched_pairs(list(in_spec), set(prompts["concept"]))
        in_both_directions = branching.direction == "both"
        with_words = list(pairs)
        if in_both_directions:
            with_words += [pair[::-1] for pair in pairs if pair[::-1] in in_spec]
        rows: list[tuple[str, ...]] = []
        left_out: list[tuple[str, ...]] = []
        for pair in with_words:
            rows += [(*pair, *words, "given") for words in in_spec.get(pair, {}).items()]
        rows += [(*pair, *pair, "name") for pair in pairs if pair not in in_spec]
        if branching.descriptors is not None:
            for pair, proposal in self._proposals(branching.descriptors.threshold, pairs, prompts, tools):
                rows += [(*pair, *words, "judge") for words in proposal.words.items()]
                left_out += [(*pair, *word) for word in proposal.left_out.items()]
        table = DataFrame(rows, schema=REPLACEMENTS, orient="row")
        table = table.unique(["root", "target", "old"], keep="first", maintain_order=True)
        if in_both_directions:
            table = pl.concat([table, _reversed_replacements(table)])
        return {"replacements": table, "left_out": DataFrame(left_out, schema=LEFT_OUT, orient="row")}

    def _replacements_of_spec(self) -> dict[_Pair, Mapping[str, str]]:
        """Return the table of replacements in the spec, or in the file that it names, by pair."""
        table = self._branch.table or {}
        targets_of = read_table(self._home / table) if isinstance(table, str) else table
        words_of: dict[_Pair, Mapping[str, str]] = {}
        for root, targets in targets_of.items():
            for target, words in targets.items():
                words_of[root, target] = words
        return words_of

    def _branched_pairs(self, in_table: Sequence[_Pair], with_prompts: Collection[str]) -> list[_Pair]:
        """Return the pairs of root and target: those of the spec, of the table, or all."""
        if self._branch.pairs != "all":
            pairs = [(root, target) for root, target in self._branch.pairs]
            for root, _ in pairs:
                check_known(root, sorted(with_prompts), f"branch.pairs: no prompt is about {root!r}")
            return pairs
        if in_table:
            return list(in_table)
        return [pair for pair in permutations(self._spec.concepts, 2) if pair[0] in with_prompts]

    def _proposals(
        self,
        threshold: float | Literal["auto"],
        pairs: Sequence[_Pair],
        prompts: DataFrame,
        tools: Tools,
    ) -> Iterator[tuple[_Pair, Proposal]]:
        """Yield the judge's proposals for each pair of root and target."""
        judge = self._judge(tools, "branch.descriptors")
        encoder = self._encoder(tools, "branch.descriptors")
        smallest = None if threshold == "auto" else threshold
        for root in dict.fromkeys(root for root, _ in pairs):
            of_root = prompts.filter(concept=root)
            texts = of_root["prompt"]
            if self._branch.counterfactual_baseline:
                texts = pl.concat([texts, of_root["baseline"]])
            words = find_descriptors(texts, root, encoder, judge, threshold=smallest)
            if not words:
                continue
            for pair in pairs:
                if pair[0] == root:
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
        branched = branch(prompts, table, counterfactual_baseline=self._branch.counterfactual_baseline)
        for root, target, rows, unchanged, still_named in branched.report.iter_rows():
            if unchanged:
                problem = f"{unchanged:,} of {rows:,} prompts about {root} are the same for {target}"
                tools.problem(f"branches: {problem}: no word was replaced", final=True)
            if still_named:
                problem = f"{still_named:,} of {rows:,} prompts about {target} still name {root}"
                tools.problem(f"branches: {problem}; add the missing words to the table", final=True)
        return branched.benchmark


def _reversed_replacements(table: DataFrame) -> DataFrame:
    """Return the replacements in the other direction, for pairs without any.

    Raises InputError if several words are replaced by the same one, so that its replacement is unclear.
    """
    reverse = table.select(root="target", target="root", old="new", new="old", by="by")
    reverse = reverse.join(table, on=["root", "target"], how="anti")
    unclear = reverse.filter(pl.struct("root", "target", col.old.str.to_lowercase()).is_duplicated())
    if not unclear.is_empty():
        root, target, old = unclear.select("root", "target", "old").row(0)
        raise InputError(
            f"branch: for {root}, several words about {target} are replaced by {old!r}, so the reverse "
            f"replacement of {old!r} is ambiguous; add a table for the other direction"
        )
    return reverse


def _report_unanswered(tools: Tools, stage: str, number: int) -> None:
    """Report questions without an answer."""
    if number:
        tools.problem(
            f"{stage}: {number:,} questions to the judge failed; run the same command again to retry them"
        )


def _report_failed_pages(tools: Tools, stage: str, pages: DataFrame) -> None:
    """Report pages that could not be read, which may succeed later, and pages that were read in part."""
    failed = pages.filter(status="failed")
    if not failed.is_empty():
        source, problem = failed.select("source", "problem").row(0)
        tools.problem(
            f"{stage}: {failed.height:,} of {pages.height:,} pages could not be read, such as {source} "
            f"({problem}); run the same command again to retry them"
        )
    partial = pages.filter(col.status == "ok", col.problem.is_not_null())
    partial = partial.unique("source", maintain_order=True)
    if not partial.is_empty():
        source, problem = partial.select("source", "problem").row(0)
        tools.problem(
            f"{stage}: {partial.height:,} of {pages.height:,} pages could not be read completely, "
            f"such as {source} ({problem})",
            final=True,
        )
