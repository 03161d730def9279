from .bias_change import BiasScale as BiasScale
from .comparison import Comparison as Comparison, compare as compare
from .difference_blocks import subject_of_verdicts as subject_of_verdicts, within_blocks as within_blocks
from .differences import (
    DIFFERENCES as DIFFERENCES,
    MARGIN as MARGIN,
    VERDICTS as VERDICTS,
    judged_differences as judged_differences,
)
from .within import (
    STABILITY as STABILITY,
    WORDINGS as WORDINGS,
    repeat_stability as repeat_stability,
    wording_sensitivity as wording_sensitivity,
)
