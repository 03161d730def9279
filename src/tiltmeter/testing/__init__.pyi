from ._assertions import assert_passes as assert_passes
from ._feature_checks import check_feature as check_feature
from ._probe_checks import check_probe as check_probe
from ._provider_checks import check_provider as check_provider
from ._statistic_checks import check_statistic as check_statistic
