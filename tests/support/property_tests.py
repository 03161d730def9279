"""Settings of the property tests (Hypothesis): two profiles, and the seed of the random one.

`fixed`, the default, draws the same examples in every run, so that a change and not chance decides whether
the checks pass. `random` draws other examples in every run and prints its seed. It is requested with
TILTMETER_HYPOTHESIS=random or `pytest --hypothesis-profile=random`; `--hypothesis-seed=SEED` repeats it.

No profile has a deadline, and none fails because drawing takes long: both depend on the load of the machine.
"""

from __future__ import annotations

import os
from secrets import randbelow

import pytest
from hypothesis import HealthCheck, find, settings, strategies as st

PROFILE_VARIABLE = "TILTMETER_HYPOTHESIS"
SEED_VARIABLE = "TILTMETER_HYPOTHESIS_SEED"
"""Set for the workers of pytest-xdist, which must use the same seed."""
FIXED, RANDOM = "fixed", "random"
PER_TEST_FIXTURES = (HealthCheck.too_slow, HealthCheck.function_scoped_fixture)
"""Suppressed health checks of tests whose examples may share the fixtures of one test."""

settings.register_profile(
    FIXED,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    RANDOM,
    derandomize=False,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)


def load_profile() -> None:
    """Load the requested profile. Call it before modules with tests are imported: they copy the settings.

    Raises
    ------
    pytest.UsageError
        TILTMETER_HYPOTHESIS names no profile.
    """
    name = os.environ.get(PROFILE_VARIABLE) or FIXED
    if name not in (FIXED, RANDOM):
        raise pytest.UsageError(
            f"{PROFILE_VARIABLE}={name} is not a profile of the tests; use {FIXED} or {RANDOM}"
        )
    settings.load_profile(name)


def choose_seed(config: pytest.Config) -> None:
    """Choose the seed of the random profile, unless one is given."""
    is_random = (config.option.hypothesis_profile or settings.get_current_profile_name()) == RANDOM
    if is_random and config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = os.environ.setdefault(SEED_VARIABLE, str(randbelow(2**32)))


def prepare_characters() -> None:
    """Draw one text.

    The first one builds the table of all characters, once for all workers instead of in each.
    """
    find(st.text(), lambda text: True, settings=settings(database=None))


def described_seed(config: pytest.Config) -> str:
    """Return the line of the report that says how to repeat the examples."""
    seed = config.option.hypothesis_seed
    if seed is None:
        return f"property tests: the same examples in every run; others with {PROFILE_VARIABLE}={RANDOM}"
    options = f"--hypothesis-profile={RANDOM} --hypothesis-seed={seed}"
    return f"property tests: random examples; repeat them with {options}"
