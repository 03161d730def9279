from ._groups import Groups as Groups, attribute_in_words as attribute_in_words
from ._impact_ratios import (
    FOUR_FIFTHS_RULE as FOUR_FIFTHS_RULE,
    IMPACT_RATIO as IMPACT_RATIO,
    impact_ratios as impact_ratios,
)
from ._intersections import SHRUNK as SHRUNK, shrunk_means as shrunk_means
from ._matched_sets import (
    BY_CHANCE as BY_CHANCE,
    FLIP_RATE as FLIP_RATE,
    RANGE as RANGE,
    SET as SET,
    flip_rates as flip_rates,
    set_ranges as set_ranges,
)
from ._missing import (
    compare_missing as compare_missing,
    is_about_missing as is_about_missing,
    is_missing_test as is_missing_test,
)
from ._options import (
    COMPARED_PARAMS as COMPARED_PARAMS,
    LENGTH as LENGTH,
    WORD as WORD,
    ComparisonOptions as ComparisonOptions,
)
from ._outcomes import (
    ComparedOutcome as ComparedOutcome,
    Outcome as Outcome,
    Row as Row,
    compare_outcome as compare_outcome,
)
from ._presentation import (
    shown_differences as shown_differences,
    with_matched_sets as with_matched_sets,
    with_missing_responses as with_missing_responses,
)
from ._samples import (
    COMPARED as COMPARED,
    attempts_by_group as attempts_by_group,
    cluster_memberships as cluster_memberships,
    item_clusters as item_clusters,
)
