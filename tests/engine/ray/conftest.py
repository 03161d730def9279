"""A small cluster of several simulated nodes on this machine, shared by the tests of this folder."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tiltmeter.engine import Journal, open_journal
from tiltmeter.engine.ray import RayEngine, RayOptions, open_ray

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

STORE = 80 * 2**20
TESTS = Path(__file__).parent.parent.parent


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with open_journal(tmp_path / "journal.db") as opened:
        yield opened


_started = contextlib.ExitStack()


@pytest.hookimpl(trylast=True)  # when pytest has ended what uses the cluster
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """End the cluster with the last test of this folder, not with the session: its processes take time and memory from other tests."""
    if nextitem is None or Path(__file__).parent not in nextitem.path.parents:
        _started.close()


@pytest.fixture(scope="session")
def cluster() -> Any:
    """A head that has room for the foreman and the source only, and two nodes with one core each; this process has joined it."""
    return _started.enter_context(_cluster())


@contextlib.contextmanager
def _cluster() -> Iterator[Any]:
    import ray
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep))
        quick = {"health_check_period_ms": 500, "health_check_failure_threshold": 4, "health_check_initial_delay_ms": 0}
        made = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False, "_system_config": quick},
        )
        for _ in range(2):
            made.add_node(num_cpus=1, object_store_memory=STORE)
        try:
            ray.init(address=made.address, log_to_driver=False, logging_level=logging.ERROR)
            yield made
        finally:
            ray.shutdown()
            made.shutdown()  # type: ignore[no-untyped-call]


@pytest.fixture(scope="module")
def engine(cluster: Any) -> Iterator[RayEngine]:
    with open_ray("ray", RayOptions.parse({"workers": "2"})) as opened:
        yield opened


def actors(kind: str = "MapWorker") -> list[psutil.Process]:
    """Processes in which actors of any cluster on this machine live (workers, or those of another kind), below the present process."""
    return [one for one in psutil.Process().children(recursive=True) if kind in " ".join(one.cmdline()[:1])]
