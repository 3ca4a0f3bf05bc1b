"""A definition as JSON on stdin; on stdout the digests of its package and rows, or what is wrong with it."""

from __future__ import annotations

import os
import sys

import msgspec

from swarm import forms
from swarm.errors import ConfigError
from swarm.plugins.verifiers.definition import VerifiersDefinition
from swarm.plugins.verifiers.environment import open_environment
from swarm.plugins.verifiers.family import Told
from swarm.plugins.verifiers.rows import load_rows, rows_digest, source_digest


def main() -> None:
    """See this module."""
    definition = forms.decode(sys.stdin.buffer.read(), VerifiersDefinition)
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # environments print
    try:
        opened = open_environment(definition)
        told = Told(source_digest(opened), rows_digest(load_rows(opened)))
    except ConfigError as error:
        told = Told(problem=str(error).partition("]: ")[2] or str(error))
    answer.write(msgspec.json.encode(told))
    answer.close()


if __name__ == "__main__":
    main()
