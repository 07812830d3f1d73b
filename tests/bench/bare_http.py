"""The ceiling of the HTTP benchmark: an aiohttp handler that decodes the same body and answers, and stores nothing."""

from __future__ import annotations

import asyncio
import sys

import msgspec
import uvloop
from aiohttp import web

from goqueue.servers.http.types.common import Publish, Published, PublishResult

_decode = msgspec.json.Decoder(Publish).decode
_encode = msgspec.json.Encoder().encode


async def publish(request: web.Request) -> web.Response:
    _decode(await request.read())
    reply = Published(results=[PublishResult(partition=0, offset=0, timestamp=0)], acks="leader", count=1)
    return web.Response(body=_encode(reply), content_type="application/json")


async def serve() -> None:
    app = web.Application()
    app.router.add_post("/topics/{topic}/messages", publish)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    print(f"{host}:{port}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve())
    sys.exit(0)
