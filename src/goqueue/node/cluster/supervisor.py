"""The supervisor: `goqueue server` in the mode `managed`. Its children are the broker and, on a voter, an etcd.

Both end with it. When the broker dies, its session is ended at once, so that others take over without waiting for the
session's time to pass; etcd goes on voting. Either child is started again when it dies by itself.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from goqueue.config import Config
from goqueue.metadata.directory import IDENTITY, Start
from goqueue.metadata.keys import session_key
from goqueue.metadata.shared.etcd.etcd_kv import EtcdKv
from goqueue.metadata.shared.kv import KvError
from goqueue.node.cluster.children import end, spawn
from goqueue.node.cluster.etcd import connect
from goqueue.node.cluster.rejoining import is_old_copy, join_again, settle, was_removed
from goqueue.node.cluster.voter import Voter, check_addresses, check_program, command_of, voter_of
from goqueue.node.process.logs import set_up_logging

_log = logging.getLogger("goqueue.supervisor")

# Set for the broker that a supervisor starts.
CHILD_VARIABLE = "_GOQUEUE_SUPERVISED"

BROKER_STOP_S_MAX = 60.0
ETCD_STOP_S_MAX = 10.0
_RESTART_S_FIRST = 1.0
_RESTART_S_MAX = 30.0
# A child that ran for so long is restarted without a longer pause.
_HEALTHY_S = 60.0


def is_supervised() -> bool:
    """Whether this process is the broker that a supervisor started."""
    return CHILD_VARIABLE in os.environ


def run_supervised(config: Config, broker_command: Sequence[str]) -> int:
    """Run both children until a signal, or until the broker refuses to start; returns the exit code."""
    set_up_logging(config.broker.log_level)
    # Whatever a child makes, it is for the owner alone.
    os.umask(0o077)
    return asyncio.run(_supervise(config, broker_command))


class Supervisor:
    """One node's children."""

    def __init__(self, config: Config, broker_command: Sequence[str]) -> None:
        self._config = config
        self._broker_command = tuple(broker_command)
        self._broker: Process | None = None
        self._etcd: Process | None = None
        self._stopping = asyncio.Event()
        self._exit_code = 0

    async def run(self) -> int:
        """See `run_supervised`."""
        voter = voter_of(self._config)
        program = None
        if voter is not None:
            program = check_program()
            check_addresses(voter)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        # Before the broker registers: it notes a new epoch beside the data, which would then look new.
        if voter is not None and await is_old_copy(voter, self._config):
            voter.set_aside()
        tasks = [asyncio.create_task(self._run_broker())]
        if voter is not None and program is not None:
            tasks.append(asyncio.create_task(self._run_etcd(voter, program)))
        stopped = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([stopped, *tasks], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._stopping.set()
            # The broker first: a clean stop hands its leaderships over, which etcd has to write down.
            await end(self._broker, seconds_max=BROKER_STOP_S_MAX)
            for task in (*tasks, stopped):
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            await end(self._etcd, seconds_max=ETCD_STOP_S_MAX)
        failures = [one for one in results if isinstance(one, Exception)]
        if failures:
            raise failures[0]
        return self._exit_code

    def _on_signal(self, number: int) -> None:
        if self._stopping.is_set():
            # The second signal does not wait: both children die with this process.
            os._exit(128 + number)
        self._stopping.set()

    async def _run_broker(self) -> None:
        is_first, pause_s = True, _RESTART_S_FIRST
        while not self._stopping.is_set():
            began_s = asyncio.get_running_loop().time()
            self._broker = await spawn(self._broker_command, environment={CHILD_VARIABLE: "1"})
            code = await self._broker.wait()
            if self._stopping.is_set():
                self._exit_code = max(code, 0)
                return
            lived_s = asyncio.get_running_loop().time() - began_s
            if code >= 0 and is_first and lived_s < _HEALTHY_S:
                # It refused to start, and said why.
                self._exit_code = code
                return
            _log.error("the broker has ended with %d; it is started again", code)
            await self._end_session()
            is_first = False
            pause_s = _RESTART_S_FIRST if lived_s > _HEALTHY_S else min(2 * pause_s, _RESTART_S_MAX)
            await asyncio.sleep(pause_s)

    async def _run_etcd(self, voter: Voter, program: str) -> None:
        pause_s = _RESTART_S_FIRST
        while not self._stopping.is_set():
            lost = not voter.has_data and not voter.is_founding
            cluster = await join_again(voter, self._config) if lost else None
            command = command_of(voter, program, cluster)
            voter.make_directory()
            began_s = asyncio.get_running_loop().time()
            self._etcd = await spawn(command)
            following = asyncio.create_task(settle(voter, self._config))
            code = await self._etcd.wait()
            following.cancel()
            if self._stopping.is_set():
                return
            _log.error("etcd has ended with %d; it is started again", code)
            if voter.has_data and await was_removed(voter):
                voter.set_aside()
            lived_s = asyncio.get_running_loop().time() - began_s
            pause_s = _RESTART_S_FIRST if lived_s > _HEALTHY_S else min(2 * pause_s, _RESTART_S_MAX)
            await asyncio.sleep(pause_s)

    async def _end_session(self) -> None:
        """End the session that the dead broker has left, if it is its own."""
        directory = Path(self._config.broker.data_dir) / IDENTITY
        try:
            own = msgspec.json.decode(directory.read_bytes(), type=Start).directory_id
        except (OSError, msgspec.DecodeError):
            return
        kv = EtcdKv(connect(self._config))
        key = self._config.metadata.prefix + session_key(self._config.broker.node_id)
        try:
            with suppress(KvError):
                found = await kv.get(key)
                if found is not None and found.value.decode() == str(own) and found.lease:
                    await kv.revoke(found.lease)
                    _log.warning("the session of the dead broker is ended: others take over")
        finally:
            await kv.close()


async def _supervise(config: Config, broker_command: Sequence[str]) -> int:
    return await Supervisor(config, broker_command).run()
