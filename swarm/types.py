"""Immutable data types of the algorithm, from Origin to TrainGroup, and the protocols of a policy.

    Origin ─regenerates─▶ Question ─G answers─▶ RolloutGroup ─verify, score─▶ ScoredGroup ─advantages─▶ TrainGroup

Nothing here does I/O, keeps time or imports torch. Every struct is immutable; the words are those of the SAPO paper
(arXiv:2509.08721), where a *rollout* is what we call a rollout group: the G completions to one question.

Sizes: G completions per group, T_c tokens in completion c.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import msgspec

from swarm.errors import ProtocolError


class RoundKey(NamedTuple):
    """One stage of one round; ordered as the coordinator's clock runs."""

    round: int
    stage: int = 0


def stage_after(key: RoundKey, stages: int) -> RoundKey:
    """Returns the key of the stage that follows on one, in rounds of so many stages."""
    following = RoundKey(key.round, key.stage + 1)
    return following if following.stage < stages else RoundKey(key.round + 1)


FIRST_FAMILY = "reasoning-gym"
"""The task family of a question whose origin names none: in files, its name is left out."""
OTHER_VERSION = "gym_version"
"""Why a question of another version of its family is refused; files and columns know it by the first family's name."""
GENERATION_FAILED = "generation_failed"
"""Why a question cannot be had that there is: making it takes more time or memory than a scoring child may have."""


def full_task(family: str, task: str) -> str:
    """Returns a task's name among those of all families: that of the first family by itself, else `family/task`."""
    return task if family == FIRST_FAMILY else f"{family}/{task}"


class Origin(msgspec.Struct, frozen=True, omit_defaults=True):
    """Regenerates a question exactly: a question is a function of these fields (see swarm.tasks.family)."""

    task: str
    """Of the family; the paper's "specialty"."""
    profile: str
    """Difficulty and scoring, such as `tiny-3` or `paper-2`."""
    seed: int
    """0 <= seed < 2**31."""
    index: int
    """Item of what the seed gives, 0 <= index < 2**20."""
    version: str = msgspec.field(name=OTHER_VERSION)
    """The family's version at the publisher (of the first: its package's)."""
    family: str = FIRST_FAMILY
    """Whose task it is; left out where it is the first."""
    context: tuple[str, ...] = ()
    """Of a stage after the first: the groups whose answers the prompt shows, `peer/round/stage/slot/digest`."""

    def __post_init__(self) -> None:
        if self.family == FIRST_FAMILY:  # the very object: what is equal to a default is written nevertheless
            msgspec.structs.force_setattr(self, "family", FIRST_FAMILY)


class Question(msgspec.Struct, frozen=True):
    """One instance of a task, as text and with its ground truth."""

    prompt: str
    """The question's text alone; each node puts it into its own model's prompt format."""
    origin: Origin | None
    """None only in a run of another program, which `swarm validate` looks at: no node learns from such a question."""
    answer: str | None = None
    """The ground truth, None where the task has no single one (propositional_logic)."""
    metadata: dict[str, Any] = {}
    """The task's own metadata. A peer's copy is never used: the reader regenerates it."""
    turns: int = 1
    """Turns that a model has at most; more than one where the task's environment replies to it."""

    def known_origin(self) -> Origin:
        """Returns the origin of a question that has one. Raises ProtocolError (`no_origin`) for any other."""
        if self.origin is None:
            raise ProtocolError("no_origin", "only a question that says where it comes from can be made anew")
        return self.origin

    @property
    def task(self) -> str:
        """Returns the specialty's full name, of a question that has an origin."""
        origin = self.known_origin()
        return full_task(origin.family, origin.task)


MOST_TURNS = 16
"""Turns of a model in one conversation."""
LONGEST_REPLY = 4_000
"""Characters of an environment's reply."""


class Turn(msgspec.Struct, frozen=True):
    """An earlier turn of a conversation: what the model wrote, and what the environment said to it."""

    text: str
    finished: bool
    """As in Completion."""
    reply: str
    """The environment's words. They are context: nothing is learnt of them."""
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None


class Dialogue(msgspec.Struct, frozen=True):
    """A conversation in which it is the model's turn."""

    question: str
    """The first words of the environment."""
    turns: tuple[Turn, ...]
    """What has been said since; at least one."""


class Completion(msgspec.Struct, frozen=True):
    """One sampled answer: of a conversation its last turn, with those before it."""

    text: str
    finished: bool
    """True if the model ended it, with an end-of-text token or a stop string; False if it hit the length limit."""
    token_ids: tuple[int, ...] | None = None
    """The T_c sampled ids, an end-of-text included. Read from a file they are a claim of its publisher."""
    logprobs: tuple[float, ...] | None = None
    """T_c natural-log probabilities at the sampling temperature, under the policy that wrote it."""
    earlier: tuple[Turn, ...] = ()
    """The turns before this one, in order; none in a task of one turn."""

    @property
    def texts(self) -> tuple[str, ...]:
        """Returns what the model wrote, turn by turn."""
        return (*(turn.text for turn in self.earlier), self.text)

    @property
    def every_turn(self) -> tuple[Turn | Completion, ...]:
        """Returns all turns in order, the last one being this."""
        return (*self.earlier, self)


class RolloutGroup(msgspec.Struct, frozen=True):
    """The G completions of one node to one question: the unit that is published and sampled."""

    peer_id: str
    round: int
    stage: int
    slot: int
    """Position among the publisher's groups of that stage, 0 <= slot < I."""
    question: Question
    completions: tuple[Completion, ...]
    model: str = ""
    """Name of the policy that wrote it."""
    tokenizer: str = ""
    """Digest of the tokenizer that the completions' token_ids belong to; empty where there are none."""
    licence: str = ""
    """Of the completions, as their publisher names it."""
    consent: str = ""
    """Of who wrote them, as their publisher says."""


class ScoredGroup(msgspec.Struct, frozen=True):
    """A rollout group with this node's own rewards."""

    group: RolloutGroup
    rewards: tuple[float, ...]
    """G rewards in [0, 1] from this node's own verifier."""
    answered: tuple[bool, ...]
    """G flags: the completion held a closed <answer>...</answer>."""


class TrainGroup(msgspec.Struct, frozen=True):
    prompt: str
    completions: tuple[Completion, ...]
    advantages: tuple[float, ...]
    """G group-relative advantages, all zero for an uninformative group."""
    external: bool = False
    tokenizer: str = ""
    """As in RolloutGroup."""


class MemoryUse(msgspec.Struct, frozen=True):
    """The memory of a device at one moment, bytes."""

    allocated: int
    """What this process holds."""
    peak: int
    """The most that it held since it began."""
    total: int
    """What the device has, or this process may use of it."""
    free: int
    """What is left of that, whoever holds the rest."""
    reserved: int | None = None
    """What torch has reserved of a GPU for this process; None on a CPU."""


class Likeliness(NamedTuple):
    """Says how likely the own policy was, before an update, to write completions of a peer."""

    logprobs: float
    """Sum over their tokens, nats."""
    tokens: int


class GradientEstimate(NamedTuple):
    """Estimates moments of single groups' gradients, summed over tokens, in one update; see swarm.algo.gradient_bias.

    Each is unbiased, so that those that are no variance may be negative; None: there were too few groups.
    """

    square: float | None = None
    """Squared norm of the mean gradient of own groups; needs two."""
    noise: float | None = None
    """Variance of the gradient of one own group; needs two."""
    alignment: float | None = None
    """Inner product of the mean gradients of own and of external groups; needs one of each."""
    bias: float | None = None
    """Squared distance between these two means; needs two groups of each."""


class TrainReport(msgspec.Struct, frozen=True):
    loss: float
    grad_norm: float
    """Global L2 norm before clipping."""
    tokens: int
    """Completion tokens in the normaliser, zero-advantage groups included."""
    trained_tokens: int
    """Completion tokens that took part in the backward pass."""
    groups_too_long: int = 0
    """Groups left out: prompt + completion exceed the model's context, or an external completion is far longer than own
    ones may be."""
    clip_fraction: float = 0.0
    kl: float = 0.0
    logprob_drift: float = 0.0
    """Largest |trainer - generator| log-prob over own tokens, nats."""
    importance_tokens: int = 0
    """Trained tokens that were weighed by their publisher's log-probs."""
    importance_mean: float = 0.0
    """Their mean weight, truncated."""
    left_out_tokens: int | None = None
    """Tokens of the trained external completions from which a bound let nothing be learned; None: there is no bound."""
    external_likeliness: tuple[Likeliness, ...] = ()
    """Of the completions with a positive advantage in each group of finish_update, in order; empty where no one is told
    or nothing was trained."""
    gradient: GradientEstimate | None = None
    """Of the first step; None where it was not measured."""
    external_alignment: tuple[float, ...] = ()
    """Of each group of finish_update, in order: inner product of its gradient with the mean one of own groups; NaN
    where it, or these, had no gradient. Empty where it was not measured."""
    memory_halvings: int = 0
    """How often a step, of generation or of this update, was repeated with half the batch for want of memory."""
    memory: MemoryUse | None = None
    """Of the GPU after it; None on a CPU, whose memory is the process's to measure."""
    seconds_lease: float = 0.0
    """Waited for the device's lease."""
    updated: bool = True
    """False if the weights are unchanged: no gradient, and no step of Adam on zero; or it was not finite."""


class Bill(msgspec.Struct, frozen=True):
    requests: int
    tokens_in: int
    tokens_out: int
    money: float
    closed: bool = False
    """The cap is reached: nothing is generated any more."""


Ready = Callable[[int, tuple[Completion, ...]], None]
"""Is given the number of a question, and the completions to it."""
Groups = list[tuple[Completion, ...]]
"""The completions to each of some questions."""


class GenerationCall(NamedTuple):
    """The arguments of Generator.generate."""

    prompts: Sequence[str | Dialogue]
    group_size: int
    seed: int
    ready: Ready | None = None


class Generator(Protocol):
    """Samples completions. Implemented by swarm.policy; an engine of another kind needs this much and no more.

    Every method blocks and is called through the node's Compute alone.
    """

    @property
    def name(self) -> str:
        """Short name that peers see, such as `tiny-qwen2`."""

    @property
    def tokenizer(self) -> str:
        """Digest of its tokenizer: two models with the same one mean the same by a token id."""

    @property
    def bill(self) -> Bill | None:
        """Returns what generating has cost so far; None where nobody is asked for it."""

    @property
    def repeats(self) -> bool:
        """The same weights and seed give the same completions once more, bit for bit: so on a CPU."""

    def has_room(self, prompt: str) -> bool:
        """Tells whether its context has room for this prompt and a whole answer; True where nobody can tell."""

    def generate(
        self, prompts: Sequence[str | Dialogue], *, group_size: int, seed: int, ready: Ready | None = None
    ) -> list[tuple[Completion, ...]]:
        """Sample group_size completions for each question text, or next turns of each dialogue.

        The same seed gives the same tokens. A question that comes to nothing, as of an engine that is not there, gets
        none at all, and so does a dialogue for whose next turn the model's context has no room.

        Args:
            prompts: whoever asks for a dialogue's next turn puts the conversation together: `earlier` is left empty.
            ready: is given the number of a question and its completions once these are written, as they are returned in
                the end; it is called in this thread, and returns soon. Who cannot tell before the end never calls it.
        """


@runtime_checkable
class BatchingGenerator(Protocol):
    """A generator whose calls can be one batch with those of others."""

    @property
    def batch_key(self) -> Hashable | None:
        """Equal for generators whose calls can be one batch, if they ask for groups of one size; None: with nobody."""

    @property
    def batch_size(self) -> int:
        """Returns how many generators there are of its key."""

    def generate_together(
        self, calls: Sequence[tuple[BatchingGenerator, GenerationCall]]
    ) -> Sequence[Groups | Exception]:
        """Returns what `generate` of each returns or raises; it raises what fails for all."""


@runtime_checkable
class RemoteGenerator(Protocol):
    """A generator whose completions are written elsewhere, so that its calls need no Compute."""

    async def write(self, call: GenerationCall) -> Groups:
        """Returns what `generate` does; this process may compute meanwhile. Cancelled, nobody writes on."""


class Trainer(Protocol):
    """Updates the weights. Every method blocks and is called through the node's Compute alone."""

    def begin_update(self, groups: Sequence[TrainGroup]) -> None:
        """Add up the gradients of the first groups of an update; the weights stay as they are.

        An update that was begun and not finished is forgotten. Generating in between changes nothing.
        """

    def finish_update(self, groups: Sequence[TrainGroup]) -> TrainReport:
        """Add those of the remaining groups, then make one policy update on all of them together."""

    def part(self, name: str) -> Any:
        """Returns what a plugin added under a name (swarm.policy.parts). Raises KeyError: there is nothing."""

    def snapshot(self) -> Snapshot:
        """Copy weights and optimizer to host memory; quick, so that writing can happen elsewhere."""

    def restore(self, snapshot_dir: str) -> None:
        """Load what Snapshot.write wrote. Raises CheckpointError if it does not fit."""


class Policy(Generator, Trainer, Protocol):
    """One model that does both: what `load_policy` gives."""


class Snapshot(Protocol):
    """A policy's weights and optimizer at one moment, held in host memory."""

    def write(self, directory: str) -> None:
        """Write safetensors and JSON files into an existing empty directory; callable from any thread."""
