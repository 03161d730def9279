from ._holdings import (
    Claimant as Claimant,
    ModelStats as ModelStats,
    Pruned as Pruned,
    Stats as Stats,
    opened_to_read as opened_to_read,
    prune as prune,
    stats as stats,
)
from ._integrity import (
    Health as Health,
    Problem as Problem,
    Repaired as Repaired,
    check as check,
    repair as repair,
)
from ._transfer import Imported as Imported, export_rows as export_rows, import_rows as import_rows
