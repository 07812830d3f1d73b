"""A small client of the Kafka protocol that blocks: raw batches in, closed batches out.

For programs that move data in bulk and run in processes of their own, as Spark's workers
do. It opens no batch: `goqueue.codec` does that, in whatever way the caller likes.
"""

from goqueue.client.wire.cluster import WireClient
from goqueue.client.wire.errors import AnswerLost, BrokerRefused, KafkaUnreachable, LoginFailed, SecurityUnsupported

__all__ = ["AnswerLost", "BrokerRefused", "KafkaUnreachable", "LoginFailed", "SecurityUnsupported", "WireClient"]
