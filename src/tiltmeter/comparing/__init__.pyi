from ._bias_change import BiasScale as BiasScale
from ._comparison import Comparison as Comparison, compare as compare
from ._difference_blocks import subject_of_verdicts as subject_of_verdicts, within_blocks as within_blocks
from ._differences import (
    DIFFERENCES as DIFFERENCES,
    MARGIN as MARGIN,
    VERDICTS as VERDICTS,
    judged_differences as judged_differences,
)
from ._within import (
    STABILITY as STABILITY,
    WORDINGS as WORDINGS,
    repeat_stability as repeat_stability,
    wording_sensitivity as wording_sensitivity,
)
