from .engines import open_engine as open_engine
from .journal import Journal as Journal, Row as Row, Taken as Taken, open_journal as open_journal
from .local_engine import Engine as Engine, generate as generate
from .prices import Cost as Cost, Price as Price, Prices as Prices
from .progress import (
    NOTEBOOK as NOTEBOOK,
    Display as Display,
    Snapshot as Snapshot,
    Tally as Tally,
    in_notebook as in_notebook,
    open_display as open_display,
)
from .rate_limit import Limits as Limits
from .requests import Keys as Keys, Request as Request
