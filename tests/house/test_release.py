"""What a repository shows, and that its parts agree about names and versions."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from places import ROOT

from tools.release import versions

GITHUB = ROOT / ".github"
SERVER = json.loads((ROOT / "ledger/doors/mcp/server.json").read_text(encoding="utf-8"))


def test_every_place_that_states_the_version_states_the_same() -> None:
    assert len(set(versions().values())) == 1


def test_the_marker_of_the_readme_is_the_name_in_the_registry_of_mcp_servers() -> None:
    """Which is how the registry knows that the package belongs to whoever publishes the server."""
    assert re.findall(r"mcp-name: (\S+)", (ROOT / "README.md").read_text(encoding="utf-8")) == [SERVER["name"]]
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", SERVER["name"])


def test_the_registry_of_mcp_servers_learns_how_to_start_the_server() -> None:
    (package,) = SERVER["packages"]
    assert len(SERVER["description"]) <= 100
    assert (package["registryType"], package["identifier"], package["runtimeHint"]) == ("pypi", "belief-ledger", "uvx")
    assert package["transport"] == {"type": "stdio"}
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'belief-ledger = "ledger.cli.app:main"' in project  # what uvx runs
    assert package["runtimeArguments"][0]["value"] == "belief-ledger[mcp]" and re.search(
        r"^mcp = ", project, re.MULTILINE
    )
    assert package["packageArguments"] == [{"type": "positional", "value": "mcp"}]


def test_the_marketplace_of_claude_code_names_the_plugin_of_the_package() -> None:
    market = json.loads((ROOT / ".claude-plugin/marketplace.json").read_text(encoding="utf-8"))
    (entry,) = market["plugins"]
    plugin = json.loads((ROOT / entry["source"] / ".claude-plugin/plugin.json").read_text(encoding="utf-8"))
    assert {name: entry[name] for name in ("name", "version", "description", "license", "keywords")} == {
        name: plugin[name] for name in ("name", "version", "description", "license", "keywords")
    }


@pytest.mark.parametrize("workflow", sorted((GITHUB / "workflows").iterdir()), ids=lambda path: path.name)
def test_a_workflow_takes_each_action_by_its_hash_and_no_right_that_it_does_not_name(workflow: Path) -> None:
    text = workflow.read_text(encoding="utf-8")
    uses = re.findall(r"uses: (.+)", text)
    assert uses and all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", each) for each in uses)
    assert re.search(r"^permissions: \{\}$", text, re.MULTILINE)


def test_links_of_the_files_for_contributors_lead_somewhere() -> None:
    for page in GITHUB.glob("*.md"):
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
