"""moto's S3 server with writes one at a time: `moto_server.py PORT`, run with the Python of `.venv-servers`.

moto looks whether an object is there and writes it in two steps, so of two threads that create it both may succeed.
S3 promises that one does (conditional writes of PutObject, `If-None-Match: *`).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.iam.access_control import IAMRequestBase
from moto.moto_server.werkzeug_app import MotoRequestHandler
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

ONE = threading.Lock()
IAMRequestBase.check_signature = lambda self: None  # type: ignore[method-assign] # it knows no `~` in names
application = DomainDispatcherApplication(create_backend_app)


def one_write_at_a_time(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    if environ["REQUEST_METHOD"] != "PUT":
        return application(environ, start_response)  # type: ignore[no-any-return]
    with ONE:
        return application(environ, start_response)  # type: ignore[no-any-return]


if __name__ == "__main__":
    run_simple("127.0.0.1", int(sys.argv[1]), one_write_at_a_time, threaded=True, request_handler=MotoRequestHandler)
