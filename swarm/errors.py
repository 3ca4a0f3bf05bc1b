"""The exception hierarchy, with the exit code of each. Every class has a stable `code`; docs/errors.md explains each.

    SwarmError                  anything swarm raises on purpose
    ├── ConfigError             a setting is unknown, malformed or contradictory          exit 2
    ├── ExperimentError         the folder holds another experiment than the one asked for exit 2
    │   └── MissedError         the node's rounds were over when it came, all or the rest  exit 3
    ├── DuplicateNodeError      a live node already has this id                           exit 2
    ├── StoreError              the shared place cannot be read or written                exit 1
    │   └── AlreadyThereError   something is there, where only the first may write        exit 1
    ├── ProtocolError           a peer's file is refused; carries a countable `reason`    never fatal
    ├── ModelError              a model or tokenizer cannot be loaded or used             exit 1
    │   └── NoModelError        what is named is no model, or no device that can be used   exit 2
    ├── CheckpointError         a checkpoint cannot be written or does not fit            exit 1
    ├── MemoryPlanError         the nodes need more memory than there is                  exit 1
    ├── ScoringError            the scoring children cannot be kept alive                 exit 1
    ├── ClusterError            a cluster does not take a job                             exit 1
    ├── SpendingCapError        an endpoint has cost as much as it may                    exit 1
    ├── PushError               a model cannot be pushed to the Hugging Face Hub          exit 1
    └── SinkError               a tracker of experiments takes no rows                    exit 1

Messages say what, where, what was expected, what was got, and what to do.
"""

from __future__ import annotations

from typing import Self


class SwarmError(Exception):
    """Base of every error that swarm raises on purpose."""

    code = "SWARM-ERROR"
    """Stays the same whatever the message says; its heading in docs/errors.md."""
    exit_code = 1


class ConfigError(SwarmError):
    """A setting is unknown, malformed or contradicts another; raised before anything starts."""

    code = "SWARM-CONFIG"
    exit_code = 2


class ExperimentError(SwarmError):
    """The experiment folder was made with other settings, or is already finished."""

    code = "SWARM-EXPERIMENT"
    exit_code = 2


class MissedError(ExperimentError):
    """Every round that this node had still to do was over when it came. Starting it again changes nothing."""

    code = "SWARM-MISSED"
    exit_code = 3


class DuplicateNodeError(SwarmError):
    """A live node already runs under this node id."""

    code = "SWARM-DUPLICATE-NODE"
    exit_code = 2


class StoreError(SwarmError):
    """The shared place cannot be read or written.

    Attributes:
        blocked: something else stands where this is to be written or listed, such as a folder of that name: no patience
            fixes it.
        astray: whoever writes began in another experiment than the one that is there now, and later than that was
            begun: it is to end, and to start anew in the one that is there.
    """

    code = "SWARM-STORE"

    def __init__(self, message: str, *, blocked: bool = False, astray: bool = False) -> None:
        super().__init__(message)
        self.blocked = blocked
        self.astray = astray


class AlreadyThereError(StoreError):
    """Something is there already, where only the first may write."""

    code = "SWARM-ALREADY-THERE"


class ProtocolError(SwarmError):
    """A file in the shared folder is refused. Peers are strangers: this is data, not a crash.

    Attributes:
        reason: short, stable, countable name such as `malformed`, `oversized`, `wrong_version`, `ragged`.
        killed: answers whose scoring had to be killed before that was found.
        slow: what other answers took by then, as of swarm.tasks.scoring.GroupScore.
    """

    code = "SWARM-PROTOCOL"

    def __init__(self, reason: str, detail: str, *, killed: int = 0, slow: float = 0.0) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
        self.killed = killed
        self.slow = slow

    def as_value(self) -> Self:
        """Itself, for who keeps it: without the frames that it came through, which hold what was read and refused."""
        self.__context__ = self.__cause__ = None
        return self.with_traceback(None)


class ModelError(SwarmError):
    """A model or tokenizer cannot be loaded or used."""

    code = "SWARM-MODEL"


class NoModelError(ModelError):
    """The named model is none, or the named device cannot be used. Starting again changes nothing."""

    code = "SWARM-NO-MODEL"
    exit_code = 2


class CheckpointError(SwarmError):
    """A checkpoint cannot be written, or does not fit the policy it is loaded into.

    Attributes:
        other_model: it is whole, and of another model than the one that is to go on with it.
    """

    code = "SWARM-CHECKPOINT"

    def __init__(self, message: str, *, other_model: bool = False) -> None:
        super().__init__(message)
        self.other_model = other_model


class MemoryPlanError(SwarmError):
    """The nodes asked for need more memory than their device has; raised before any of them starts."""

    code = "SWARM-MEMORY"


class ScoringError(SwarmError):
    """The scoring child processes cannot be started or kept alive."""

    code = "SWARM-SCORING"


class ClusterError(SwarmError):
    """A cluster does not take a job that was submitted to it."""

    code = "SWARM-CLUSTER"


class SpendingCapError(SwarmError):
    """An endpoint has cost as much as it may: nothing is asked of it any more.

    Attributes:
        tokens: used up so far.
        money: spent so far.
    """

    code = "SWARM-SPENDING-CAP"

    def __init__(self, message: str, *, tokens: int, money: float) -> None:
        super().__init__(message)
        self.tokens = tokens
        self.money = money


class PushError(SwarmError):
    """A model cannot be pushed to the Hugging Face Hub. Training goes on.

    Attributes:
        lasting: trying again alone will not help.
    """

    code = "SWARM-PUSH"

    def __init__(self, message: str, *, lasting: bool = False) -> None:
        super().__init__(message)
        self.lasting = lasting


class SinkError(SwarmError):
    """A tracker of experiments takes no rows. Training goes on."""

    code = "SWARM-SINK"
