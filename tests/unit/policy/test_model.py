"""Loading: which names are understood, what is read off a model, and which errors help."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from structlog.testing import capture_logs
from transformers import AutoConfig, GenerationConfig

from swarm.errors import ConfigError, ModelError
from swarm.instruction import Asking
from swarm.planner.trace import trace
from swarm.policy import device as devices
from swarm.policy import model_files
from swarm.policy.attention import EAGER, SDPA
from swarm.policy.model import LanguageModel, load_model, wrap_model
from swarm.policy.model_files import folder_problem, resolve_model
from swarm.policy.policy import load_generator
from swarm.policy.settings import GrpoConfig
from tests.unit.policy.chat_templates import QWEN_3
from tests.unit.policy.factories import CPU, make_config, make_model, make_module, make_tokenizer

Weights = dict[str, torch.Tensor]


def save_model(folder: Path, architecture: str = "qwen2", **tokenizer: Any) -> Path:
    make_module(architecture).save_pretrained(folder)
    make_tokenizer(**tokenizer).save_pretrained(folder)
    return folder


def wrap(module: Any, tokenizer: Any, **options: Any) -> LanguageModel:
    return wrap_model("owner/tiny", module, tokenizer, device=CPU, **options)


def test_names_of_embedded_models_folders_and_hub_ids_are_resolved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_files, "EMBEDDED", ("tiny-one",))
    monkeypatch.setattr(model_files, "embedded_path", lambda name: tmp_path / name)
    assert resolve_model("tiny-one") == str(tmp_path / "tiny-one")
    assert resolve_model(str(tmp_path)) == str(tmp_path)
    assert resolve_model("owner/model") == "owner/model"
    assert resolve_model("gpt2") == "gpt2"


@pytest.mark.parametrize("name", ["/no/such/folder", "./model", "~/model", "a/b/c", "../model"])
def test_path_without_a_folder_is_never_looked_up_on_the_hub(name: str) -> None:
    with pytest.raises(ModelError, match="tiny-qwen2") as caught:
        resolve_model(name)
    assert repr(name) in str(caught.value)


def test_a_model_that_could_think_is_loaded_with_thinking_off_and_the_log_says_so_once(tmp_path: Path) -> None:
    folder = str(save_model(tmp_path, chat_template=QWEN_3))
    thinking = GrpoConfig(max_new_tokens=3, asking=Asking(template_args={"enable_thinking": True}))
    with capture_logs() as logs:
        off = load_generator(folder, GrpoConfig(max_new_tokens=3), threads=1, device="cpu")
        on = load_generator(folder, thinking, threads=1, device="cpu")
    (said,) = [log for log in logs if log["event"] == "model.thinking_off"]
    assert said["to_leave_it_on"] == 'SWARM_CHAT_TEMPLATE_ARGS={"enable_thinking": true}'
    assert (off.thinking_off, on.thinking_off) == (True, False)
    assert off.shown_prompt("1?")[0].endswith("</think>\n\n")
    assert not on.shown_prompt("1?")[0].endswith("</think>\n\n")


def test_a_length_of_a_chat_in_the_generation_config_is_left_aside_and_the_log_says_so(tmp_path: Path) -> None:
    module = make_module()
    module.generation_config.max_new_tokens = 32768
    module.save_pretrained(tmp_path)
    make_tokenizer().save_pretrained(tmp_path)
    with capture_logs() as logs:
        load_model(str(tmp_path), device="cpu")
        load_model(str(tmp_path), device="cpu", max_new_tokens=2000)
    (said,) = [log for log in logs if log["event"] == "model.length_bounded"]
    assert (said["max_new_tokens"], said["named_by_the_model"]) == (256, 32768)


def test_empty_folder_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"it has no config.json.*Check MODEL_NAME"):
        load_model(str(tmp_path), device="cpu")


def test_weights_that_are_cut_are_found_before_they_are_read(tmp_path: Path) -> None:
    file = save_model(tmp_path) / "model.safetensors"
    whole = file.stat().st_size
    os.truncate(file, whole - 10)
    with pytest.raises(ModelError, match=f"is cut: expected {whole} bytes, got {whole - 10}; fetch it again"):
        load_model(str(tmp_path), device="cpu")


def test_a_missing_shard_and_a_missing_tokenizer_are_named(tmp_path: Path) -> None:
    save_model(tmp_path)
    for file in tmp_path.glob("tokenizer*"):
        file.unlink()
    assert "files of its tokenizer, such as tokenizer.json" in folder_problem(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "aside")
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "model-00001-of-00002.safetensors"}}')
    assert "model-00001-of-00002.safetensors, which model.safetensors.index.json names" in folder_problem(tmp_path)


def without_the_last_norm(weights: Weights) -> Weights:
    return {name: tensor for name, tensor in weights.items() if name != "model.norm.weight"}


def as_torch_compile_names_them(weights: Weights) -> Weights:
    return {f"_orig_mod.{name}": tensor for name, tensor in weights.items()}


def with_more_rows(weights: Weights) -> Weights:
    embedding = weights["model.embed_tokens.weight"]
    return {**weights, "model.embed_tokens.weight": torch.cat([embedding, embedding])}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (without_the_last_norm, r"lack model\.norm\.weight, which would be random numbers"),
        (as_torch_compile_names_them, r"lack lm_head.* and \d+ more, .*hold _orig_mod\..*the model does not have"),
        (with_more_rows, r"hold model\.embed_tokens\.weight of shape \(528, 32\) where the model has \(264, 32\)"),
    ],
)
def test_a_model_some_of_whose_weights_would_be_made_up_is_refused(
    changed: Callable[[Weights], Weights], said: str, tmp_path: Path
) -> None:
    file = save_model(tmp_path) / "model.safetensors"
    save_file(changed(load_file(file)), file, metadata={"format": "pt"})
    with pytest.raises(ModelError, match=said):
        load_model(str(tmp_path), device="cpu")


def test_code_in_a_models_folder_never_runs_and_nobody_is_asked_whether_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("builtins.input", lambda prompt="": asked.append(prompt) or "y")
    save_model(tmp_path)
    config = (tmp_path / "config.json").read_text()
    config = config.replace('"model_type": "qwen2"', '"model_type": "evil", "auto_map": {"AutoConfig": "evil.Config"}')
    (tmp_path / "config.json").write_text(config)
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Config: pass")
    with pytest.raises(ModelError):
        load_model(str(tmp_path), device="cpu")
    with pytest.raises((ValueError, OSError)):
        trace(str(tmp_path), bf16=False, eager=False)
    assert not (tmp_path / "ran").exists()
    assert asked == []


@pytest.mark.parametrize("file", ["pytorch_model.bin", "model.pt"])
def test_a_pickle_of_weights_is_never_read_and_the_error_says_what_to_do(file: str, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return open, (str(tmp_path / "ran"), "w")

    save_model(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / file).write_bytes(pickle.dumps(Evil()))
    with pytest.raises(ModelError, match=f"expected .*model.safetensors in .*, got {file}: .*safe_serialization"):
        load_model(str(tmp_path), device="cpu")
    assert not (tmp_path / "ran").exists()


def test_without_a_name_a_gpu_of_cuda_is_taken_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch, "empty", lambda *size, device: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert devices.pick_device(None) == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert devices.pick_device(None) == torch.device("cuda")


@pytest.mark.parametrize(
    ("device", "said"), [("cuda:99", ""), ("abacus", ""), ("mps", r".*not on mps.*Expected 'cpu', 'cuda'")]
)
def test_unusable_device_is_named_and_a_mac_is_told_that_its_gpu_is_not_used(
    device: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if device == "mps":
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
        monkeypatch.setattr(torch, "empty", lambda *size, device: None)
    with pytest.raises(ModelError, match=f"'{device}' cannot be used{said and ':'}{said}"):
        load_model("tiny-2-qwen2", device=device)


@pytest.mark.parametrize(("precision", "dtype"), [("auto", None), ("fp32", None), ("bf16", torch.bfloat16)])
def test_precision_decides_the_dtype_of_products_and_weights_stay_in_fp32(
    precision: str, dtype: torch.dtype | None, tmp_path: Path
) -> None:
    model = load_model(str(save_model(tmp_path)), device="cpu", precision=precision)
    assert model.autocast_dtype is dtype
    assert {parameter.dtype for parameter in model.module.parameters()} == {torch.float32}


@pytest.mark.parametrize(
    ("capability", "auto", "frozen"),
    [((7, 5), None, torch.float16), ((8, 0), torch.bfloat16, torch.bfloat16), ((9, 0), torch.bfloat16, torch.bfloat16)],
)
def test_gpus_compute_in_bf16_from_ampere_on(
    capability: tuple[int, int], auto: torch.dtype | None, frozen: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _device: capability)
    gpu = torch.device("cuda")
    assert devices.autocast_dtype_of(gpu, "auto", frozen=False) is auto
    assert devices.autocast_dtype_of(gpu, "auto", frozen=True) is frozen
    assert devices.autocast_dtype_of(gpu, "fp32", frozen=True) is None
    assert devices.autocast_dtype_of(CPU, "auto", frozen=True) is None
    if auto is not None:
        devices.refuse_unsuited("m", gpu, "bf16")
        return
    with pytest.raises(ModelError, match="'m' on cuda: it does not compute in bf16, which needs the Ampere"):
        devices.refuse_unsuited("m", gpu, "bf16")


def test_attention_is_sdpa_where_there_is_one_and_what_was_asked_for_otherwise(tmp_path: Path) -> None:
    folder = str(save_model(tmp_path))
    used = [
        load_model(folder, device="cpu", attention=wanted).module.config._attn_implementation
        for wanted in ("auto", "sdpa", "eager")
    ]
    assert used == [SDPA, SDPA, EAGER]


def test_attention_that_the_architecture_has_not_is_refused_and_never_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(save_model(tmp_path))
    monkeypatch.setattr("transformers.Qwen2ForCausalLM._supports_sdpa", False)
    with pytest.raises(ModelError, match="scaled_dot_product_attention"):
        load_model(folder, device="cpu", attention="sdpa")
    assert load_model(folder, device="cpu").module.config._attn_implementation == EAGER


def test_digest_says_whether_two_models_mean_the_same_by_a_token() -> None:
    module = make_module()
    digest = wrap(module, make_tokenizer()).tokenizer_digest
    assert len(digest) == 32
    assert digest == wrap(make_module("gpt2"), make_tokenizer()).tokenizer_digest
    more = make_tokenizer()
    more.add_tokens(["<extra>"])
    module.generation_config.eos_token_id = [3]
    others = [wrap(make_module(), more), wrap(make_module(), make_tokenizer(pad=True)), wrap(module, make_tokenizer())]
    assert len({digest, *(model.tokenizer_digest for model in others)}) == 4


def test_end_of_text_is_what_tokenizer_and_generation_config_name() -> None:
    module, tokenizer = make_module(), make_tokenizer()
    module.generation_config = GenerationConfig(eos_token_id=[3, 4])
    assert wrap(module, tokenizer).eos_ids == {3, 4, tokenizer.eos_token_id}
    assert wrap(module, tokenizer).eos_id == tokenizer.eos_token_id
    module.generation_config = GenerationConfig(eos_token_id=5)
    assert wrap(module, make_tokenizer(eos=False)).eos_ids == {5}
    assert wrap(module, make_tokenizer(eos=False)).eos_id == 5


def recurrent(module: Any) -> Any:
    module._is_stateful = True
    return module


UNSUITED = {
    "no answer could ever finish": lambda: (make_module(), make_tokenizer(eos=False)),
    "knows 259 tokens, but the model embeds only 100": lambda: (
        make_module(config=make_config("qwen2", vocabulary=100)),
        make_tokenizer(),
    ),
    "recurrent layers": lambda: (recurrent(make_module()), make_tokenizer()),
}


@pytest.mark.parametrize("said", UNSUITED)
def test_a_model_that_cannot_be_used_is_refused_with_the_reason(said: str) -> None:
    with pytest.raises(ModelError, match=said):
        wrap(*UNSUITED[said]())


def test_missing_pad_token_becomes_end_of_text_without_resizing() -> None:
    model = wrap(make_module("gpt2"), make_tokenizer())
    assert model.pad_id == model.eos_id
    assert model.module.get_input_embeddings().num_embeddings == 264
    with_pad = make_tokenizer(pad=True)
    assert wrap(make_module("gpt2"), with_pad).pad_id == with_pad.pad_token_id


def test_longest_completion_is_the_setting_or_the_models_own_or_256() -> None:
    module, tokenizer = make_module(), make_tokenizer()
    assert wrap(module, tokenizer).max_new_tokens == 256
    module.generation_config.max_new_tokens = 77
    assert wrap(module, tokenizer).max_new_tokens == 77
    assert wrap(module, tokenizer, max_new_tokens=5).max_new_tokens == 5
    module.generation_config.max_new_tokens = 32768  # a chat's: no answer here is so long
    assert wrap(module, tokenizer).max_new_tokens == 256
    assert wrap(module, tokenizer, max_new_tokens=32768).max_new_tokens == 32768


def test_saved_dropout_stays_in_the_configuration(tmp_path: Path) -> None:
    model = make_model("gpt2", dropout=0.1)
    assert all(part.p == 0 for part in model.module.modules() if isinstance(part, torch.nn.Dropout))
    model.module.config.save_pretrained(tmp_path)
    assert AutoConfig.from_pretrained(tmp_path).attn_pdrop == 0.1


def test_a_batch_wide_scaling_beside_a_kl_term_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"std_batch divides .*SWARM_KL_WEIGHT=0 beside it, got 0.1"):
        GrpoConfig(batch_std=True, kl_weight=0.1)
