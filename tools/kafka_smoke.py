"""Read one message with a Kafka client, through the address that the broker advertises: HOST:PORT TOPIC VALUE."""

from __future__ import annotations

import asyncio
import sys

SECONDS_MAX = 30


async def main() -> None:
    """The message must come in time, and be the expected one."""
    from aiokafka import AIOKafkaConsumer

    server, topic, value = sys.argv[1:]
    async with AIOKafkaConsumer(topic, bootstrap_servers=server, auto_offset_reset="earliest") as consumer:
        message = await asyncio.wait_for(consumer.getone(), SECONDS_MAX)
    if message.value != value.encode():
        sys.exit(f"expected {value!r} in {topic}, found {message.value!r}")
    print(f"{server}: read {value!r} from {topic}")


if __name__ == "__main__":
    asyncio.run(main())
