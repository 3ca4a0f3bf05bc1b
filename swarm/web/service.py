"""The service: routes, and who may ask. It reads and never writes. What is read is shared by all who look: a run is
read once per interval at most, and only while somebody asks.

GET /                        the page; with ?token=... once, the cookie
GET /static/{file}           its files
GET /api/place               experiments and studies
GET /api/run/{name}/...      standing, series, tasks, matrix, stages, answers, settings: JSON
GET /api/run/{name}/live     server-sent events: where the run stands, and what is new since a mark
GET /api/run/{name}/journal  server-sent events: the last events that match, and then what comes
GET /healthz                 `ok`
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import anyio
import msgspec
from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from swarm import forms
from swarm.config import EXPERIMENT_NAME
from swarm.errors import ConfigError, SwarmError
from swarm.types import RoundKey
from swarm.views.looks import Looks
from swarm.web import assets
from swarm.web.connections import LET_IN
from swarm.web.guard import HEADERS, LONGEST_HEAD, Guard, RequestHead, RequestVerdict
from swarm.web.harmless import encoded
from swarm.web.journal import Journal, wanted
from swarm.web.look import WebLook, why
from swarm.web.series import DRAWN, Mark
from swarm.wire import keys

Found = TypeVar("Found")
MOST_RUNS = 6
"""Whose histories are held; the one that was asked for longest ago is let go."""


class WatchedRun:
    """One run."""

    def __init__(self, look: WebLook, interval: float, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        """Make one that has not looked yet.

        Args:
            interval: seconds for which what was read is good enough.
            clock, wall: monotonic and Unix seconds.
        """
        self.look = look
        self._clock = clock
        self._wall = wall
        self._looks = Looks(look.run.store, interval)
        self._next_at: float | None = None
        self._lock = anyio.Lock()

    async def ask(self, question: Callable[[WebLook], Found]) -> Found:
        """Returns the answer to a question on the run by now, made in a thread of its own.

        Raises:
            SwarmError: the place fails, or as the question does.
        """
        async with self._lock:
            return await to_thread.run_sync(partial(self._answer, question))

    def _answer(self, question: Callable[[WebLook], Found]) -> Found:
        now = self._clock()
        if self._next_at is None or now >= self._next_at:
            self.look.refresh(self._wall())
            self._next_at = now + self._looks.pause(news=True)
        return question(self.look)


class AllWatched:
    """The runs of a place that are looked at, each once per interval at most."""

    def __init__(self, open_look: Callable[[str], WebLook], interval: float) -> None:
        """`open_look`: opens a run by its name; blocking, raises ExperimentError where there is none."""
        self._open_look = open_look
        self._interval = interval
        self._held: OrderedDict[str, WatchedRun] = OrderedDict()

    async def of(self, experiment: str) -> WatchedRun:
        """Returns the one of this name. Raises ExperimentError: there is none."""
        if experiment not in self._held:
            look = await to_thread.run_sync(self._open_look, experiment)
            self._held.setdefault(experiment, WatchedRun(look, self._interval * 0.9, time.monotonic, time.time))
            while len(self._held) > MOST_RUNS:
                self._held.popitem(last=False)
        self._held.move_to_end(experiment)
        return self._held[experiment]


MOST_STREAMS = 48
"""Streams of server-sent events that are open at once: two for each tab that is seen."""
EVENTS = "text/event-stream"
ENTERED = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=/">'
    '<link rel="icon" href="data:,"><title>swarm</title></head><body><p><a href="/">Open the page</a></p></body></html>'
)
"""Leads to the page from a page of this service's own, so that a cookie that is sent to no other site is sent."""
_MARK = forms.decoder(dict[str, tuple[int, int]])


class Service:
    """One place, seen from a run of it."""

    def __init__(
        self,
        experiment: str,
        runs: AllWatched,
        place: Callable[[], dict[str, Any]],
        guard: Guard,
        *,
        interval: float,
        admitted: Callable[[], None] = lambda: None,
    ) -> None:
        """Make one; `app` is what serves it.

        Args:
            place: reads what the place holds; blocking.
            interval: seconds between two looks at a run that somebody follows.
            admitted: is called when a browser was let in: the guard has a new token.
        """
        self._experiment = experiment
        self._runs = runs
        self._place = place
        self._guard = guard
        self._interval = interval
        self._admitted = admitted
        self._streams = 0

    @property
    def app(self) -> ASGIApp:
        """Returns the ASGI application."""
        run = "/api/run/{name}"
        routes = [
            Route("/", self._page),
            Route("/static/{file}", self._static),
            Route("/healthz", self._healthz),
            Route("/api/place", self._place_list),
            Route(f"{run}/standing", self._of_run(lambda look, _: look.standing())),
            Route(f"{run}/series", self._of_run(lambda look, asked: look.series(_columns(asked)))),
            Route(f"{run}/tasks", self._of_run(lambda look, asked: look.tasks(asked.query_params.get("node", "")))),
            Route(f"{run}/matrix", self._of_run(lambda look, _: look.matrix())),
            Route(f"{run}/settings", self._of_run(lambda look, _: look.made_with())),
            Route(f"{run}/stages/{{round}}", self._of_run(lambda look, asked: look.stages(_number(asked, "round")))),
            Route(f"{run}/answers/{{round}}/{{stage}}/{{node}}", self._of_run(_answers)),
            Route(f"{run}/live", self._live),
            Route(f"{run}/journal", self._journal),
        ]
        return Guarded(Starlette(routes=routes, lifespan=self._lifespan), self._guard, self._admitted)

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Reads what takes long, before the first browser asks for it."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._look_ahead)
            yield
            tasks.cancel_scope.cancel()

    async def _look_ahead(self) -> None:
        with suppress(SwarmError):  # whoever asks is told why
            await (await self._runs.of(self._experiment)).ask(WebLook.standing)

    async def _page(self, request: Request) -> Response:
        named = assets.served()[assets.PAGE].replace(b"{{experiment}}", self._experiment.encode())
        return Response(named, media_type=assets.type_of(assets.PAGE))

    async def _static(self, request: Request) -> Response:
        name = request.path_params["file"]
        if name not in assets.served() or name == assets.PAGE:
            raise HTTPException(404)
        return Response(assets.served()[name], media_type=assets.type_of(name))

    async def _healthz(self, request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _place_list(self, request: Request) -> Response:
        return _json(await _answered(to_thread.run_sync(lambda: encoded(self._place()))))

    def _of_run(self, read: Callable[[WebLook, Request], Any]) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            watched = await self._watched(request.path_params["name"])
            return _json(await _answered(watched.ask(lambda look: encoded(read(look, request)))))

        return endpoint

    async def _watched(self, name: str) -> WatchedRun:
        if not EXPERIMENT_NAME.fullmatch(name):
            raise HTTPException(404, "no such experiment")
        watched: WatchedRun = await _answered(self._runs.of(name))
        return watched

    async def _live(self, request: Request) -> Response:
        watched, mark = await self._watched(request.path_params["name"]), _mark(request)
        return self._stream(request, self._lives(watched, mark))

    async def _lives(self, watched: WatchedRun, mark: Mark) -> AsyncIterator[str]:
        while True:
            try:
                standing, (news, mark) = await watched.ask(partial(_standing_and_news, mark=mark))
            except SwarmError as error:
                yield _sent({"problem": why(error)})
            else:
                told = {"standing": standing} | ({"news": news} if news["nodes"] or news["again"] else {})
                yield _sent(told, encoded(mark))
            await anyio.sleep(self._interval)

    async def _journal(self, request: Request) -> Response:
        asked, watched = request.query_params, await self._watched(request.path_params["name"])
        try:
            which = wanted(asked.getlist("node")[:64], asked.get("level", "info"), asked.get("event", "*"))
        except ConfigError as error:
            raise HTTPException(400, why(error)) from None
        return self._stream(request, self._events(Journal(watched.look.run, which)))

    async def _events(self, journal: Journal) -> AsyncIterator[str]:
        first, looks, events = True, Looks(journal.run.store, self._interval), list[Any]()
        while True:
            try:
                events = await to_thread.run_sync(journal.more)
            except SwarmError as error:
                yield _sent({"problem": why(error)})
            else:
                told = {"events": events, "first": first, "whole": journal.is_whole}
                yield _sent(told) if events or first else ": nothing new\n\n"
                first = False
            await anyio.sleep(looks.pause(news=bool(events)))

    def _stream(self, request: Request, lines: AsyncIterator[str]) -> Response:
        if request.method == "HEAD":
            return Response(media_type=EVENTS)
        if self._streams >= MOST_STREAMS:
            raise HTTPException(503, f"{MOST_STREAMS} streams are open already: close some tabs")
        self._streams += 1  # at once: many may be asked for before one has begun
        return _Stream(lines, self._ended)

    def _ended(self) -> None:
        self._streams -= 1


class _Stream(StreamingResponse):
    """Server-sent events; says when they end, for whatever reason."""

    def __init__(self, lines: AsyncIterator[str], ended: Callable[[], None]) -> None:
        super().__init__(lines, media_type=EVENTS)
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()


def _standing_and_news(look: WebLook, mark: Mark) -> tuple[dict[str, Any], tuple[dict[str, Any], Mark]]:
    return look.standing(), look.news(mark)


def _columns(request: Request) -> tuple[str, ...]:
    names = dict.fromkeys(request.query_params.get("columns", "").split(","))
    asked = tuple(name for name in names if name in DRAWN)
    if not asked:
        raise HTTPException(400, f"columns must be some of {', '.join(DRAWN)}")
    return asked


def _number(request: Request, name: str) -> int:
    said = request.path_params[name]
    if not (said.isascii() and said.isdigit() and len(said) < 10):
        raise HTTPException(404, f"no such {name}")
    return int(said)


def _answers(look: WebLook, request: Request) -> dict[str, Any]:
    key, node = RoundKey(_number(request, "round"), _number(request, "stage")), request.path_params["node"]
    if not keys.is_node_id(node):
        raise HTTPException(404, "no such node")
    return look.answers(key, node)


def _mark(request: Request) -> Mark:
    """Returns where a page goes on: what it has seen, by the stream that broke, or by the columns that it has asked
    for."""
    said = request.headers.get("last-event-id") or request.query_params.get("mark", "{}")
    with suppress(msgspec.MsgspecError):
        return _MARK.decode(said)
    raise HTTPException(400, "mark must be an object of two numbers by node")


async def _answered(answer: Awaitable[Any]) -> Any:
    try:
        return await answer
    except SwarmError as error:
        raise HTTPException(404 if error.exit_code == 2 else 503, why(error)) from None


def _json(text: str) -> Response:
    return Response(text, media_type="application/json")


def _sent(document: object, identity: str = "") -> str:
    return f"{f'id: {identity}{chr(10)}' if identity else ''}data: {encoded(document)}\n\n"


class Guarded:
    """Lets through to an application what a guard lets through, and puts its headers on every answer."""

    def __init__(self, app: ASGIApp, guard: Guard, admitted: Callable[[], None]) -> None:
        self._app = app
        self._guard = guard
        self._admitted = admitted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; nothing but HTTP is served."""
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http":
            return None
        judged = self._guard.judge(_asked(Request(scope)))

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower().encode() for name in HEADERS}
                kept = [(name, value) for name, value in message["headers"] if name not in own]
                message["headers"] = [
                    *kept,
                    *((name.lower().encode(), text.encode()) for name, text in HEADERS.items()),
                ]
            await send(message)

        if judged.verdict in (RequestVerdict.PASS, RequestVerdict.ADMIT) and LET_IN in scope:
            scope[LET_IN]()
        if judged.verdict in (RequestVerdict.PASS, RequestVerdict.OPEN):
            return await self._app(scope, receive, with_headers)
        if judged.verdict is RequestVerdict.ADMIT:
            self._admitted()
            answer: Response = Response(ENTERED, media_type="text/html; charset=utf-8")
            answer.set_cookie(self._guard.cookie, judged.text, path="/", httponly=True, samesite="strict")
        else:
            answer = PlainTextResponse(f"{judged.text}\n", judged.status)
            if judged.status == 405:
                answer.headers["Allow"] = "GET, HEAD"
        return await answer(scope, receive, with_headers)


def _asked(request: Request) -> RequestHead:
    def header(name: str) -> str:
        return request.headers.get(name, "")[:LONGEST_HEAD]

    return RequestHead(
        request.method,
        request.scope["path"],
        header("host"),
        header("origin"),
        header("sec-fetch-site"),
        ";".join(request.headers.getlist("cookie")),
        request.query_params.get("token", "")[:LONGEST_HEAD],
    )
