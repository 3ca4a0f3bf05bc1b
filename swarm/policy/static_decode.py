"""Decoding in memory of fixed sizes, so that a step is the same work at the same addresses and can be recorded.

    one KV buffer  ┌──────────── columns ───────────┐
                   │ live rows   │                  │   a step works on the upper left part of the buffer: rows and
              rows │─ ─ ─ ─ ─ ─ ─┘                  │   columns rounded up to a few sizes, a graph for each
                   └────────────────────────────────┘

Rows that finish stay in the way until half of them have; then the live ones move up. What is rounded up computes in
vain, and nothing reads it. Sizes: R rows and S columns of the buffer, of which a step works on the first B and C; L
live rows, l of them that move up, H heads, V vocabulary, D hidden or head size.

DecodeWeights are those to decode with: the trainer's own, or, under autocast, a copy whose matrices are already cast.

Autocast casts a matrix before every product, or once per region into memory of its own choice. A recorded step can use
neither: it must find each weight at one address for good. So the copy is cast once and then refreshed in place. What
autocast leaves in fp32 (embeddings, norms) is shared with the trainer, and the arithmetic is autocast's to the bit.

GraphedSteps are recorded once as CUDA graphs and replayed: a step is hundreds of launches, a graph makes it one.

    run(shape, step) ──new shape──▶ step eagerly ─▶ record ─▶ replay ─▶ same numbers? ──▶ replay from now on
                                                       └ fails ┴──── differs ─────┴▶ log, eager for good

Two replays of every graph are checked: the first on the inputs it was recorded with, the second on others, so that a
step which took a number from the host, and so recorded it as a constant, is found too.

A compiled step (torch.compile) does the work of many small operations in few: norms, rotary embedding, gating, drawing.
It is compiled when it first runs, for all sizes, and recorded like any other.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache, CacheLayerMixin
from transformers.pytorch_utils import Conv1D

from swarm.logs import get_logger
from swarm.policy.attention import EAGER
from swarm.policy.draw import Sampling, draw_tokens
from swarm.policy.forward import Prefilled, prefill
from swarm.policy.lora import StackedAdapters
from swarm.policy.model import LanguageModel
from swarm.policy.settings import column_bucket, row_bucket

Step = Callable[[], Tensor]
"""Reads and writes memory that stays where it is, and returns a part of it. Running it again changes nothing."""
Replay = Callable[[], None]
Capture = Callable[[Step], Replay]


class Shape(NamedTuple):
    """Says what a step works on; steps of one shape are the same work."""

    rows: int
    columns: int
    """0: it draws from logits that are there."""
    sampling: Sampling | None = None
    """How it draws."""


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
        """One replay between two eager steps, of which the last one is what counts."""
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
                self._refuse(shape, f"its output differs by {gap:.3g}")
        return step()

    def _refuse(self, shape: Shape, reason: str) -> None:
        logger.warning("decode.graph_refused", rows=shape.rows, columns=shape.columns, reason=reason)
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


@dataclass(frozen=True, eq=False)
class Buffers:
    """All that a step reads and writes, besides the weights."""

    keys: list[Tensor]
    """[R, H, S, D] per layer, in the dtype attention computes in."""
    values: list[Tensor]
    real: Tensor
    """bool [R, S], False on the padding of prompts."""
    tokens: Tensor
    """[R]: the next token."""
    positions: Tensor
    """[R]: its position."""
    owners: Tensor
    """[R]: its adapter, where there are several."""
    column: Tensor
    """[1]: where its keys and values go."""
    logits: Tensor
    """[R, V], of the token behind that."""
    uniforms: Tensor
    """[R], fp64: at which it is drawn."""
    drawn: Tensor
    """[R]: what was drawn."""
    logprobs: Tensor
    """[R], of what was drawn."""

    @classmethod
    def allocate(cls, read: Prefilled, rows: int, columns: int, dtype: torch.dtype | None) -> Buffers:
        """Room for so many rows and columns of the layers in `read`; dtype None: as they are there."""

        def room(like: Tensor) -> Tensor:
            return like.new_empty(rows, like.shape[1], columns, like.shape[3], dtype=dtype or like.dtype)

        layers, ids = read.cache.layers, read.prompts.ids
        return cls(
            keys=[room(layer.keys) for layer in layers],
            values=[room(layer.values) for layer in layers],
            real=read.prompts.mask.new_empty(rows, columns),
            tokens=ids.new_zeros(rows),
            positions=ids.new_zeros(rows),
            owners=ids.new_zeros(rows),
            column=ids.new_zeros(1),
            logits=read.logits.new_empty(rows, read.logits.shape[1]),
            uniforms=read.logits.new_zeros(rows, dtype=torch.float64),
            drawn=ids.new_zeros(rows),
            logprobs=read.logits.new_zeros(rows),
        )

    @property
    def rows(self) -> int:
        """R."""
        return len(self.tokens)

    @property
    def columns(self) -> int:
        """S."""
        return self.real.shape[1]

    def fill(self, read: Prefilled, group_size: int) -> None:
        """Begin with these prompts. All else becomes zero: a masked column still counts as 0 x what it holds."""
        row_R, length = read.prompt_of_row, read.prompts.ids.shape[1]
        rows = len(row_R)
        for layer, keys, values in zip(read.cache.layers, self.keys, self.values, strict=True):
            for source, target in ((layer.keys, keys), (layer.values, values)):
                target.zero_()
                grouped = target.narrow(2, 0, length)[:rows].view(-1, group_size, *source.shape[1:])
                grouped.copy_(source[:, None])
        self.real.fill_(True)
        self.real[:rows, :length] = read.prompts.mask[row_R]
        self.tokens.zero_()
        self.positions.zero_()
        self.positions[:rows] = read.prompts.lengths[row_R]
        if read.owner_of_row is not None:
            self.owners[:rows] = read.owner_of_row
        self.logits.zero_()
        self.logits[:rows] = read.logits

    def move_up(self, slot_l: Tensor, seen: int) -> None:
        """Make the first rows what the rows slot_l were, whose first `seen` columns are in use."""
        for buffer in (*self.keys, *self.values):
            buffer[: len(slot_l), :, :seen] = buffer[slot_l, :, :seen]
        for state in (self.real, self.positions, self.owners):
            state[: len(slot_l)] = state[slot_l]

    def part(self, rows: int, columns: int) -> Buffers:
        """Returns the first rows and columns, in the same memory: what a step works on."""
        return Buffers(
            keys=[buffer[:rows, :, :columns] for buffer in self.keys],
            values=[buffer[:rows, :, :columns] for buffer in self.values],
            real=self.real[:rows, :columns],
            tokens=self.tokens[:rows],
            positions=self.positions[:rows],
            owners=self.owners[:rows],
            column=self.column,
            logits=self.logits[:rows],
            uniforms=self.uniforms[:rows],
            drawn=self.drawn[:rows],
            logprobs=self.logprobs[:rows],
        )

    def visible(self) -> Tensor:
        """bool [R, S]: what the next token may attend to."""
        return self.real & (torch.arange(self.columns, device=self.column.device) <= self.column)

    def cache(self) -> Cache:
        """Returns the keys and values, as the model wants them."""
        return Cache([_Layer(k, v, self.column) for k, v in zip(self.keys, self.values, strict=True)])


class _Layer(CacheLayerMixin):  # type: ignore[misc]  # transformers has no types
    """Keys and values of one layer, [B, H, C, D]: a step overwrites one column. Doing so twice changes nothing."""

    is_compileable = True

    def __init__(self, keys: Tensor, values: Tensor, column: Tensor) -> None:
        super().__init__()
        self.keys, self.values, self._column = keys, values, column
        self.is_initialized = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Does nothing: the buffers are there already."""

    def update(self, key_states: Tensor, value_states: Tensor, *_: object, **__: object) -> tuple[Tensor, Tensor]:
        """Put the new token's keys and values in; all columns come back, and the mask hides those not written yet."""
        self.keys.index_copy_(2, self._column, key_states.to(self.keys.dtype))
        self.values.index_copy_(2, self._column, value_states.to(self.values.dtype))
        return self.keys, self.values

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.get_max_length(), 0

    def get_seq_length(self) -> Tensor:
        return self._column

    def get_max_length(self) -> int:
        return int(self.keys.shape[2])


class StaticDecoding:
    """Buffers and recorded steps, kept from one call to the next. They grow to the largest batch seen."""

    look_every = 4
    """Looking at what was sampled makes the CPU wait for the GPU; a row that ended runs on for up to three steps."""

    def __init__(self, model: LanguageModel, capture: Capture | None, *, compiled: bool = False) -> None:
        """`compiled`: compile the step when it first runs."""
        self.steps, self.drawings = GraphedSteps(capture), GraphedSteps(capture)
        self.model, self._weights = model, DecodeWeights(model)
        self._compute = _compiled_step(self._next_logits) if compiled else self._next_logits
        self._drawing = _compiled_drawing() if compiled else _draw
        self._addresses = self._weights.addresses()
        self._buffers: Buffers | None = None

    @contextmanager
    def region(self) -> Iterator[None]:
        """Autocast without its weight cache, whose memory a recorded step must not refer to.

        Running out of memory inside gives all buffers back, so that a smaller batch gets smaller ones.
        """
        try:
            with torch.inference_mode(), self.model.autocast(cache_weights=False):
                self._weights.refresh()
                yield
        except torch.OutOfMemoryError:
            self.release()
            raise

    def begin(
        self, prompts: Sequence[Sequence[int]], *, group_size: int, steps: int, owner_K: Tensor | None = None
    ) -> StaticDecoder:
        """Read the prompts, and copy their keys and values into the buffers, once per row."""
        read = prefill(self._weights.model, prompts, group_size, owner_K)
        buffers = self._reserve(read, steps)
        buffers.fill(read, group_size)
        return StaticDecoder(self, buffers, read)

    def release(self) -> None:
        """Give all memory back."""
        self.steps.forget()
        self.drawings.forget()
        self._buffers = None

    def _reserve(self, read: Prefilled, steps: int) -> Buffers:
        """Returns the buffers, larger ones if need be; graphs of the old ones are dropped."""
        rows = row_bucket(len(read.prompt_of_row))
        columns = column_bucket(read.prompts.ids.shape[1] + steps)
        if self._addresses != (addresses := self._weights.addresses()):
            self.steps.forget()
            self._addresses = addresses
        if self._buffers is None or rows > self._buffers.rows or columns > self._buffers.columns:
            if self._buffers is not None:
                rows, columns = max(rows, self._buffers.rows), max(columns, self._buffers.columns)
            self.release()  # before the new ones are made: both at once might not fit
            self._buffers = Buffers.allocate(read, rows, columns, self.model.autocast_dtype)
        return self._buffers

    def step(self, buffers: Buffers, rows: int, columns: int) -> None:
        """Have the logits be those of the tokens that follow those in tokens, at buffers.column."""

        def forward() -> Tensor:
            part = buffers.part(rows, columns)
            self._compute(part, _ready_mask(self._weights.model, part.visible()))
            return part.logits

        self.steps.run(Shape(rows, columns), forward)

    def draw(self, buffers: Buffers, rows: int, sampling: Sampling) -> None:
        """Draw from the logits, at the uniforms."""
        drawing = _draw if sampling.truncates else self._drawing  # what truncates was not tried compiled

        def draw() -> Tensor:
            part = buffers.part(rows, 0)
            drawing(part, sampling)
            return part.logprobs

        self.drawings.run(Shape(rows, 0, sampling), draw)

    def _next_logits(self, part: Buffers, mask_B_1_1_C: Tensor) -> None:
        """Computes what comes behind the part's tokens."""
        model = self._weights.model
        hidden_B_1_D = model.hidden(
            part.tokens[:, None],
            mask=mask_B_1_1_C,
            positions_B_T=part.positions[:, None],
            cache=part.cache(),
            owner_B=part.owners if isinstance(model.adapter, StackedAdapters) else None,
        )
        part.logits.copy_(model.logits(hidden_B_1_D[:, 0]))


def _draw(part: Buffers, sampling: Sampling) -> None:
    token_B, logprob_B = draw_tokens(part.logits, part.uniforms, sampling)
    part.drawn.copy_(token_B)
    part.logprobs.copy_(logprob_B)


def _compiled_step(step: Callable[[Buffers, Tensor], None]) -> Callable[[Buffers, Tensor], None]:
    """Returns the step compiled for any number of rows and columns: twice at most, since a part that is the whole
    buffer lies in memory in another way."""
    from torch._dynamo import maybe_mark_dynamic  # seconds and 100 MB that only a compiled step needs

    compiled = torch.compile(step)

    def run(part: Buffers, mask_B_1_1_C: Tensor) -> None:
        for of_rows in (part.tokens, part.positions, part.owners, part.logits):
            maybe_mark_dynamic(of_rows, 0)
        for cached in (*part.keys, *part.values):
            maybe_mark_dynamic(cached, (0, 2))
        maybe_mark_dynamic(mask_B_1_1_C, (0, 3))
        compiled(part, mask_B_1_1_C)

    return run


def _compiled_drawing() -> Callable[[Buffers, Sampling], None]:
    """Returns the drawing compiled for any number of rows."""
    from torch._dynamo import maybe_mark_dynamic

    compiled = torch.compile(_draw)

    def run(part: Buffers, sampling: Sampling) -> None:
        for of_rows in (part.logits, part.uniforms, part.drawn, part.logprobs):
            maybe_mark_dynamic(of_rows, 0)
        compiled(part, sampling)

    return run


class StaticDecoder:
    """Knows where in the buffers the live rows are."""

    def __init__(self, decoding: StaticDecoding, buffers: Buffers, read: Prefilled) -> None:
        self._decoding, self._buffers = decoding, buffers
        self._slot_L = torch.arange(len(read.prompt_of_row), device=buffers.logits.device)
        self._rows = row_bucket(len(self._slot_L))
        self._seen = read.prompts.ids.shape[1]

    @property
    def logits(self) -> Tensor:
        """Returns the logits [L, V] of each live row's next token."""
        return self._of_live(self._buffers.logits)

    def draw(self, uniform_L: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
        """Returns each live row's next token and its log-prob."""
        self._buffers.uniforms[self._slot_L] = uniform_L
        self._decoding.draw(self._buffers, self._rows, sampling)
        return self._of_live(self._buffers.drawn), self._of_live(self._buffers.logprobs)

    def _of_live(self, of_rows: Tensor) -> Tensor:
        whole = len(self._slot_L) == self._rows
        return of_rows[: self._rows] if whole else of_rows[self._slot_L]

    def keep(self, kept_l: Tensor) -> None:
        """Go on with these of the live rows, which move up once they fit into half of the rows."""
        self._slot_L = self._slot_L[kept_l]
        if (rows := row_bucket(len(kept_l))) < self._rows:
            self._buffers.move_up(self._slot_L, self._seen)
            self._slot_L = torch.arange(len(kept_l), device=self._slot_L.device)
            self._rows = rows

    def forward(self, token_L: Tensor) -> None:
        """Append one token to every live row."""
        buffers = self._buffers
        buffers.tokens[self._slot_L] = token_L
        buffers.column.fill_(self._seen)
        self._seen += 1
        self._decoding.step(buffers, self._rows, column_bucket(self._seen))
        # A row that ended may run on, but not beyond what the model has positions for.
        buffers.positions.add_(1).clamp_(max=self._decoding.model.context - 1)


def _ready_mask(model: LanguageModel, visible_B_C: Tensor) -> Tensor:
    """[B, 1, 1, C], which transformers passes on to attention as it is; making one itself would ask the GPU back.

    Plain attention adds its mask to the scores, the others take it as bool.
    """
    visible_B_1_1_C = visible_B_C[:, None, None]
    if model.module.config._attn_implementation not in ("eager", EAGER):
        return visible_B_1_1_C
    lowest = torch.finfo(torch.float32).min
    return torch.zeros_like(visible_B_1_1_C, dtype=torch.float32).masked_fill(~visible_B_1_1_C, lowest)


class DecodeWeights:
    """A model that computes what `source` does, from weights that stay where they are."""

    def __init__(self, source: LanguageModel) -> None:
        self._trained: list[Tensor] = []
        self._cast: list[Tensor] = []
        dtype = source.autocast_dtype
        is_cast = dtype is None or source.base is not None  # a frozen base is held in what it computes in
        self.model = source if is_cast else replace(source, module=self._cast_copy(source.module, dtype))

    def refresh(self) -> None:
        """Copy what the trainer has changed: one pass over the weights, far below the cost of one decoding call."""
        if isinstance(self.model.adapter, StackedAdapters):
            self.model.adapter.refresh()
        if self._cast:
            torch._foreach_copy_(self._cast, self._trained)

    def addresses(self) -> tuple[int, ...]:
        """Returns where the weights are; if that changes, nothing recorded with them may run again."""
        adapter = self.model.adapter.addresses() if isinstance(self.model.adapter, StackedAdapters) else ()
        return (*(parameter.data_ptr() for parameter in self.model.module.parameters()), *adapter)

    def _cast_copy(self, module: nn.Module, dtype: torch.dtype | None) -> Any:
        """Returns the same modules around the same parameters, except for those of matrix products."""
        configs = [part.config for part in module.modules() if "config" in vars(part)]
        shared = [*module.parameters(), *module.buffers(), *configs]
        twin = copy.deepcopy(module, {id(one): one for one in shared})
        for part in twin.modules():
            if isinstance(part, nn.Linear | Conv1D):
                for name, parameter in part.named_parameters(recurse=False):
                    self._trained.append(parameter)
                    self._cast.append(parameter.detach().to(dtype))
                    setattr(part, name, nn.Parameter(self._cast[-1], requires_grad=False))
        return twin
