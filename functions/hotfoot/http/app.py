"""The ASGI app over one opened artifact: finds the route, answers, and turns every failure into a JSON answer."""

from __future__ import annotations

import time
import traceback
from collections.abc import Awaitable, Callable

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route, Router
from starlette.types import Receive, Scope, Send

from hotfoot import settings, targets
from hotfoot.contract.errors import HotfootError
from hotfoot.http import headers, hf, tei
from hotfoot.http.errors import Problem, RequestError, problem
from hotfoot.http.limits import Limits, server_limits
from hotfoot.http.service import Reply, Service
from hotfoot.model import Model
from hotfoot.observe import Fault, Record
from hotfoot.wire import dumps

Endpoint = Callable[[Request], Awaitable[Reply]]
Report = Callable[[Record], None]


def create_app(
    model: Model,
    *,
    limits: Limits | None = None,
    threads: int | None = None,
    namespace: str | None = None,
    report: Report = lambda _record: None,
) -> App:
    """The app for `model`. `limits` default to its target's, `threads` (shown by /info) to what the machine grants.

    `namespace` is where CloudWatch holds the metrics, on Lambda; `report` hears of each answer, and never sees a text.
    """
    service = Service(model, limits or server_limits(targets.load(model.manifest.target)))
    shown = threads or settings.read().threads
    return App(service, [*hf.routes(service), *tei.routes(service, threads=shown, namespace=namespace)], report)


class App:
    """Routes in, JSON out. Nothing but a broken connection gets past it."""

    def __init__(self, service: Service, routes: list[Route], report: Report) -> None:
        self._service, self._routes, self._report = service, routes, report
        self._digest = service.model.manifest.digest
        self._others = Router()  # answers lifespan and closes websockets, as ASGI wants

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One ASGI connection."""
        if scope["type"] != "http":
            await self._others(scope, receive, send)
            return
        started = time.perf_counter()
        request_id = headers.request_id(scope)
        try:
            response, record = await self._respond(scope, receive, request_id)
        except ClientDisconnect:
            return
        record = record.after(1e3 * (time.perf_counter() - started))
        self._report(record)
        await response(scope, receive, send)

    async def _respond(self, scope: Scope, receive: Receive, request_id: str) -> tuple[Response, Record]:
        reply, extra, route, fault = Reply(b""), {}, "", None
        try:
            if scope["method"] == "OPTIONS":
                reply, extra = Reply(b"", status=204), headers.PREFLIGHT
            else:
                found, scope = self._find(scope)
                route = found.path
                endpoint: Endpoint = found.endpoint
                reply = await endpoint(Request(scope, receive))
        except ClientDisconnect:  # nobody is left to answer
            raise
        except Exception as error:  # noqa: BLE001 - the edge: whatever went wrong, the client gets JSON and the next request works
            answer = problem(error, request_id)
            reply = Reply(dumps(answer.document()), status=answer.status)
            extra, fault = dict(answer.headers), fault_of(error, answer)
        response = self._response(reply, extra, request_id)
        record = Record(
            method=scope["method"],
            route=route,
            status=reply.status,
            request_id=request_id,
            texts=reply.meter.texts,
            tokens=reply.meter.tokens,
            characters=reply.meter.characters,
            timings=reply.meter.timings,
            fault=fault,
        )
        return response, record

    def _find(self, scope: Scope) -> tuple[Route, Scope]:
        """The route for a path and method. Raises RequestError: 404 that names the routes, 405 that names the methods."""
        path = scope["path"].rstrip("/") or "/"
        scope = {**scope, "path": path, "root_path": ""}
        allowed: set[str] = set()
        for route in self._routes:
            match, found = route.matches(scope)
            if match is Match.FULL:
                return route, {**scope, **found}
            if match is Match.PARTIAL:
                allowed |= route.methods or set()
        if allowed:
            listed = ", ".join(sorted(allowed))
            raise RequestError(
                405, "MethodNotAllowed", f"{path[:100]!a} takes {listed}, not {scope['method'][:20]!a}.", headers={"allow": listed}
            )
        served = ", ".join(f"{'POST' if 'POST' in (r.methods or ()) else 'GET'} {r.path}" for r in self._routes)
        task = self._service.model.manifest.task
        raise RequestError(404, "NotFound", f"there is no {path[:100]!a} for the task {task}.", hint=f"This artifact serves {served}.")

    def _response(self, reply: Reply, extra: dict[str, str], request_id: str) -> Response:
        response = Response(reply.body, status_code=reply.status)
        common = {
            **({"content-type": "application/json"} if reply.body else {}),
            **headers.of_answer(reply.meter, self._service.device),
            "x-request-id": request_id,
            "x-model-digest": self._digest,
            **headers.CORS,
            **extra,
        }
        response.raw_headers.extend(headers.encoded(common))
        return response


def fault_of(error: Exception, answer: Problem) -> Fault:
    """What the log may know: of our own faults type and place. Messages stay out, they could quote a text."""
    if answer.status < 500:
        return Fault(answer.error_type)
    places = tuple(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__))
    detail = error.message if isinstance(error, HotfootError) else ""  # ours quote values of the artifact, not of a request
    return Fault(answer.error_type, kind=type(error).__name__, detail=detail, places=places)
