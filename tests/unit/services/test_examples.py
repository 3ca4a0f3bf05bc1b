"""The examples below services/ and docker-compose.test.yml name commands, settings and variables that there are."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from swarm.cli.main import add_plugins, app
from swarm.config import secrets
from swarm.config.environment import VARIABLES

ROOT = Path(__file__).parents[3]
SERVICES = ROOT / "services"
CREDENTIALS = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
COMPOSE = yaml.safe_load((ROOT / "docker-compose.test.yml").read_text())["services"]
MANIFESTS = list(yaml.safe_load_all((SERVICES / "kubernetes/swarm.yaml").read_text()))
SKY = yaml.safe_load((SERVICES / "skypilot/worker.yaml").read_text())

add_plugins([])


def unit_commands() -> list[list[str]]:
    units = [file.read_text() for file in (SERVICES / "systemd").glob("*.service")]
    lines = [line for text in units for line in re.findall(r"^ExecStart=\S+/swarm (.+)$", text, re.MULTILINE)]
    return [shlex.split(line.replace("%i", "anna")) for line in lines]


def containers() -> list[dict[str, Any]]:
    return [one for m in MANIFESTS if m["kind"] == "Job" for one in m["spec"]["template"]["spec"]["containers"]]


def commands() -> list[list[str]]:
    sky = shlex.split(re.findall(r"bin/swarm (.+)$", SKY["run"], re.MULTILINE)[0])
    of_compose = [s["command"] for s in COMPOSE.values() if s["image"] == "swarm-test" and "entrypoint" not in s]
    return [*unit_commands(), *of_compose, *(one["args"] for one in containers()), sky]


def variables() -> set[str]:
    env = {
        line.lstrip("# ").partition("=")[0] for line in settings_file().splitlines() if re.match(r"(# )?[A-Z_]+=", line)
    }
    env |= {name for service in COMPOSE.values() for name in service.get("environment", {})}
    env |= {name for m in MANIFESTS if m["kind"] == "ConfigMap" for name in m["data"]}
    given = [one for container in containers() for one in container["env"]]
    parts = {name for one in given for name in re.findall(r"\$\((\w+)\)", one.get("value", ""))}
    return env | {one["name"] for one in given} - parts | {*SKY["envs"], *SKY["secrets"]}


def settings_file() -> str:
    return (SERVICES / "systemd/swarm.env").read_text()


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_its_command_is_one_that_swarm_takes(words: list[str]) -> None:
    app.parse_args(words, exit_on_error=False, print_error=False)


def test_there_is_an_example_of_each_kind() -> None:
    assert (len(unit_commands()), len(containers()), len(commands())) == (2, 2, 10)


def test_its_variables_are_settings_and_no_secret_is_given_a_value() -> None:
    assert variables() - VARIABLES.keys() == CREDENTIALS
    assert not variables() & secrets()
    assert set(SKY["secrets"].values()) == {None}


def test_a_unit_tells_systemd_what_its_exit_codes_mean() -> None:
    for file in (SERVICES / "systemd").glob("*.service"):
        lines = file.read_text().splitlines()
        expected = {"RestartPreventExitStatus=2 3", "SuccessExitStatus=130 143"}
        assert expected <= set(lines), file.name


def test_every_container_is_no_root_and_has_its_health_checked() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    user = re.findall(r"^USER (\d+)$", dockerfile, re.MULTILINE)
    assert user == ["10001"]
    assert "HEALTHCHECK" in dockerfile
    for manifest in (m for m in MANIFESTS if m["kind"] == "Job"):
        spec = manifest["spec"]["template"]["spec"]
        assert spec["securityContext"]["runAsUser"] == int(user[0])
        for container in spec["containers"]:
            assert {"livenessProbe", "startupProbe"} <= container.keys()
