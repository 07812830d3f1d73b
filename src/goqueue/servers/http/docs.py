"""The API's description of itself: /openapi.json for programs, /docs for people.

The page is written here, without scripts or styles from elsewhere: a broker on a closed
network shows its documentation too.
"""

from __future__ import annotations

import html
from typing import Any

import msgspec
from aiohttp import web

from goqueue.servers.http.openapi import document
from goqueue.servers.http.route import Call, Handler, Route
from goqueue.servers.services import Services

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
h1 { font-size: 1.6rem } h2 { margin-top: 2.5rem; font-size: 1.15rem; border-bottom: 1px solid #ddd }
details { border: 1px solid #e2e2e2; border-radius: 4px; margin: .4rem 0; padding: .4rem .8rem }
summary { cursor: pointer } code, pre { font: 13px/1.45 ui-monospace, monospace }
pre { background: #f6f6f6; padding: .7rem; overflow-x: auto; border-radius: 4px }
.method { display: inline-block; width: 4.2rem; font-weight: 600 }
@media (prefers-color-scheme: dark) { body { background: #161616; color: #ddd } pre { background: #222 }
details { border-color: #333 } h2 { border-color: #333 } }
"""


def describe(routes: tuple[Route, ...]) -> tuple[Route, ...]:
    """The routes that describe all the others, and the way to them."""
    made: dict[str, Any] = {}

    def specification(services: Services) -> dict[str, Any]:
        # Made on first use: most brokers are never asked.
        if not made:
            made.update(document(routes, services.identity.version))
        return made

    async def openapi(services: Services, _call: Call) -> web.Response:
        """The OpenAPI document."""
        return web.json_response(body=msgspec.json.encode(specification(services)))

    async def docs(services: Services, _call: Call) -> web.Response:
        """The same, to read."""
        return web.Response(text=page(specification(services)), content_type="text/html")

    async def home(services: Services, _call: Call) -> web.Response:
        """Whoever opens the port in a browser finds the page; whoever asks with curl learns where it is."""
        text = f"GoQueue {services.identity.version}. The API is described at docs, for programs at openapi.json.\n"
        # Relative, so that it also holds under /v1 and behind a proxy that adds a prefix.
        return web.Response(status=302, headers={"Location": "docs"}, text=text)

    return (
        Route("GET", "/", home, "The way to the description", {302: "text/plain"}),
        _route("/openapi.json", openapi, "This API as OpenAPI 3.1", "application/json"),
        _route("/docs", docs, "This API, to read", "text/html"),
    )


def _route(path: str, handle: Handler, summary: str, media_type: str) -> Route:
    return Route("GET", path, handle, summary, {200: media_type})


def page(specification: dict[str, Any]) -> str:
    """The document as one page of HTML."""
    by_tag: dict[str, list[str]] = {}
    for path, operations in specification["paths"].items():
        for method, operation in operations.items():
            by_tag.setdefault(operation["tags"][0], []).append(_entry(method, path, operation))
    sections = [f"<h2>{html.escape(tag)}</h2>{''.join(entries)}" for tag, entries in by_tag.items()]
    schemas = html.escape(msgspec.json.format(msgspec.json.encode(specification["components"]), indent=2).decode())
    title = f"{specification['info']['title']} {specification['info']['version']}"
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(title)}</title>"
        f"<style>{_STYLE}</style><h1>{html.escape(title)}</h1>"
        f"<p>{html.escape(specification['info']['description'])} "
        f"For programs: <a href=openapi.json>openapi.json</a>.</p>"
        f"{''.join(sections)}<h2>types</h2><details><summary>All types</summary><pre>{schemas}</pre></details></html>"
    )


def _entry(method: str, path: str, operation: dict[str, Any]) -> str:
    shown = {key: operation[key] for key in ("parameters", "requestBody", "responses") if key in operation}
    text = html.escape(msgspec.json.format(msgspec.json.encode(shown), indent=2).decode())
    return (
        f"<details><summary><span class=method>{method.upper()}</span> <code>{html.escape(path)}</code> "
        f"{html.escape(operation['summary'])}</summary><pre>{text}</pre></details>"
    )
