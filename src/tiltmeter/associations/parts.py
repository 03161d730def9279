"""Parts of association studies: a grid of stories in one setting, or existing texts.

And the stages of their analysis.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import polars as pl
from polars import DataFrame, String, col, lit, when

from tiltmeter.associations.definitions import options_of
from tiltmeter.associations.design import make_design
from tiltmeter.associations.extraction_judge import extract_with_judge, judge_wording
from tiltmeter.associations.findings import (
    HARM,
    Basis,
    contrast_of,
    definitional_of,
    findings_of,
    identities_of,
    labelled,
    labels_of,
    nothing_to_compare,
    with_examples,
    with_permutation,
)
from tiltmeter.associations.simulation import planted_associations, planted_stories
from tiltmeter.associations.tables import (
    ASSOCIATIONS,
    CONCEPTS,
    DEFINITIONAL,
    EXCLUSIVE,
    FOUND,
    IDENTITIES,
    JUDGEMENTS,
    LISTS,
    MENTIONS,
    OWNER,
    PLACED,
    SHOWN,
    STORIES,
)
from tiltmeter.errors import InputError, check_known
from tiltmeter.judging.questions import NOT_ASKED
from tiltmeter.readers.outcomes import decide_outcome, free_texts
from tiltmeter.schema import DESIGN, FINDINGS, MEASURES, TO_LABEL, StageTable, beside, conform
from tiltmeter.stats import ExpectedError
from tiltmeter.study import (
    NO_TOOLS,
    SINGLE_TESTS,
    NotRun,
    Part,
    RunView,
    Settings,
    Stage,
    Tools,
    find_encoder,
)

if TYPE_CHECKING:
    from tiltmeter.associations.design import Grid
    from tiltmeter.datasets import Library

Tables = Mapping[str, DataFrame]
USUAL = 0.2
"""Assumed share of lists that contain a concept, for planning."""
NOTHING = 1e-9
"""Rate differences up to this value are rounding errors."""
MOSTLY_ECHO = 0.5
"""A concept is an echo of the prompt if at least this share of its mentions contains a word of the prompt of
their text."""
TITLES = {
    "two": "two characters",
    "single": "one character",
    "balanced": "two characters, good and bad experiences",
    "negative": "two characters, bad experiences",
    "open_box": "two characters, given through hidden states",
}


class Stories(Part):
    """Stories about characters with an identity, with the stages extraction, clustering, tests and exclusivity."""

    study = "associations"
    category: str
    """The category of the identities as named to a judge: "gender"."""
    harms = (HARM,)
    contrasts_unpaired = True

    def design(self, library: Library, settings: Settings) -> DataFrame:
        """See Part.design; a missing encoder raises an error before any paid request."""
        options = options_of(settings)
        if options.encoder is not None and settings.file_for("concepts") is None:
            check_encoder(options.encoder, library)
        return self.rows(settings)

    def judge_call_count(self, design: DataFrame, settings: Settings) -> int:
        """See Part.judge_call_count: one request per stage and story."""
        options = options_of(settings)
        return int(design["repetitions"].sum()) * len(options.stages) if options.judged else 0

    def question_length(self, settings: Settings) -> float:
        """See Part.question_length; the value is the mean over the stages."""
        options = options_of(settings)
        templates = judge_wording(options.wording)
        return sum(len(templates[stage]) for stage in options.stages) / len(options.stages)

    def standard_errors(
        self, design: DataFrame, settings: Settings, *, heterogeneity: float = 0.0
    ) -> Mapping[str, Sequence[ExpectedError]]:
        """See Part.standard_errors.

        For a concept in a fifth of the lists, and the identity with the fewest lists.
        """
        metrics = pl.concat_list(lit("association"), pl.format("association in {}", "context"))
        lists = design.select("repetitions", metric=metrics, identity=pl.concat_list("^identity_[12]$"))
        lists = lists.explode("metric").explode("identity").drop_nulls()
        counts = lists.group_by("metric", "identity", maintain_order=True).agg(col.repetitions.sum())
        fewest, whole = col.repetitions.min(), col.repetitions.sum()
        error = (USUAL * (1 - USUAL) * (1 / fewest + 1 / (whole - fewest))).sqrt()
        found = counts.group_by("metric", maintain_order=True).agg(error=error)
        finite = found.filter(col.error.is_finite())  # infinite if there is only one identity
        return {metric: [ExpectedError(error)] for metric, error in finite.iter_rows()}

    def tests_of_a_family(self, design: DataFrame, settings: Settings) -> int:
        """See Part.tests_of_a_family: the number of concepts is not known before the run."""
        return SINGLE_TESTS

    @abstractmethod
    def rows(self, settings: Settings) -> DataFrame:
        """Return the design, one row per prompt."""

    @property
    def stages(self) -> tuple[Stage, ...]:
        """See Part.stages: extraction of phrases, clustering into concepts, tests, and exclusion of definitional concepts."""
        lists = StageTable(LISTS, required=(*OWNER, "status"))
        mentions = StageTable(PLACED, required=(*OWNER, "phrase"))
        concepts = StageTable(CONCEPTS, required=("phrase", "concept"), unique=("phrase",))
        exclusive = StageTable(EXCLUSIVE, required=("concept",), fill={"by": "user", "status": "ok"})
        findings = {
            "findings": StageTable(FINDINGS),
            "associations": StageTable(FOUND),
            "definitional": StageTable(DEFINITIONAL),
            "shown": StageTable(SHOWN),
            "themes": StageTable(ASSOCIATIONS),
            "by_words": StageTable(ASSOCIATIONS),
        }
        return (
            Stage(
                "extraction",
                {
                    "lists": lists,
                    "mentions": mentions,
                    "judgements": StageTable(JUDGEMENTS),
                    "words": StageTable(MENTIONS),
                },
                ("answers", "prompts"),
                self.extract,
                asks=True,
                if_failed="not measured",
                from_user=self.extracted_by_user,
            ),
            Stage(
                "measures",
                {"measures": StageTable(MEASURES, further=True)},
                ("answers", "lists", "mentions"),
                self.measure,
                if_failed="not measured",
            ),
            Stage(
                "concepts",
                {"concepts": concepts, "identities": StageTable(IDENTITIES)},
                ("mentions", "lists"),
                self.unify,
                of_study=True,
                from_user=self.unified_by_user,
            ),
            Stage("tests", {"tests": StageTable(ASSOCIATIONS)}, ("lists", "mentions", "concepts"), self.test),
            Stage(
                "exclusive",
                {"exclusive": exclusive, "exclusive_judgements": StageTable(JUDGEMENTS)},
                ("tests", "mentions", "concepts"),
                self.exclude,
                asks=True,
                from_user=self.excluded_by_user,
            ),
            Stage(
                "findings",
                findings,
                ("tests", "exclusive", "lists", "mentions", "concepts", "measures", "words"),
                self.find,
            ),
        )

    def extract(self, answers: DataFrame, prompts: DataFrame, settings: Settings, tools: Tools) -> Tables:
        """Return the tables `lists`, `mentions` and, with a judge, `judgements`.

        Without a judge, words are extracted.
        """
        options, stories = options_of(settings), stories_of(answers)
        judged = {}
        from tiltmeter.associations.extraction_words import extract

        asked = answers.select("prompt_id", attempt=ATTEMPT).join(
            prompts, on="prompt_id", maintain_order="left"
        )
        lists, mentions = extract(stories, asked, options.language, options.terms)
        if options.judged and tools.judge is not None:
            judged["words"] = mentions.clear() if options.rules.published else mentions
            lists, mentions, judged["judgements"] = extract_with_judge(
                stories, tools.judge, stages=options.stages, wording=options.wording
            )
        lists = with_reasons(lists, answers)
        return {"lists": lists, "mentions": placed(mentions, lists), **judged}

    def extracted_by_user(
        self, given: Tables, answers: DataFrame, prompts: DataFrame, settings: Settings, tools: Tools
    ) -> Tables:
        """Return the user's mentions and the lists of these stories.

        A list without mentions is empty, or missing if there is no text.
        """
        stories = stories_of(answers)
        mentions = given["mentions"].join(stories, on=OWNER, how="semi", maintain_order="left")
        if mentions.is_empty() and stories["text"].count():
            raise InputError(
                f"--replace mentions={settings.file_for('mentions')} contains no story of {answers['model'][0]} in this run: give the table"
                " of a run of the same study"
            )
        stated = (
            given.get("lists", DataFrame(schema=dict(LISTS)))
            .select(*OWNER, "problem", "status")
            .unique(OWNER, keep="first")
        )
        held = mentions.select(*OWNER, holds=lit(True)).unique()
        lists = beside(beside(stories, held, *OWNER), stated, *OWNER)
        lost = col.text.is_null() | (col.status == "missing")
        status = when("holds").then(lit("listed")).when(lost).then(lit("missing")).otherwise(lit("empty"))
        lists = with_reasons(lists.with_columns(status=status), answers)
        return {
            "lists": lists,
            "mentions": placed(conform(mentions, MENTIONS).unique(maintain_order=True), lists),
        }

    def measure(
        self, answers: DataFrame, lists: DataFrame, mentions: DataFrame, settings: Settings, tools: Tools
    ) -> DataFrame:
        """Return the outcome of each attempt; the label of an answered one is its number of phrases."""
        waiting = col.problem.eq_missing(lit(NOT_ASKED)).all()
        read = lists.group_by("attempt").agg(usable=(col.status != "missing").any(), waiting=waiting)
        phrases = mentions.group_by("attempt").agg(phrases=pl.len())
        made = beside(answers.select(attempt=ATTEMPT), read, "attempt")
        made = beside(made, phrases, "attempt").with_columns(free_texts(answers)["without"])
        made = made.with_columns(
            outcome=pl.coalesce("without", decide_outcome(failed="waiting", answered="usable"))
        )
        return made.select(
            "attempt",
            "outcome",
            label=when(col.outcome == "answered").then(col.phrases.fill_null(0).cast(String)),
        )

    def unify(self, mentions: DataFrame, lists: DataFrame, settings: Settings, tools: Tools) -> Tables:
        """Return the tables `concepts` (one vocabulary for the whole study) and `identities`."""
        from tiltmeter.associations.concepts import unify
        from tiltmeter.associations.families import unify_words

        options, phrases = options_of(settings), counted(mentions)
        if options.encoder is None:
            made = unify_words(phrases, options.language, options.terms)
        else:
            vectors = tools.encoder(options.encoder).encode(phrases["phrase"].to_list())
            strict = options.rules.strict_guards
            made = unify(
                phrases,
                vectors,
                threshold=options.threshold,
                method=options.method,
                terms=options.terms,
                strict=strict,
            )
        return {"concepts": made, "identities": identities_of(lists)}

    def unified_by_user(
        self, given: Tables, mentions: DataFrame, lists: DataFrame, settings: Settings, tools: Tools
    ) -> Tables:
        """Return the user's vocabulary as `concepts`, and `identities`.

        A phrase that the vocabulary lacks is a separate concept.
        """
        known = given["concepts"].select("phrase", "concept", "similarity")
        made = beside(counted(mentions), known, "phrase").with_columns(
            concept=pl.coalesce("concept", "phrase")
        )
        return {"concepts": made, "identities": identities_of(lists)}

    def test(
        self, lists: DataFrame, mentions: DataFrame, concepts: DataFrame, settings: Settings, tools: Tools
    ) -> DataFrame:
        """Return ASSOCIATIONS of every concept and identity.

        Empty if fewer than two identities have a list.
        """
        from tiltmeter.associations.significance import find_associations

        options = options_of(settings)
        if not comparable(lists):
            return DataFrame(schema=dict(ASSOCIATIONS))
        return find_associations(
            lists,
            unified(mentions, concepts),
            rules=options.rules,
            level=settings.level,
            seed=settings.seed,
            minimum=options.minimum,
            against=options.against,
            reference=options.reference,
        )

    def exclude(
        self, tests: DataFrame, mentions: DataFrame, concepts: DataFrame, settings: Settings, tools: Tools
    ) -> Tables:
        """Return EXCLUSIVE for every concept that would be reported, and for other tested concepts that contain a term; see `exclusivity`.

        The other concepts are excluded when identities are shuffled. A judge is asked only about concepts
        that would be reported.
        """
        from tiltmeter.associations import exclusivity

        options = options_of(settings)
        among = tests["identity"].unique().sort().to_list()
        tested = tests.drop_nulls("p")["concept"].unique().sort().to_list()
        ruled = exclusivity.exclusive_by_terms(tested, among, options.terms)
        echo = unified(mentions, concepts).filter(col.echo.mean().over("concept") >= MOSTLY_ECHO)["concept"]
        ruled = exclusivity.with_echo(ruled, echo)
        undecided = col.identity.is_null() & (col.by != exclusivity.ECHO)
        ruled = ruled.filter(~undecided | col.concept.is_in(tests.filter("reported")["concept"].implode()))
        if not options.judged or tools.judge is None:
            return {"exclusive": ruled}
        asked = ruled.filter(undecided)["concept"].to_list()
        judged, judgements = exclusivity.exclusive_by_judge(
            asked, among, self.category, tools.judge, options.wording, terms=options.terms
        )
        return {
            "exclusive": pl.concat([ruled.filter(~undecided), judged]),
            "exclusive_judgements": judgements,
        }

    def excluded_by_user(
        self,
        given: Tables,
        tests: DataFrame,
        mentions: DataFrame,
        concepts: DataFrame,
        settings: Settings,
        tools: Tools,
    ) -> DataFrame:
        """Return the user's table; an empty identity means that the concept belongs to no identity."""
        table = given["exclusive"].with_columns(
            identity=when(col.identity.str.strip_chars() != "").then("identity")
        )
        for one in table["identity"].drop_nulls().unique().sort():
            check_known(
                one,
                mentions["identity"].unique(),
                f"--replace exclusive={settings.file_for('exclusive')}: unknown identity {one!r}",
            )
        return table

    def find(
        self,
        tests: DataFrame,
        exclusive: DataFrame,
        lists: DataFrame,
        mentions: DataFrame,
        concepts: DataFrame,
        measures: DataFrame,
        words: DataFrame,
        settings: Settings,
        tools: Tools,
    ) -> Tables:
        """Return `findings`, `associations`, `definitional` (excluded), `shown` (all sentences), `themes` and, with a judge, `by_words`."""
        from tiltmeter.associations.exclusivity import drop_exclusive, is_exclusive, kept_out
        from tiltmeter.associations.themes import find_themes

        options, mentions = options_of(settings), unified(mentions, concepts)
        exclusive, rules = kept_out(exclusive, options.keep), options.rules
        basis = Basis(lists, mentions, measures, self, settings, options)
        if not comparable(lists):
            return {"findings": nothing_to_compare(basis)}
        labels = labels_of(
            mentions.clear() if rules.published else mentions, concepts["phrase"], specific=not options.judged
        )
        found = labelled(with_examples(tests, mentions), labels)
        kept = with_permutation(drop_exclusive(found, exclusive, rules), basis)
        pairs = exclusive.select("concept").join(lists.select("identity").unique(), how="cross")
        themes = tests.clear() if rules.published else find_themes(lists, mentions, options, settings.level)
        return {
            "findings": findings_of(kept, pairs.filter(is_exclusive(pairs, exclusive, rules)), themes, basis),
            "themes": themes,
            "by_words": tests.clear() if words.is_empty() else self._by_words(lists, words, settings),
            "associations": kept,
            "definitional": definitional_of(found.filter(col.reported & ~kept["reported"]), exclusive, basis),
            "shown": labelled(mentions, labels).with_columns(concept="label"),
        }

    def _by_words(self, lists: DataFrame, words: DataFrame, settings: Settings) -> DataFrame:
        """Return the associations of all contexts that words without a judge would show."""
        from tiltmeter.associations.exclusivity import drop_exclusive, exclusive_by_terms
        from tiltmeter.associations.families import unify_words

        options = options_of(settings)
        families = unify_words(counted(words), options.language, options.terms)
        found = self.test(lists, placed(words, lists), families, settings, NO_TOOLS)
        among = lists["identity"].unique().to_list()
        ruled = exclusive_by_terms(found["concept"].unique().to_list(), among, options.terms)
        return drop_exclusive(found, ruled, options.rules).filter("reported", col.context.is_null())

    def to_label(self, view: RunView) -> DataFrame:
        """See Part.to_label: whether each phrase is said of the person."""
        mentions = view.stage("mentions").with_columns(who=pl.coalesce("descriptor", "identity"))
        place = col.attempt.str.extract_groups("(?s)^(.*)#([0-9]+)$").struct
        answers = pl.concat_list(lit("yes"), lit("no"))
        return conform(
            mentions.with_columns(
                prompt_id=place.field("1"),
                repetition=place.field("2"),
                about=pl.format("{}: {}", "who", "phrase"),
                group="identity",
                read=lit("yes"),
                outcome=lit("answered"),
                question=pl.format("Does the text say “{}” of {}?", "phrase", "who"),
                allowed=answers,
                meaning=answers,
            ),
            TO_LABEL,
        ).unique(["prompt_id", "repetition", "about"], keep="first", maintain_order=True)

    def contrast(self, first: RunView, second: RunView, settings: Settings) -> DataFrame | None:
        """See Part.contrast.

        Compares every concept and identity by the tables `lists`, `mentions` and `concepts`.
        """
        return contrast_of(first, second, settings)


class StoryGrid(Stories):
    """Part with one category of a grid in one setting."""

    sizes: ClassVar = {"quick": 0.25}

    def __init__(self, grid: Grid, category: str, setting: str) -> None:
        self._grid, self.category, self.setting = grid, category, setting
        self.name = category if setting == "two" else f"{category}_{setting}"
        found = grid.category(category)
        self.title = f"{found.title or category.replace('_', ' ').capitalize()}: {TITLES[setting]}"

    def simulate(self, design: DataFrame, dials: Mapping[str, float]) -> DataFrame:
        """See Part.simulate."""
        return planted_stories(design, dials)

    def planted_effects(self, design: DataFrame, dials: Mapping[str, float]) -> DataFrame | None:
        """See Part.planted_effects."""
        truth = planted_associations(design, dials)
        highest = (col.rate == col.rate.max().over("concept")) & (col.effect > NOTHING)
        return truth.filter(highest).select("concept", "effect", group="identity")

    def rows(self, settings: Settings) -> DataFrame:
        """See Stories.rows."""
        return make_design(self._grid, self.category, self.setting, settings, self.name)


class OwnTexts(Stories):
    """Part with existing texts.

    Parameters
    ----------
    texts
        `prompt`, and `identity`, `name`, `location`, `pair` and `cluster` of each text; null if unknown.
    """

    name = "texts"
    title = "Your own texts"
    category = "identity"

    def __init__(self, texts: DataFrame) -> None:
        self._texts = texts.select("identity", "name", "location", "pair", "cluster", "prompt")
        pairs = texts.drop_nulls("pair").group_by("pair").agg(groups=col.identity.n_unique())
        if pairs.height and (pairs["groups"] < 2).all():
            raise InputError(
                "--pair: no value of this column has texts of two groups; choose the column that pairs the texts"
            )

    def rows(self, settings: Settings) -> DataFrame:
        """Return one row per text; the prompt is empty if it is unknown."""
        made = self._texts.with_row_index("item").with_columns(
            prompt_id=pl.format(f"{self.name}/{{}}", "item"),
            part=lit(self.name),
            prompt_index=lit(0),
            wording=lit("own"),
            prompt=col.prompt.fill_null(""),
            repetitions=lit(1),
            first_sample=lit(0),
        )
        turn = pl.int_range(pl.len()).over(
            "identity", "location"
        )  # assigns the texts of an identity to the two halves
        own = made.select(
            "pair",
            "cluster",
            "location",
            turn=turn,
            context="location",
            type="pair",
            identity_1="identity",
            descriptor_1="name",
            name_1="name",
        )
        return conform(made, DESIGN).hstack(own)


ATTEMPT = pl.concat_str("prompt_id", lit("#"), "repetition")
"""The identifier of a story of one model, such as "gender/17/0/plain#3"."""
_FACTORS = (
    *(f"{name}_{number}" for number in (1, 2) for name in ("identity", "descriptor", "name")),
    "type",
    "context",
    "location",
    "pair",
    "cluster",
)


def stories_of(answers: DataFrame) -> DataFrame:
    """Return STORIES of the responses of one model, in order.

    A refused, failed or blank response has no text.

    Parameters
    ----------
    answers
        The factors of the design (`identity_1`, ..., `identity_2` if there is a second character, `context`,
        `location`, `type`) and the columns of the responses.
    """
    rows = conform(answers, dict.fromkeys(_FACTORS, String), further=True).with_columns(
        attempt=ATTEMPT,
        text=free_texts(answers)["text"],
        row=pl.int_range(pl.len()),
        repetition="turn" if "turn" in answers.columns else "repetition",
        stratum=col.type.fill_null("all"),
    )
    both = (
        rows.with_columns(
            identity=f"identity_{i}", descriptor=f"descriptor_{i}", name=f"name_{i}", character=lit(i - 1)
        )
        for i in (1, 2)
    )
    return conform(pl.concat(both).drop_nulls("identity").sort("row", "character"), STORIES)


def with_reasons(lists: DataFrame, answers: DataFrame) -> DataFrame:
    """Return the lists with the reason why a response has no story as their `problem`: refused, failed or blank."""
    by_provider = col.refusal.is_not_null()
    kind = col.error.str.extract("^([^:]*)").fill_null("unknown")
    reasons = answers.select("refusal", "error", attempt=ATTEMPT, without=free_texts(answers)["without"]).select(
        "attempt",
        reason=when(col.without == "failed").then(pl.format("no response came ({})", kind))
        .when((col.without == "refused") & by_provider).then(lit("the provider refused"))
        .when(col.without == "refused").then(lit("the model refused"))
        .when(col.without == "empty").then(lit("there is no text")),
    )  # fmt: skip
    return (
        beside(lists, reasons, "attempt")
        .with_columns(problem=pl.coalesce("reason", "problem"))
        .drop("reason")
    )


def placed(mentions: DataFrame, lists: DataFrame) -> DataFrame:
    """Return PLACED: MENTIONS with the identity, descriptor and location of their list."""
    return beside(mentions, lists.select(*OWNER, "identity", "descriptor", "context", "location"), *OWNER)


def counted(mentions: DataFrame) -> DataFrame:
    """Return each `phrase` with its number of `mentions`, the most frequent first."""
    return (
        mentions["phrase"].value_counts(name="mentions").sort("mentions", "phrase", descending=[True, False])
    )


def comparable(lists: DataFrame) -> bool:
    """Return whether at least two identities have a list."""
    return lists.filter(col.status != "missing")["identity"].n_unique() > 1


def unified(mentions: DataFrame, concepts: DataFrame) -> DataFrame:
    """Add the `concept` to each mention."""
    return beside(mentions, concepts.select("phrase", "concept"), "phrase")


def check_encoder(name: str, library: Library) -> None:
    """Check, without loading it, that the encoder is available.

    Raises
    ------
    NotRun
        The default encoder, or a package, is not available.
    InputError, ProviderError
        There is no such encoder in a folder or on the Hugging Face Hub.
    """
    from importlib.util import find_spec

    from tiltmeter.models.text_models import SentenceEncoder

    if find_spec("sentence_transformers") is None:
        without = "or use -P encoder=none, which clusters phrases by their words alone"
        raise NotRun(
            f'clustering phrases needs a sentence encoder: pip install "tiltmeter[local]", {without}'
        )
    SentenceEncoder(find_encoder(name, library), store=None)
