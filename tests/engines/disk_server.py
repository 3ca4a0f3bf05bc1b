"""A small server that speaks S3 and keeps its objects in a folder: `python -m tests.engines.disk_server PORT FOLDER`.

It can be killed at any moment and started again with all that it acknowledged, which moto, all in memory, cannot. Each
object is a file, renamed into its place: a line of JSON, then the data. What nodes ask is answered: put (whole, in
parts, with If-None-Match and If-Match), get (whole, a range), head, delete (one, many), list. Signatures are not
checked.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
import time
import uuid
from bisect import bisect_left, bisect_right, insort
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice, takewhile
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, quote, unquote_to_bytes, urlsplit
from xml.etree import ElementTree

_META = "x-amz-meta-"
_PAGE = 1000


class Object(NamedTuple):
    file: str
    start: int
    """Of the data, in the file."""
    size: int
    tag: str
    written: float
    meta: dict[str, str]


class Objects:
    """All objects of all buckets, by bucket and name."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.lock = threading.Lock()
        self.by_name: dict[str, Object] = {}
        for file in folder.glob("*.object"):
            with file.open("rb") as data:
                head = data.readline()
            said = json.loads(head)
            size = file.stat().st_size - len(head)
            self.by_name[said["name"]] = Object(file.name, len(head), size, said["tag"], said["at"], said["meta"])
        self.names = sorted(self.by_name)

    def put(self, name: str, data: bytes, meta: dict[str, str], if_none: str | None, if_match: str | None) -> str:
        """The tag; empty where the condition does not hold."""
        tag, now = hashlib.md5(data).hexdigest(), time.time()
        file = f"{hashlib.sha256(name.encode('utf-8', 'surrogateescape')).hexdigest()}.object"
        head = json.dumps({"name": name, "tag": tag, "at": now, "meta": meta}).encode() + b"\n"
        half = self.folder / f"{uuid.uuid4().hex}.half"
        half.write_bytes(head + data)
        with self.lock:
            there = self.by_name.get(name)
            if (if_none and there) or (if_match and (there is None or there.tag != if_match.strip('"'))):
                half.unlink()
                return ""
            half.rename(self.folder / file)
            self.by_name[name] = Object(file, len(head), len(data), tag, now, meta)
            if there is None:
                insort(self.names, name)
        return tag

    def get(self, name: str) -> tuple[Object, bytes] | None:
        with self.lock:
            if (there := self.by_name.get(name)) is None:
                return None
            return there, (self.folder / there.file).read_bytes()[there.start :]

    def delete(self, name: str) -> None:
        with self.lock:
            if there := self.by_name.pop(name, None):
                (self.folder / there.file).unlink()
                self.names.remove(name)

    def listed(self, prefix: str, after: str) -> tuple[list[tuple[str, Object]], bool]:
        with self.lock:
            start = bisect_left(self.names, prefix) if prefix > after else bisect_right(self.names, after)
            found = list(takewhile(lambda name: name.startswith(prefix), islice(self.names, start, start + _PAGE + 1)))
            return [(name, self.by_name[name]) for name in found[:_PAGE]], len(found) > _PAGE


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    objects: Objects
    parts: dict[str, dict[int, bytes]]
    """Of uploads that are not ended: gone with the process, as nobody was told that they are there."""

    def _asked(self) -> tuple[str, str, dict[str, str], bytes]:
        """Bucket, name, query, body."""
        url = urlsplit(self.path)
        path = unquote_to_bytes(url.path).decode("utf-8", "surrogateescape")
        bucket, _, name = path.lstrip("/").partition("/")
        query = {key: values[0] for key, values in parse_qs(url.query, True, errors="surrogateescape").items()}
        return bucket, name, query, self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def do_PUT(self) -> None:
        bucket, name, query, body = self._asked()
        if "uploadId" in query:
            self.parts[query["uploadId"]][int(query["partNumber"])] = body
            self._answer(200, ETag=f'"{hashlib.md5(body).hexdigest()}"')
        elif not name:
            self._answer(200)
        else:
            self._put(f"{bucket}/{name}", body)

    def _put(self, name: str, body: bytes) -> None:
        meta = {key.lower(): value for key, value in self.headers.items() if key.lower().startswith(_META)}
        tag = self.objects.put(name, body, meta, self.headers.get("If-None-Match"), self.headers.get("If-Match"))
        if tag:
            self._answer(200, ETag=f'"{tag}"')
        else:
            self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")

    def do_GET(self) -> None:
        bucket, name, query, _ = self._asked()
        if not name:
            self._list(bucket, query)
        elif (found := self.objects.get(f"{bucket}/{name}")) is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        else:
            self._give(*found)

    do_HEAD = do_GET  # noqa: N815

    def _give(self, there: Object, data: bytes) -> None:
        headers = {"ETag": f'"{there.tag}"', "Last-Modified": formatdate(there.written, usegmt=True), **there.meta}
        if (asked := self.headers.get("Range")) is None:
            self._answer(200, data, **headers)
            return
        start, _, last = asked.removeprefix("bytes=").partition("-")
        end = min(int(last) + 1 if last else len(data), len(data))
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(data)}"
        self._answer(206, data[int(start) : end], **headers)

    def _list(self, bucket: str, query: dict[str, str]) -> None:
        root = f"{bucket}/"
        after = query.get("continuation-token") or query.get("start-after", "")
        found, more = self.objects.listed(root + query.get("prefix", ""), root + after if after else "")
        shown = quote if query.get("encoding-type") == "url" else _escaped
        contents = "".join(
            f"<Contents><Key>{shown(name.removeprefix(root))}</Key><Size>{there.size}</Size><ETag>{there.tag}</ETag>"
            f"<LastModified>{_dated(there.written)}</LastModified></Contents>"
            for name, there in found
        )
        last = _escaped(found[-1][0].removeprefix(root)) if found else ""
        token = f"<NextContinuationToken>{last}</NextContinuationToken>"
        encoding = "<EncodingType>url</EncodingType>" if shown is quote else ""
        body = f"<IsTruncated>{str(more).lower()}</IsTruncated>{token if more else ''}{encoding}{contents}"
        self._answer(200, f"<ListBucketResult>{body}</ListBucketResult>".encode("utf-8", "surrogateescape"))

    def do_DELETE(self) -> None:
        bucket, name, query, _ = self._asked()
        if self.parts.pop(query.get("uploadId", ""), None) is None:
            self.objects.delete(f"{bucket}/{name}")
        self._answer(204)

    def do_POST(self) -> None:
        bucket, name, query, body = self._asked()
        if "delete" in query:
            keys = [str(key.text) for key in ElementTree.fromstring(body).iterfind(".//{*}Key")]
            for key in keys:
                self.objects.delete(f"{bucket}/{key}")
            deleted = "".join(f"<Deleted><Key>{_escaped(key)}</Key></Deleted>" for key in keys)
            self._answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())
        elif "uploads" in query:
            upload = uuid.uuid4().hex
            self.parts[upload] = {}
            self._answer(
                200,
                f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>".encode(),
            )
        else:
            parts = self.parts.pop(query["uploadId"])
            data = b"".join(parts[number] for number in sorted(parts))
            tag = self.objects.put(f"{bucket}/{name}", data, {}, None, None)
            self._answer(
                200, f"<CompleteMultipartUploadResult><ETag>{tag}</ETag></CompleteMultipartUploadResult>".encode()
            )

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def _dated(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(at))


def _escaped(name: str) -> str:
    return name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    allow_reuse_address = True

    def handle_error(self, *_: object) -> None:
        """A client that went away."""


def main(port: int, folder: Path) -> None:
    handler = type("Handler", (Handler,), {"objects": Objects(folder), "parts": {}})
    with _Server(("127.0.0.1", port), handler) as server:
        server.serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
