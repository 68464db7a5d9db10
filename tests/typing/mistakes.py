"""What a type checker must find in a program that uses the library: every line marked ``wrong``, and no other."""

import threading
from datetime import UTC, datetime

from ledger import AsyncLedger, Ledger, Memory, Pack, PastLedger
from ledger import Fact as NotThere  # wrong
from ledger.answers import Fact as NeitherThere  # wrong
from ledger.types import LanguageModel as NorThere  # wrong
from ledger.types import ModelRequest


def answer(request: ModelRequest) -> str:
    return request.content


def fine(ledger: Ledger) -> None:
    turn = ledger.capture("Which coffee?", "Dark roast.", project="home", idempotency_key="a1")
    fact = ledger.bind(user="ada", actor="planner").remember(
        "Ada likes tea.", sources=[turn.id], relations=[("Ada", "likes", "tea")], valid_from=datetime.now(UTC)
    )
    for memory in ledger.memories.list(statuses=["active", "retracted"], tags=("drink",), limit=10).all():
        print(memory.content, memory.confidence + 0.5)
    page = ledger.interactions.list(since="7d")
    print(len(page), page[0].prompt, page[1:], page.next)
    with ledger.batch() as batch:
        batch.retract(fact.id, reason="she changed her mind", expected=fact.position)
    kept: tuple[Memory, Pack] = (fact, ledger.recall("tea"))
    with Ledger.temporary(user="ada") as scratch:
        scratch.add("I like tea.", metadata={"ticket": 4711})
    asked: ModelRequest | None = None
    print(kept, asked)
    ledger.extract(turn.id, model=answer, cancel=threading.Event())
    ledger.session("chat").compact(2_000, summarizer=lambda request: request.texts[0])
    ledger.capture("Which tea?", context=ledger.recall("tea"))
    past: PastLedger = ledger.at("2026-11-21T09:30:00Z")
    print(past.memories.get(fact.id).valid_from, past.recall("tea", among=["memories"]).items)


def mistakes(ledger: Ledger) -> None:
    print(NotThere, NeitherThere, NorThere)
    ledger.remmember("Ada likes tea.")  # wrong
    ledger.remember("Ada likes tea.", kind=3)  # wrong
    ledger.remember("Ada likes tea.", "preference")  # wrong
    ledger.remember("Ada likes tea.", user="ada")  # wrong
    ledger.remember("Ada likes tea.", source=["i_1"])  # wrong
    ledger.remember("Ada likes tea.", occurred_at=5)  # wrong
    ledger.remember("Ada likes tea.", relations=[("Ada", "likes")])  # wrong
    ledger.retract("m_1", "no longer")  # wrong
    ledger.retract("m_1", expected="5")  # wrong
    ledger.capture("Which coffee?", session_id="s1")  # wrong
    ledger.capture()  # wrong
    ledger.undo()  # wrong
    ledger.erase("m_1", kept=["m_2"])  # wrong
    ledger.bind(user=3)  # wrong
    ledger.bind(channel="telepathy")  # wrong
    ledger.recall("tea", unit="words")  # wrong
    ledger.recall("tea", among=["facts"])  # wrong
    ledger.recall("tea", k=5)  # wrong
    print(ledger.recall("tea").text)  # wrong
    ledger.extract("i_1", method="guess")  # wrong
    ledger.extract("i_1", model=3)  # wrong
    ledger.extract("i_1", cancel=5.0)  # wrong
    ledger.capture("Which coffee?", context="dark roast")  # wrong
    ledger.session("chat").extract(cancel=lambda seconds: seconds > 3)  # wrong
    ledger.session("chat").compact(2_000, summarizer="a model")  # wrong
    ledger.session("chat").summaries.rewrite("u_1", summarizer=answer)  # wrong
    ledger.session("chat").bind(channel="telepathy")  # wrong
    print(ledger.session("chat").items()[0].score)  # wrong
    Ledger.open("memory.db", model=ModelRequest)  # wrong
    ledger.memory("m_1")  # wrong
    ledger.search("tea")  # wrong
    ledger.memories.search("tea")  # wrong
    ledger.history("m_1")  # wrong
    ledger.recall("tea", user="ada")  # wrong
    ledger.remember("Ada likes tea.", source="i_1")  # wrong
    ledger.add("Ada likes tea.", metadata=["tea"])  # wrong
    Ledger.temporary(readonly=True)  # wrong
    ledger.memories("active")  # wrong
    ledger.memories.list(statuses=["gone"])  # wrong
    ledger.memories.list(limit="10")  # wrong
    ledger.memories.list(kind="fact")  # wrong
    ledger.memories.get()  # wrong
    print(ledger.memories.get("m_1").contents)  # wrong
    ledger.memories.get("m_1").content = "Ada likes coffee."  # wrong
    ledger.memories.set_confidence("m_1", "high")  # wrong
    ledger.memories.list().next.upper()  # wrong
    ledger.interactions.list(since=5)  # wrong
    ledger.at(3).remember("Ada likes tea.")  # wrong
    ledger.at(3).memories.tag("m_1", add=["drink"])  # wrong
    for each in ledger.memories.list().all():
        print(each.edges)  # wrong


async def fine_too(ledger: AsyncLedger) -> None:
    fact = await ledger.bind(user="ada").remember("Ada likes tea.", tags=["drink"], idempotency_key="a1", expected=5)
    print(fact.content, (await ledger.recall("tea", among=["memories"])).as_text())
    page = await ledger.memories.list(statuses=["active"], limit=5)
    print([memory.id async for memory in page.all()], page[0].kind, page.next)
    session = ledger.session("chat")
    print((await session.append("user", "Hello.")).position, (await session.grep("hello")).total, await session.id())
    async for entry in ledger.history.follow(types=["MemoryCaptured"], timeout=1.0):
        print(entry.position)
    past = await ledger.at("2026-11-21T09:30:00Z")
    print((await past.memories.get(fact.id)).valid_from)
    async with AsyncLedger.open("memory.db") as entered, await AsyncLedger.temporary() as awaited:
        print(await entered.position(), (await awaited.remember("One.")).id)
    opened: AsyncLedger = await AsyncLedger.open("memory.db")
    await opened.aclose()
    ids: list[str] = await ledger.in_batch(lambda plain: [plain.remember("One.").id])
    print(ids, (await ledger.history.bisect(lambda then: len(then.memories.list()) > 1)).position)


async def mistakes_too(ledger: AsyncLedger) -> None:
    print(ledger.remember("Ada likes tea.").content)  # wrong
    await ledger.remember("Ada likes tea.", kind=3)  # wrong
    await ledger.remember("Ada likes tea.", user="ada")  # wrong
    await ledger.remember("Ada likes tea.", occurred_at=5)  # wrong
    await ledger.retract("m_1", "no longer")  # wrong
    await ledger.recall("tea", unit="words")  # wrong
    await ledger.search("tea")  # wrong
    await ledger.memories.list(limit="10")  # wrong
    print((await ledger.memories.get("m_1")).contents)  # wrong
    for _ in (await ledger.memories.list()).all():  # wrong
        pass
    (await ledger.at(3)).remember("Ada likes tea.")  # wrong
    await ledger.in_batch(lambda plain: plain.remmember("One."))  # wrong
    await AsyncLedger.open("memory.db", group_commit=True)  # wrong
    with AsyncLedger.open("memory.db"):  # wrong
        pass
    with await AsyncLedger.open("memory.db"):  # wrong
        pass
    AsyncLedger.open("memory.db").remember("One.")  # wrong
    ledger.close()  # wrong
