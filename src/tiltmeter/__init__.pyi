from .comparing import compare as compare
from .errors import IncompleteRun as IncompleteRun
from .exports import export as export
from .runs import Run as Run, load as load, run as run
from .study import Finding as Finding, Study as Study
