import pytest

from swarm.errors import ConfigError
from swarm.plugins.slurm.resources import Resources, parsed


def test_what_is_not_given_is_left_to_the_cluster() -> None:
    parameters = Resources().parameters()
    assert not {"partition", "cpus_per_task", "mem", "gpus_per_node", "account", "srun_args"} & set(parameters)
    assert parameters["additional_parameters"] == {"requeue": True}


def test_what_is_given_becomes_what_submitit_calls_it() -> None:
    asked = Resources("gpu", 30, 4, "16G", 2, "lab", "qos=high exclusive").parameters()
    expected = {"partition": "gpu", "time": 30, "cpus_per_task": 4, "mem": "16G", "gpus_per_node": 2, "account": "lab"}
    assert {name: asked[name] for name in expected} == expected
    assert asked["srun_args"] == ["--cpus-per-task=4"], "srun does not take it from sbatch since 22.05"
    assert asked["additional_parameters"] == {"requeue": True, "qos": "high", "exclusive": True}


def test_a_part_that_loads_no_model_takes_no_gpu_from_others() -> None:
    light = Resources("gpu", 30, 4, "16G", 2, "lab", "qos=high").light()
    assert (light.gpus, light.cpus, light.memory) == (None, 1, None)
    assert (light.partition, light.account, light.extra, light.minutes) == ("gpu", "lab", "qos=high", 30)


def test_options_are_words_with_or_without_a_value() -> None:
    assert parsed("--qos=high constraint='a100|h100' exclusive") == {
        "qos": "high",
        "constraint": "a100|h100",
        "exclusive": True,
    }


@pytest.mark.parametrize("extra", ["a b'", "; rm -rf", "$(id)", "=3", "'comment=a\nwrap=id'"])
def test_what_is_no_option_is_refused(extra: str) -> None:
    with pytest.raises(ConfigError, match="--slurm-extra"):
        parsed(extra)


@pytest.mark.parametrize(
    ("asked", "named"),
    [({"minutes": 0}, "time"), ({"cpus": 0}, "cpus"), ({"gpus": -1}, "gpus"), ({"memory": "lots"}, "memory")],
)
def test_what_slurm_would_not_take_is_refused(asked: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=f"--slurm-{named} must be"):
        Resources(**asked)  # type: ignore[arg-type]
