"""Prepared transactions: tasks stage records, an external coordinator commits or aborts a whole epoch."""

from __future__ import annotations

from goqueue.errors import InvalidRequest
from goqueue.servers.http.route import Call, Route
from goqueue.servers.http.types.prepared import (
    CommitEpoch,
    CountedParticipant,
    EpochOutcome,
    OpenedParticipant,
    OpenParticipant,
    ParticipantRow,
    WriterRow,
    Writers,
)
from goqueue.servers.services import Services
from goqueue.transactions.commands import Claim, DescribedWriter, EpochDecided, Producer

_EPOCH_DIGITS_MAX = 19
_NO_EPOCH = -1


async def open_participant(services: Services, call: Call) -> OpenedParticipant:
    """Begin to stage records."""
    body: OpenParticipant = call.body
    producer = await services.transactions.open_participant(call.path["writer"], _epoch(call), body.task)
    if producer is None:
        return OpenedParticipant(producer_id=-1, producer_epoch=-1, already_committed=True)
    return OpenedParticipant(producer_id=producer.producer_id, producer_epoch=producer.epoch, already_committed=False)


async def commit(services: Services, call: Call) -> EpochOutcome:
    """Show what the listed tasks staged, and hide the rest of the epoch."""
    body: CommitEpoch = call.body
    claims = [_claim(one) for one in body.participants]
    decided = await services.transactions.decide_epoch(call.path["writer"], _epoch(call), commit=True, claims=claims)
    return _outcome("committed", decided)


async def abort(services: Services, call: Call) -> EpochOutcome:
    """Hide what was staged for the epoch; it may be written again."""
    decided = await services.transactions.decide_epoch(call.path["writer"], _epoch(call), commit=False)
    return _outcome("aborted", decided)


async def list_writers(services: Services, _call: Call) -> Writers:
    """All writers."""
    rows = [_row(one) for one in await services.transactions.list_writers()]
    return Writers(writers=rows, count=len(rows))


async def describe(services: Services, call: Call) -> WriterRow:
    """One writer."""
    return _row(await services.transactions.describe_writer(call.path["writer"]))


def _epoch(call: Call) -> int:
    raw = call.path["epoch"]
    if not raw.isascii() or not raw.isdigit() or len(raw) > _EPOCH_DIGITS_MAX:
        raise InvalidRequest(f"{raw[:40]!r} is not an epoch", field="epoch", hint="use 0 to 2^63-1")
    return int(raw)


def _claim(one: str | CountedParticipant) -> Claim:
    return Claim(one) if isinstance(one, str) else Claim(one.task, Producer(one.producer_id, one.producer_epoch))


def _outcome(status: str, decided: EpochDecided) -> EpochOutcome:
    return EpochOutcome(
        status=status, already_decided=decided.already, committed=decided.committed, aborted=decided.aborted
    )


def _row(one: DescribedWriter) -> WriterRow:
    return WriterRow(
        writer=one.writer,
        last_committed_epoch=one.committed[-1][1] if one.committed else _NO_EPOCH,
        committed_epochs=list(one.committed),
        participants=[
            ParticipantRow(
                epoch=participant.epoch,
                task=participant.task,
                state=described.state.kafka_name,
                producer_id=described.producer_id,
                producer_epoch=described.producer_epoch,
                started_ms=described.started_ms,
                timeout_ms=described.timeout_ms,
                partitions=[str(place) for place in described.partitions],
            )
            for participant, described in one.participants
        ],
    )


_REFUSALS = (400, 404, 409, 429, 503, 507)

ROUTES = (
    Route(
        "POST",
        "/prepared/{writer}/{epoch}/participants",
        open_participant,
        "Begin to stage records for an epoch",
        {200: OpenedParticipant},
        body=OpenParticipant,
        errors=_REFUSALS,
    ),
    Route(
        "POST",
        "/prepared/{writer}/{epoch}/commit",
        commit,
        "Commit an epoch",
        {200: EpochOutcome},
        body=CommitEpoch,
        errors=_REFUSALS,
    ),
    Route("POST", "/prepared/{writer}/{epoch}/abort", abort, "Abort an epoch", {200: EpochOutcome}, errors=_REFUSALS),
    Route("GET", "/prepared", list_writers, "List writers of prepared transactions", {200: Writers}, errors=(503,)),
    Route("GET", "/prepared/{writer}", describe, "Describe a writer", {200: WriterRow}, errors=_REFUSALS),
)
