"""Each answer of a store that a user can meet says what it means, and what to do; those that pass are tried again."""

from __future__ import annotations

import pytest

from swarm.store.bucket.answers import no_bucket, trouble_of


def answer(status: int, code: str = "") -> Exception:
    body = f"<Error><Code>{code}</Code><Message>&lt;b&gt;</Message></Error>" if code else "<html>"
    return OSError(f"Generic S3 error: - Server returned non-2xx status code: {status} Something: {body}")


ANSWERS = [
    (400, "ExpiredToken", "expired", "AWS_SESSION_TOKEN", False),
    (400, "InvalidToken", "token", "unset", False),
    (403, "InvalidAccessKeyId", "access key", "AWS_ACCESS_KEY_ID", False),
    (403, "SignatureDoesNotMatch", "secret", "AWS_SECRET_ACCESS_KEY", False),
    (403, "AuthenticationFailed", "secret", "AZURE_STORAGE_ACCOUNT_KEY", False),
    (403, "RequestTimeTooSkewed", "clock", "timedatectl", False),
    (403, "AccessDenied", "may not", "docs/buckets.md", False),
    (400, "AuthorizationHeaderMalformed", "region", "?region=", False),
    (400, "InvalidBucketName", "name", "3 to 63", False),
    (404, "NoSuchBucket", "no such bucket", "make it", False),
    (404, "ContainerNotFound", "no such container", "make it", False),
    (507, "XMinioStorageFull", "no room", "prune", False),
    (503, "SlowDown", "too much", "later", True),
    (400, "RequestTimeout", "slowly", "line", True),
    (500, "InternalError", "failed", "later", True),
    (405, "MethodNotAllowed", "no such request", "website", False),
    (501, "NotImplemented", "does not know", "another server", False),
    (401, "", "401", "credentials", False),
    (502, "", "502", "later", True),
    (507, "", "507", "prune", False),
]


@pytest.mark.parametrize(("status", "code", "said", "advice", "passing"), ANSWERS)
def test_an_answer_says_what_it_means_and_what_to_do(
    status: int, code: str, said: str, advice: str, passing: bool
) -> None:
    trouble = trouble_of(answer(status, code))
    assert said in trouble.said
    assert str(status) in trouble.said
    assert code in trouble.said
    assert advice in trouble.advice
    assert trouble.passing is passing
    assert no_bucket(answer(status, code)) is (code in ("NoSuchBucket", "ContainerNotFound"))


@pytest.mark.parametrize(
    ("details", "said", "passing"),
    [
        ("ConnectError(dns error: failed to lookup address)", "unknown", True),
        ("invalid peer certificate: UnknownIssuer", "certificate", False),
        ("tcp connect error: Connection refused (os error 111)", "nobody answers", True),
        ("something else", "no answer", True),
    ],
)
def test_a_server_that_does_not_answer_says_why_as_far_as_it_is_known(details: str, said: str, passing: bool) -> None:
    trouble = trouble_of(OSError(f"Generic S3 error: error sending request\n\nDebug source:\n{details}"))
    assert said in trouble.said
    assert trouble.passing is passing


def test_a_code_that_nobody_knows_is_told_as_it_is_and_no_text_of_a_server_is() -> None:
    assert "Odd" in trouble_of(answer(418, "Odd")).said
    assert "\x1b" not in trouble_of(answer(418, "\x1b[2J")).said
