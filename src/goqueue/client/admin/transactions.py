"""Transactions of a broker, and any route that has no method of its own."""

from __future__ import annotations

from goqueue.client.admin.transaction_replies import EpochOutcome, TransactionState, Writer
from goqueue.client.calls import Calls, Row
from goqueue.client.transport import quoted


class TransactionAdmin(Calls):
    """The part of a client that administers transactions."""

    async def transactions(self) -> list[TransactionState]:
        """Transactions that are open or being ended.

        for one in await client.transactions():
            print(one.transactional_id, one.state)
        """
        return [TransactionState(one) for one in (await self._call("GET", "/transactions"))["transactions"]]

    async def transaction(self, transactional_id: str) -> TransactionState:
        """The state of a transactional id.

        print((await client.transaction("billing-1")).state)
        """
        return TransactionState(await self._call("GET", f"/transactions/{quoted(transactional_id)}"))

    async def abort_transaction(self, transactional_id: str) -> None:
        """Abort the open transaction of an id; its producer is fenced.

        await client.abort_transaction("billing-1")
        """
        await self._call("POST", f"/transactions/{quoted(transactional_id)}/abort")

    async def writers(self) -> list[Writer]:
        """Writers of prepared transactions: what they have committed, and who stages records.

        for one in await client.writers():
            print(one.writer, one.last_committed_epoch)
        """
        return [Writer(one) for one in (await self._call("GET", "/prepared"))["writers"]]

    async def writer(self, writer: str) -> Writer:
        """One writer of prepared transactions.

        print((await client.writer("nightly-export")).committed_epochs)
        """
        return Writer(await self._call("GET", f"/prepared/{quoted(writer)}"))

    async def abort_epoch(self, writer: str, epoch: int) -> EpochOutcome:
        """Abort all records that are staged for an epoch of a writer.

        await client.abort_epoch("nightly-export", 17)
        """
        return EpochOutcome(await self._call("POST", f"/prepared/{quoted(writer)}/{epoch}/abort"))

    async def request(self, method: str, path: str, body: Row | None = None, /) -> Row:
        """Call a route that has no method of its own.

        await client.request("POST", "/groups/billing/heartbeat", {"member_id": "a"})
        """
        return await self._call(method, path, body)

    async def get(self, path: str, /, **params: str) -> Row:
        """Read from a route that has no method of its own.

        print((await client.get("/version"))["version"])
        """
        return await self._call("GET", path, params=params)
