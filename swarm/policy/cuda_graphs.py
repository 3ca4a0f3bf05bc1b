"""Decoding steps recorded once as CUDA graphs and replayed: a step is hundreds of launches, a graph makes it one.

    run(shape, step) ──new shape──▶ step eagerly ─▶ record ─▶ replay ─▶ same numbers? ──▶ replay from now on
                                                       └ fails ┴──── differs ─────┴▶ log, eager for good

Two replays of every graph are checked: the first on the inputs it was recorded with, the second on others, so that a
step which took a number from the host, and so recorded it as a constant, is found too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from swarm.logs import get_logger

Step = Callable[[], Tensor]
"""Reads and writes memory that stays where it is, and returns a part of it. Running it again changes nothing."""
Replay = Callable[[], None]
Capture = Callable[[Step], Replay]
Shape = tuple[int, int]

_MOST_GRAPHS = 64
"""Each holds its launches and scratch memory; shapes beyond run eagerly."""
_CHECKS = 2
_WARM_UPS = 2
_TOLERANCE = 1e-2
_one_capture_at_a_time = threading.Lock()

logger = get_logger(__name__)


@dataclass
class _Graph:
    replay: Replay
    output: Tensor
    checks: int = 0


class GraphedSteps:
    """Steps by their shape. Without a `capture`, all run eagerly."""

    def __init__(self, capture: Capture | None) -> None:
        self._capture = capture
        self._graphs: dict[Shape, _Graph] = {}
        self.captures = 0
        """Graphs recorded so far: stands still once every shape has been seen."""

    def forget(self) -> None:
        """Drop all graphs, because memory they use is given back."""
        self._graphs.clear()

    def run(self, shape: Shape, step: Step) -> Tensor:
        """Returns the output of the step, which must be the same work on the same memory whenever the shape is."""
        graph = self._graphs.get(shape)
        if graph is not None and graph.checks == _CHECKS:
            graph.replay()
            return graph.output
        if self._capture is None or (graph is None and len(self._graphs) == _MOST_GRAPHS):
            return step()
        return self._checked(self._capture, shape, step)

    def _checked(self, capture: Capture, shape: Shape, step: Step) -> Tensor:
        """One replay beside the eager step, whose output is what counts."""
        output = step()
        expected = output.clone()
        try:
            if (graph := self._graphs.get(shape)) is None:
                graph = self._graphs[shape] = _Graph(capture(step), output)
                self.captures += 1
            output.fill_(torch.nan)  # what a graph that does nothing would leave behind
            graph.replay()
            gap, scale = (output - expected).abs().max().item(), expected.abs().max().item()
        except torch.OutOfMemoryError:
            raise  # says nothing about graphs: the caller tries fewer rows
        except RuntimeError as error:  # what torch raises for everything that CUDA refuses
            self._refuse(shape, f"{type(error).__name__}: {error}")
        else:
            graph.checks += 1
            if not gap <= _TOLERANCE * (1 + scale):
                self._refuse(shape, f"logits differ by {gap:.3g}")
        return output.copy_(expected)

    def _refuse(self, shape: Shape, reason: str) -> None:
        logger.warning("decode.graph_refused", rows=shape[0], columns=shape[1], reason=reason)
        self._capture = None
        self.forget()


class CudaCapture:
    """Records steps as CUDA graphs, which share one pool of scratch memory because they never run at the same time."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        with torch.cuda.device(device):
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, step: Step) -> Replay:
        graph, current = torch.cuda.CUDAGraph(), torch.cuda.current_stream(self._device)
        # The outer stream context also restores the stream if a failed capture leaves its own behind.
        with _one_capture_at_a_time, torch.cuda.device(self._device), torch.cuda.stream(self._stream):
            self._stream.wait_stream(current)
            for _ in range(_WARM_UPS):  # libraries allocate on their first calls, which cannot be recorded
                step()
            # Other nodes' threads may use the GPU meanwhile: only this thread's mistakes count.
            with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
                step()
        current.wait_stream(self._stream)
        return graph.replay
