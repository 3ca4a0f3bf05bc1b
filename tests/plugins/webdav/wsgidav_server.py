"""A WebDAV server of one folder: `wsgidav_server.py FOLDER PORT [CERTIFICATE]`, run with the Python of `.venv-servers`.

It has one user, anna, whose password is hunter2. Like many servers it writes a PUT in place, and looks before it moves.
"""

from __future__ import annotations

import sys

from cheroot.ssl.builtin import BuiltinSSLAdapter
from cheroot.wsgi import Server
from wsgidav.wsgidav_app import WsgiDAVApp

if __name__ == "__main__":
    folder, port, *certificate = sys.argv[1:]
    users = {"*": {"anna": {"password": "hunter2"}}}
    settings = {"provider_mapping": {"/dav": folder}, "simple_dc": {"user_mapping": users}, "verbose": 0}
    without = {"logging": {"enable": False}, "dir_browser": {"enable": False}, "lock_storage": False}
    server = Server(("127.0.0.1", int(port)), WsgiDAVApp({**settings, **without}), numthreads=16)
    if certificate:
        server.ssl_adapter = BuiltinSSLAdapter(certificate[0], certificate[0])
    server.start()
