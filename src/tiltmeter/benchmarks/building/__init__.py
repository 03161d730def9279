"""From a spec to a benchmark, stage by stage; each stage is a table that can be opened, edited and used again."""

from tiltmeter.benchmarks.building._build import Built, build
from tiltmeter.benchmarks.building._needs import Unfinished
from tiltmeter.benchmarks.building._store import StageResult

__all__ = ["Built", "StageResult", "Unfinished", "build"]
