"""`swarm web`: a run as a page in the browser, live, or frozen into one file."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from swarm.cli.flags import (
    CommonFlags,
    open_experiment,
    open_experiment_when_there,
    refuse_no_folder_for,
    settings_to_look,
)
from swarm.cli.say import say
from swarm.config import Settings
from swarm.config.place import is_url
from swarm.errors import ConfigError
from swarm.extras import lacking
from swarm.node.process.host import this_process
from swarm.planner.open_files import limit, raise_limit
from swarm.records.made_by import as_ours
from swarm.remote.key import is_loopback
from swarm.store.folder.publish import publish_own
from swarm.store.place import open_place
from swarm.views.text import size

if TYPE_CHECKING:
    import uvicorn

    from swarm.web.guard import Guard
    from swarm.web.look import WebLook

PORT = 8765
INTERVAL, INTERVAL_IN_A_BUCKET = 1.0, 10.0
"""Seconds between two looks at a run; in a bucket each of them costs requests."""


def web(
    *,
    experiment_flags: CommonFlags | None = None,
    port: Annotated[int, Parameter(validator=Number(gte=0, lt=65536), show_default=True)] = PORT,
    host: Annotated[str, Parameter(show_default=True)] = "127.0.0.1",
    allow_host: Annotated[tuple[str, ...], Parameter("--allow-host")] = (),
    interval: Annotated[float | None, Parameter(validator=Number(gte=0.2))] = None,
    export: Annotated[Path | None, Parameter(("--export", "-o"))] = None,
    force: bool = False,
    until_closed: Annotated[bool, Parameter(show=False)] = False,
) -> None:
    """Show a run as a page in the browser, live, or frozen into a file.

    It reads and never writes. The link that it prints lets one browser in; then it prints the next one.

    Args:
        experiment_flags: which experiment; the page has the others of its place, too.
        port: Where to listen; 0: any port that is free.
        host: Address to listen on. Another than this machine's own is plain HTTP for whoever can see the network.
        allow_host: A name that the page may be asked for by, besides localhost; needed with another --host.
        interval: Seconds between two looks at the run while somebody has the page open; without one, 1, and 10 in a
            bucket.
        export: Write the page as it is now into this one file, and end.
        force: Replace the file that is there.
        until_closed: End when the standard input does: the page of a program that holds the other end of a pipe.
    """
    settings = settings_to_look(experiment_flags)
    if export is not None:
        _export(settings, export, force=force)
    else:
        every = interval or (INTERVAL_IN_A_BUCKET if is_url(str(settings.place)) else INTERVAL)
        allowed = frozenset(allow_host)
        _serve(settings, host, port, allowed, interval=every, until_closed=until_closed)


def _look_at(settings: Settings, name: str) -> WebLook:
    from swarm.web.look import WebLook

    place = open_place(settings.place)
    run = as_ours(place.open(name))
    replication = partial(place.replication, name)
    return WebLook(
        run, liveness_timeout=settings.cadence.liveness_timeout, here=this_process(), replication=replication
    )


def _export(settings: Settings, target: Path, *, force: bool) -> None:
    from swarm.web.export import frozen_page

    refuse_no_folder_for("--export", target)
    if target.exists() and not force:
        raise ConfigError(f"{target} is there already: name another file with --export, or replace it with --force")
    open_experiment(settings)
    look, wall = _look_at(settings, settings.experiment), time.time()
    look.refresh(wall)
    page = frozen_page(settings.experiment, look, _place_document(settings), wall)
    publish_own(target, page)
    say(f"wrote {target}, {size(len(page))}: it opens in any browser, and asks nobody for anything")


def _place_document(settings: Settings) -> dict[str, Any]:
    from swarm.web.place_list import place_document

    folder = None if is_url(str(settings.path)) else settings.shared_folder
    return place_document(open_place(settings.place), folder)


def _serve(
    settings: Settings,
    host: str,
    port: int,
    allowed: frozenset[str],
    *,
    interval: float,
    until_closed: bool,
) -> None:
    try:
        import uvicorn

        from swarm.web.connections import Crowd, room
        from swarm.web.guard import LOOPBACK, Guard
        from swarm.web.service import AllWatched, Service
    except ImportError:
        raise lacking("`swarm web`", "starlette and uvicorn", "web", "write a file with --export") from None
    listening = _listen(host, port, allowed)
    open_experiment_when_there(settings)
    place = open_place(settings.place)
    guard = Guard(f"swarm_web_{listening.getsockname()[1]}", LOOPBACK | {name.lower() for name in allowed})
    link = partial(_link, listening.getsockname(), allowed, guard)
    service = Service(
        settings.experiment,
        AllWatched(partial(_look_at, settings), interval),
        partial(_place_document, settings),
        guard,
        interval=interval,
        admitted=lambda: say(f"a browser was let in; for another one: {link()}"),
    )
    say(f"{settings.experiment} in {place.describe()}: {link()}")
    if not until_closed:
        say("the link lets one browser in; Ctrl-C ends this, and nothing else")
    raise_limit()
    most = room(limit())
    config = uvicorn.Config(
        service.app,
        http=Crowd(most).protocol,  # type: ignore[arg-type] # called as the class that it takes
        backlog=most.backlog,
        access_log=False,  # the link's token is no text for a log
        log_level="critical",
        lifespan="on",
        ws="none",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    if until_closed:
        threading.Thread(target=_end_when_closed, args=(server,), daemon=True).start()
    server.run([listening])


def _end_when_closed(server: uvicorn.Server) -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    server.should_exit = True


def _listen(host: str, port: int, allowed: frozenset[str]) -> socket.socket:
    """Returns a socket that listens. Raises ConfigError: it cannot, or nobody could ask it by an allowed name."""
    if not is_loopback(host) and not allowed:
        raise ConfigError(
            f"--host {host} lets other machines in over plain HTTP. Name by --allow-host what they call this "
            "one, or leave it at 127.0.0.1 and tunnel (ssh -L)"
        )
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        why = error.strerror or str(error)
        raise ConfigError(f"cannot listen on {host}:{port}: {why}; choose another --port, 0 for any") from None


def _link(address: tuple[Any, ...], allowed: frozenset[str], guard: Guard) -> str:
    """Returns the link that lets the next browser in."""
    name = next(iter(sorted(allowed)), "localhost") if not is_loopback(address[0]) else "localhost"
    host = "127.0.0.1" if address[0].startswith("127.") else "[::1]" if address[0] == "::1" else name
    return f"http://{host}:{address[1]}/?token={guard.token}"
