from .assertions import assert_passes as assert_passes
from .feature_checks import check_feature as check_feature
from .probe_checks import check_probe as check_probe
from .provider_checks import check_provider as check_provider
from .statistic_checks import check_statistic as check_statistic
