from .asked_models import (
    AskedModel as AskedModel,
    Judging as Judging,
    has_room_to_think as has_room_to_think,
    name_of as name_of,
    open_model as open_model,
    several as several,
)
from .asking import Asking as Asking
from .caveats import sentences as sentences, warn_of as warn_of
from .explaining import Explanation as Explanation
from .folder import RunFolder as RunFolder
from .opened_run import Run as Run, known_runs as known_runs, load as load
from .opening import folder_to_fill as folder_to_fill, open_folder as open_folder
from .places import runs_place as runs_place, runs_root as runs_root
from .planning import Plan as Plan, make_plan as make_plan
from .presenting import blocks_of as blocks_of, method_tables as method_tables, report_of as report_of
from .resolving import (
    Resolved as Resolved,
    refuse_code as refuse_code,
    resolve as resolve,
    resolve_stored as resolve_stored,
)
from .selecting import narrowed as narrowed
from .study_run import check_models as check_models, default_folder as default_folder, run_study as run_study
