"""Registration: how a node enters the cluster, under a session, and how it says that it is about to leave.

1. The session's key and the node's value are written in one transaction; from here on the node is fenced.
2. The broker epoch is synced into the data directory.
3. The node's value gets that epoch, which asks the controller to clean every in-sync set and to unfence the node.

A directory is the right one if it has the id that the node's value names and at least the epoch in it. Any other is a
lost disk, or an old copy of one: the node then leaves every in-sync set, even as the last member.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from uuid import UUID

import msgspec
from msgspec import structs

from goqueue.cluster.session import Session
from goqueue.errors import Conflict, GuardFailed, MetadataUnavailable
from goqueue.metadata import keys
from goqueue.metadata.events import Node, NodeChanged
from goqueue.metadata.membership import epoch_of, generation_of
from goqueue.metadata.shared.kv import Compare, Kv, Put
from goqueue.metadata.shared.kv_members import decode_node, encode_node, generation_in
from goqueue.metadata.shared.kv_store import KvMetadata
from goqueue.metadata.store import Guard, SessionGuard

_log = logging.getLogger("goqueue.cluster")

_RETRY_S = 0.2
ATTEMPTS_MAX = 100


class Directory(msgspec.Struct, frozen=True):
    """The data directory as it was found: its id, and the last broker epoch that was synced into it."""

    directory_id: UUID
    epoch: int


# Makes an epoch durable in the data directory.
KeepEpoch = Callable[[int], Awaitable[None]]


class Registration:
    """This node in the cluster, through one session after the other."""

    def __init__(
        self,
        metadata: KvMetadata,
        kv: Kv,
        session: Session,
        node: Node,
        directory: Directory,
        keep_epoch: KeepEpoch,
        *,
        prefix: str,
        takeover_ms: int,
    ) -> None:
        """`node` is what others are told. For `takeover_ms` a living session of the same id is waited for to end."""
        self._metadata = metadata
        self._kv = kv
        self._session = session
        self._node = node
        self._directory = directory
        self._keep_epoch = keep_epoch
        self._prefix = prefix
        self._takeover_ms = takeover_ms
        self._unfenced = asyncio.Event()
        self._leads_nothing = asyncio.Event()
        metadata.subscribe(lambda _: self._look())

    @property
    def node_id(self) -> int:
        """The number of this node."""
        return self._node.node_id

    async def register(self) -> int:
        """Register under the session's lease and return the broker epoch; raises `Conflict` if the id is taken."""
        epoch = await self._enter()
        await self._keep_epoch(epoch)
        self._directory = structs.replace(self._directory, epoch=epoch)
        self._session.epoch = epoch
        await self._change(broker_epoch=epoch)
        return epoch

    async def unfenced(self) -> None:
        """Wait until the controller has unfenced this node."""
        self._look()
        await self._unfenced.wait()

    async def hand_over(self, token: str) -> None:
        """Say that this node stops cleanly, and wait until the controller has taken its leaderships away."""
        await self._change(fenced=True, clean_token=token)
        self._look()
        await self._leads_nothing.wait()

    async def rejoin_forever(self) -> None:
        """Whenever the session is lost, begin another and register anew. The logs stay as they are."""
        while True:
            await self._session.lost.wait()
            self._unfenced.clear()
            try:
                self._metadata.use_lease(await self._session.begin())
                epoch = await self.register()
            except Exception as error:  # noqa: BLE001 - without this loop the node would stay out until it is started again
                # Among others a full disk, on which the new epoch cannot be kept.
                _log.warning("this node could not register again, and will try once more: %r", error)
                self._session.lost.set()
                await asyncio.sleep(_RETRY_S)
            else:
                _log.warning("this node has registered again, with broker epoch %d", epoch)

    async def _enter(self) -> int:
        node_id, key, session = self.node_id, keys.node_key(self.node_id), keys.session_key(self.node_id)
        waited_ms = 0
        for _ in range(ATTEMPTS_MAX):
            await self._metadata.catch_up()
            pairs = self._metadata.pairs
            self._check_generation(generation_in(pairs))
            if session in pairs:
                owner = UUID(pairs[session][0].decode())
                if owner == self._directory.directory_id:
                    # The directory is locked by this process: whoever held it before is gone.
                    await self._end_former()
                elif waited_ms >= self._takeover_ms:
                    raise Conflict(
                        f"node {node_id} is running with another data directory, {owner}; this one is "
                        f"{self._directory.directory_id}: give this node another broker.node_id, or stop the other one"
                    )
                else:
                    await asyncio.sleep(_RETRY_S)
                    waited_ms += int(_RETRY_S * 1000)
                continue
            held = pairs.get(key)
            entered = self._entered(None if held is None else decode_node(held[0]))
            made = await self._metadata.transact(
                [Compare(session, 0), Compare(key, 0 if held is None else held[1])],
                [
                    Put(session, str(self._directory.directory_id).encode(), self._session.lease),
                    Put(key, encode_node(entered)),
                ],
            )
            if made.succeeded:
                await self._metadata.catch_up()
                if entered.is_emptied:
                    _log.warning("node %d has lost its data directory and leaves every in-sync set", node_id)
                return epoch_of(generation_in(self._metadata.pairs), made.revision)
        raise MetadataUnavailable(f"node {node_id} could not register in {ATTEMPTS_MAX} attempts")

    def _check_generation(self, generation: int) -> None:
        """Refuse a store from before a restore or a recovery that this directory has seen: it must not decide again."""
        known = generation_of(self._directory.epoch)
        if known > generation:
            raise Conflict(
                f"the metadata store is of generation {generation}, and this node's directory has seen {known}: this "
                "store was replaced by 'cluster recover' or 'cluster restore'. Stop it, and name the endpoints of the "
                "other one"
            )

    def _entered(self, before: Node | None) -> Node:
        """The node's value while it is fenced, after the one that was there."""
        node = structs.replace(self._node, fenced=True, clean_token="", directory_id=self._directory.directory_id)
        if before is None:
            return structs.replace(node, broker_epoch=0)
        is_same = before.directory_id == node.directory_id and self._directory.epoch >= before.broker_epoch
        # Only the controller takes the mark away, once no in-sync set counts on what was lost.
        return structs.replace(
            node, broker_epoch=before.broker_epoch if is_same else 0, is_emptied=before.is_emptied or not is_same
        )

    async def _end_former(self) -> None:
        found = await self._kv.get(self._prefix + keys.session_key(self.node_id))
        if found is not None and found.value.decode() == str(self._directory.directory_id) and found.lease:
            await self._kv.revoke(found.lease)

    async def _change(self, **changes: object) -> None:
        """Change this node's value, under its session."""
        key, session = keys.node_key(self.node_id), keys.session_key(self.node_id)
        for _ in range(ATTEMPTS_MAX):
            image = self._metadata.image
            now = image.nodes().get(self.node_id)
            if now is None:
                break
            guards: list[Guard | SessionGuard] = [Guard(key, image.revision_of(key))]
            guards.append(SessionGuard(session, self._session.epoch))
            try:
                await self._metadata.commit([NodeChanged(self.node_id, structs.replace(now, **changes))], guards)
            except GuardFailed as refused:
                if refused.key == session:
                    break
                continue
            return
        raise MetadataUnavailable(f"node {self.node_id} lost its session while it registered")

    def _look(self) -> None:
        image = self._metadata.image
        node = image.nodes().get(self.node_id)
        if node is not None and node.clean_token and self.node_id not in image.leaders():
            self._leads_nothing.set()
        if node is not None and not node.fenced and node.broker_epoch == self._session.epoch > 0:
            self._unfenced.set()
