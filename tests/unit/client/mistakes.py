"""Mistakes that a type checker must find: every line that ends with a mark, and no other. Never run."""

from __future__ import annotations

from datetime import timedelta

from goqueue.client import QueueMessage, connect, sync


def handle(message: QueueMessage) -> None:
    print(message.text, message.valeu)  # mistake


def blocking() -> None:
    sync.connect("http://127.0.0.1:8080", tiemout=3)  # mistake
    with sync.connect("http://127.0.0.1:8080", timeout=3) as client:
        client.create_topic("x", partitons=3)  # mistake
        client.create_topic("x", partitions=3, exist_ok=True)
        print(client.topic("x").partitions, client.topic("x").partitons)  # mistake
        client.producer(ack="all")  # mistake
        with client.producer(acks="all") as producer:
            producer.send("x", "v", prioirty="high")  # mistake
            producer.send("x", "v", priority="urgent")  # mistake
            producer.send("x", "v", delay=object())  # mistake
            producer.send_and_wait("x", "v", prioirty="high")  # mistake
            producer.send_and_wait("x", "v", priority="high", delay="2s")
            producer.send("x", json={"a": 1})
            with producer.transaction() as transaction:
                transaction.send("x", "v", keey="k")  # mistake
        client.queue("x", visibilty="3s")  # mistake
        with client.queue("x", visibility="3s") as queue:
            queue.receive(limt=1)  # mistake
            for message in queue.receive(limit=1):
                queue.ack(message)
                queue.nack(message, delay="2s")
                queue.ack(message.receipt)  # mistake
            queue.run(handle, concurency=3)  # mistake
            queue.run(handle, pool="fibers")  # mistake
            queue.run(handle, concurrency=3, pool="threads", time_limit="30s")
        client.consumer("g", ["x"], auto_comit=False)  # mistake
        client.alter_policy("g", visibilty_ms=3)  # mistake
        client.alter_policy("g", visibility="3s", backoff_max=timedelta(minutes=5))
        client.alter_policy("g", visibility=object())  # mistake
        print(client.schedules.list()[0].cron, client.schedules.list()[0].corn)  # mistake
        print(client.delayed.cancel("x", slto="0/1"))  # mistake
        print(client.read("x", 0, ofset=3))  # mistake
        client.redrive("x", reson="")  # mistake
        print(client.redrive("x").wait().redriven)
        client.dead_letters("x", gruop="g")  # mistake


async def awaited() -> None:
    async with connect(["http://a:8080", "http://b:8080"]) as client, client.producer() as producer:
        await producer.send("x", "v", prioirty="high")  # mistake
        await producer.send_and_wait("x", "v", prioirty="high")  # mistake
        print((await producer.send_and_wait("x", "v")).offset)
        async with client.queue("x") as queue:
            await queue.run(handle, concurency=3)  # mistake
        print((await client.group("g")).members[0].client_id)
        print((await client.group("g")).members[0].clientid)  # mistake
        print((await client.delayed.list("x"))[0].slot, (await client.delayed.stats()).total_pending)
        print((await client.delayed.list("x"))[0].slto)  # mistake
        await client.delayed.reschedule("x", "0/1", dealy="2s")  # mistake
        print((await client.schedules.get("s")).next_runs, (await client.transactions())[0].state)
        print((await client.reliability_stats()).dlq.dead_lettered_totl)  # mistake
        print((await client.transactions())[0].stat)  # mistake
