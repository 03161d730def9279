from .assertions import assert_passes as assert_passes
from .conformance import (
    check_feature as check_feature,
    check_probe as check_probe,
    check_provider as check_provider,
    check_statistic as check_statistic,
)
