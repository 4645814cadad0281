"""The ASGI app over opened artifacts: finds the route, answers, and turns every failure into a JSON answer."""

from __future__ import annotations

import hmac
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.routing import Router
from starlette.types import Receive, Scope, Send

from hotfoot import settings, targets
from hotfoot.cache import Cache
from hotfoot.contract.errors import ArtifactError, HotfootError
from hotfoot.contract.peers import Peer
from hotfoot.http import about, body, headers, hf, openai, peers, rerank, tei, tokens
from hotfoot.http.errors import Problem, RequestError, problem
from hotfoot.http.limits import Limits, server_limits
from hotfoot.http.operations import Call, Operation
from hotfoot.http.paths import Paths
from hotfoot.http.service import Gate, Reply, Service
from hotfoot.http.site import Place, Site, UnservedError
from hotfoot.model import Model
from hotfoot.observe import Fault, Record
from hotfoot.wire import dumps

Report = Callable[[Record], None]
OPEN = ("/docs", "/health", "/ping")  # GET: what a load balancer asks, and pages that hold nothing; a token is typed into them
ANSWER_BYTES = 1024  # of a kept answer beside its body and its request's: the objects around them
CACHED_KEY_BYTES = 2**16  # a larger body is read anew each time: its key would take the room of many answers


@dataclass(frozen=True)
class Options:
    """How an app is put up.

    limits default to the target's, threads (shown by /info) to what the machine grants. namespace is where CloudWatch holds the
    metrics, on Lambda; scrape gives them to Prometheus, on a server. report hears of each answer, and never sees a text. cache_bytes
    bounds the memory of whole answers. token: what `Authorization: Bearer` must carry, None for a door that others guard. shape:
    of the answers where the request does not say.
    """

    limits: Limits | None = None
    threads: int | None = None
    namespace: str | None = None
    scrape: Callable[[], bytes] | None = None
    report: Report = lambda _record: None
    cache_bytes: int = 0
    token: str | None = None
    shape: settings.AnswerShape = "current"
    peers: Sequence[Peer] = ()


def create_app(models: Model | Mapping[str, Model], options: Options | None = None) -> App:
    """The app for one artifact, or for several by name, the default first. Raises ArtifactError for names that cannot be told apart."""
    options = options or Options()
    named = {None: models} if isinstance(models, Model) else models
    if not named:
        raise ArtifactError("no artifact to serve.")
    limits = [options.limits or server_limits(targets.load(model.manifest.target)) for model in named.values()]
    gate = Gate(limits[0])
    services = [Service(model, own, gate, name, options.shape) for (name, model), own in zip(named.items(), limits, strict=True)]
    return App(Site(services, options.peers), options)


@dataclass
class Course:
    """How far a request has come: what the answer's headers and the log need, also when it ends in an error."""

    service: Service
    route: str = ""
    problem: Callable[[Problem], tuple[int, dict[str, Any]]] = Problem.answer
    extra: dict[str, str] = field(default_factory=dict)
    fault: Fault | None = None


class App:
    """Routes in, JSON out. Nothing but a broken connection gets past it."""

    def __init__(self, site: Site, options: Options) -> None:
        self.site, self._options = site, options
        threads = options.threads or settings.read().threads
        said = about.About(site, threads, options.namespace, options.scrape).operations()
        described = Operation("GET", "/openapi.json", "This server", "This reference as OpenAPI", self._described)
        dialects = [*hf.operations(), *tei.operations(), *openai.operations(), *rerank.operations(), *tokens.operations()]
        self.operations = [*dialects, *said, described]
        self._paths = Paths(self.operations)
        self.answers: Cache[tuple[object, ...], tuple[Service, Reply]] = Cache(options.cache_bytes)
        self._token = None if options.token is None else options.token.encode()
        self._others = Router()  # answers lifespan and closes websockets, as ASGI wants

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One ASGI connection."""
        if scope["type"] != "http":
            await self._others(scope, receive, send)
            return
        started = time.perf_counter()
        request_id = headers.request_id(scope)
        course = Course(self.site.default)
        try:
            reply = await self._reply(scope, receive, course, request_id)
        except ClientDisconnect:  # nobody is left to answer
            return
        self._options.report(record(scope, course, reply, request_id, 1e3 * (time.perf_counter() - started)))
        await send(headers.start(reply.status, headers_of(course, reply, request_id), len(reply.body)))
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else reply.body})

    async def _reply(self, scope: Scope, receive: Receive, course: Course, request_id: str) -> Reply:
        try:
            if scope["method"] == "OPTIONS":
                course.extra = headers.PREFLIGHT
                return Reply(b"", status=204)
            if openai.speaks(scope["path"]):
                course.problem = openai.problem  # also where no route is found
            self._check_token(scope)
            place = self.site.place(scope["path"])
            if place.peer is not None:
                return self._forward(place.peer, scope)
            if place.named:
                course.service = place.services[0]
            operation, params = self._find(place, scope["method"])
            course.route, course.problem = operation.path, operation.problem
            if operation.method == "POST":
                return await self._post(operation, place, params, Request(scope, receive), course)
            course.service = self.site.first(place, operation, params)
            return await operation.answer(Call(course.service, {}, params, scope, remember=False))
        except ClientDisconnect:
            raise
        except Exception as error:  # noqa: BLE001 - the edge: whatever went wrong, the client gets JSON and the next request works
            if isinstance(error, UnservedError):
                error.hint = f"This artifact serves {', '.join(self._routes_of(error.services))}."
            answer = problem(error, request_id)
            course.extra, course.fault = dict(answer.headers), fault_of(error, answer)
            status, document = course.problem(answer)
            return Reply(dumps(document), status=status)

    async def _post(self, operation: Operation, place: Place, params: Mapping[str, str], request: Request, course: Course) -> Reply:
        """An answer from memory where the same body has had one, else a new one. What is asked again is the body as it was sent."""
        scope, limit = request.scope, self.site.default.limits.request_bytes
        raw, encoding = await body.read(request, limit), request.headers.get("content-encoding", "")
        remember = self._options.cache_bytes > 0 and headers.flag(scope, b"x-use-cache", default=True)
        keeps = remember and len(raw) <= CACHED_KEY_BYTES
        # what stands in it beside the body has few values, or the memory would hold more than it counts
        key = (place.services, operation.path, *params.items(), encoding, hf.asked_shape(scope), raw)
        if keeps and (kept := self.answers.get(key)) is not None:
            course.service, reply = kept
            return reply
        document = body.parse(raw, encoding, limit)
        wanted = document.pop("model", None)
        chosen = self.site.first(place, operation, params) if wanted is None else self.site.asked(place, operation, params, wanted)
        if isinstance(chosen, Peer):
            return self._forward(chosen, scope)
        course.service = chosen
        reply = await operation.answer(Call(chosen, document, params, scope, remember))
        if reply.keep and keeps:
            self.answers.put(key, (chosen, remembered(reply)), len(raw) + len(reply.body) + ANSWER_BYTES)
        return reply

    async def _described(self, call: Call) -> Reply:
        from hotfoot.http import openapi  # whoever answers need not know how it would be described

        site = Site([call.service]) if self.site.place(call.scope["path"]).named else self.site
        return Reply(dumps(openapi.document(site, self.operations, token=self._token is not None)))

    @staticmethod
    def _forward(peer: Peer, scope: Scope) -> Reply:
        # in this thread, as a function has one request at a time
        found = peers.ask(peer, scope["aws.event"], scope["aws.context"].get_remaining_time_in_millis())
        theirs = {name: value for name, value in found.headers.items() if not name.startswith("access-control-")}  # ours say the same
        return Reply(found.body, status=found.status, headers=theirs)

    def _find(self, place: Place, method: str) -> tuple[Operation, Mapping[str, str]]:
        """The operation for a path and method. Raises UnservedError, or RequestError: 405 that names the methods."""
        every = self._paths.find(place.path).items()
        found = {name: (o, params) for name, (o, params) in every if any(o.serves(s, params) for s in place.services)}
        if not found:
            raise UnservedError(place.services, place.path)
        if method == "HEAD" and "GET" in found:
            method = "GET"
        if method not in found:
            listed = ", ".join(sorted(found))
            raise RequestError(
                405, "MethodNotAllowed", f"{place.path[:100]!a} takes {listed}, not {method[:20]!a}.", headers={"allow": listed}
            )
        return found[method]

    def _routes_of(self, services: Sequence[Service]) -> list[str]:
        return [f"{o.method} {o.path}" for o in self.operations if any(o.serves(s, {"task": s.model.manifest.task}) for s in services)]

    def _check_token(self, scope: Scope) -> None:
        """Raise RequestError (401) where the server asks for a token and the request has not the right one."""
        if self._token is None or (scope["method"] in ("GET", "HEAD") and self._is_open(scope)):
            return
        kind, _, sent = headers.sent(scope, b"authorization").partition(" ")
        if kind.lower() != "bearer" or not hmac.compare_digest(sent.strip(" \t").encode("latin-1"), self._token):
            said = "the token is not right." if sent else "this server asks for a token."
            raise RequestError(
                401, "Unauthorized", said, hint="Send `Authorization: Bearer …`.", headers={"www-authenticate": 'Bearer realm="hotfoot"'}
            )

    def _is_open(self, scope: Scope) -> bool:
        """Whether a GET needs no token. The playground's page is open at its address, what `/` says as JSON is not."""
        return (scope["path"].rstrip("/") or "/") in OPEN or (self.site.is_front(scope["path"]) and about.wants_page(scope))


def remembered(reply: Reply) -> Reply:
    """The reply as the next one gets it: from memory, in no time. Its body is copied: orjson's own holds on to its working space."""
    meter = replace(reply.meter, timings={}, cache="hit", remembered=reply.meter.inputs)
    return replace(reply, body=bytes(memoryview(reply.body)), meter=meter, keep=False)


def record(scope: Scope, course: Course, reply: Reply, request_id: str, total_ms: float) -> Record:
    """What the log and the metrics hear of an answer."""
    meter = reply.meter
    return Record(
        method=scope["method"],
        route=course.route,
        status=reply.status,
        request_id=request_id,
        texts=meter.texts,
        tokens=meter.tokens,
        characters=meter.characters,
        timings=meter.timings,
        total_ms=total_ms,
        fault=course.fault,
        model=course.service.name,
        cache=meter.cache,
        inputs=meter.inputs,
        remembered=meter.remembered,
        unknown=meter.unknown,
    )


def headers_of(course: Course, reply: Reply, request_id: str) -> dict[str, str]:
    """The headers of this answer; what the reply itself says goes before them."""
    return {
        **({"content-type": "application/json"} if reply.body else {}),
        **headers.of_answer(reply.meter, course.service.device),
        "x-request-id": request_id,
        "x-model-digest": course.service.digest,
        **course.extra,
        **reply.headers,
    }


def fault_of(error: Exception, answer: Problem) -> Fault:
    """What the log may know: of our own faults type and place. Messages stay out, they could quote a text."""
    if answer.status < 500:
        return Fault(answer.error_type)
    places = tuple(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__))
    detail = error.message if isinstance(error, HotfootError) else ""  # ours quote values of the artifact, not of a request
    return Fault(answer.error_type, kind=type(error).__name__, detail=detail, places=places)
