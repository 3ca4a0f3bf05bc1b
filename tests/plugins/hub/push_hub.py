"""A Hugging Face Hub on loopback that takes models: what its client asks to make a repository and commit to it by LFS.

create ─▶ tree ─▶ validate-yaml ─▶ preupload ─▶ LFS batch ─▶ LFS upload ─▶ commit
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

TOKEN = "hf_ThisIsTheTokenOfTheTests"
LARGE = 10_000
"""Bytes from which on a file goes by LFS."""
CUT = -1
"""In the place of a status: the connection is cut in the middle of the answer."""


class PushHub(ThreadingHTTPServer):
    """Repositories in memory."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.repos: dict[str, dict[str, bytes]] = {}
        """Repository -> name -> contents, as the last commit left them."""
        self.private: dict[str, bool] = {}
        self.commits: list[tuple[str, str]] = []
        """Repository and message, in their order."""
        self.objects: dict[str, bytes] = {}
        """SHA-256 -> contents, uploaded."""
        self.asked: list[str] = []
        """`METHOD path`, without the query."""
        self.fail: Callable[[str], int] = lambda asked: 0
        """Of a request as in `asked` the status that it is refused with; 0: it is not."""

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def save(self, repo: str, folder: Path) -> Path:
        """Write what a repository holds to a folder."""
        folder.mkdir(parents=True)
        for name, contents in self.repos[repo].items():
            (folder / name).write_bytes(contents)
        return folder


class _Answer(BaseHTTPRequestHandler):
    server: PushHub

    def log_message(self, *_: object) -> None:
        pass

    def do_PUT(self) -> None:
        hub, path = self.server, self.path.partition("?")[0]
        asked = f"{self.command} {path}"
        hub.asked.append(asked)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if status := hub.fail(asked):
            self._refuse(status)
        elif not path.startswith("/lfs/") and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._send(401, {"error": "Invalid credentials in Authorization header"})
        else:
            self._take(path, body)

    do_GET = do_POST = do_PUT  # noqa: N815 - what the server calls

    def _refuse(self, status: int) -> None:
        if status != CUT:
            self._send(status, {"error": "refused"})
            return
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{")
        self.close_connection = True

    def _take(self, path: str, body: bytes) -> None:
        if path.startswith("/lfs/"):
            self._store(path.removeprefix("/lfs/"), body)
        elif path == "/api/validate-yaml":
            self._send(200 if json.loads(body)["content"].startswith("---\n") else 400, {"errors": [], "warnings": []})
        elif path == "/api/repos/create":
            self._create(json.loads(body))
        elif path.endswith("/info/lfs/objects/batch"):
            self._batch(json.loads(body))
        elif (repo := _repo_of(path)) not in self.server.repos:
            self._send(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
        elif "/tree/" in path:
            files = self.server.repos[repo].items()
            self._send(200, [{"type": "file", "path": f, "size": len(c), "oid": _git_oid(c)} for f, c in files])
        elif "/preupload/" in path:
            self._send(200, {"files": [self._mode(repo, file) for file in json.loads(body)["files"]]})
        elif "/commit/" in path:
            self._commit(repo, [json.loads(line) for line in body.splitlines()])
        else:  # repo_info and its siblings
            self._send(200, {"id": repo, "modelId": repo, "sha": "0" * 40, "siblings": []})

    def _create(self, asked: dict[str, Any]) -> None:
        repo = f"{asked['organization']}/{asked['name']}"
        there = repo in self.server.repos
        if not there:
            self.server.repos[repo] = {}
            self.server.private[repo] = asked.get("visibility") == "private" or bool(asked.get("private"))
        self._send(409 if there else 200, {"url": f"{self.server.endpoint}/{repo}", "name": repo})

    def _mode(self, repo: str, file: dict[str, Any]) -> dict[str, Any]:
        there = self.server.repos[repo].get(file["path"])
        mode = "lfs" if file["size"] >= LARGE else "regular"
        return {"path": file["path"], "uploadMode": mode, "shouldIgnore": False, "oid": there and _git_oid(there)}

    def _batch(self, asked: dict[str, Any]) -> None:
        wanted = [(one, f"{self.server.endpoint}/lfs/{one['oid']}") for one in asked["objects"]]
        objects = [
            {**one, **({} if one["oid"] in self.server.objects else {"actions": {"upload": {"href": href}}})}
            for one, href in wanted
        ]
        self._send(200, {"transfer": "basic", "objects": objects})

    def _store(self, oid: str, body: bytes) -> None:
        whole = hashlib.sha256(body).hexdigest() == oid
        if whole:
            self.server.objects[oid] = body
        self._send(200 if whole else 400, {})

    def _commit(self, repo: str, lines: list[dict[str, Any]]) -> None:
        files = dict(self.server.repos[repo])
        for line in lines:
            kind, value = line["key"], line["value"]
            if kind == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif kind == "lfsFile":
                files[value["path"]] = self.server.objects[value["oid"]]
            elif kind == "deletedFile":
                del files[value["path"]]
        self.server.repos[repo] = files
        self.server.commits.append((repo, lines[0]["value"]["summary"]))
        oid = f"{len(self.server.commits):040x}"
        self._send(200, {"commitUrl": f"{self.server.endpoint}/{repo}/commit/{oid}", "commitOid": oid})

    def _send(self, status: int, answer: object, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


def _repo_of(path: str) -> str:
    return "/".join(path.removeprefix("/api/models/").split("/")[:2])


def _git_oid(contents: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(contents) + contents).hexdigest()


@contextmanager
def push_hub() -> Iterator[PushHub]:
    """The hub, for the block."""
    with PushHub() as hub:
        thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield hub
        finally:
            hub.shutdown()
            thread.join()
