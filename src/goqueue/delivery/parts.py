"""What the delivery service is made of."""

from __future__ import annotations

from typing import NamedTuple

from goqueue.delivery.agreement import Agreement
from goqueue.delivery.dead_letters.dead_letter_moves import DeadLetters
from goqueue.delivery.dead_letters.originals import Originals
from goqueue.delivery.dead_letters.redriven_topics import RedrivenTopics
from goqueue.delivery.leases.taker import Taker
from goqueue.delivery.positions import QueuePositions
from goqueue.delivery.reading.acquired_batches import AcquiredReads
from goqueue.delivery.settlement.promises import Promises
from goqueue.delivery.settlement.settler import Settler
from goqueue.delivery.shards import QueueShards
from goqueue.delivery.table import NodeQueues


class DeliveryParts(NamedTuple):
    """State machine, tables, and those who ask and tell them."""

    shards: QueueShards
    queues: NodeQueues
    taker: Taker
    settler: Settler
    promises: Promises
    positions: QueuePositions
    acquired_reads: AcquiredReads
    agreement: Agreement
    dead_letters: DeadLetters
    originals: Originals
    redriven: RedrivenTopics
