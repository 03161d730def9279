"""Which runs are at work on a journal."""

from __future__ import annotations

import re
from collections.abc import Callable
from time import monotonic, sleep
from typing import Final, Literal, NamedTuple

from sqlalchemy import Connection, Engine, func, select

from tiltmeter.engine import _owner
from tiltmeter.engine._owner import Liveness, Owner, new_owner
from tiltmeter.engine._schema import claims, owners
from tiltmeter.engine.upkeep._open import reading
from tiltmeter.errors import InputError

__all__ = ["Claimant", "claimants", "require_idle"]

_LOOK: Final = 1.0
"""Seconds between two looks at the heartbeat of runs elsewhere."""


_PROCESS: Final = re.compile(r"[^|]*\|\d{1,18}\|[^|]*", re.ASCII)
State = Literal["alive", "dead", "elsewhere"]


class Claimant(NamedTuple):
    """One run that has enrolled at the journal."""

    owner: str
    """Its token."""
    process: str
    """`HOST, process NUMBER`."""
    state: State
    """"elsewhere": on another machine, where only watching its heartbeat shows whether it lives."""
    claims: int
    """Prompts it is asking."""


def claimants(connection: Connection, liveness: Liveness | None = None) -> list[Claimant]:
    """Every enrolled run; those elsewhere are judged by what `liveness` has seen of them before."""
    liveness, here = liveness or Liveness(), _machine_of(new_owner().process)
    held = select(claims.c.owner, func.count().label("claims")).group_by(claims.c.owner).subquery()
    number = func.coalesce(held.c.claims, 0).label("claims")
    query = select(*owners.c, number).join_from(owners, held, owners.c.owner == held.c.owner, isouter=True).order_by(owners.c.owner)
    found = []
    for row in connection.execute(query):
        # No run of ours writes a process of another form: nobody of that name can live.
        dead = not _PROCESS.fullmatch(row.process) or liveness.is_dead(Owner(row.owner, row.process), row.beat)
        state: State = "dead" if dead else "alive" if _machine_of(row.process) == here else "elsewhere"
        found.append(Claimant(row.owner, _shown(row.process), state, int(row.claims)))
    return found


def require_idle(engine: Engine, shown: str, say: Callable[[str], None]) -> list[Claimant]:
    """The enrolled runs, all of them dead; watches those of other machines for as long as their heartbeat may be silent.

    Raises
    ------
    InputError
        A run is alive on the journal.
    """
    liveness, waited = Liveness(), False
    start = monotonic()
    beats: dict[str, int] = {}
    while True:
        with reading(engine) as connection:
            found = claimants(connection, liveness)
            now = {row.owner: row.beat for row in connection.execute(select(owners))}
        beating = {token for token, beat in now.items() if beats.setdefault(token, beat) != beat}
        for one in found:
            if one.state == "alive" or one.owner in beating:
                raise InputError(f"journal {shown}: a run is at work on it ({one.process}); wait for its end or stop it, then try again")
        if all(one.state == "dead" for one in found):
            return found
        if not waited:
            waited = True
            say(f"watching for up to {_owner.EXPIRY:.0f} s whether runs of other machines are alive")
        sleep(min(_LOOK, max(0.01, _owner.EXPIRY - (monotonic() - start))))


def _machine_of(process: str) -> str:
    return process.rsplit("|", 2)[0]


def _shown(process: str) -> str:
    """Host and process number, without the numbers of boot and namespace."""
    parts = process.rsplit("|", 2)
    return f"{parts[0].partition('/')[0]}, process {parts[1]}" if len(parts) == 3 else process
