"""What an agent reads through MCP and hands in: active only with the user's own words, within a day's amount."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the extra mcp")

import mcp_client as agents
from mcp_client import McpCaller

ALLERGY, KNOWS = "My sister Lea is allergic to peanuts.", "The user's sister Lea is allergic to peanuts"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


def told(path: Path, *texts: str, session: str = "monday", project: str | None = "web", **more: Any) -> None:
    with agents.opened(path) as ledger:
        for text in texts:
            chat = [{"role": "user", "content": text}, {"role": "assistant", "content": "Noted."}]
            ledger.add(chat, session=session, project=project, **more)


def fact(content: str = KNOWS, quote: str = "Lea is allergic to peanuts", **more: Any) -> dict[str, Any]:
    return {"content": content, "said_by": "user", "messages": [1], "quote": quote, **more}


def numbered(content: str, role: str) -> dict[int, str]:
    """Return the messages of a role that a reading shows, by their numbers."""
    found = re.findall(rf"^\[(\d+)\] {role} \([^)]*\): (.*(?:\n    .*)*)", content, re.MULTILINE)
    return {int(number): text for number, text in found}


# --- reading and handing in -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", agents.PROTOCOLS)
def test_an_agent_reads_what_was_said_and_hands_in_what_it_found(path: Path, protocol: str) -> None:
    told(path, ALLERGY)

    async def story(agent: McpCaller) -> None:
        reading = await agent.call("unread")
        assert (reading["turns"], reading["more"], reading["held_until"]) == (1, 0, None)
        assert numbered(reading["content"], "user") == {1: ALLERGY}
        assert "the tool `learn`" in reading["instructions"]
        learned = await agent.call("learn", token=reading["token"], add=[fact()])
        assert (len(learned["learned"]), learned["turns"], learned["more"]) == (1, 1, 0)
        assert (await agent.call("why", id=learned["learned"][0]))["confidence"] == 0.6
        assert KNOWS in await agent.text("context", question="What is Lea allergic to?")
        assert await agent.text("unread") == "there is nothing to read"

    agents.played(story, path, protocol)


def test_the_text_of_a_reading_has_all_that_its_data_have(path: Path) -> None:
    told(path, ALLERGY)

    async def story(agent: McpCaller) -> None:
        text, data = await agent.text("unread"), await agent.call("unread")
        assert all(data[name] in text for name in ("token", "instructions", "content"))

    agents.played(story, path)


def test_an_answer_has_every_kind_of_change(path: Path) -> None:
    told(path, "I live in Gent.", "I work at Acme as a nurse.")

    async def story(agent: McpCaller) -> None:
        told(path, "I moved to Oslo, and I left Acme; my boss there was Ana.", session="tuesday", extract="off")
        reading = await agent.call("unread")
        facts = dict(re.findall(r"^\[(\d+)\] (The user .*)$", reading["content"], re.MULTILINE))
        number = {text.split()[2]: int(number) for number, text in facts.items()}
        said = {"said_by": "user", "messages": [5]}
        learned = await agent.call(
            "learn",
            token=reading["token"],
            add=[fact("The user's boss at Acme was Ana", "my boss there was Ana", messages=[5], kind="fact")],
            supersede=[
                {"fact": number["lives"], "content": "The user lives in Oslo", "quote": "moved to Oslo", **said}
            ],
            retract=[{"fact": number["works"], "quote": "I left Acme", "reason": "left", **said}],
            relations=[{"subject": "Ana", "relation": "boss_at", "object": "Acme"}],
        )
        assert (len(learned["learned"]), len(learned["contradicted"]), learned["dropped"]) == (2, 2, [])

    agents.played(story, path)
    with agents.opened(path) as ledger:
        assert {memory.content for memory in ledger.memories.list()} == {
            "The user's boss at Acme was Ana",
            "The user lives in Oslo",
        }


def test_what_changes_within_one_reading_is_added_and_superseded_in_one_call(path: Path) -> None:
    told(path, "My rent is 900 euros a month.", "The landlord raised my rent to 950 euros.", extract="off")

    async def story(agent: McpCaller) -> None:
        token = (await agent.call("unread"))["token"]
        first = fact("The user's rent is 900 euros", "rent is 900 euros")
        then = fact("The user's rent is 950 euros", "rent to 950 euros", messages=[3], old=first["content"], fact=0)
        learned = await agent.call("learn", token=token, add=[first], supersede=[then])
        assert (len(learned["learned"]), len(learned["contradicted"]), learned["dropped"]) == (1, 1, [])
        text = await agent.text("context", question="What is my rent?")
        assert "950" in text and "900" not in text

    agents.played(story, path)


WRONG = [
    ({"add": "Lea"}, 'add is "Lea": it has to be a list of objects with said_by, messages, quote, content'),
    (
        {"add": [{"content": KNOWS}]},
        'add[0].said_by is missing: it has to be "user" or "assistant"; add[0].messages is',
    ),
    ({"add": [fact(messages=["x"])]}, 'add[0].messages[0] is "x": it has to be a whole number'),
    ({"add": [fact(fact=1)]}, "add[0] names a known fact, which supersede takes"),
    ({"add": [fact(old=KNOWS)]}, "add[0] names a known fact, which supersede takes"),
    ({"supersede": [fact()]}, "supersede[0].fact is missing: it has to be the number of a known fact, or `old`"),
    ({"retract": [{"said_by": "user", "messages": [1]}]}, "retract[0].fact is missing: it has to be the number"),
    (
        {"retract": [{"fact": 7, "said_by": "user", "messages": [1]}]},
        "retract names the fact 7, and",
    ),
    ({"add": [fact(messages=[9])]}, "add names the message 9, and the messages are 1 to 2"),
    ({"add": [fact(certain=True)]}, 'there is no "certain" in add[0]'),
]


@pytest.mark.parametrize(("answer", "error"), WRONG)
def test_a_wrong_answer_says_what_is_wrong_and_leaves_the_turns_unread(
    path: Path, answer: dict[str, Any], error: str
) -> None:
    told(path, ALLERGY)

    async def story(agent: McpCaller) -> None:
        token = (await agent.call("unread"))["token"]
        assert error in await agent.error("learn", token=token, **answer)
        assert (await agent.call("learn", token=token, add=[fact()]))["turns"] == 1

    agents.played(story, path)


def test_a_reading_is_of_the_servers_project_and_then_of_turns_without_a_project(path: Path) -> None:
    told(path, "My cat is called Mia, in the other project.", session="a", project="secret")
    told(path, "My dog is called Rex, in no project.", session="b", project=None)
    told(path, ALLERGY, session="c")

    async def story(agent: McpCaller) -> None:
        texts = list[str]()
        while token := (reading := await agent.call("unread"))["token"]:
            texts += numbered(reading["content"], "user").values()
            await agent.call("learn", token=token)
        assert texts == [ALLERGY, "My dog is called Rex, in no project."]

    agents.played(story, path)
    with agents.opened(path) as ledger:
        assert ledger.learning.count() == 1


def test_two_agents_do_not_read_the_same_turns(path: Path) -> None:
    told(path, ALLERGY)

    async def story() -> None:
        async with agents.connected(path, name="one") as one, agents.connected(path, name="two") as two:
            reading = await one.call("unread")
            held = await two.call("unread")
            assert (held["token"], held["more"]) == ("", 1) and held["held_until"]
            assert "another agent reads the 1 turn until" in await two.text("unread")
            await one.call("learn", token=reading["token"])

    asyncio.run(story())


def test_context_says_how_many_turns_are_unread_and_nothing_of_none(path: Path) -> None:
    told(path, ALLERGY, "My dog is called Rex.")

    async def story(agent: McpCaller) -> None:
        assert "\n2 turns unread by any model" in await agent.text("context", question="Lea?")
        assert (await agent.call("context", question="Lea?"))["unread"] == 2
        await agent.call("learn", token=(await agent.call("unread"))["token"])
        assert "unread" not in await agent.text("context", question="Lea?")

    agents.played(story, path)


def test_a_server_that_only_reads_and_one_without_tokens_for_reading_offer_no_learning(path: Path) -> None:
    told(path, ALLERGY)

    async def story(agent: McpCaller) -> None:
        assert not {"unread", "learn"} & set(await agent.tools())
        assert "unread" not in await agent.text("context", question="Lea?")

    agents.played(story, path, read_only=True)
    agents.played(story, path, learn_tokens_a_day=0)


# --- the amount of a day ----------------------------------------------------------------------------------------------


def test_the_tokens_of_a_day_are_bounded_over_processes_and_the_answer_says_when_it_goes_on(path: Path) -> None:
    told(path, *(f"My friend number {number} works at the harbour. {'Really. ' * 150}" for number in range(30)))

    async def story(agent: McpCaller) -> None:
        spent = 0
        for _ in range(20):
            reading = await agent.call("unread", budget=3_000)
            if not reading["token"]:
                break
            spent += 1
            await agent.call("learn", token=reading["token"])
        assert (spent, reading["turns"]) == (2, 0) and reading["more"] > 0
        assert re.search(
            "the 6,000 tokens of today are read; it goes on at .*T00:00:00.000000Z", await agent.text("unread")
        )

    async def another(agent: McpCaller) -> None:
        assert (await agent.call("unread"))["held_until"].endswith("T00:00:00.000000Z")

    agents.played(story, path, learn_tokens_a_day=6_000)
    agents.played(another, path, learn_tokens_a_day=6_000)


def test_what_is_read_and_not_handed_in_counts_too(path: Path) -> None:
    told(path, *(f"My friend number {number} works at the harbour. {'Really. ' * 150}" for number in range(30)))

    async def story(agent: McpCaller) -> None:
        given = [(await agent.call("unread", budget=3_000))["token"] for _ in range(5)]
        assert [bool(token) for token in given] == [True, True, False, False, False]

    agents.played(story, path, learn_tokens_a_day=6_000)


def test_a_day_begins_and_ends_by_the_clock_of_the_ledger(path: Path) -> None:
    now = datetime(2026, 3, 2, 23, tzinfo=UTC)
    with agents.opened(path, clock=lambda: now) as ledger:
        for number in range(30):
            text = f"My friend number {number} works at the harbour. {'Really. ' * 150}"
            ledger.add([{"role": "user", "content": text}], session="monday", project="web", extract="off")

    async def day(agent: McpCaller) -> tuple[int, Any]:
        for number in range(20):
            reading = await agent.call("unread", budget=3_000)
            if not reading["token"]:
                return number, reading["held_until"]
            await agent.call("learn", token=reading["token"])
        raise AssertionError("a day has no end")

    async def story(agent: McpCaller) -> None:
        nonlocal now
        assert await day(agent) == (2, "2026-03-03T00:00:00.000000Z")
        now += timedelta(hours=2)
        assert await day(agent) == (2, "2026-03-04T00:00:00.000000Z")

    agents.played(story, path, learn_tokens_a_day=6_000, clock=lambda: now)


# --- correcting ---------------------------------------------------------------------------------------------------------


def test_a_correction_in_the_users_words_takes_effect_and_another_waits(path: Path) -> None:
    told(path, "I live in Gent.", "Our boxes moved to Oslo in May.")
    with agents.opened(path) as ledger:
        (memory,) = (each for each in ledger.memories.list() if "Gent" in (each.content or ""))

    async def story(agent: McpCaller) -> None:
        new = {"id": memory.id, "content": "The user lives in Oslo", "reason": "the user says so"}
        waits = await agent.call("correct", **new, quote="moved to Bergen", session="monday")
        assert (waits["learned"], len(waits["proposed"])) == ([], 1)
        again = await agent.text("correct", **new, quote="moved to Bergen", session="monday")
        assert again == "this waits for the person already"
        done = await agent.call("correct", **new, quote="moved to Oslo", session="monday")
        assert (len(done["learned"]), done["contradicted"]) == (1, [memory.id])
        assert "was not corrected: it is superseded" in await agent.error("correct", **new)
        assert "not both" in await agent.error("correct", id=memory.id, reason="x")

    agents.played(story, path)


def test_an_agents_end_of_what_a_person_wrote_waits(path: Path) -> None:
    told(path, "I no longer ride the red bicycle.")
    with agents.opened(path) as ledger:
        memory = ledger.remember("The user rides a red bicycle.")

    async def story(agent: McpCaller) -> None:
        ended = {"id": memory.id, "ended": True, "reason": "sold", "quote": "no longer ride the red bicycle"}
        text = await agent.text("correct", **ended, session="monday")
        assert memory.id in text

    agents.played(story, path)
    with agents.opened(path) as ledger:
        assert ledger.memories.get(memory.id).status == "active"
