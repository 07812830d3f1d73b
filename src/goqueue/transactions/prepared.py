"""Prepared transactions: participants stage records, an external coordinator decides a whole epoch.

One decision is one batch in one shard's log: the writer's committed epochs and the end of every
participant, so it is wholly there after a crash or not at all. A participant is a transaction
like any other from then on: markers follow, and its record is deleted when all are written.
"""

from __future__ import annotations

from collections.abc import Mapping

from goqueue.config import TransactionsConfig
from goqueue.errors import (
    ConcurrentTransactions,
    InvalidTransactionState,
    ParticipantNotFound,
    TooBusy,
    TransactionFenced,
    WriterNotFound,
)
from goqueue.transactions import epochs, transitions
from goqueue.transactions.commands import (
    Claim,
    DecideEpoch,
    DescribedWriter,
    DescribeWriter,
    EpochCommitted,
    EpochDecided,
    ListWriters,
    OpenParticipant,
    Producer,
    ProducerIdNeeded,
)
from goqueue.transactions.names import Name, Participant
from goqueue.transactions.outbox import Outbox, described
from goqueue.transactions.records import TransactionRecord, TransactionState, WriterRecord


class PreparedWriters:
    """The writers of one shard. `transactions` is the machine's own table, which this only reads."""

    def __init__(self, config: TransactionsConfig, transactions: Mapping[Name, TransactionRecord]) -> None:
        self._config = config
        self._transactions = transactions
        self._writers: dict[str, WriterRecord] = {}
        self._participants: dict[str, set[Participant]] = {}

    # --- what is stored -----------------------------------------------------------------

    def apply(self, writer: str, record: WriterRecord | None) -> None:
        """Take in what a writer has committed."""
        if record is None:
            self._writers.pop(writer, None)
        else:
            self._writers[writer] = record

    def joined(self, participant: Participant) -> None:
        """The participant has a record."""
        self._participants.setdefault(participant.writer, set()).add(participant)

    def left(self, participant: Participant) -> None:
        """The participant's record is gone."""
        known = self._participants.get(participant.writer, set())
        known.discard(participant)
        if not known:
            self._participants.pop(participant.writer, None)

    def stored(self) -> Mapping[str, WriterRecord]:
        """Every writer's record."""
        return self._writers

    # --- what can be asked --------------------------------------------------------------

    def open(self, ticket: int, command: OpenParticipant, now_ms: int, out: Outbox) -> None:
        """Give a participant a producer of its own."""
        participant = command.participant
        if epochs.is_committed(self._committed(participant.writer), participant.epoch):
            out.reply(ticket, EpochCommitted())
            return
        known = self._transactions.get(participant)
        if known is not None and known.state is TransactionState.ONGOING and known.partitions:
            out.abort(participant, known, now_ms)
        if known is not None and known.partitions:
            out.reply(ticket, ConcurrentTransactions("what the participant had staged is being aborted"))
            return
        if len(self._participants.get(participant.writer, ())) >= self._config.prepared_participants_max:
            raise TooBusy(
                f"{self._config.prepared_participants_max} participants of writer {participant.writer!r} are open",
            )
        if command.new_producer_id is None:
            out.reply(ticket, ProducerIdNeeded())
            return
        out.write(participant, transitions.staging(command.new_producer_id, self._config.prepared_timeout_ms, now_ms))
        out.reply(ticket, Producer(command.new_producer_id, 0))

    def decide(self, ticket: int, command: DecideEpoch, now_ms: int, out: Outbox) -> None:
        """Commit or abort an epoch, once."""
        committed = self._committed(command.writer)
        if epochs.is_committed(committed, command.epoch):
            if not command.commit:
                raise InvalidTransactionState(f"epoch {command.epoch} of writer {command.writer!r} is committed")
            out.reply(ticket, EpochDecided(already=True))
            return
        claims = command.claims if command.commit else ()
        chosen = {self._claimed(command, claim) for claim in claims}
        for participant in sorted(chosen):
            self._commit(participant, now_ms, out)
        # A committed epoch ends every older one too: nobody is left who could commit those.
        oldest = -1 if command.commit else command.epoch
        others = [
            one for one in self._ongoing(command.writer) if oldest <= one.epoch <= command.epoch and one not in chosen
        ]
        for participant in others:
            out.abort(participant, self._transactions[participant], now_ms)
        if command.commit:
            out.write_writer(command.writer, WriterRecord(epochs.with_epoch(committed, command.epoch), now_ms))
        already = not command.commit and not others
        out.reply(ticket, EpochDecided(already, committed=len(chosen), aborted=len(others)))

    def describe(self, ticket: int, command: DescribeWriter, _now_ms: int, out: Outbox) -> None:
        """One writer."""
        if command.writer not in self._writers and command.writer not in self._participants:
            raise WriterNotFound(command.writer)
        out.reply(ticket, self._described(command.writer))

    def list_all(self, ticket: int, _command: ListWriters, _now_ms: int, out: Outbox) -> None:
        """Every writer."""
        out.reply(ticket, tuple(self._described(name) for name in sorted({*self._writers, *self._participants})))

    def expire(self, now_ms: int, out: Outbox) -> None:
        """Forget writers that have not been heard of for long."""
        before_ms = now_ms - self._config.prepared_writer_expiration_ms
        for writer, record in self._writers.items():
            if record.changed_ms <= before_ms and writer not in self._participants:
                out.delete_writer(writer)

    # --- below --------------------------------------------------------------------------

    def _committed(self, writer: str) -> epochs.Ranges:
        known = self._writers.get(writer)
        return () if known is None else known.committed

    def _ongoing(self, writer: str) -> list[Participant]:
        return sorted(
            one
            for one in self._participants.get(writer, ())
            if self._transactions[one].state is TransactionState.ONGOING
        )

    def _claimed(self, command: DecideEpoch, claim: Claim) -> Participant:
        participant = Participant(command.writer, command.epoch, claim.task)
        record = self._transactions.get(participant)
        if record is None or record.state is not TransactionState.ONGOING:
            raise ParticipantNotFound(str(participant))
        if claim.producer is not None and claim.producer != Producer(record.producer_id, record.producer_epoch):
            raise TransactionFenced(f"{participant} was taken over by another producer")
        return participant

    def _commit(self, participant: Participant, now_ms: int, out: Outbox) -> None:
        record = self._transactions[participant]
        decided = transitions.decided(record, commit=True, now_ms=now_ms)
        if decided is None or not record.partitions:
            out.delete(participant)
        else:
            out.write(participant, decided)

    def _described(self, writer: str) -> DescribedWriter:
        participants = sorted(self._participants.get(writer, ()))
        return DescribedWriter(
            writer,
            self._committed(writer),
            tuple((one, described(one, self._transactions[one])) for one in participants),
        )
