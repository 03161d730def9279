from ._answer_readers import (
    LETTERS as LETTERS,
    Readers as Readers,
    choice_readers as choice_readers,
    labels_of_letters as labels_of_letters,
    letter_of as letter_of,
    yes_no_readers as yes_no_readers,
)
from ._constrained import AllowedAnswers as AllowedAnswers, allow as allow
from ._contract import Card as Card, Dials as Dials, Groups as Groups, Odds as Odds
from ._counting import (
    family as family,
    label_sums as label_sums,
    mean_columns as mean_columns,
    mean_of as mean_of,
    per_item as per_item,
    rate as rate,
    share as share,
    spread as spread,
)
from ._definitions import (
    PUBLISHED as PUBLISHED,
    ProbeDefinition as ProbeDefinition,
)
from ._listing import PROBES as PROBES, load_probe as load_probe
from ._metrics import (
    HARMS as HARMS,
    OUTCOME_DISPARITY as OUTCOME_DISPARITY,
    REPRESENTATIONAL_HARMS as REPRESENTATIONAL_HARMS,
    STEREOTYPICAL_REASONING as STEREOTYPICAL_REASONING,
    Band as Band,
    Metric as Metric,
    Sums as Sums,
    Values as Values,
    around_half as around_half,
    difference as difference,
    greatest_difference as greatest_difference,
    one_sided as one_sided,
    two_sided as two_sided,
)
from ._parts import Probe as Probe
from ._presentation import (
    average_note as average_note,
    normalised_block as normalised_block,
    normalised_table as normalised_table,
)
from ._published import read_published as read_published
from ._suite import SUITE as SUITE
from ._table_probe import TableProbe as TableProbe
