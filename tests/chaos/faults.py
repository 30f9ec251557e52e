"""The faults, and what is tried with each.

A fault happens once when it is called, and returns the second (of the monotonic clock) from which
recovery counts: when a server was killed or stands still, or when the cause has ended.
"""

from __future__ import annotations

import random
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

import psycopg

from invoice_sandbox.state.postgresql import LEASE
from tests.chaos.clients import Client, Receiver, Tenant
from tests.chaos.disk import lose_power
from tests.chaos.judge import WHOLE_RUN, WRITES, Judge, Outcome
from tests.chaos.servers import Deployment, deployed
from tests.databases import limit_files, restart
from tests.scenario_run import until
from tests.support import PATIENCE

Fault = Callable[[Deployment], float]

_LONGER_THAN_LEASE: Final = LEASE + 2
_A_LITTLE: Final = 16 * 1024
_SEGMENT: Final = 16 * 1024 * 1024
"""Bytes of a file of PostgreSQL's write-ahead log, which is made in one piece."""


def kill(deployment: Deployment) -> float:
    """SIGKILL of one of the servers, and a new one in its place."""
    server = deployment.any()
    server.kill()
    happened = time.monotonic()
    deployment.replace(server)
    return happened


def fail_power(deployment: Deployment) -> float:
    """The machine of a server on a file stops: what was not synced may be lost."""
    (server,) = deployment.servers
    server.kill()
    assert isinstance(deployment.store, Path)
    lose_power(deployment.store)
    happened = time.monotonic()
    deployment.replace(server)
    return happened


def freeze(deployment: Deployment) -> float:
    """A server that stands still until others have taken its place, and then goes on."""
    server = deployment.any()
    happened = time.monotonic()
    server.process.send_signal(signal.SIGSTOP)
    deployment.servers.remove(server)
    time.sleep(_LONGER_THAN_LEASE)
    server.process.send_signal(signal.SIGCONT)
    deployment.servers.append(server)
    return happened


def expire(deployment: Deployment) -> float:
    """All leases end at once: whoever is first runs a workspace, while its steps are due."""
    ended = "UPDATE invoice_sandbox.replicas SET until = clock_timestamp() - interval '1 second'"
    return _begin_again(deployment, ended)


def release(deployment: Deployment) -> float:
    """Nobody runs any workspace any more, but each server believes that it does."""
    return _begin_again(deployment, "DELETE FROM invoice_sandbox.replicas")


def _begin_again(deployment: Deployment, statement: str) -> float:
    """End leases early, and wait until each server has a lease again: it has learnt of it, or was
    the first. Until then it may read what is out of date."""
    leases = "SELECT FROM invoice_sandbox.replicas WHERE until > clock_timestamp()"
    count = len(deployment.servers)
    with psycopg.connect(_direct(deployment), autocommit=True) as connection:
        connection.execute(statement)
        happened = time.monotonic()
        until(lambda: connection.execute(leases).rowcount == count, "each server has a lease")
    return happened


def cut(deployment: Deployment) -> float:
    """A connection to the database ends right after a COMMIT was sent."""
    is_cut = threading.Event()

    def cut_once(content: bytes) -> bool:
        is_last = b"COMMIT" in content
        if is_last:
            is_cut.set()
        return is_last

    assert deployment.proxy is not None
    deployment.proxy.cut_at = cut_once
    assert is_cut.wait(PATIENCE)
    return time.monotonic()


def restart_database(_: Deployment) -> float:
    """PostgreSQL ends at once and starts again."""
    restart()
    return time.monotonic()


def use_up_connections(deployment: Deployment) -> float:
    """Another program takes all connections of PostgreSQL, those of the servers included."""
    assert deployment.proxy is not None
    own = _direct(deployment)
    with ExitStack() as stack, psycopg.connect(own, autocommit=True) as first:
        others = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        deadline = time.monotonic() + _LONGER_THAN_LEASE
        taken: list[psycopg.Connection] = []
        while time.monotonic() < deadline:
            with suppress(psycopg.OperationalError):
                while True:
                    other = psycopg.connect(own, dbname="postgres")
                    stack.callback(other.close)
                    taken.append(other)
            first.execute(others)
            time.sleep(0.05)
    assert len(taken) > 1
    return time.monotonic()


def lock_tables(deployment: Deployment) -> float:
    """Another program locks what every statement needs, so that all connections of the servers'
    pools wait."""
    with psycopg.connect(_direct(deployment)) as connection:
        connection.execute("LOCK TABLE invoice_sandbox.workspaces, invoice_sandbox.replicas")
        time.sleep(_LONGER_THAN_LEASE)
    return time.monotonic()


def fill_disk_of_file(deployment: Deployment) -> float:
    """No file of the server can grow, as on a full disk, until clients got 503."""
    (server,) = deployment.servers

    def limit(most: int | None) -> None:
        size = (resource.RLIM_INFINITY if most is None else most, resource.RLIM_INFINITY)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, size)

    return _without_space(deployment, limit, _A_LITTLE)


def fill_disk_of_database(deployment: Deployment) -> float:
    """No table of PostgreSQL can grow. Its log can: a full disk there ends PostgreSQL, and that is
    the fault of a restart."""
    with psycopg.connect(_direct(deployment), autocommit=True) as connection:
        for table, columns, values in _FILLERS:
            connection.execute(
                f"INSERT INTO invoice_sandbox.{table} ({columns}) SELECT {values}, "  # noqa: S608
                "(SELECT string_agg(sha256((one * 100 + part)::text::bytea), '') "
                "FROM generate_series(1, 50) part) FROM generate_series(1, 11000) one "
                "ON CONFLICT DO NOTHING"
            )
    return _without_space(deployment, limit_files, _SEGMENT)


_FILLERS: Final = (
    ("records", "workspace, state, collection, position, name, content", "'~', '', '~', one, ''"),
    ("logs", "workspace, log, number, content", "'~', '~', one"),
)
"""Tables that get 17 MB of rows of a workspace that there is not."""


def _without_space(deployment: Deployment, limit: Callable[[int | None], None], most: int) -> float:
    """Let no file grow beyond ``most`` bytes until a client got 503; others may find room that
    their deleted rows have left."""
    before = {one: one.rejected for one in deployment.clients}
    limit(most)
    try:
        until(lambda: any(one.rejected > n for one, n in before.items()), "a client gets 503")
    finally:
        limit(None)
    return time.monotonic()


def _direct(deployment: Deployment) -> str:
    assert deployment.proxy is not None
    return deployment.proxy.behind


@dataclass(frozen=True)
class Trial:
    """A fault, how often it happens, and what clients do meanwhile.

    ``writes``: acknowledged writes in all, at least. ``most``: how often it happens to the same
    store. ``scenarios``: of each workspace. ``clients``: that write to each workspace. ``skews``:
    by how many seconds the calendar of each server's machine is off. ``is_cached``: by the disk.
    """

    name: str
    fault: Fault
    times: int
    writes: int = 0
    most: int = 10
    scenarios: tuple[str, ...] = (WHOLE_RUN, WHOLE_RUN, WRITES)
    clients: int = 1
    pause: float = 0.25
    skews: tuple[float, ...] = (0, 0, 0)
    on_file: bool = False
    is_cached: bool = False

    def of(self, share: float) -> Trial:
        """Tried less often."""
        return replace(
            self, times=max(1, round(self.times * share)), writes=round(self.writes * share)
        )

    def parts(self) -> list[Trial]:
        """The same in parts, each with a store of its own."""
        count = -(-self.times // self.most)
        times = [self.times * part // count for part in range(count + 1)]
        writes = [self.writes * one // self.times for one in times]
        shares = zip(pairwise(times), pairwise(writes), strict=True)
        return [replace(self, times=b - a, writes=d - c) for (a, b), (c, d) in shares]


ON_FILE: Final = Trial("", kill, 0, scenarios=(WRITES, WHOLE_RUN), skews=(0,), on_file=True)

TRIALS: Final = (
    replace(
        ON_FILE, name="SIGKILL of a server on SQLite", times=200, writes=20_000, most=20, clients=4
    ),
    replace(
        ON_FILE,
        name="Power failure of a server on SQLite",
        fault=fail_power,
        times=200,
        writes=4000,
        most=20,
        is_cached=True,
    ),
    replace(ON_FILE, name="Disk of a server on SQLite full", fault=fill_disk_of_file, times=5),
    Trial("SIGKILL of one of 3 servers on PostgreSQL", kill, 40, 20_000, most=4, clients=2),
    Trial(
        f"A server stands still for {_LONGER_THAN_LEASE:.0f} s, longer than its lease",
        freeze,
        5,
        most=1,
    ),
    Trial("All leases end at once, and 2 servers race", expire, 60, most=15, skews=(0, 0)),
    Trial("A server is replaced without knowing it, and 2 race", release, 20, skews=(0, 0)),
    Trial("Clocks of servers 5 minutes off, and one is killed", kill, 15, skews=(0, 300, -300)),
    Trial("Connection to PostgreSQL cut in a commit", cut, 100, most=25),
    Trial("All connections of PostgreSQL taken", use_up_connections, 5, most=1),
    Trial("Tables locked, so that the pool is exhausted", lock_tables, 5, most=1),
    Trial("PostgreSQL killed and started again", restart_database, 10),
    Trial("Disk of PostgreSQL full", fill_disk_of_database, 5),
)
"""What is tried by ``make chaos``."""


def run(trial: Trial, seed: int) -> Outcome:
    """Let the fault happen several times while clients write."""
    chosen = random.Random(seed)  # noqa: S311  no secret
    store = deployed(chosen, trial.skews, on_file=trial.on_file, is_cached=trial.is_cached)
    with Receiver() as receiver, store as deployment:
        clients = list(_clients(trial, deployment, receiver))
        deployment.clients = clients
        judge = Judge(deployment, clients, receiver)
        try:
            for turn in range(1, trial.times + 1):
                _wait_for_writes(clients, trial.writes * turn // trial.times)
                time.sleep(chosen.uniform(0, 0.3))
                happened = trial.fault(deployment)
                judge.outcome.times += 1
                recovered = [one.wait_for_write(happened) for one in clients]
                judge.outcome.slowest = max(judge.outcome.slowest, *recovered)
                judge.look()
        finally:
            for client in clients:
                client.stop()
        return judge.conclude()


def _clients(trial: Trial, deployment: Deployment, receiver: Receiver) -> Iterable[Client]:
    for place, scenario in enumerate(trial.scenarios):
        tenant = Tenant.new(deployment.any(), scenario, receiver, place)
        pause = trial.pause if scenario == WHOLE_RUN or not trial.writes else 0
        for number in range(1 if scenario == WHOLE_RUN else trial.clients):
            yield Client(deployment, tenant, f"w{place}-{number}", pause)


def _wait_for_writes(clients: list[Client], wanted: int) -> None:
    deadline, written = time.monotonic() + PATIENCE, -1
    while (now := sum(len(one.ids) for one in clients)) < wanted:
        if now > written:
            deadline, written = time.monotonic() + PATIENCE, now
        assert time.monotonic() < deadline, "no client writes"
        time.sleep(0.01)
