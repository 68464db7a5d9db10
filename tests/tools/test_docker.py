"""The image of the servers, and the file for a trial with docker compose: what they name is there, and the servers fit."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from command_line import run
from places import ROOT

from ledger.doors import listening

DOCKER = ROOT / "tools" / "docker"
DOCKERFILE = (DOCKER / "Dockerfile").read_text(encoding="utf-8")

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")


@pytest.fixture(scope="module")
def compose() -> Any:
    return yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))


def test_two_app_servers_share_one_log_and_have_files_and_names_of_their_own(compose: Any) -> None:
    apps = [compose["services"][name] for name in ("app-1", "app-2")]
    of_log = ("LEDGER_LOG_URL", "LEDGER_LOG_TENANT")
    assert len({tuple(app["environment"][name] for name in of_log) for app in apps}) == 1
    assert [app["environment"]["LEDGER_LOG_MACHINE"] for app in apps] == ["app-1", "app-2"]
    assert [app["volumes"] for app in apps] == [["app-1:/data"], ["app-2:/data"]]
    assert len({app["ports"][0] for app in apps}) == 2
    assert all(app["environment"]["LEDGER_PATH"].startswith("/data/") for app in apps)


def test_the_app_servers_wait_for_the_tables_and_the_tables_for_the_server(compose: Any) -> None:
    services = compose["services"]
    for name in ("app-1", "app-2"):
        assert services[name]["depends_on"] == {"prepare": {"condition": "service_completed_successfully"}}
    assert services["prepare"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert services["postgres"]["healthcheck"]["test"]
    assert "synchronous_commit=on" in services["postgres"]["command"]


def test_every_volume_and_configuration_that_is_used_is_named(compose: Any) -> None:
    services = compose["services"].values()
    used = {volume.partition(":")[0] for service in services for volume in service.get("volumes", ())}
    assert used == compose["volumes"].keys()
    assert {part["source"] for service in services for part in service.get("configs", ())} == compose["configs"].keys()


def test_the_commands_of_the_servers_are_commands_of_the_product(compose: Any) -> None:
    """A wrong name of a command or an option would be wrong usage, whose exit code is 2."""
    words = shlex.split(compose["services"]["prepare"]["command"])
    words[words.index("--log") + 1] = "postgresql://owner@/ledger?host=/nowhere"
    assert run(*words).exit_code == 4


def started_words(compose: Any) -> list[list[str]]:
    """Return the commands that start a server in a container."""
    of_image = json.loads(re.findall(r"^CMD (.+)$", DOCKERFILE, re.M)[-1])
    return [of_image, *(shlex.split(compose["services"][name]["command"]) for name in ("app-1", "app-2"))]


def test_a_server_in_a_container_means_the_names_that_reach_it(compose: Any) -> None:
    for words, published in zip(
        started_words(compose), ("localhost:8766", "localhost:8081", "localhost:8082"), strict=True
    ):
        command, address, *options = words
        assert command == "serve"
        host, port = listening.address(address, 1, is_named="--name" in options)
        names = [name for option, name in zip(options[::2], options[1::2], strict=True) if option == "--name"]
        assert published in listening.own_names(host, port, names).hosts
    for name in ("app-1", "app-2"):
        (published,) = compose["services"][name]["ports"]
        assert published.rpartition(":")[2] == "8766"


def test_the_image_is_built_of_files_that_are_there_and_runs_without_root() -> None:
    copied = [line.split()[1:-1] for line in re.findall(r"^COPY .+$", DOCKERFILE, re.M) if "--from" not in line]
    given = re.findall(r"^!(.+)$", (DOCKER / "Dockerfile.dockerignore").read_text(encoding="utf-8"), re.M)
    assert sorted(file for files in copied for file in files) == sorted(given)
    assert all((ROOT / file).exists() for file in given)
    (user,) = re.findall(r"^USER (.+)$", DOCKERFILE, re.M)
    assert user == "10001:10001" and "--uid 10001" in DOCKERFILE


def test_the_health_check_of_the_image_tells_a_server_from_none(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn", reason="needs the extra http")
    from http_server import served

    from tools.docker.healthy import ANSWERS, is_healthy

    with served(tmp_path / "memory.db") as server:
        port = int(server.url.rpartition(":")[2])
        assert is_healthy({port: ANSWERS[8766]})
        assert not is_healthy({port: ("/nothing", 200)})
    assert not is_healthy({port: ANSWERS[8766]})


@pytest.mark.slow
def test_the_image_can_be_built() -> None:
    builder = next((name for name in ("docker", "podman", "buildah") if works(name, "info")), None)
    if builder is None:
        pytest.skip("no docker, podman or buildah that works is here")
    (base,) = {line.split()[1] for line in re.findall(r"^FROM .+$", DOCKERFILE, re.M)}
    (version,) = re.findall(r"^ARG PYTHON=(.+)$", DOCKERFILE, re.M)
    image = f"docker.io/library/{base.replace('${PYTHON}', version)}"
    if not works(builder, "inspect", image) and not works(builder, "pull", image):
        pytest.skip(f"{builder} is here and cannot get {image}")
    words = [builder, "build", "-f", str(DOCKER / "Dockerfile"), "-t", "memory-ledger-test", str(ROOT)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    if builder != "buildah":
        said = subprocess.run(
            [builder, "run", "--rm", "memory-ledger-test", "--version"], capture_output=True, text=True
        )
        assert said.stdout.startswith("memory-ledger")


def works(*words: str) -> bool:
    return shutil.which(words[0]) is not None and subprocess.run(words, capture_output=True).returncode == 0


def test_the_roles_of_the_urls_are_made(compose: Any) -> None:
    statements = compose["configs"]["roles"]["content"]
    urls = [compose["services"]["app-1"]["environment"]["LEDGER_LOG_URL"], compose["services"]["prepare"]["command"]]
    for url in urls:
        role, password = url.partition("postgresql://")[2].partition("@")[0].split(":")
        assert f"CREATE ROLE {role} LOGIN PASSWORD '{password}';" in statements
