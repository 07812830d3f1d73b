"""kafka-python, imported so that its own deprecated calls are not taken for ours."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    # Version 3 reads its schemas with a function that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
    from kafka.admin import MemberToRemove
    from kafka.errors import GroupSubscribedToTopicError
    from kafka.errors import KafkaError as PythonError

__all__ = [
    "GroupSubscribedToTopicError",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaProducer",
    "MemberToRemove",
    "OffsetAndMetadata",
    "PythonError",
    "TopicPartition",
]
