from ._asked_models import (
    AskedModel as AskedModel,
    Judging as Judging,
    has_room_to_think as has_room_to_think,
    name_of as name_of,
    open_model as open_model,
    several as several,
)
from ._asking import Asking as Asking
from ._caveats import sentences as sentences, warn_of as warn_of
from ._definitions import definition_named as definition_named
from ._explaining import Explanation as Explanation
from ._folder import RunFolder as RunFolder
from ._listings import STUDIES as STUDIES
from ._opened_run import Run as Run, known_runs as known_runs, load as load
from ._opening import folder_to_fill as folder_to_fill, open_folder as open_folder
from ._places import runs_place as runs_place, runs_root as runs_root
from ._planning import Plan as Plan, make_plan as make_plan
from ._presenting import (
    blocks_of as blocks_of,
    both_definitions as both_definitions,
    method_tables as method_tables,
    report_of as report_of,
)
from ._resolving import (
    Resolved as Resolved,
    groups_of as groups_of,
    refuse_code as refuse_code,
    resolve as resolve,
    resolve_stored as resolve_stored,
)
from ._selecting import narrowed as narrowed
from ._study_run import check_models as check_models, default_folder as default_folder, run_study as run_study
