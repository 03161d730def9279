"""A part of a study of associations: a grid of stories in one setting, or texts somebody else wrote."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from tiltmeter.associations import _edited as edited
from tiltmeter.associations._contrast import contrast_of
from tiltmeter.associations._findings import HARM, definitional_of, findings_of, labelled, nothing_to_compare
from tiltmeter.associations._options import Options, options_of
from tiltmeter.associations._stories import attempt_id, stories_of
from tiltmeter.associations._tables import CONCEPTS, MENTIONS
from tiltmeter.associations.grid import make_design
from tiltmeter.associations.judging import NOT_ASKED, judge_wording
from tiltmeter.errors import InputError
from tiltmeter.measures import refused_text
from tiltmeter.registry import did_you_mean
from tiltmeter.study import DESIGN, NO_TOOLS, NotRun, Part, Settings, Tools

if TYPE_CHECKING:
    from tiltmeter.associations.grid import Category, Grid
    from tiltmeter.datasets import Library

__all__ = ["OwnTexts", "StoryGrid"]

_ON_THE_HUB = re.compile(r"[\w][\w.-]*(?:/[\w.-]+)?")
USUAL = 0.2
"""Share of lists that hold a common concept, for planning."""
NOTHING = 1e-9
"""A difference of rates that is rounding."""
TITLES = {
    "two": "two characters",
    "single": "one character",
    "balanced": "two characters, good and bad experiences",
    "negative": "two characters, bad experiences",
    "open_box": "two characters, given through hidden states",
}


class Stories(Part):
    """Stories about characters with an identity: extraction, unifying, significance, exclusivity."""

    category: str
    """What the identities are of, in words for a judge: "gender"."""
    harms = (HARM,)
    contrasts_unpaired = True

    def design(self, library: Library, settings: Settings) -> pl.DataFrame:
        """See Part.design. What later stages need is looked for first, before anything is paid for."""
        options = options_of(settings)
        read_edited(options)
        if options.encoder is not None and options.concepts is None:
            check_encoder(options.encoder, library)
        return self.rows(settings)

    def questions(self, design: pl.DataFrame, settings: Settings) -> int:
        """See Part.questions: each stage asks once about each story."""
        options = options_of(settings)
        return int(design["repetitions"].sum()) * len(options.stages) if options.judged else 0

    def question_length(self, settings: Settings) -> float:
        """See Part.question_length: the mean over the stages."""
        options = options_of(settings)
        templates = judge_wording(options.wording)
        return sum(len(templates[stage]) for stage in options.stages) / len(options.stages)

    def precision(self, design: pl.DataFrame, settings: Settings) -> Mapping[str, float]:
        """See Part.precision: of a concept that a fifth of the lists hold, for the identity with the fewest lists."""
        from math import sqrt

        sides = [name for name in ("identity_1", "identity_2") if name in design.columns]
        lists = pl.concat([design.select("context", "repetitions", identity=side) for side in sides]).drop_nulls("identity")
        overall = lists.group_by("identity").agg(pl.col("repetitions").cast(pl.Int64).sum())["repetitions"].to_list()
        found = {"association": overall}
        for context, here in lists.drop_nulls("context").group_by("context", maintain_order=True):
            counts = here.group_by("identity").agg(pl.col("repetitions").cast(pl.Int64).sum())["repetitions"].to_list()
            found[f"association in {context[0]}"] = counts
        variance = USUAL * (1 - USUAL)
        return {
            metric: sqrt(variance / min(counts) + variance / (sum(counts) - min(counts)))
            for metric, counts in found.items()
            if len(counts) > 1
        }

    @abstractmethod
    def rows(self, settings: Settings) -> pl.DataFrame:
        """The design."""

    def measure(self, answers: pl.DataFrame, settings: Settings, tools: Tools = NO_TOOLS) -> pl.DataFrame:
        """See Part.measure; keeps the tables `lists`, `mentions` and, with a judge, `judgements`.

        An attempt's label is how many phrases it gave.
        """
        declined = refused_text(answers["answer"]) | answers["refusal"].is_not_null()
        stories = stories_of(answers, declined)
        lists, mentions = extracted(stories, options_of(settings), tools, str(answers["model"].first()))
        owner = ("attempt", "character")
        mentions = mentions.join(lists.select(*owner, "identity", "descriptor", "context", "location"), on=owner, maintain_order="left")
        tools.keep("lists", lists)
        tools.keep("mentions", mentions)
        waiting = pl.col("problem").eq(NOT_ASKED).fill_null(False)
        read = lists.group_by("attempt").agg(usable=(pl.col("status") != "missing").any(), waiting=waiting.all())
        told = mentions.group_by("attempt").agg(told=pl.len())
        blank = pl.col("answer").is_null() | (pl.col("answer").str.strip_chars() == "")
        outcome = (
            pl.when((pl.col("status") != "ok") | pl.col("waiting").fill_null(False)).then(pl.lit("failed"))
            .when(declined).then(pl.lit("refused"))
            .when(blank).then(pl.lit("empty"))
            .when(pl.col("usable").fill_null(False)).then(pl.lit("answered"))
            .otherwise(pl.lit("unreadable"))
        )  # fmt: skip
        made = answers.select("status", "answer", attempt_id()).join(read, on="attempt", how="left", maintain_order="left")
        made = made.join(told, on="attempt", how="left", maintain_order="left").with_columns(outcome=outcome)
        label = pl.when(pl.col("outcome") == "answered").then(pl.col("told").fill_null(0).cast(pl.String)).alias("label")
        return made.select("attempt", "outcome", label)

    @classmethod
    def between(cls, settings: Settings, tools: Tools) -> None:
        """One vocabulary for the whole study: the table `concepts`."""
        options = options_of(settings)
        if options.exclusive is not None:
            check_identities(options.exclusive, tools.kept("lists")["identity"].unique().sort().to_list())
        phrases = (
            tools.kept("mentions")
            .group_by("phrase")
            .agg(mentions=pl.len().cast(pl.Int64))
            .sort("mentions", "phrase", descending=[True, False])
        )
        tools.keep("concepts", vocabulary(phrases, options, tools))

    def analyse(self, measures: pl.DataFrame, settings: Settings, tools: Tools = NO_TOOLS) -> pl.DataFrame:
        """See Part.analyse; keeps the tables `associations`, `definitional`, `exclusive`, `shown` and, with a judge, more `judgements`."""
        from tiltmeter.associations import exclusivity
        from tiltmeter.associations.significance import find_associations

        options = options_of(settings)
        lists = tools.kept("lists").drop("model", "part")
        if lists.filter(pl.col("status") != "missing")["identity"].n_unique() < 2:
            return nothing_to_compare(lists, measures, self, settings)
        concepts = tools.kept("concepts").select("phrase", "concept")
        mentions = tools.kept("mentions").drop("model", "part").join(concepts, on="phrase", how="left", maintain_order="left")
        found = find_associations(
            lists, mentions, definition=options.definition, level=settings.level, seed=settings.seed, minimum=options.minimum
        )
        ruled = self.exclusive(found, options, tools, measures["model"][0])
        pairs = ruled.select("concept").join(lists.select("identity").unique(), how="cross").with_columns(reported=pl.lit(True))
        held_back = exclusivity.drop_exclusive(pairs, ruled, definition=options.definition).filter(~pl.col("reported")).drop("reported")
        held = found.filter("reported").join(held_back, on=["concept", "identity"], how="semi", maintain_order="left")
        reasons = (
            ruled.drop_nulls("identity").unique("concept", keep="first").select("concept", exclusive_to="identity", by="by", why="reason")
        )
        held = held.join(reasons, on="concept", how="left", maintain_order="left").with_columns(reason=_reason())
        found = exclusivity.drop_exclusive(found, ruled, definition=options.definition)
        if options.shuffle == "descriptor":
            found = with_permutation(found, lists, mentions, settings.seed)
        labels = (
            labels_of(mentions, tools.kept("concepts")["phrase"])
            if options.definition == "default"
            else mentions.select("concept", "identity", label="concept").unique()
        )
        about = (labels, lists, mentions, measures, self, settings, options)
        tools.keep("associations", found.join(labels, on=["concept", "identity"], how="left", maintain_order="left"))
        tools.keep("definitional", definitional_of(held, *about))
        told = mentions.select("attempt", "identity", "descriptor", "context", "concept", "phrase", "sentence")
        tools.keep("shown", labelled(told, labels))
        return findings_of(found, held_back, *about)

    def examples(self, measures: pl.DataFrame, findings: pl.DataFrame, settings: Settings) -> None:
        """See Part.examples: none.

        The key numbers count the associations that pass a test. No story moves such a count by more than the few concepts that stand at
        the very edge of passing, and those are the ones that show least. What shows an association is its own sentences, which its
        finding carries (column `examples`).
        """
        return

    def contrast(
        self, first: pl.DataFrame, second: pl.DataFrame, settings: Settings, tools: tuple[Tools, Tools] = (NO_TOOLS, NO_TOOLS)
    ) -> pl.DataFrame | None:
        """See Part.contrast: the rate of every concept and identity; reads the tables `lists`, `mentions` and `concepts`."""
        return contrast_of(first, second, settings, tools)

    def exclusive(self, found: pl.DataFrame, options: Options, tools: Tools, model: str) -> pl.DataFrame:
        """EXCLUSIVE of every concept that would be reported, and of all others tested that hold a term; see `exclusivity`.

        Those others are not reported either when identities are shuffled. A judge is asked only of what would be reported.
        """
        from tiltmeter.associations import exclusivity

        reported = found.filter("reported")["concept"].unique().sort()
        identities = found["identity"].unique().sort().to_list()
        if options.exclusive is not None:
            ruled = edited.of(edited.read_exclusive(options.exclusive), model=model, part=self.name)
        else:
            tested = found.filter(pl.col("p").is_not_null())["concept"].unique().sort().to_list()
            ruled = exclusivity.exclusive_by_terms(tested, identities, options.terms)
            ruled = ruled.filter(pl.col("identity").is_not_null() | pl.col("concept").is_in(reported.implode()))
            if options.judged and tools.judge is not None:
                open_ones = ruled.filter(pl.col("identity").is_null())["concept"].to_list()
                judged, judgements = exclusivity.exclusive_by_judge(
                    open_ones, identities, self.category, tools.judge, options.wording, terms=options.terms
                )
                tools.keep("judgements", judgements)
                ruled = pl.concat([ruled.filter(pl.col("identity").is_not_null()), judged])
        tools.keep("exclusive", ruled)
        return ruled


def _reason() -> pl.Expr:
    """Why an association is held back: whose its concept is by definition, and who says so."""
    who = pl.col("by").replace({"terms": "the list of terms", "judge": "the judge", "user": "the table given"})
    why = pl.when(pl.col("why").is_not_null()).then(pl.format(": {}", "why")).otherwise(pl.lit(""))
    return pl.format("{} by definition, says {}{}", "exclusive_to", who.fill_null("the table given"), why)


class StoryGrid(Stories):
    """One category of a grid in one setting."""

    def __init__(self, grid: Grid, category: str, setting: str) -> None:
        self._grid, self.category, self.setting = grid, category, setting
        self.name = category if setting == "two" else f"{category}_{setting}"
        found: Category = grid.category(category)
        self.title = f"{found.title}: {TITLES[setting]}"

    def planted(self, design: pl.DataFrame, dials: Mapping[str, float]) -> pl.DataFrame | None:
        """See Part.planted."""
        from tiltmeter.associations._planted import planted

        truth = planted(design, dials)
        highest = (pl.col("rate") == pl.col("rate").max().over("concept")) & (pl.col("effect") > NOTHING)
        return truth.filter(highest).select("concept", "effect", subject="identity")

    def rows(self, settings: Settings) -> pl.DataFrame:
        """See Stories.rows."""
        return make_design(self._grid, self.category, self.setting, settings, self.name)


class OwnTexts(Stories):
    """Texts nobody here asked for.

    Parameters
    ----------
    texts
        `identity` of the person each text is about; `name` and `location` (null where they are not known).
    """

    name = "texts"
    title = "Texts of your own"
    category = "identity"

    def __init__(self, texts: pl.DataFrame) -> None:
        self._texts = texts.select("identity", "name", "location", "prompt")

    def rows(self, settings: Settings) -> pl.DataFrame:
        """One row per text; its prompt is empty where the table does not say what was asked."""
        made = self._texts.with_row_index("item").with_columns(
            prompt_id=pl.concat_str(pl.lit(f"{self.name}/"), "item"),
            part=pl.lit(self.name),
            prompt_index=pl.lit(0),
            wording=pl.lit("own"),
            system=pl.lit(None, pl.String),
            prompt=pl.col("prompt").fill_null(""),
            repetitions=pl.lit(1),
            first_sample=pl.lit(0),
        )
        core = made.select(pl.col(name).cast(kind) for name, kind in DESIGN.items())
        turn = pl.int_range(pl.len()).over("identity", "location")  # deals the texts of an identity to the two halves
        own = made.select(turn=turn, identity_1="identity", descriptor_1="name", name_1="name", context="location", location="location")
        return pl.concat([core, own], how="horizontal")


def extracted(stories: pl.DataFrame, options: Options, tools: Tools, model: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """LISTS and MENTIONS of the stories: as the user gives them, from the judge, or from the words themselves."""
    if options.mentions is not None:
        return _given(stories, options, model)
    if options.judged and tools.judge is not None:
        from tiltmeter.associations.judging import extract_with_judge

        lists, mentions, judgements = extract_with_judge(stories, tools.judge, stages=options.stages, wording=options.wording)
        tools.keep("judgements", judgements)
        return lists, mentions
    from tiltmeter.associations.lexical import extract

    return extract(stories)


def _given(stories: pl.DataFrame, options: Options, model: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The user's tables, for the lists of these stories. A list the user says nothing of is as empty as the text allows."""
    owner = ("attempt", "character")
    told = edited.of(edited.read_mentions(str(options.mentions)), model=model)
    mentions = told.join(stories.select(owner), on=owner, how="semi", maintain_order="left")
    if mentions.is_empty() and stories["text"].count():
        raise InputError(f"-P mentions={options.mentions} names no story of {model} in this run: give the table of a run of the same study")
    lists = stories.drop("text").with_columns(told=pl.struct(owner).is_in(mentions.select(pl.struct(owner)).to_series().implode()))
    status = pl.when("told").then(pl.lit("listed")).when(stories["text"].is_null()).then(pl.lit("missing")).otherwise(pl.lit("empty"))
    lists = lists.with_columns(status=status, problem=pl.lit(None, pl.String)).drop("told")
    if options.lists is not None:
        said = (
            edited.of(edited.read_lists(options.lists), model=model)
            .select(*owner, said="status", why="problem")
            .unique(owner, keep="first")
        )
        lost = ~pl.col("status").eq("listed") & pl.col("said").eq("missing").fill_null(False)
        lists = lists.join(said, on=owner, how="left", maintain_order="left")
        lists = lists.with_columns(status=pl.when(lost).then(pl.lit("missing")).otherwise("status"), problem="why").drop("said", "why")
    return lists, mentions.select(pl.col(name).cast(kind) for name, kind in MENTIONS.items()).unique(maintain_order=True)


def vocabulary(phrases: pl.DataFrame, options: Options, tools: Tools) -> pl.DataFrame:
    """CONCEPTS of the phrases (`phrase`, `mentions`); a phrase that a user's table does not name is a concept of its own."""
    from tiltmeter.associations.unifying import unify

    if options.concepts is not None:
        given = edited.read_concepts(options.concepts).select("phrase", "concept", "similarity")
        made = phrases.join(given, on="phrase", how="left", maintain_order="left")
        return made.with_columns(pl.col("concept").fill_null(pl.col("phrase"))).select(pl.col(n).cast(kind) for n, kind in CONCEPTS.items())
    vectors = None if options.encoder is None else tools.encoder(options.encoder).encode(phrases["phrase"].to_list())
    strict = options.definition == "default"
    return unify(phrases, vectors, threshold=options.threshold, method=options.method, terms=options.terms, strict=strict)


def labels_of(mentions: pl.DataFrame, phrases: pl.Series) -> pl.DataFrame:
    """`concept`, `identity`, `label`: the phrase with which most lists of the identity hold the concept.

    Of phrases that are equally common it is the one that names the concept, if it is among them, else the first by alphabet. A name that
    none of the study's `phrases` has is one that a user gave, and stays.
    """
    from tiltmeter.associations.unifying import normal_form

    spelt = mentions.drop_nulls("concept").with_columns(form=normal_form(pl.col("phrase")))
    uses = spelt.group_by("concept", "identity", "form", "phrase").agg(uses=pl.len())
    uses = uses.with_columns(whole=pl.col("uses").sum().over("concept", "identity", "form"), named=pl.col("phrase") == pl.col("concept"))
    best = uses.sort("whole", "named", "uses", "phrase", descending=[True, True, True, False])
    label = pl.when(pl.col("concept").is_in(phrases.implode())).then("phrase").otherwise("concept")
    return best.unique(("concept", "identity"), keep="first", maintain_order=True).select("concept", "identity", label=label)


def check_identities(path: str, known: list[str]) -> None:
    """Raises InputError where a table of exclusive concepts names an identity that no list is of."""
    named = edited.read_exclusive(path)["identity"].drop_nulls().unique().sort()
    if unknown := [one for one in named if one not in known]:
        raise InputError(f"-P exclusive={path}: unknown identity {unknown[0]!r}: {did_you_mean(unknown[0], known)}")


def with_permutation(found: pl.DataFrame, lists: pl.DataFrame, mentions: pl.DataFrame, seed: int) -> pl.DataFrame:
    """`permutation_p` beside the associations reported: identities dealt to whole descriptors (null elsewhere)."""
    from tiltmeter.associations.significance import permutation_p

    concepts = found.filter("reported")["concept"].unique().sort().to_list()
    if not concepts:
        return found.with_columns(permutation_p=pl.lit(None, pl.Float64))
    tested = permutation_p(lists, mentions, concepts, by="descriptor", seed=seed).select("context", "concept", permutation_p="p")
    made = found.join(tested, on=["context", "concept"], how="left", nulls_equal=True, maintain_order="left")
    return made.with_columns(permutation_p=pl.when("reported").then("permutation_p"))


def read_edited(options: Options) -> None:
    """Look at every table the user gives, so that a mistake in it is said before anything is asked."""
    for path, read in (
        (options.lists, edited.read_lists),
        (options.mentions, edited.read_mentions),
        (options.concepts, edited.read_concepts),
        (options.exclusive, edited.read_exclusive),
    ):
        if path is not None:
            read(path)


def check_encoder(name: str, library: Library) -> None:
    """Raises NotRun where the encoder cannot be had, as far as that can be told without loading it."""
    from importlib.util import find_spec

    from tiltmeter.datasets import DataUnavailable
    from tiltmeter.datasets.encoders import ENCODERS, encoder_folder

    if name not in ENCODERS and not Path(name).is_dir() and not _ON_THE_HUB.fullmatch(name):
        raise InputError(f"-P encoder={name}: there is no such folder, and it is no name on the hub (OWNER/NAME); or give encoder=none")
    without = "or -P encoder=none, which unifies phrases by their words alone"
    if find_spec("sentence_transformers") is None:
        raise NotRun(f'unifying concepts needs a sentence encoder: pip install "tiltmeter[local]", {without}')
    if name in ENCODERS:
        try:
            encoder_folder(library)
        except DataUnavailable as error:
            raise NotRun(f"the encoder {name} cannot be had: {error.reason}; {error.remedy}, {without}") from error
