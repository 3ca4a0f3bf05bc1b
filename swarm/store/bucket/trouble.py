"""Tells what an error of obstore means: whether it passes by itself, and what people are told; nothing of a server's
text."""

from __future__ import annotations

import re
from typing import NamedTuple

_STATUS = re.compile(r"status code: ([1-5][0-9]{2})\b")
_CODE = re.compile(r"<Code>([A-Za-z]{1,40})</Code>")
_ODD_HEADER = re.compile(r"(header|Metadata value for .*) contain(ed|ing) non[- ](UTF|ASCII)", re.IGNORECASE)
_NOT_REMOVED = re.compile(r"DeleteObjects request failed for key .*\(code: ([A-Za-z]{1,40})\)", re.DOTALL)
"""Of several that were to be removed by one request; the rest is."""
_PASSING_CODES = ("InternalError", "SlowDown", "ServiceUnavailable")
_PASSING = (408, 425, 429, 500, 502, 503, 504)
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound")
_ADVICE = {
    401: "see that the credentials in the environment or the usual files are those of this place",
    403: "see that the credentials in the environment or the usual files may do this here, and that the clock is right",
    404: "see that the bucket is there, and its name and the endpoint are right",
    400: "see that the bucket's name, the region and the endpoint are right",
    301: "name the bucket's region, as ?region=eu-central-1",
    307: "name the bucket's region, as ?region=eu-central-1",
    501: "this server does not know the request; take another one",
}


class Trouble(NamedTuple):
    """Says why a request failed."""

    said: str
    """In words, with a status where there is one."""
    passing: bool
    """Trying again may help."""
    advice: str = "see that the server can be reached"


def trouble_of(error: Exception) -> Trouble:
    """Returns what an error means that obstore raised: whether it passes by itself, and the advice for people."""
    text = str(error).partition("\n\nDebug source")[0]
    status, code = _STATUS.search(text), _CODE.search(text)
    if status:
        said = " ".join(filter(None, (status[1], code and code[1])))
        number = int(status[1])
        missing = bool(code) and code is not None and code[1] in _NO_BUCKET
        advice = _ADVICE.get(404 if missing else number, "the server is overloaded or out of order: try again later")
        return Trouble(f"the server answered {said}", number in _PASSING, advice)
    if refused := _NOT_REMOVED.search(text):
        return Trouble(f"the server answered {refused[1]}", refused[1] in _PASSING_CODES, _ADVICE[403])
    if "169.254.169.254" in text or "metadata" in text or "credential" in text.lower():
        return Trouble(
            "there are no credentials",
            False,
            "set them in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, ...) or in the provider's files",
        )
    if _ODD_HEADER.search(text):
        return Trouble("its headers are no text", False, "whoever wrote it has to write it again")
    if "invalid list response" in text:
        advice = "remove the object whose name holds control characters, by the provider's own tools"
        return Trouble("a name there is no text", False, advice)
    if "request or response body" in text:
        return Trouble("the connection broke off", True)
    return Trouble("the server gave no answer", True)


def no_bucket(error: Exception) -> bool:
    """Tells whether what is not there is the bucket itself."""
    code = _CODE.search(str(error))
    return code is not None and code[1] in _NO_BUCKET


def say_that_it_went(where: str) -> None:
    """An object that stood where a writer writes."""
    from swarm.logs import get_logger  # here, for commands that only look do without it

    get_logger(__name__).warning("obstacle.removed", path=where)


def say_that_conditions_are_ignored(address: str) -> None:
    """A server that takes every create: exclusive creation is imitated there."""
    from swarm.logs import get_logger  # here, for commands that only look do without it

    consequence = "of two who write one name at the same moment one is lost: never start two nodes of one NODE_ID"
    get_logger(__name__).warning("bucket.ignores_conditions", bucket=address, consequence=consequence)
