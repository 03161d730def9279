from ._groups import Groups as Groups
from ._missing import (
    MISSING_OUTCOMES as MISSING_OUTCOMES,
    MissingMetric as MissingMetric,
    compare_missing as compare_missing,
    is_about_missing as is_about_missing,
    is_missing_test as is_missing_test,
)
from ._samples import attempts_by_group as attempts_by_group, group_sample as group_sample
from ._sentences import (
    missing_sentences as missing_sentences,
    shown_differences as shown_differences,
    with_missing_responses as with_missing_responses,
)
