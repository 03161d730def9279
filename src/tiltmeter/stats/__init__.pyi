from ._agreement import (
    BCubed as BCubed,
    Repeats as Repeats,
    VMeasure as VMeasure,
    b_cubed as b_cubed,
    cohen_kappa as cohen_kappa,
    decision_outcomes as decision_outcomes,
    interval_columns as interval_columns,
    interval_repeats as interval_repeats,
    nominal_columns as nominal_columns,
    nominal_repeats as nominal_repeats,
    v_measure as v_measure,
)
from ._arithmetic import nan_mean as nan_mean, ratio as ratio
from ._clusters import (
    FEWEST_IN_STRATUM as FEWEST_IN_STRATUM,
    NEGLIGIBLE as NEGLIGIBLE,
    WORDINGS as WORDINGS,
    ItemClusters as ItemClusters,
    clustered_spread as clustered_spread,
    stratified_variance as stratified_variance,
)
from ._disparity import (
    COMPARISONS as COMPARISONS,
    DisparityMeasure as DisparityMeasure,
    DixonTest as DixonTest,
    GroupValues as GroupValues,
    critical_values_of as critical_values_of,
    dixon_test as dixon_test,
    original_verdicts as original_verdicts,
    studentise as studentise,
    welch_p as welch_p,
)
from ._exact_tests import independent_rates_p as independent_rates_p, matched_rates_p as matched_rates_p
from ._families import hierarchical_q as hierarchical_q
from ._group_comparisons import (
    DRAWS as DRAWS,
    GroupDifference as GroupDifference,
    GroupSample as GroupSample,
)
from ._group_formulas import level_of_one_difference as level_of_one_difference
from ._group_means import FEWEST_ITEMS as FEWEST_ITEMS
from ._impact_ratios import (
    FOUR_FIFTHS as FOUR_FIFTHS,
    ImpactRatio as ImpactRatio,
    highest_ratio_interval as highest_ratio_interval,
    ratios_to_highest as ratios_to_highest,
    ratios_to_reference as ratios_to_reference,
)
from ._intersections import shrunk_rates as shrunk_rates
from ._intervals import (
    TEST_LEVEL as TEST_LEVEL,
    ExpectedError as ExpectedError,
    Interval as Interval,
    MaximumEstimate as MaximumEstimate,
    PairedDifference as PairedDifference,
    absolute_interval as absolute_interval,
    column_quantiles as column_quantiles,
    critical_values as critical_values,
    detectable as detectable,
    excess_p as excess_p,
    exchange_difference as exchange_difference,
    half_width as half_width,
    independent_difference as independent_difference,
    is_constant as is_constant,
    lifted_interval as lifted_interval,
    maximum_interval as maximum_interval,
    normal_interval as normal_interval,
    p_of_intervals as p_of_intervals,
    paired_difference as paired_difference,
    percentile_interval as percentile_interval,
    rare_event_interval as rare_event_interval,
    relabelling_t_p as relabelling_t_p,
    t_tail as t_tail,
    two_sided_t as two_sided_t,
    two_sided_t_p as two_sided_t_p,
    two_sided_z as two_sided_z,
)
from ._matched_sets import (
    SetAttempts as SetAttempts,
    SetStatistic as SetStatistic,
    flip_rate as flip_rate,
    set_range as set_range,
)
from ._rates import (
    Difference as Difference,
    LogOdds as LogOdds,
    box_line_slope as box_line_slope,
    detectable_excess as detectable_excess,
    effective_size as effective_size,
    line_slope as line_slope,
    log_odds as log_odds,
    lsq_linear_slope as lsq_linear_slope,
    pearson_from_sums as pearson_from_sums,
    rate_difference as rate_difference,
    share_interval as share_interval,
    size_from_width as size_from_width,
    stratified_rate_difference as stratified_rate_difference,
    wilson_interval as wilson_interval,
)
from ._reading_errors import weighted_sum_interval as weighted_sum_interval
from ._resampling import (
    exchanged_totals as exchanged_totals,
    normals_from_hashes as normals_from_hashes,
    replayed_totals as replayed_totals,
    resampled_totals as resampled_totals,
    swapped_totals as swapped_totals,
)
from ._stratified_means import stratified_mean_difference as stratified_mean_difference
from ._summary import (
    DEFAULT_FORMULAS as DEFAULT_FORMULAS,
    SAGED_FORMULAS as SAGED_FORMULAS,
    STATISTICS as STATISTICS,
    Formulas as Formulas,
    Sample as Sample,
    Statistic as Statistic,
    SummaryOptions as SummaryOptions,
    order_codes as order_codes,
    standards as standards,
    summarise as summarise,
)
from ._tests import (
    benjamini_hochberg as benjamini_hochberg,
    detectable_share as detectable_share,
    exact_greater as exact_greater,
    exact_independence_p as exact_independence_p,
    greater as greater,
    independence_p as independence_p,
    permuted_independence_p as permuted_independence_p,
    stratified_greater as stratified_greater,
    z_greater as z_greater,
)
