"""What the answers of a bucket's server mean: whether trying again may help, and what to do.

an error of obstore ─▶ its code ─▶ status ─▶ what kept it from answering ─▶ Trouble
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Trouble(NamedTuple):
    said: str
    """In words, with status and code where there are any."""
    advice: str = "see that the server can be reached"
    passing: bool = False
    """Trying again may help."""


_STATUS = re.compile(r"status code: ([1-5][0-9]{2})\b")
_CODE = re.compile(r"<Code>([A-Za-z.]{1,60})</Code>")
_NOT_REMOVED = re.compile(r"DeleteObjects request failed for key .*\(code: ([A-Za-z.]{1,60})\)", re.DOTALL)
"""Of several that were to be removed by one request; the rest is."""
_NOT_GIVEN = re.compile(r"External AWS credential provider: StoreError: (.{1,400})")
_NO_BUCKET = frozenset({"NoSuchBucket", "ContainerNotFound"})
_PASSING = (408, 425, 429, 500, 502, 503, 504)
_BUSY = "the server is overloaded or out of order: try again later"
_EXPIRED = Trouble(
    "the session's credentials have expired",
    "get new ones (`aws sso login`, or a new AWS_SESSION_TOKEN and a new start): a profile in ~/.aws is read "
    "again each minute",
)
_FORBIDDEN = Trouble(
    "the credentials may not do this here", "docs/buckets.md (Who may write what) has the rights that a node needs"
)
_OTHER_REGION = Trouble("the bucket lies in another region", "name that one, as ?region=eu-central-1")
_NO_KEY = Trouble(
    "the server does not know the access key", "see AWS_ACCESS_KEY_ID, and that the endpoint is of who gave the key"
)
_FULL = Trouble(
    "there is no room in the bucket", "remove old experiments (`swarm experiment prune`), or have more room given to it"
)
_LATER = Trouble("the server is asked too much", "try again later; nodes with longer rounds ask less", passing=True)
_WRONG_SECRET = Trouble(
    "the secret does not fit the key, or something on the way changed the request",
    "see AWS_SECRET_ACCESS_KEY or AZURE_STORAGE_ACCOUNT_KEY, the region, and that no proxy is between",
)
_FAILED = Trouble("the server failed", _BUSY, passing=True)
_UNKNOWN_REQUEST = Trouble("the server does not know the request", "take another server")
_BY_CODES = {
    "ExpiredToken ExpiredTokenException TokenRefreshRequired RequestExpired": _EXPIRED,
    "AccessDenied AllAccessDisabled AuthorizationFailure": _FORBIDDEN,
    "AuthorizationPermissionMismatch InsufficientAccountPermissions": _FORBIDDEN,
    "AuthorizationHeaderMalformed IllegalLocationConstraintException": _OTHER_REGION,
    "PermanentRedirect TemporaryRedirect": _OTHER_REGION,
    "SignatureDoesNotMatch AuthenticationFailed": _WRONG_SECRET,
    "InvalidAccessKeyId InvalidSecurity": _NO_KEY,
    "QuotaExceeded StorageFull XMinioStorageFull InsufficientStorage": _FULL,
    "SlowDown ServerBusy ServiceUnavailable TooManyRequests": _LATER,
    "InternalError OperationTimedOut": _FAILED,
    "NotImplemented": _UNKNOWN_REQUEST,
    "RequestTimeTooSkewed": Trouble("this machine's clock is wrong", "set it, as by `timedatectl set-ntp true`"),
    "InvalidToken": Trouble(
        "the session token does not belong to the key", "set AWS_SESSION_TOKEN anew with its key, or unset it"
    ),
    "RequestTimeout": Trouble("the request came too slowly", "see how good the line is", passing=True),
    "InvalidBucketName": Trouble(
        "the bucket has no bucket's name", "expected 3 to 63 small letters, digits and hyphens"
    ),
    "NoSuchBucket": Trouble(
        "there is no such bucket", "make it first, or see that its name and the endpoint are right"
    ),
    "ContainerNotFound": Trouble("there is no such container", "make it first, or see that its name is right"),
    "MethodNotAllowed": Trouble("the address takes no such request", "name the endpoint of the API, not of a website"),
    "EntityTooLarge": Trouble("the object is larger than the server takes", "take another server, or save adapters"),
    "InvalidObjectState": Trouble("the object was moved to an archive", "have the provider bring it back first"),
    "AccountIsDisabled": Trouble("the account is disabled", "see the provider's console"),
    "UserProjectMissing": Trouble("whoever asks has to pay, and names no project", "use credentials with a project"),
}
_MEANINGS = {code: meaning for codes, meaning in _BY_CODES.items() for code in codes.split()}
"""Code -> what it means: of Amazon's S3, MinIO, Ceph, Azure and Google."""
_ADVICE = {
    400: "see that the bucket's name, the region and the endpoint are right",
    401: "see that the credentials in the environment or the usual files are those of this place",
    403: "see that the credentials in the environment or the usual files may do this here, and that the clock is right",
    404: "see that the bucket is there, and its name and the endpoint are right",
    301: _OTHER_REGION.advice,
    307: _OTHER_REGION.advice,
    501: _UNKNOWN_REQUEST.advice,
    507: _FULL.advice,
}
_SAID = {
    r"169\.254\.169\.254|metadata|(?i:credential)": Trouble(
        "there are no credentials",
        "set them in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, ...) or in the provider's files",
    ),
    "(?i:(header|Metadata value for .*) contain(ed|ing) non[- ](UTF|ASCII))": Trouble(
        "its headers are no text", "whoever wrote it has to write it again"
    ),
    "invalid list response": Trouble(
        "a name there is no text", "remove the object whose name holds control characters, by the provider's own tools"
    ),
}
"""What obstore's words mean where no server answered."""
_SILENT = {
    "dns error": Trouble("the name of the server is unknown", "see the endpoint, and that there is a network", True),
    "certificate": Trouble("the server's certificate is not trusted", "see the endpoint, or name its authority"),
    "Connection refused": Trouble("nobody answers at that address", "see the endpoint, and that the server runs", True),
    "request or response body": Trouble("the connection broke off", passing=True),
    "": Trouble("the server gave no answer", passing=True),
}
"""The same, of its words and their details."""


def trouble_of(error: Exception) -> Trouble:
    """Returns what an error means that obstore raised."""
    text = str(error).partition("\n\nDebug source")[0]
    status, code = _STATUS.search(text), _CODE.search(text) or _NOT_REMOVED.search(text)
    if status or code:
        said = " ".join(match[1] for match in (status, code) if match)
        if meaning := _MEANINGS.get(code[1]) if code else None:
            return meaning._replace(said=f"{meaning.said} (the server answered {said})")
        number = int(status[1]) if status else 403
        return Trouble(f"the server answered {said}", _ADVICE.get(number, _BUSY), number in _PASSING)
    if not_given := _NOT_GIVEN.search(text):
        return Trouble(not_given[1], "see the file of AWS's profiles, or set AWS_ACCESS_KEY_ID and its secret")
    meant = (meaning for words, meaning in _SAID.items() if re.search(words, text))
    return next(meant, None) or next(meaning for part, meaning in _SILENT.items() if part in str(error))


def no_bucket(error: Exception) -> bool:
    """Tells whether what is not there is the bucket itself."""
    code = _CODE.search(str(error))
    return code is not None and code[1] in _NO_BUCKET
