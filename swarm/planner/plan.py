"""Plans what N nodes need on one device, and the settings with which they fit. Pure arithmetic; all sizes are bytes.

    NodeMemory of each model ──dealt over N nodes──▶ Parts ──against free memory──▶ choose ──▶ Plan

Weights, optimizer and gradients count for every node, a frozen base once for every process. Generation and update take
turns in a process, over all its nodes; and with a device lease one process at a time is in its update while the others
may generate. Nodes of one process that train adapters generate together. Models that compute on the CPU although the
device is a GPU take memory of its host.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import NamedTuple

from swarm.config import Settings
from swarm.planner.device_memory import DeviceMemory
from swarm.planner.node_memory import ONE_TURN, NodeMemory, SizedModel, Talk, lengths, node_memory

RESERVE = 0.1
"""Share of the free memory that a plan leaves: for fragmentation, and for what is not counted."""
CUDA_CONTEXT = 512 * 2**20
PROCESS = 270 * 2**20
"""What a worker's process holds of its own once torch and transformers are imported (measured, without CUDA)."""
COMMON = 190 * 2**20
"""Once per machine: library pages that all workers share, the coordinator, and `swarm up` itself (measured)."""
LEAST_MICRO_BATCH = 64
"""Tokens; the setting takes no fewer."""
_MOST_NODES = 4096
_MOST_TOKENS = 2**15
"""Tokens of a completion that are tried."""
_RESIDENT = ("weights", "reference", "optimizer", "gradients")
"""Fields of NodeMemory that are lines of the plan."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One line of the plan."""

    name: str
    one: int
    """Bytes for one node, the largest on the device."""
    all: int
    """Bytes for all nodes."""
    on_host: bool = False
    """Host memory, beside that of a GPU."""


def in_processes(nodes: int, processes: int | None) -> list[range]:
    """Returns the numbers of the nodes of each process: as many as are allowed, of sizes that differ by one at most.

    Args:
        processes: at most; None: each node has its own.
    """
    count = min(nodes, processes or nodes)
    return [range(nodes * one // count, nodes * (one + 1) // count) for one in range(count)]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Says what N nodes need on one device, and what was chosen so that they fit."""

    device: DeviceMemory
    nodes: int
    processes: int
    """The nodes are in so many."""
    models: tuple[str, ...]
    """Those that the nodes are dealt in turn."""
    node: NodeMemory
    """What the node with the largest peak needs."""
    prompt_tokens: int
    """Longest prompt that is assumed, of any model."""
    new_tokens: int
    """Longest completion of any model, of a conversation all that follows the prompt."""
    parts: tuple[Part, ...]
    gradient_checkpointing: bool
    micro_batch_tokens: int
    most_nodes: int
    """How many nodes fit with what was chosen."""
    longest_completion: int | None
    """Tokens of a completion with which these nodes would fit, whatever is chosen then; None: with one token they do
    not."""
    adapter: str = "none"
    """What is trained of the models."""
    on_host: tuple[str, ...] = ()
    """Those of the models that compute on the CPU, although the device is a GPU."""

    @property
    def needed(self) -> int:
        """Device memory of all nodes."""
        return sum(part.all for part in self.parts if not part.on_host)

    @property
    def host_needed(self) -> int:
        """Host memory of all nodes beside a GPU's, 0 on a CPU, where all of it is device memory."""
        return sum(part.all for part in self.parts if part.on_host)

    @property
    def usable(self) -> int:
        """Free device memory but for the reserve."""
        return _usable(self.device.free)

    @property
    def fits(self) -> bool:
        """All nodes fit into the device, and what they need of the host into the host."""
        return _fits(self.parts, self.device)


def choose(
    models: Sequence[SizedModel],
    settings: Settings,
    device: DeviceMemory,
    *,
    nodes: int,
    processes: int | None,
    talk: Talk = ONE_TURN,
) -> Plan:
    """Returns the fastest settings that fit: without gradient checkpointing, else with it; the largest micro-batch of
    either.

    Checkpointing runs all of it once more, and no micro-batch costs as much, however small. If nothing fits, the plan
    is that of the least memory, with `fits` False.

    Args:
        models: those that nodes are dealt in turn.
        processes: the nodes share so many at most; None: each has its own.
        settings: micro_batch_tokens is the most that is chosen, gradient_checkpointing None leaves it to the plan.
        talk: the longest conversation of the run's tasks.
    """
    situation = _Situation(tuple(models[:nodes]), settings, device, processes, talk)
    allowed = (False, True) if settings.gradient_checkpointing is None else (settings.gradient_checkpointing,)
    choices = [(size, checkpointing) for checkpointing in allowed for size in situation.sizes()]
    size, checkpointing = next((choice for choice in choices if situation.fits(nodes, *choice)), choices[-1])
    memories = situation.memories(size, checkpointing)
    return Plan(
        adapter=settings.adapter.kind,
        on_host=situation.on_host,
        device=device,
        nodes=nodes,
        processes=len(in_processes(nodes, processes)),
        models=tuple(model.shape.name for model in situation.models),
        node=max(memories, key=lambda memory: memory.peak),
        prompt_tokens=max(memory.prompt_tokens for memory in memories),
        new_tokens=max(memory.new_tokens for memory in memories),
        parts=situation.parts(nodes, size, checkpointing),
        gradient_checkpointing=checkpointing,
        micro_batch_tokens=size,
        most_nodes=situation.most_nodes(size, checkpointing),
        longest_completion=_longest_completion(situation, nodes, allowed),
    )


def _longest_completion(situation: _Situation, nodes: int, allowed: Sequence[bool]) -> int | None:
    """Finds the longest completion by bisection: longer completions never need less."""
    most = min(_MOST_TOKENS, *(model.shape.context - 1 for model in situation.models))

    def fits(tokens: int) -> bool:
        tried = replace(situation, settings=replace(situation.settings, max_new_tokens=tokens))
        return any(tried.fits(nodes, size, way) for size in tried.sizes() for way in allowed)

    return bisect_left(range(1, most + 1), True, key=lambda tokens: not fits(tokens)) or None


@dataclass(frozen=True)
class _Situation:
    """Holds what stays the same while settings are tried."""

    models: tuple[SizedModel, ...]
    settings: Settings
    device: DeviceMemory
    processes: int | None
    talk: Talk

    @property
    def on_host(self) -> tuple[str, ...]:
        return tuple(model.shape.name for model in self.models if model.on_host)

    def sizes(self) -> Iterator[int]:
        """Micro-batches to try, halving from the largest allowed down to the longest row, as running out does."""
        longest = max(sum(lengths(model.shape, self.settings, self.talk)) for model in self.models)
        least = max(longest, LEAST_MICRO_BATCH)
        size = self.settings.micro_batch_tokens
        while size > least:
            yield size
            size //= 2
        yield min(least, self.settings.micro_batch_tokens)

    def fits(self, nodes: int, size: int, checkpointing: bool) -> bool:
        return _fits(self.parts(nodes, size, checkpointing), self.device)

    def most_nodes(self, size: int, checkpointing: bool) -> int:
        """Finds the most nodes by bisection: more nodes never need less."""
        return bisect_left(range(1, _MOST_NODES + 1), True, key=lambda nodes: not self.fits(nodes, size, checkpointing))

    def parts(self, nodes: int, size: int, checkpointing: bool) -> tuple[Part, ...]:
        memories = self.memories(size, checkpointing)
        models = len(memories)
        alike = []
        held = Counter((process.start % models, len(process)) for process in in_processes(nodes, self.processes))
        for (first, count), processes in held.items():
            dealt = [memories[node % models] for node in range(first, first + count)]
            together = 1 if self.settings.adapter.kind == "none" else -(-count // models)
            working = self.memories(size, checkpointing, together) if together > 1 else dealt
            alike.append(_AlikeProcesses(processes, dealt, working))
        return tuple(_parts(alike, self.settings, self.device))

    def memories(self, size: int, checkpointing: bool, together: int = 1) -> list[NodeMemory]:
        return [
            node_memory(
                model,
                self.settings,
                self.device,
                micro_batch_tokens=size,
                checkpointing=checkpointing,
                talk=self.talk,
                together=together,
            )
            for model in self.models
        ]


class _AlikeProcesses(NamedTuple):
    """Holds what the nodes of one process need, of several that are alike."""

    processes: int
    nodes: Sequence[NodeMemory]
    working: Sequence[NodeMemory]
    """They hold buffers and generate: the nodes, or those of each model together."""

    @property
    def generation(self) -> int:
        """Memory to generate, of one process."""
        return max(memory.generation for memory in self.working)

    @property
    def beyond(self) -> int:
        """Memory that an update takes beyond generation, of one process: its updates come one after the other."""
        return max(max(memory.generation, memory.update) for memory in self.working) - self.generation


def _total(alike: Sequence[_AlikeProcesses], of_process: Callable[[_AlikeProcesses], int]) -> int:
    return sum(one.processes * of_process(one) for one in alike)


def _of_nodes(alike: Sequence[_AlikeProcesses], need: Callable[[NodeMemory], int]) -> int:
    return _total(alike, lambda one: sum(map(need, one.nodes)))


def _largest(alike: Sequence[_AlikeProcesses]) -> NodeMemory:
    return max((memory for one in alike for memory in one.nodes), key=lambda memory: memory.peak)


def _parts(alike: Sequence[_AlikeProcesses], settings: Settings, device: DeviceMemory) -> Iterator[Part]:
    """Yields the lines of a plan; one node is the largest on the device."""
    on_device = _only(alike, lambda node: not node.on_host)
    yield from _computing(on_device, settings, is_gpu=device.is_gpu)
    for part in _computing(_only(alike, lambda node: node.on_host), settings, is_gpu=False):
        yield replace(part, one=0, on_host=True)
    largest, processes = _largest(on_device or alike), _total(alike, lambda one: 1)

    def kept(title: str) -> int:
        return _of_nodes(alike, lambda node: node.kept.get(title, 0))

    always_on_host = [
        ("process", PROCESS + COMMON, processes * PROCESS + COMMON),
        ("scorer", largest.scorers, processes * largest.scorers),
        *((title, one_node, kept(title)) for title, one_node in largest.kept.items()),
        ("checkpoint copy", largest.snapshot, _of_nodes(alike, attrgetter("snapshot"))),
    ]
    for name, one_node, all_nodes in always_on_host:
        yield Part(name=name, one=one_node, all=all_nodes, on_host=device.is_gpu)


def _only(alike: Sequence[_AlikeProcesses], chosen: Callable[[NodeMemory], bool]) -> list[_AlikeProcesses]:
    """Returns the processes that have chosen nodes, with these alone."""
    left = [one._replace(nodes=[*filter(chosen, one.nodes)], working=[*filter(chosen, one.working)]) for one in alike]
    return [one for one in left if one.nodes]


def _computing(alike: Sequence[_AlikeProcesses], settings: Settings, *, is_gpu: bool) -> Iterator[Part]:
    """Yields the lines of what nodes hold where they compute."""
    if not alike:
        return
    largest = _largest(alike)
    if largest.base:
        bases = _total(alike, lambda one: sum({node.model: node.base for node in one.nodes}.values()))
        yield Part(name="frozen base", one=largest.base, all=bases)
    for name in _RESIDENT:
        if one_node := getattr(largest, name):
            yield Part(name=name, one=one_node, all=_of_nodes(alike, attrgetter(name)))
    if largest.buffers:
        buffers = _total(alike, lambda one: sum(memory.buffers for memory in one.working))
        yield Part(name="static buffers", one=largest.buffers, all=buffers)
    lease = settings.device_lease == "on" or (settings.device_lease == "auto" and is_gpu)
    beyond = attrgetter("beyond")
    update = max(map(beyond, alike)) if lease else _total(alike, beyond)
    yield Part(name="generation", one=largest.generation, all=_total(alike, attrgetter("generation")))
    yield Part(name="update, beyond that", one=max(0, largest.update - largest.generation), all=update)
    if is_gpu:
        yield Part(name="CUDA context", one=CUDA_CONTEXT, all=_total(alike, lambda one: CUDA_CONTEXT))


def _usable(free: int) -> int:
    return int(free * (1 - RESERVE))


def _fits(parts: Sequence[Part], device: DeviceMemory) -> bool:
    on_device = sum(part.all for part in parts if not part.on_host)
    on_host = sum(part.all for part in parts if part.on_host)
    return on_device <= _usable(device.free) and (bool(device.elsewhere) or on_host <= _usable(device.host_free))
