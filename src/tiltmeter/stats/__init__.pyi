from .agreement import (
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
from .arithmetic import nan_mean as nan_mean, ratio as ratio
from .disparity import (
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
from .families import hierarchical_q as hierarchical_q
from .intervals import (
    Interval as Interval,
    MaximumEstimate as MaximumEstimate,
    PairedDifference as PairedDifference,
    absolute_interval as absolute_interval,
    column_quantiles as column_quantiles,
    detectable as detectable,
    excess_p as excess_p,
    exchange_difference as exchange_difference,
    half_width as half_width,
    independent_difference as independent_difference,
    is_constant as is_constant,
    lifted_interval as lifted_interval,
    maximum_interval as maximum_interval,
    normal_interval as normal_interval,
    paired_difference as paired_difference,
    percentile_interval as percentile_interval,
    rare_event_interval as rare_event_interval,
    two_sided_t as two_sided_t,
    two_sided_t_p as two_sided_t_p,
    two_sided_z as two_sided_z,
)
from .rates import (
    Difference as Difference,
    LogOdds as LogOdds,
    box_line_slope as box_line_slope,
    log_odds as log_odds,
    lsq_linear_slope as lsq_linear_slope,
    pearson_from_sums as pearson_from_sums,
    rate_difference as rate_difference,
    stratified_rate_difference as stratified_rate_difference,
    wilson_interval as wilson_interval,
)
from .reading_errors import weighted_sum_interval as weighted_sum_interval
from .resampling import (
    exchanged_totals as exchanged_totals,
    normals_from_hashes as normals_from_hashes,
    replayed_totals as replayed_totals,
    resampled_totals as resampled_totals,
    swapped_totals as swapped_totals,
)
from .summary import (
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
from .tests import (
    benjamini_hochberg as benjamini_hochberg,
    exact_greater as exact_greater,
    exact_independence_p as exact_independence_p,
    greater as greater,
    independence_p as independence_p,
    permuted_independence_p as permuted_independence_p,
    stratified_greater as stratified_greater,
    z_greater as z_greater,
)
