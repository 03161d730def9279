from . import models as models, probes as probes
from .api import (
    analyse as analyse,
    arun as arun,
    build as build,
    gate as gate,
    label as label,
    list_models as list_models,
    list_probes as list_probes,
    list_studies as list_studies,
    plan as plan,
    run as run,
    verify as verify,
)
from .comparing import Comparison as Comparison, compare as compare
from .engine import Limits as Limits
from .errors import (
    CAVEATS as CAVEATS,
    Caveat as Caveat,
    ConstrainedRefusals as ConstrainedRefusals,
    IncompleteRun as IncompleteRun,
    InputError as InputError,
    MixedDefinitions as MixedDefinitions,
    OneName as OneName,
    ProviderError as ProviderError,
    ServedModels as ServedModels,
    UnconstrainedAnswers as UnconstrainedAnswers,
    Underpowered as Underpowered,
    UnequalMissing as UnequalMissing,
    Ungraded as Ungraded,
    UnusablePlugin as UnusablePlugin,
    UnvalidatedJudge as UnvalidatedJudge,
)
from .exports import export as export
from .gating import Verdict as Verdict
from .runs import Plan as Plan, Run as Run, load as load
from .runs._caveats import caveats as caveats
from .schema import Finding as Finding
from .study import Part as Part, Study as Study
