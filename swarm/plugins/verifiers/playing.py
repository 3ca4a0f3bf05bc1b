"""An episode with the turns that a model has said so far, played anew from its start.

    task, turns ─▶ Env.run ─▶ agent.run / agent.interaction ─turn()─▶ the next of the turns
                                                            none left ─▶ Waits: what was said to the model last
                                                                         or the agent's limit, where it has to end
    Env.run returns ─▶ Task.score, Env.finalize ─▶ Earned

The library's own Env, Task and Trace, with an agent whose answers are there already: nothing is sampled, launched or
served. Python's and numpy's global random states are seeded before, so that a play is a function of task and turns.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import math
import random
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from swarm.plugins.verifiers.environment import OpenedEnvironment, library
from swarm.plugins.verifiers.loop import PlainLoop

MODEL = "policy"
"""What the agent's model is called in a trace."""


class Waits(NamedTuple):
    """Says that it is the model's turn."""

    words: str
    """What was said to it since its last turn; before the first: all of the prompt."""


class Earned(NamedTuple):
    """The episode is over."""

    reward: float
    """From 0 to 1."""


class CannotPlayError(Exception):
    """The environment does what only a program of its own could answer."""


class Player:
    """Plays the episodes of one environment."""

    def __init__(self, opened: OpenedEnvironment) -> None:
        self._opened = opened
        self._vf = library()
        self._version = self._vf.VersionInfo(version="", commit=None)  # asking for it starts git
        self._config = self._vf.AgentConfig(model=MODEL)
        self.converses = False
        """Whether an agent was asked for a conversation."""
        self._abandoned: list[Any] = []
        self.call = sys.modules["verifiers.v1.utils.decorators"].invoke

    def play(self, task: Any, turns: Sequence[str], seed: str, *, ends: bool = False) -> Waits | Earned:
        """Play a task's episode as far as the turns go.

        Args:
            ends: the model says nothing more, as if its turns were used up.

        Raises:
            Exception: whatever the environment raises.
        """
        _seed_all(seed)
        agent = _Agent(self, task, turns, ends)
        loop = PlainLoop()  # type: ignore[abstract]  # what it lacks raises NotImplementedError
        episode = self._episode(task, agent)
        self._abandoned.append(episode)  # its clean-up would run wherever the collector finds it
        traces = loop.run(episode, lambda: agent.waiting)
        if traces is None:
            return Waits(agent.words())
        return Earned(self._reward(traces))

    async def _episode(self, task: Any, agent: _Agent) -> list[Any]:
        vf, env = self._vf, self._opened.env
        agents = vf.Agents(env.config, lambda _name, _spec: agent)
        await env.setup(agents)
        await env.run(task, agents)
        if len(agent.traces) != 1:
            raise CannotPlayError(f"it ran its agent {len(agent.traces)} times; one episode has one conversation")
        episode = vf.Episode(env=vf.EnvInfo(id=env.config.env_id), task=self._of(task), traces=agent.traces, ok=True)
        await env.finalize(task, episode)
        return list(episode.traces)

    def trace(self, task: Any) -> Any:
        """Returns an empty one."""
        vf = self._vf
        agent = vf.AgentInfo(config=self._config, name=self._opened.role)
        state = sys.modules["verifiers.v1.state"].state_cls(type(task))()
        return vf.Trace(id="episode", verifiers=self._version, task=self._of(task), state=state, agent=agent)

    def _of(self, task: Any) -> Any:
        return self._vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)

    def _reward(self, traces: Sequence[Any]) -> float:
        """Returns the weighted sum as a share of the best, from 0 to 1."""
        rewards = traces[0].rewards
        missing = [name for name, reward in rewards.items() if reward is None]
        if missing or not rewards:
            raise CannotPlayError(f"it gave no reward{': ' * bool(missing)}{', '.join(missing)}")
        best = self._opened.definition.best or float(sum(max(reward.weight, 0.0) for reward in rewards.values()))
        if best <= 0:
            raise CannotPlayError(f"none of its rewards has a weight above 0 ({', '.join(rewards)}): say best")
        total = float(sum(reward.value for reward in rewards.values()))
        if not math.isfinite(total):
            raise CannotPlayError(f"its rewards sum up to {total}")
        return min(1.0, max(0.0, total / best))


class _Agent:
    """Stands in for an environment's agent: its answers are given before."""

    def __init__(self, player: Player, task: Any, turns: Sequence[str], ends: bool) -> None:
        self.player = player
        self.trainable = True
        self.name = MODEL
        self.traces: list[Any] = []
        self.left = list(turns)
        self.ends = ends
        self.waiting = False
        self._begun = False
        self._heard: list[Any] = []

    async def run(self, task: Any, **options: Any) -> Any:
        """One turn."""
        async with self._talk(task, options) as talk:
            await talk.turn() if task.data.prompt is not None else await talk.turn("")
        return talk.trace

    def interaction(self, task: Any, **options: Any) -> _Talk:
        """Several turns, of which the environment says when each begins."""
        self.player.converses = True
        return self._talk(task, options)

    def _talk(self, task: Any, options: dict[str, Any]) -> _Talk:
        if self._begun or any(value is not None for key, value in options.items() if key in ("runtime", "tools")):
            raise CannotPlayError("it runs its agent several times, or with tools; one episode has one conversation")
        self._begun = True
        return _Talk(self, task)

    def provision(self, *_: Any, **__: Any) -> Any:
        """Returns a sandbox."""
        raise CannotPlayError("it provisions a sandbox, and there is none")

    def hear(self, messages: Sequence[Any]) -> None:
        """Takes what is said to the model before its next turn."""
        self._heard = list(messages)

    def words(self) -> str:
        """Returns the last messages to the model as one text. Raises CannotPlayError: they hold something else."""
        return "\n\n".join(filter(None, map(_text_of, self._heard)))


class _Talk:
    """verifiers.v1.Interaction, as far as it is one."""

    def __init__(self, agent: _Agent, task: Any) -> None:
        self._agent, self._task = agent, task
        self._vf = library()
        self.trace = agent.player.trace(task)
        self._turns = 0
        self._over = self._closed = False

    async def __aenter__(self) -> _Talk:
        await self._agent.player.call(self._task.setup, {"trace": self.trace, "runtime": _NO_RUNTIME})
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            await self.close()

    async def turn(self, message: Any = None) -> Any:
        """One turn of the model."""
        if self._over or self._closed:
            raise RuntimeError("the exchange is over (the run ended); read interaction.trace")
        prompted = not self._turns and self._task.data.prompt is not None
        if prompted is not (message is None):
            raise ValueError("the task's prompt opens the exchange" if prompted else "nothing to run a turn on")
        said = [*(self._opening() if not self._turns else ()), *self._messages(message)]
        self._agent.hear(said)
        if not self._agent.left:
            if not self._agent.ends:
                self._agent.waiting = True
                await _never()
            self._over = True
            self.trace.stop("max_turns")
            return self._vf.Segment(messages=[], terminated=True)
        self._turns += 1
        answer = self._vf.AssistantMessage(content=self._agent.left.pop(0))
        for one in (*said, answer):
            self._commit(one, sampled=one is answer)
        return self._vf.Segment(messages=[answer])

    def _opening(self) -> Iterator[Any]:
        data = self._task.data
        if data.system_prompt is not None:
            yield self._vf.SystemMessage(content=data.system_prompt)
        if data.prompt is not None:
            yield from self._messages(data.prompt)

    def _messages(self, message: Any) -> list[Any]:
        if isinstance(message, str):
            return [self._vf.UserMessage(content=message)] if message else []
        parse = sys.modules["verifiers.v1.dialects"].parse_message
        return [parse(one) if isinstance(one, dict) else one for one in message or ()]

    def _commit(self, message: Any, *, sampled: bool) -> None:
        nodes = self.trace.nodes
        nodes.append(self._vf.MessageNode(parent=len(nodes) - 1 if nodes else None, message=message, sampled=sampled))

    async def close(self) -> Any:
        """Finish and score it."""
        if not self._closed:
            self._closed = True
            self.trace.stop("user_closed")
            await self._agent.player.call(self._task.finalize, {"trace": self.trace, "runtime": _NO_RUNTIME})
            await self._task.score(self.trace, _NO_RUNTIME)
            self.trace.is_completed = self.trace.ok = True
            self._agent.traces.append(self.trace)
        return self.trace

    async def send(self, *_: Any, **__: Any) -> Any:
        """Words while the model writes."""
        raise CannotPlayError("it speaks while the model writes (send, steer), which nothing here can hear")

    steer = send


def write_down_signatures(task: Any) -> None:
    """Writes down the signatures of functions that the library calls by their parameters' names: a child may not read
    them off code."""
    hooks = [*task.hooks("reward"), *task.hooks("metric"), task.setup, task.finalize]
    for function in map(inspect.unwrap, hooks):
        plain = getattr(function, "__func__", function)
        with contextlib.suppress(AttributeError, TypeError, ValueError):  # of what is written in C
            plain.__signature__ = inspect.signature(plain)


class _NoRuntime:
    """Stands in for a sandbox: whatever is asked of it fails as a sandbox's would."""

    def __getattr__(self, name: str) -> Any:
        raise library().SandboxError(f"there is no sandbox (runtime.{name})")


_NO_RUNTIME = _NoRuntime()


async def _never() -> None:
    """The model says the next turn elsewhere."""
    await asyncio.get_running_loop().create_future()


def _text_of(message: Any) -> str:
    if message.role not in ("system", "user"):
        raise CannotPlayError(f"it says a message of the role {message.role}, and a question is said by its asker")
    if isinstance(message.content, str):
        return message.content
    parts = [getattr(part, "text", None) for part in message.content]
    if None in parts:
        raise CannotPlayError("it shows what is no text")
    return "".join(str(part) for part in parts)


def _seed_all(seed: str) -> None:
    random.seed(seed)
    with contextlib.suppress(KeyError):
        sys.modules["numpy"].random.seed(random.getrandbits(32))
