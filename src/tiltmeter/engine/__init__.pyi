from ._engines import open_engine as open_engine
from ._journal import Journal as Journal, Row as Row, Taken as Taken, open_journal as open_journal
from ._local_engine import Engine as Engine, generate as generate
from ._prices import Cost as Cost, Price as Price, Prices as Prices
from ._progress import (
    NOTEBOOK as NOTEBOOK,
    Display as Display,
    Snapshot as Snapshot,
    Tally as Tally,
    in_notebook as in_notebook,
    open_display as open_display,
)
from ._rate_limit import Limits as Limits
from ._requests import Keys as Keys, Request as Request
