"""`swarm plan` says what fits, and its exit code says whether."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from structlog.testing import capture_logs

from swarm.cli.plan import REPLY_TOKENS, changes, longest_talk, render_plan
from swarm.config import Settings, load_settings
from swarm.planner import planner
from swarm.planner.device_memory import DeviceMemory
from swarm.planner.footprint import Footprint
from swarm.planner.node_memory import ONE_TURN, Talk
from swarm.planner.plan import Plan, choose
from swarm.tasks.python.template import CONVERSATION, SOURCE
from tests.unit.cli.conftest import Typed
from tests.unit.planner.factories import QWEN as KNOWN

QWEN = {
    "model_type": "qwen2",
    "architectures": ["Qwen2ForCausalLM"],
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_attention_heads": 14,
    "num_hidden_layers": 24,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32768,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
}
"""Qwen2.5-0.5B's config.json, as far as it says something of sizes."""


def only_sizes(folder: Path) -> Path:
    """A folder of a model of whose weights there is the header alone."""
    (folder / "config.json").write_text(json.dumps(QWEN))
    header = json.dumps({"all": {"dtype": "BF16", "shape": [494_032_768], "data_offsets": [0, 988_065_536]}}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    return folder


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The words of a plan; as if tracing had said how large a model is, at once."""

    def traced(shape: object, settings: Settings, *, bf16: bool) -> Footprint:
        adapter = 8_798_208 if settings.adapter.kind == "lora" else 0
        return structs.replace(KNOWN.footprint, adapter=adapter)

    monkeypatch.setattr(planner, "footprint", traced)
    return ["plan", "--model", str(only_sizes(tmp_path)), "--nodes", "8", "--device-memory", "16GB"]


def test_a_device_that_is_not_here_is_planned_for(tmp_path: Path, asked: list[str], typed: Typed) -> None:
    lines = typed(*asked, "--adapter", "lora", "--in-process").out.splitlines()
    assert lines[0] == f"8 nodes of adapters beside {tmp_path} on a GPU of 16GB, in one process"
    assert any(line.split() == ["frozen", "base", "988", "MB", "988", "MB"] for line in lines)
    assert any(line.startswith("fits: 8 nodes on a GPU of 16GB need ") and "of its host" in line for line in lines)


def test_beside_a_gpu_embedded_models_are_planned_on_the_cpu_and_all_others_on_the_gpu(
    asked: list[str], typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = DeviceMemory(device="cuda:0", free=10**11, total=10**11, host_free=10**11)
    monkeypatch.setattr(planner, "device_memory", lambda _: gpu)
    monkeypatch.setattr("swarm.cli.plan.problems", lambda _: [])  # the weights are not there
    monkeypatch.setattr("swarm.cli.plan.can_fork", lambda _: False)
    words = ["plan", "--model", f"tiny-2-qwen2,{asked[2]}", "--nodes", "4"]
    lines = typed(*words).out.splitlines()
    assert lines[0] == f"4 nodes of {asked[2]} on cuda:0 and tiny-2-qwen2 on the CPU, one process each"
    weights = [line.split() for line in lines if line.startswith("weights")]
    assert weights == [["weights", "2.0", "GB", "4.0", "GB"], ["weights", "(host)", "0", "B", "6.9", "MB"]]
    assert any(": 4 nodes on cuda:0 and the CPU need " in line and "of the host's 100 GB" in line for line in lines)
    assert json.loads(typed(*words, "--json").out)["on_host"] == ["tiny-2-qwen2"]
    assert json.loads(typed(*words, "--device", "cuda", "--json").out)["on_host"] == []


def test_embedded_models_are_planned_on_the_cpu_of_a_machine_elsewhere_unless_a_device_is_named(typed: Typed) -> None:
    planned = typed("plan", "--device-memory", "16GB", "--nodes", "2")
    assert planned.out.startswith("2 nodes of tiny-2-qwen2 on the CPU of a machine with 16GB,")
    assert "because embedded models compute on the CPU. --device cuda (SWARM_DEVICE) plans a GPU" in planned.err
    named = typed("plan", "--device-memory", "16GB", "--nodes", "2", "--device", "cuda")
    assert named.out.startswith("2 nodes of tiny-2-qwen2 on a GPU of 16GB,")
    assert named.err == ""


def test_where_it_does_not_fit_elsewhere_the_option_is_named_and_not_taken(
    tmp_path: Path, asked: list[str], typed: Typed
) -> None:
    said = typed(*asked, code=1).out
    assert said.startswith(f"8 nodes of {tmp_path} on a GPU of 16GB, one process each")
    assert "what would fit, and nothing does by itself: --adapter lora --in-process (" in said
    assert json.loads(typed(*asked, "--json", code=1).out)["would_fit"][0] == "--adapter lora --in-process"


def test_a_run_whose_memory_cannot_be_planned_has_no_plan_and_a_reason(tmp_path: Path) -> None:
    with capture_logs() as logs:
        assert planner.plan_for(Settings(model=(str(tmp_path),)), 2, None) is None
    assert [line["event"] for line in logs] == ["plan.unknown"]
    assert "its size cannot be known" in logs[0]["problem"]


def chosen(free: float, **settings: Any) -> tuple[Plan, Settings]:
    """A plan for one node of half a billion on a CPU, and the settings it began with."""
    memory = DeviceMemory(device="cpu", free=int(free), total=10**12, host_free=int(free))
    wished = Settings().with_values({"max_new_tokens": 256, **settings})
    return choose((KNOWN,), wished, memory, nodes=1, processes=None), wished


CUT = "cut micro-batches from 16384 to {} tokens"
TURNED_ON = "turned on gradient checkpointing (SWARM_GRADIENT_CHECKPOINTING=False forbids it)"


@pytest.mark.parametrize(
    ("free", "settings", "done"),
    [
        (18e9, {"micro_batch_tokens": 512}, [TURNED_ON]),
        (20e9, {}, [CUT]),
        (18e9, {}, [TURNED_ON, CUT]),
        *((1e12, {"gradient_checkpointing": on, "micro_batch_tokens": 5000}, []) for on in (None, True, False)),
    ],
)
def test_what_the_plan_changed_is_said_with_the_setting_that_forbids_it_and_what_settings_say_is_no_change(
    free: float, settings: dict[str, Any], done: list[str]
) -> None:
    made, wished = chosen(free, **settings)
    said = f"to save memory, the plan {' and '.join(done)}".format(made.micro_batch_tokens) if done else ""
    assert (made.fits, changes(made, wished)) == (True, said)
    way = f"with{'' if made.gradient_checkpointing else 'out'} gradient checkpointing"
    assert made.gradient_checkpointing == (TURNED_ON in done or bool(wished.gradient_checkpointing))
    line = f"chosen: micro-batches of up to {made.micro_batch_tokens} tokens, {way}{'; ' * bool(done)}{said}"
    assert line in render_plan(made, wished).splitlines()


def test_a_plan_never_does_what_the_settings_forbid() -> None:
    forbidden = load_settings({}, {"SWARM_GRADIENT_CHECKPOINTING": "False"}).gradient_checkpointing
    assert not chosen(18e9, gradient_checkpointing=forbidden)[0].gradient_checkpointing


def test_a_plan_has_room_for_the_conversations_of_a_task(tmp_path: Path) -> None:
    (tmp_path / "guess.py").write_text(CONVERSATION.format(name="guess"))
    (tmp_path / "once.py").write_text(SOURCE.format(name="once"))

    def talk(*names: str) -> Talk:
        return longest_talk(Settings(task_table={name: {"python": str(tmp_path / f"{name}.py")} for name in names}))

    assert talk("once", "guess") == Talk(3, REPLY_TOKENS)
    assert talk("once") == talk("not there") == talk() == ONE_TURN
