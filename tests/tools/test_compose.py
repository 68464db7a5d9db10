"""The file for a trial with docker compose: it is YAML, and the servers fit together."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from command_line import run
from places import ROOT

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")


@pytest.fixture(scope="module")
def compose() -> Any:
    return yaml.safe_load((ROOT / "tools" / "shared" / "compose.yaml").read_text(encoding="utf-8"))


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
    program, *words = shlex.split(compose["services"]["prepare"]["command"])
    assert program == "memory-ledger"
    place = words.index("--log") + 1
    words[place] = "postgresql://owner@/ledger?host=/nowhere"
    assert run(*words).exit_code == 4
    program, *words = shlex.split(compose["services"]["app-1"]["command"])
    assert program == "memory-ledger"
    help_text = run(words[0], "--help").stdout
    assert all(word in help_text for word in words if word.startswith("--"))


def test_the_roles_of_the_urls_are_made(compose: Any) -> None:
    statements = compose["configs"]["roles"]["content"]
    urls = [compose["services"]["app-1"]["environment"]["LEDGER_LOG_URL"], compose["services"]["prepare"]["command"]]
    for url in urls:
        role, password = url.partition("postgresql://")[2].partition("@")[0].split(":")
        assert f"CREATE ROLE {role} LOGIN PASSWORD '{password}';" in statements
