"""A server that answers as vLLM does, on a real socket, with a model inside, and faults by plan.

    with serving("tiny-2-qwen2") as stub: ... stub.url, stub.loaded, stub.completions

It reads the folders of adapters that it is told to load by the real `peft`, samples token by token with plain forward
passes, and gives ids and log-probs in vLLM's JSON: the forms of /v1/models, /v1/load_lora_adapter,
/v1/unload_lora_adapter and /v1/completions, as far as a node uses them. A fault is a function of a request's handler
and its body, which may call `handler.complete(body)` for the true reply.
"""

from __future__ import annotations

import copy
import json
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import peft
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from swarm.policy.embedded import embedded_path
from tests.engines.stub_openai import Giving, Planned, refused, running

Fault = Callable[["Handler", dict[str, Any]], None]
MAX_MODEL_LEN = 512


class Engine:
    """A base in fp32 and adapters beside it, one used at a time."""

    def __init__(self, model: str, dtype: torch.dtype = torch.float32) -> None:
        folder = embedded_path(model)
        self.base = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self._models: dict[str, Any] = {}
        self._lock = threading.Lock()

    def load(self, name: str, path: str) -> None:
        with self._lock, warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # peft's own
            self._models[name] = peft.PeftModel.from_pretrained(copy.deepcopy(self.base), path).eval()

    def unload(self, name: str) -> None:
        self._models.pop(name, None)

    @torch.inference_mode()
    def complete(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        """vLLM's choices: that of number i is drawn by seed + i. All of a request are one batch, without any cache."""
        with self._lock:
            choices = [_Choice(body["seed"] + index) for index in range(body["n"])]
            while writing := [one for one in choices if not one.reason]:
                ids = torch.tensor([[*body["prompt"], *one.ids] for one in writing])
                logits = self._models[body["model"]](input_ids=ids, use_cache=False).logits[:, -1].float()
                for one, row in zip(writing, torch.log_softmax(logits / body["temperature"], dim=-1), strict=True):
                    self._append(one, row, body)
        return [self._as_json(index, one, body["prompt"]) for index, one in enumerate(choices)]

    def _append(self, choice: _Choice, logprobs: torch.Tensor, body: dict[str, Any]) -> None:
        token = int(torch.multinomial(logprobs.exp(), 1, generator=choice.random))
        choice.ids.append(token)
        choice.logprobs.append(float(logprobs[token]))
        text = self.tokenizer.decode(choice.ids, skip_special_tokens=True)
        if token in body["stop_token_ids"] or any(stop in text for stop in body["stop"]):
            choice.reason = "stop"
        elif len(choice.ids) == body["max_tokens"]:
            choice.reason = "length"

    def _as_json(self, index: int, choice: _Choice, prompt: list[int]) -> dict[str, Any]:
        return {
            "index": index,
            "text": self.tokenizer.decode(choice.ids, skip_special_tokens=True),
            "logprobs": {
                "text_offset": [0] * len(choice.ids),
                "token_logprobs": choice.logprobs,
                "tokens": self.tokenizer.convert_ids_to_tokens(choice.ids),
                "top_logprobs": [{}] * len(choice.ids),
            },
            "finish_reason": choice.reason,
            "stop_reason": None,
            "token_ids": choice.ids,
            "prompt_logprobs": None,
            "prompt_token_ids": prompt,
        }


class _Choice:
    """One completion while it is written."""

    def __init__(self, seed: int) -> None:
        self.random = torch.Generator().manual_seed(seed)
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self.reason = ""


@cache
def engine(model: str) -> Engine:
    """One of a process: a server that begins anew takes it over, and its adapters are unloaded."""
    return Engine(model)


class Stub(Planned):
    def __init__(self, used: Engine, plan: tuple[Fault, ...], key: str, port: int, *, loads: bool) -> None:
        super().__init__(Handler, plan, port)
        self.engine = used
        self.key = key
        self.loads = loads
        self.max_model_len = MAX_MODEL_LEN
        self.loaded: dict[str, str] = {}
        self.history: list[str] = []
        """Names in the order of loading."""
        self.completions: list[dict[str, Any]] = []
        """Bodies as they came."""

    @property
    def url(self) -> str:
        return self.address


class Handler(Giving):
    server: Stub

    def do_GET(self) -> None:  # noqa: N802 - as http.server calls it
        if self._is_let_in():
            base = {"id": "base", "root": "base", "parent": None, "max_model_len": self.server.max_model_len}
            cards = [{"id": name, "root": path, "parent": "base"} for name, path in self.server.loaded.items()]
            self.give_json({"object": "list", "data": [base, *cards]})

    def do_POST(self) -> None:  # noqa: N802 - likewise
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        if not self._is_let_in():
            return
        if self.path.endswith("lora_adapter") and not self.server.loads:
            self.give_json({"detail": "Not Found"}, 404)
        elif self.path == "/v1/load_lora_adapter":
            self._load(body["lora_name"], body["lora_path"])
        elif self.path == "/v1/unload_lora_adapter":
            self._unload(body["lora_name"])
        else:
            self.server.completions.append(body)
            fault = self.server.plan.popleft() if self.server.plan else good
            fault(self, body)

    def _is_let_in(self) -> bool:
        let_in = not self.server.key or self.headers.get("authorization") == f"Bearer {self.server.key}"
        if not let_in:
            self.give_json({"error": "Unauthorized"}, 401)
        return let_in

    def _load(self, name: str, path: str) -> None:
        if name in self.server.loaded:
            self.refuse(400, f"The lora adapter '{name}' has already been loaded. ...")
            return
        if not (Path(path) / "adapter_config.json").is_file():  # peft would look for it on the Hub
            self.refuse(404, f"Loading lora {name} failed: No adapter found for {path}")
            return
        self.server.engine.load(name, path)
        self.server.loaded[name] = path
        self.server.history.append(name)
        self.give_json(f"Success: LoRA adapter '{name}' added successfully.")

    def _unload(self, name: str) -> None:
        if self.server.loaded.pop(name, None) is None:
            self.refuse(404, f"The lora adapter '{name}' cannot be found.")
            return
        self.server.engine.unload(name)
        self.give_json(f"Success: LoRA adapter '{name}' removed successfully.")

    def complete(self, body: dict[str, Any]) -> dict[str, Any] | None:
        """The true reply; None: refused, for the adapter is not there."""
        if body["model"] not in self.server.loaded:
            self.refuse(404, f"The model `{body['model']}` does not exist.")
            return None
        choices = self.server.engine.complete(body)
        written = sum(len(choice["token_ids"]) for choice in choices)
        usage = {"prompt_tokens": len(body["prompt"]), "completion_tokens": written, "total_tokens": 0}
        return {"id": "x", "object": "text_completion", "model": body["model"], "choices": choices, "usage": usage}

    def refuse(self, status: int, message: str) -> None:
        refused(status, message)(self, None)


@contextmanager
def serving(model: str | Engine, *plan: Fault, key: str = "", port: int = 0, loads: bool = True) -> Iterator[Stub]:
    """A server on a port of its own; the plan is of completions, and over it answers well."""
    used = engine(model) if isinstance(model, str) else model
    with running(Stub(used, plan, key, port, loads=loads)) as stub:
        yield stub


# ── what it does to a request for completions ───────────────────────────────────────────────────────────────────────
def good(handler: Handler, body: dict[str, Any]) -> None:
    if reply := handler.complete(body):
        handler.give_json(reply)


def changed(change: Callable[[dict[str, Any]], object]) -> Fault:
    """The true reply, after something has been done to it."""

    def fault(handler: Handler, body: dict[str, Any]) -> None:
        if reply := handler.complete(body):
            change(reply)
            handler.give_json(reply)

    return fault


def forgetting(handler: Handler, body: dict[str, Any]) -> None:
    """It has begun anew, and knows no adapter."""
    handler.server.loaded.clear()
    good(handler, body)


def broken(handler: Handler, body: dict[str, Any]) -> None:
    """The connection breaks in the middle of a reply."""
    handler.give(200, b'{"model": ', declared=1000)
    handler.close_connection = True
