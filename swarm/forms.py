"""Decodes JSON into typed forms, from any thread.

msgspec works out a form when it is first decoded, and shows the half-made one to other threads meanwhile. Two threads
that decode the first file of a form at once crash the interpreter. So decoders are made here alone, one after the
other, and each is kept.
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar

import msgspec

Form = TypeVar("Form")

_making = threading.Lock()
_made: dict[Any, msgspec.json.Decoder[Any]] = {}
"""Form -> its decoder, once that is whole."""


def decoder(form: type[Form]) -> msgspec.json.Decoder[Form]:
    """Return the decoder of a form, which any thread may use."""
    if found := _made.get(form):
        return found
    with _making:
        if form not in _made:
            _made[form] = msgspec.json.Decoder(form)
        return _made[form]


def decode(data: bytes | str, form: type[Form]) -> Form:
    """Decode one JSON document.

    Raises:
        msgspec.MsgspecError, UnicodeDecodeError, RecursionError: it is not of this form.
    """
    return decoder(form).decode(data)
