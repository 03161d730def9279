"""Parts of association studies (a grid of stories in one setting, or existing texts) and their stages."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Final

import polars as pl
from polars import DataFrame, String, col, lit, when

from tiltmeter._judging.questions import NOT_ASKED
from tiltmeter.associations._definitions import AssociationOptions, options_of
from tiltmeter.associations._design import make_design
from tiltmeter.associations._extraction_judge import extract_with_judge, judge_wording
from tiltmeter.associations._findings import (
    HARM,
    Basis,
    contrast_of,
    definitional_of,
    findings_of,
    identities_of,
    nothing_to_compare,
    with_permutation,
)
from tiltmeter.associations._labels import labelled, labels_of, with_examples
from tiltmeter.associations._missing import descriptions_by_group
from tiltmeter.associations._simulation import planted_associations, planted_stories
from tiltmeter.associations._stories import (
    ATTEMPT,
    comparable,
    counted,
    lists_of_mentions,
    placed,
    stories_of,
    unified,
    with_reasons,
)
from tiltmeter.associations._tables import (
    ASSOCIATIONS,
    CONCEPTS,
    DEFINITIONAL,
    EXCLUSIVE,
    FOUND,
    IDENTITIES,
    JUDGEMENTS,
    LISTS,
    MENTIONS,
    OWN_TEXTS,
    OWNER,
    PLACED,
    SHOWN,
)
from tiltmeter.associations._variants import with_variants
from tiltmeter.comparisons import Groups
from tiltmeter.errors import InputError, check_known
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
    from tiltmeter.associations._grid import Grid
    from tiltmeter.datasets import Library

Tables = Mapping[str, DataFrame]
USUAL_RATE: Final = 0.2
"""Assumed share of lists that contain a concept, for planning."""
ROUNDING: Final = 1e-9
"""Rate differences up to this value are rounding errors."""
MOSTLY_ECHO: Final = 0.5
"""A concept is an echo of the prompt if at least this share of its mentions contains a word of the prompt of
their text."""
TITLES: Final = {
    "two": "two characters",
    "single": "one character",
    "balanced": "two characters, good and bad experiences",
    "negative": "two characters, bad experiences",
    "open_box": "two characters, given through hidden states",
}
"""Titles of the settings of a grid."""


EXTRACTED: Final = {
    "lists": StageTable(LISTS, required=(*OWNER, "status")),
    "mentions": StageTable(PLACED, required=(*OWNER, "phrase")),
    "judgements": StageTable(JUDGEMENTS),
    "words": StageTable(MENTIONS),
}
"""Tables of the stage "extraction"."""
UNIFIED: Final = {
    "concepts": StageTable(CONCEPTS, required=("phrase", "concept"), unique=("phrase",)),
    "identities": StageTable(IDENTITIES),
}
"""Tables of the stage "concepts"."""
EXCLUDED: Final = {
    "exclusive": StageTable(EXCLUSIVE, required=("concept",), fill={"by": "user", "status": "ok"}),
    "exclusive_judgements": StageTable(JUDGEMENTS),
}
"""Tables of the stage "exclusive"."""
REPORTED: Final = {
    "findings": StageTable(FINDINGS),
    "associations": StageTable(FOUND),
    "definitional": StageTable(DEFINITIONAL),
    "shown": StageTable(SHOWN),
    "themes": StageTable(ASSOCIATIONS),
    "by_words": StageTable(ASSOCIATIONS),
}
"""Tables of the stage "findings"."""


@dataclass(frozen=True, slots=True)
class FindingsInput:
    """The tables from which the findings are made: the inputs of the stage "findings", in its order."""

    tests: DataFrame
    exclusive: DataFrame
    lists: DataFrame
    mentions: DataFrame
    concepts: DataFrame
    measures: DataFrame
    words: DataFrame


class Stories(Part):
    """Stories about characters with an identity: extraction, clustering, tests and exclusivity."""

    study: str = "associations"
    method = "associations"
    category: str
    """The category of the identities as named to a judge: "gender"."""
    harms: Sequence[str] = (HARM,)
    contrasts_unpaired: bool = True

    def design(self, library: Library, settings: Settings) -> DataFrame:
        """See Part.design; a missing encoder raises an error before any paid request."""
        options = options_of(settings)
        if options.encoder is not None and settings.file_for("concepts") is None:
            check_encoder(options.encoder, library)
        from tiltmeter.associations._group_sizes import Sizes, refuse_pairs

        design = self.rows(settings)
        of_groups = dict(_descriptions_of(design, "identity").iter_rows())
        refuse_pairs(Sizes(of_groups, options.against, options.reference))
        return design

    def judge_call_count(self, design: DataFrame, settings: Settings) -> int:
        """See Part.judge_call_count: one request per stage and story."""
        options = options_of(settings)
        if not options.judged:
            return 0
        return int(design["repetitions"].sum()) * len(options.stages)

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
        counts = _descriptions_of(design.with_columns(metric=metrics).explode("metric"), "metric", "identity")
        fewest = col.lists.min()
        others = col.lists.sum() - fewest
        variance = USUAL_RATE * (1 - USUAL_RATE) * (1 / fewest + 1 / others)
        errors = counts.group_by("metric", maintain_order=True).agg(error=variance.sqrt())
        finite = errors.filter(col.error.is_finite())  # infinite if there is only one identity
        return {metric: [ExpectedError(error)] for metric, error in finite.iter_rows()}

    def tests_of_a_family(self, design: DataFrame, settings: Settings) -> int:
        """See Part.tests_of_a_family: the number of concepts is not known before the run."""
        return SINGLE_TESTS

    def size_warnings(self, design: DataFrame, settings: Settings, level: float) -> Sequence[str]:
        """See Part.size_warnings: sentences if only large differences can be found, or groups are many."""
        from tiltmeter.associations._group_sizes import Sizes, warnings_about

        options = options_of(settings)
        of_groups = dict(_descriptions_of(design, "identity").iter_rows())
        if options.rules.published or len(of_groups) < 2:
            return ()
        dependence = {
            factor.name for factor in design.select("^(identity_2|name_1|cluster|pair)$") if factor.count()
        }
        sizes = Sizes(
            of_groups,
            options.against,
            options.reference,
            independent=not dependence,
            paired="pair" in dependence,
        )
        return [f"{self.title}: {sentence}" for sentence in warnings_about(sizes, options.minimum)]

    def compared_groups(self, settings: Settings) -> Sequence[Groups]:
        """See Part.compared_groups: the group of the character that is named first."""
        return [Groups(self.category, "identity_1")]

    def outcomes_by_group(self, view: RunView, settings: Settings) -> Iterator[tuple[Groups, DataFrame]]:
        """See Part.outcomes_by_group: missing descriptions of characters, and missing stories."""
        return descriptions_by_group(self.category, view.measures, view.stage("lists"))

    @abstractmethod
    def rows(self, settings: Settings) -> DataFrame:
        """Return the design, one row per prompt."""

    @property
    def stages(self) -> tuple[Stage, ...]:
        """See Part.stages.

        Extraction of phrases, clustering into concepts, tests, and exclusion of definitional concepts.
        """
        extraction = Stage(
            "extraction",
            EXTRACTED,
            ("answers", "prompts"),
            self.extract,
            asks=True,
            if_failed="not measured",
            from_user=self.extracted_by_user,
        )
        measures = Stage(
            "measures",
            {"measures": StageTable(MEASURES, further=True)},
            ("answers", "lists", "mentions"),
            self.measure,
            if_failed="not measured",
        )
        concepts = Stage(
            "concepts",
            UNIFIED,
            ("mentions", "lists"),
            self.unify,
            of_study=True,
            from_user=self.unified_by_user,
        )
        tests = Stage(
            "tests",
            {"tests": StageTable(ASSOCIATIONS)},
            ("lists", "mentions", "concepts"),
            self.test,
        )
        exclusive = Stage(
            "exclusive",
            EXCLUDED,
            ("tests", "mentions", "concepts"),
            self.exclude,
            asks=True,
            from_user=self.excluded_by_user,
        )
        findings = Stage(
            "findings",
            REPORTED,
            tuple(field.name for field in fields(FindingsInput)),
            self._run_findings,
        )
        return (extraction, measures, concepts, tests, exclusive, findings)

    def extract(self, answers: DataFrame, prompts: DataFrame, settings: Settings, tools: Tools) -> Tables:
        """Return the tables `lists`, `mentions` and, with a judge, `judgements`.

        Without a judge, words are extracted.
        """
        from tiltmeter.associations._extraction_words import extract

        options = options_of(settings)
        stories = stories_of(answers)
        prompt_ids = answers.select("prompt_id", attempt=ATTEMPT)
        prompt_of_attempt = prompt_ids.join(prompts, on="prompt_id", maintain_order="left")
        lists, mentions = extract(stories, prompt_of_attempt, options.language, options.terms)
        judged = {}
        if options.judged and tools.judge is not None:
            judged["words"] = mentions.clear() if options.rules.published else mentions
            lists, mentions, judged["judgements"] = extract_with_judge(
                stories, tools.judge, stages=options.stages, wording=options.wording
            )
        lists = with_reasons(lists, answers)
        return {"lists": lists, "mentions": placed(mentions, lists), **judged}

    def extracted_by_user(
        self, replaced: Tables, answers: DataFrame, prompts: DataFrame, settings: Settings, tools: Tools
    ) -> Tables:
        """Return the user's mentions and the lists of these stories.

        A list without mentions is empty, or missing if there is no text.
        """
        stories = stories_of(answers)
        mentions = replaced["mentions"].join(stories, on=OWNER, how="semi", maintain_order="left")
        if mentions.is_empty() and stories["text"].count():
            raise InputError(
                f"--replace mentions={settings.file_for('mentions')} contains no story of "
                f"{answers['model'][0]} in this run: give the table of a run of the same study"
            )
        lists = lists_of_mentions(stories, mentions, replaced.get("lists"))
        lists = with_reasons(lists, answers)
        distinct = conform(mentions, MENTIONS).unique(maintain_order=True)
        return {"lists": lists, "mentions": placed(distinct, lists)}

    def measure(
        self, answers: DataFrame, lists: DataFrame, mentions: DataFrame, settings: Settings, tools: Tools
    ) -> DataFrame:
        """Return the outcome of each attempt; the label of an answered one is its number of phrases."""
        readable = lists.group_by("attempt").agg(
            usable=(col.status != "missing").any(),
            waiting=col.problem.eq_missing(lit(NOT_ASKED)).all(),
        )
        phrases = mentions.group_by("attempt").agg(phrases=pl.len())
        attempts = beside(answers.select(attempt=ATTEMPT), readable, "attempt")
        attempts = beside(attempts, phrases, "attempt")
        attempts = attempts.with_columns(free_texts(answers)["outcome_without_text"])
        outcome = pl.coalesce("outcome_without_text", decide_outcome(failed="waiting", answered="usable"))
        count = col.phrases.fill_null(0).cast(String)
        return attempts.with_columns(outcome=outcome).select(
            "attempt", "outcome", label=when(col.outcome == "answered").then(count)
        )

    def unify(self, mentions: DataFrame, lists: DataFrame, settings: Settings, tools: Tools) -> Tables:
        """Return the tables `concepts` (one vocabulary for the whole study) and `identities`."""
        from tiltmeter.associations._concepts import unify
        from tiltmeter.associations._expressions import unify_words

        options = options_of(settings)
        phrases = counted(mentions)
        if options.encoder is None:
            concepts = unify_words(phrases, options.language, options.terms, mentions=mentions)
        else:
            vectors = tools.encoder(options.encoder).encode(phrases["phrase"].to_list())
            concepts = unify(
                phrases,
                vectors,
                threshold=options.threshold,
                method=options.method,
                terms=options.terms,
                strict=options.rules.strict_guards,
            )
        return {"concepts": concepts, "identities": identities_of(lists)}

    def unified_by_user(
        self, replaced: Tables, mentions: DataFrame, lists: DataFrame, settings: Settings, tools: Tools
    ) -> Tables:
        """Return the user's vocabulary as `concepts`, and `identities`.

        A phrase that the vocabulary lacks is a separate concept.
        """
        vocabulary = replaced["concepts"].select("phrase", "concept", "similarity")
        phrases = beside(counted(mentions), vocabulary, "phrase")
        concepts = phrases.with_columns(concept=pl.coalesce("concept", "phrase"))
        return {"concepts": concepts, "identities": identities_of(lists)}

    def test(
        self, lists: DataFrame, mentions: DataFrame, concepts: DataFrame, settings: Settings, tools: Tools
    ) -> DataFrame:
        """Return ASSOCIATIONS of every concept and identity.

        Empty if fewer than two identities have a list.
        """
        from tiltmeter.associations._significance.discovery import find_associations

        options = options_of(settings)
        if not comparable(lists):
            return DataFrame(schema=dict(ASSOCIATIONS))
        with_concepts = unified(mentions, concepts)
        _check_number_of_comparisons(lists, with_concepts, options)
        return find_associations(
            lists,
            with_concepts,
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
        """Return EXCLUSIVE for every concept that would be reported, and for other concepts with a term.

        The other concepts are excluded when identities are shuffled. A judge is asked only about concepts
        that would be reported. See `exclusivity`.
        """
        from tiltmeter.associations import _exclusivity as exclusivity
        from tiltmeter.associations._exclusive_judge import exclusive_by_judge
        from tiltmeter.associations._exclusive_terms import exclusive_by_terms

        options = options_of(settings)
        strict = not options.rules.published
        identities = tests["identity"].unique().sort().to_list()
        tested = tests.drop_nulls("p")["concept"].unique().sort().to_list()
        exclusive = exclusive_by_terms(tested, identities, options.terms, strict=strict)
        with_concepts = unified(mentions, concepts)
        echoes = with_concepts.filter(col.echo.mean().over("concept") >= MOSTLY_ECHO)["concept"]
        exclusive = exclusivity.marked(exclusive, echoes, exclusivity.ECHO, "a word of it is in the prompt")
        if strict:
            exclusive = exclusivity.with_parts_of_terms(exclusive, with_concepts, identities, options.terms)
            exclusive = exclusivity.with_names(exclusive, with_concepts, identities, options.terms)
            exclusive = exclusivity.with_agreement(exclusive, tests, options.language)

        is_undecided = exclusivity.is_undecided()
        reported = tests.filter("reported")["concept"].implode()
        exclusive = exclusive.filter(~is_undecided | col.concept.is_in(reported))
        if not options.judged or tools.judge is None:
            return {"exclusive": exclusive}
        undecided = exclusive.filter(is_undecided)["concept"].to_list()
        judged, judgements = exclusive_by_judge(
            undecided, identities, self.category, tools.judge, options.wording, terms=options.terms
        )
        decided = exclusive.filter(~is_undecided)
        return {"exclusive": pl.concat([decided, judged]), "exclusive_judgements": judgements}

    def excluded_by_user(
        self,
        replaced: Tables,
        tests: DataFrame,
        mentions: DataFrame,
        concepts: DataFrame,
        settings: Settings,
        tools: Tools,
    ) -> DataFrame:
        """Return the user's table; an empty identity means that the concept belongs to no identity."""
        identity = when(col.identity.str.strip_chars() != "").then("identity")
        table = replaced["exclusive"].with_columns(identity=identity)
        identities = mentions["identity"].unique()
        for name in table["identity"].drop_nulls().unique().sort():
            problem = f"--replace exclusive={settings.file_for('exclusive')}: unknown identity {name!r}"
            check_known(name, identities, problem)
        return table

    def _run_findings(self, *arguments: Any) -> Tables:
        """Run the stage "findings", whose inputs are the fields of FindingsInput."""
        *tables, settings, _ = arguments
        return self.find(FindingsInput(*tables), settings)

    def find(self, tables: FindingsInput, settings: Settings) -> Tables:
        """Return the findings and the tables that explain them.

        These are `findings`, `associations`, `definitional` (excluded), `shown` (all sentences), `themes`
        and, with a judge, `by_words`.
        """
        from tiltmeter.associations._exclusivity import drop_exclusive, is_exclusive, kept_out

        options = options_of(settings)
        rules, lists = options.rules, tables.lists
        mentions = unified(tables.mentions, tables.concepts)
        basis = Basis(lists, mentions, tables.measures, self, settings, options)
        if not comparable(lists):
            return {"findings": nothing_to_compare(basis)}
        named = tables.tests.filter("reported").select("concept", "identity").unique()
        if rules.published:
            named = named.clear()
        labels = labels_of(mentions.join(named, on=["concept", "identity"], how="semi"), tables.concepts)
        associations = labelled(with_examples(tables.tests, mentions), labels)
        exclusive = kept_out(tables.exclusive, options.keep)
        retained = with_permutation(drop_exclusive(associations, exclusive, rules), basis)
        if not rules.published:
            retained = with_variants(retained, mentions, options.language)
        dropped = associations.filter(col.reported & ~retained["reported"])
        pairs = exclusive.select("concept").join(lists.select("identity").unique(), how="cross")
        exclusive_pairs = pairs.filter(is_exclusive(pairs, exclusive, rules))
        themes = self._themes(tables, mentions, options, settings.level)
        return {
            "findings": findings_of(retained, exclusive_pairs, themes, basis),
            "themes": themes,
            "by_words": self._by_words(tables, settings),
            "associations": retained,
            "definitional": definitional_of(dropped, exclusive, basis),
            "shown": labelled(mentions, labels).with_columns(concept="label"),
        }

    def _themes(
        self, tables: FindingsInput, mentions: DataFrame, options: AssociationOptions, level: float
    ) -> DataFrame:
        """Return the associations of themes; none in the published definitions."""
        from tiltmeter.associations._themes import find_themes

        if options.rules.published:
            return tables.tests.clear()
        return find_themes(tables.lists, mentions, options, level)

    def _by_words(self, tables: FindingsInput, settings: Settings) -> DataFrame:
        """Return the associations of all contexts that words without a judge would show."""
        from tiltmeter.associations._exclusive_terms import exclusive_by_terms
        from tiltmeter.associations._exclusivity import drop_exclusive
        from tiltmeter.associations._expressions import unify_words

        lists, words = tables.lists, tables.words
        if words.is_empty():
            return tables.tests.clear()
        options = options_of(settings)
        expressions = unify_words(counted(words), options.language, options.terms, mentions=words)
        associations = self.test(lists, placed(words, lists), expressions, settings, NO_TOOLS)
        concepts = associations["concept"].unique().to_list()
        identities = lists["identity"].unique().to_list()
        exclusive = exclusive_by_terms(concepts, identities, options.terms)
        retained = drop_exclusive(associations, exclusive, options.rules)
        return retained.filter("reported", col.context.is_null())

    def to_label(self, view: RunView) -> DataFrame:
        """See Part.to_label: whether each phrase is said of the person."""
        mentions = view.stage("mentions").with_columns(who=pl.coalesce("descriptor", "identity"))
        place = col.attempt.str.extract_groups("(?s)^(.*)#([0-9]+)$").struct
        answers = pl.concat_list(lit("yes"), lit("no"))
        rows = mentions.with_columns(
            prompt_id=place.field("1"),
            repetition=place.field("2"),
            about=pl.format("{}: {}", "who", "phrase"),
            group="identity",
            read=lit("yes"),
            outcome=lit("answered"),
            question=pl.format("Does the text say “{}” of {}?", "phrase", "who"),
            allowed=answers,
            meaning=answers,
        )
        phrase = ["prompt_id", "repetition", "about"]
        return conform(rows, TO_LABEL).unique(phrase, keep="first", maintain_order=True)

    def contrast(self, first: RunView, second: RunView, settings: Settings) -> DataFrame | None:
        """See Part.contrast.

        Compares every concept and identity by the tables `lists`, `mentions` and `concepts`.
        """
        return contrast_of(first, second, settings)


class StoryGrid(Stories):
    """Part with one category of a grid in one setting."""

    sizes: ClassVar[Mapping[str, float]] = {"quick": 0.25}

    def __init__(self, grid: Grid, category: str, setting: str) -> None:
        self._grid = grid
        self.category = category
        self.setting = setting
        self.name = category if setting == "two" else f"{category}_{setting}"
        title = grid.category(category).title or category.replace("_", " ").capitalize()
        self.title = f"{title}: {TITLES[setting]}"

    def simulate(self, design: DataFrame, dials: Mapping[str, float]) -> DataFrame:
        """See Part.simulate."""
        return planted_stories(design, dials)

    def planted_effects(self, design: DataFrame, dials: Mapping[str, float]) -> DataFrame | None:
        """See Part.planted_effects."""
        truth = planted_associations(design, dials)
        highest = (col.rate == col.rate.max().over("concept")) & (col.effect > ROUNDING)
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

    name: str = OWN_TEXTS
    title: str = "Your own texts"
    category: str = "identity"

    def __init__(self, texts: DataFrame) -> None:
        self._texts = texts.select("identity", "name", "location", "pair", "cluster", "prompt")
        pairs = texts.drop_nulls("pair").group_by("pair").agg(groups=col.identity.n_unique())
        if pairs.height and (pairs["groups"] < 2).all():
            raise InputError(
                "--pair: no value of this column has texts of two groups; "
                "choose the column that pairs the texts"
            )

    def rows(self, settings: Settings) -> DataFrame:
        """Return one row per text; the prompt is empty if it is unknown."""
        rows = self._texts.with_row_index("item").with_columns(
            prompt_id=pl.format(f"{self.name}/{{}}", "item"),
            part=lit(self.name),
            prompt_index=lit(0),
            wording=lit("own"),
            prompt=col.prompt.fill_null(""),
            repetitions=lit(1),
            first_sample=lit(0),
        )
        # The turn assigns the texts of an identity to the two halves.
        turn = pl.int_range(pl.len()).over("identity", "location")
        factors = rows.select(
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
        return conform(rows, DESIGN).hstack(factors)


def _check_number_of_comparisons(lists: DataFrame, mentions: DataFrame, options: AssociationOptions) -> None:
    """Raise InputError if the comparisons of all concepts, locations and groups do not fit into memory."""
    from tiltmeter.associations._group_sizes import Sizes, refuse_comparisons

    minimum = 1 if options.rules.published else options.minimum
    concepts_of_lists = mentions.drop_nulls("concept").select(*OWNER, "concept", "context").unique()
    tests = concepts_of_lists.group_by("concept", "context").len().filter(col.len >= minimum).height
    if not options.rules.published and concepts_of_lists["context"].n_unique() > 1:
        tests += concepts_of_lists.group_by("concept").len().filter(col.len >= minimum).height
    groups = dict(lists["identity"].value_counts().iter_rows())
    sizes = Sizes(groups, options.against, options.reference)
    refuse_comparisons(tests, sizes, None if options.rules.published else minimum)


def _descriptions_of(design: DataFrame, *by: str) -> DataFrame:
    """Return the numbers of character descriptions of a design, `lists`, by `identity` and more."""
    identities = pl.concat_list("^identity_[12]$")
    characters = design.with_columns(identity=identities).explode("identity").drop_nulls("identity")
    return characters.group_by(by, maintain_order=True).agg(lists=col.repetitions.sum())


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

    from tiltmeter.models._text_models import SentenceEncoder

    if find_spec("sentence_transformers") is None:
        raise NotRun(
            'clustering phrases needs a sentence encoder: pip install "tiltmeter[local]", '
            "or use -P encoder=none, which clusters phrases by their words alone"
        )
    SentenceEncoder(find_encoder(name, library), store=None)
