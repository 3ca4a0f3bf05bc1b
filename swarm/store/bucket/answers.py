"""What the answers of a bucket's server mean: whether trying again may help, and what to do.

an error of obstore ─▶ its code ─▶ status ─▶ what kept it from answering ─▶ Trouble
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Trouble(NamedTuple):
    said: str
    """In words, with status and code where there are any."""
    passing: bool
    """Trying again may help."""
    advice: str = "see that the server can be reached"


class _Meaning(NamedTuple):
    said: str
    advice: str
    passing: bool = False


_STATUS = re.compile(r"status code: ([1-5][0-9]{2})\b")
_CODE = re.compile(r"<Code>([A-Za-z.]{1,60})</Code>")
_ODD_HEADER = re.compile(r"(header|Metadata value for .*) contain(ed|ing) non[- ](UTF|ASCII)", re.IGNORECASE)
_NOT_REMOVED = re.compile(r"DeleteObjects request failed for key .*\(code: ([A-Za-z.]{1,60})\)", re.DOTALL)
"""Of several that were to be removed by one request; the rest is."""
_NOT_GIVEN = re.compile(r"External AWS credential provider: StoreError: (.{1,400})")
_NO_BUCKET = frozenset({"NoSuchBucket", "ContainerNotFound"})
_PASSING = (408, 425, 429, 500, 502, 503, 504)
_BUSY = "the server is overloaded or out of order: try again later"
_EXPIRED = _Meaning(
    "the session's credentials have expired",
    "get new ones (`aws sso login`, or a new AWS_SESSION_TOKEN and a new start): a profile in ~/.aws is read "
    "again each minute",
)
_FORBIDDEN = _Meaning(
    "the credentials may not do this here",
    "docs/buckets.md (Who may write what) has the rights that a node needs",
)
_OTHER_REGION = _Meaning("the bucket lies in another region", "name that one, as ?region=eu-central-1")
_NO_KEY = _Meaning(
    "the server does not know the access key", "see AWS_ACCESS_KEY_ID, and that the endpoint is of who gave the key"
)
_FULL = _Meaning(
    "there is no room in the bucket", "remove old experiments (`swarm experiment prune`), or have more room given to it"
)
_LATER = _Meaning("the server is asked too much", "try again later; nodes with longer rounds ask less", passing=True)
_CLOCK = _Meaning("this machine's clock is wrong", "set it, as by `timedatectl set-ntp true`")
_WRONG_SECRET = _Meaning(
    "the secret does not fit the key, or something on the way changed the request",
    "see AWS_SECRET_ACCESS_KEY or AZURE_STORAGE_ACCOUNT_KEY, the region, and that no proxy is between",
)
_MEANINGS = {
    **dict.fromkeys(("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired"), _EXPIRED),
    **dict.fromkeys(("AccessDenied", "AllAccessDisabled", "AuthorizationFailure"), _FORBIDDEN),
    **dict.fromkeys(("AuthorizationPermissionMismatch", "InsufficientAccountPermissions"), _FORBIDDEN),
    **dict.fromkeys(("AuthorizationHeaderMalformed", "IllegalLocationConstraintException"), _OTHER_REGION),
    **dict.fromkeys(("PermanentRedirect", "TemporaryRedirect"), _OTHER_REGION),
    **dict.fromkeys(("SignatureDoesNotMatch", "AuthenticationFailed"), _WRONG_SECRET),
    **dict.fromkeys(("InvalidAccessKeyId", "InvalidSecurity"), _NO_KEY),
    **dict.fromkeys(("QuotaExceeded", "StorageFull", "XMinioStorageFull", "InsufficientStorage"), _FULL),
    **dict.fromkeys(("SlowDown", "ServerBusy", "ServiceUnavailable", "TooManyRequests"), _LATER),
    "RequestTimeTooSkewed": _CLOCK,
    "InvalidToken": _Meaning(
        "the session token does not belong to the key", "set AWS_SESSION_TOKEN anew with its key, or unset it"
    ),
    "RequestTimeout": _Meaning("the request came too slowly", "see how good the line is", passing=True),
    "InternalError": _Meaning("the server failed", _BUSY, passing=True),
    "OperationTimedOut": _Meaning("the server failed", _BUSY, passing=True),
    "InvalidBucketName": _Meaning(
        "the bucket has no bucket's name", "expected 3 to 63 small letters, digits and hyphens"
    ),
    "NoSuchBucket": _Meaning(
        "there is no such bucket", "make it first, or see that its name and the endpoint are right"
    ),
    "ContainerNotFound": _Meaning("there is no such container", "make it first, or see that its name is right"),
    "MethodNotAllowed": _Meaning("the address takes no such request", "name the endpoint of the API, not of a website"),
    "NotImplemented": _Meaning("the server does not know the request", "take another server"),
    "EntityTooLarge": _Meaning("the object is larger than the server takes", "take another server, or save adapters"),
    "InvalidObjectState": _Meaning("the object was moved to an archive", "have the provider bring it back first"),
    "AccountIsDisabled": _Meaning("the account is disabled", "see the provider's console"),
    "UserProjectMissing": _Meaning("whoever asks has to pay, and names no project", "use credentials with a project"),
}
"""Code -> what it means: of Amazon's S3, MinIO, Ceph, Azure and Google."""
_ADVICE = {
    400: "see that the bucket's name, the region and the endpoint are right",
    401: "see that the credentials in the environment or the usual files are those of this place",
    403: "see that the credentials in the environment or the usual files may do this here, and that the clock is right",
    404: "see that the bucket is there, and its name and the endpoint are right",
    301: _OTHER_REGION.advice,
    307: _OTHER_REGION.advice,
    501: _MEANINGS["NotImplemented"].advice,
    507: _FULL.advice,
}
_SILENT = (
    ("dns error", "the name of the server is unknown", "see the endpoint, and that there is a network", True),
    ("certificate", "the server's certificate is not trusted", "see the endpoint, or name its authority", False),
    ("Connection refused", "nobody answers at that address", "see the endpoint, and that the server runs", True),
    ("request or response body", "the connection broke off", Trouble("", True).advice, True),
)
"""Part of the error -> why there was no answer, what to do, and whether trying again may help."""


def trouble_of(error: Exception) -> Trouble:
    """Returns what an error means that obstore raised."""
    text, _, details = str(error).partition("\n\nDebug source")
    status, code = _STATUS.search(text), _CODE.search(text)
    if refused := _NOT_REMOVED.search(text):
        code = code or refused
    meaning = _MEANINGS.get(code[1]) if code else None
    if status or code:
        said = " ".join(match[1] for match in (status, code) if match)
        number = int(status[1]) if status else 403
        if meaning:
            return Trouble(f"{meaning.said} (the server answered {said})", meaning.passing, meaning.advice)
        return Trouble(f"the server answered {said}", number in _PASSING, _ADVICE.get(number, _BUSY))
    if not_given := _NOT_GIVEN.search(text):
        return Trouble(not_given[1], False, "see the file of AWS's profiles, or set AWS_ACCESS_KEY_ID and its secret")
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
    for part, said, advice, passing in _SILENT:
        if part in text or part in details:
            return Trouble(said, passing, advice)
    return Trouble("the server gave no answer", True)


def no_bucket(error: Exception) -> bool:
    """Tells whether what is not there is the bucket itself."""
    code = _CODE.search(str(error))
    return code is not None and code[1] in _NO_BUCKET
