"""``AsyncLedger``: awaited calls that never block the event loop, and writes that are committed in groups."""

from __future__ import annotations

import asyncio
import gc
import inspect
import sqlite3
import threading
import warnings
from contextlib import asynccontextmanager, closing
from typing import ClassVar

import probe
import pytest
from soundness import agrees, contents

from ledger import ConflictError, Ledger, ModelError, NotFoundError, RejectedError, StorageError
from ledger.aio import AsyncLedger, AsyncPage
from ledger.types import SessionPatterns

TASKS = 50


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


@asynccontextmanager
async def opened(path, **options):
    """An open ledger whose log, after it is closed, is held against its tables."""
    async with await AsyncLedger.open(path, **options) as ledger:
        yield ledger
    with Ledger.open(path) as plain:
        agrees(plain)


def running(test):
    """A test that is a coroutine function."""

    def run(**fixtures):
        asyncio.run(test(**fixtures))

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    run.__signature__ = inspect.signature(test)
    return run


def commits_of(ledger, monkeypatch):
    writing, seen = probe.writing(probe.plain(ledger)), []
    commit = writing.commit
    monkeypatch.setattr(writing, "commit", lambda: (commit(), seen.append(writing.position)))
    return seen


class Quiet:
    """A scanner that finds nothing."""

    name = "quiet"

    def scan(self, text):
        return ()


# --- calls -----------------------------------------------------------------------------------------------------------


@running
async def test_what_was_remembered_is_found(path):
    async with opened(path, user="ada") as ledger:
        memory = await ledger.remember("Ada drinks green tea.", tags=["drink"])
        assert await ledger.memories.get(memory.id) == memory
        assert (await ledger.recall("What does Ada drink?")).items[0].memory == memory
        assert (await ledger.memories.tag(memory.id, add=["tea"])).tags == ("drink", "tea")
        assert (await ledger.why(memory.id)).memory.content == memory.content
        assert (await ledger.query("SELECT count(*) AS n FROM beliefs"))[0]["n"] == 1
        assert (await ledger.undo(memory.position, cascade=True)).dry_run is False
        with pytest.raises(NotFoundError):
            await ledger.memories.get(memory.id)


@running
async def test_a_task_works_for_its_own_user(path):
    async with opened(path) as ledger:

        async def work(user):
            bound = ledger.bind(user=user, actor=f"agent of {user}", channel="user")
            async with bound:  # its end leaves the file open
                await bound.remember("I like tea.", idempotency_key="k")
                again = await bound.remember("I like tea.", idempotency_key="k")
            entry = (await bound.history.audit(limit=1))[0]
            return again.replayed, entry.actor, len(await bound.memories.list())

        users = [f"u{number}" for number in range(20)]
        answers = await asyncio.gather(*map(work, users))
        assert answers == [(True, f"agent of {user}", 1) for user in users]


@running
async def test_a_bound_ledger_keeps_the_user_for_none_and_refuses_a_blank_one(path):
    async with opened(path, user="ada") as ledger:
        await ledger.bind(user=None, actor="bot").remember("One.")
        assert len(await ledger.memories.list()) == 1
        with pytest.raises(RejectedError, match="user is blank"):
            ledger.bind(user=" ")


@running
async def test_a_session_is_awaited_like_the_ledger(path):
    async with opened(path, sessions=SessionPatterns(ignore=("cron*",))) as ledger:
        session = ledger.session("chat")
        assert (session.name, await session.id()) == ("chat", None)
        await session.append("user", "Where is the key?")
        await session.append("assistant", "Under the mat.")
        assert [each.content for each in await session.messages()] == ["Where is the key?", "Under the mat."]
        assert (await session.window(1_000)).entries[-1].content == "Under the mat."
        hits = await session.grep("key")
        assert (hits.total, [hit.position for hit in hits]) == (1, [(await session.messages())[0].position])
        assert (await session.bind(actor="bot").append("user", "Thanks.")).position == await ledger.position()
        assert list(await session.summaries.list()) == []
        assert (await ledger.session("cron 1").append("user", "tick")).skipped == "ignored"


@running
async def test_a_page_reads_on_without_blocking(path):
    async with opened(path) as ledger:
        for number in range(7):
            await ledger.remember(f"The memory {number}.")
        page = await ledger.memories.list(limit=3)
        assert isinstance(page, AsyncPage) and len(page) == 3 and page.next is not None
        assert page[0].content == "The memory 6." and len(page[1:]) == 2
        assert [memory.content async for memory in page.all()] == [
            f"The memory {number}." for number in range(6, -1, -1)
        ]
        assert page == await ledger.memories.list(limit=3) and repr(page).startswith("<AsyncPage of 3, next=")
        assert [memory async for memory in (await ledger.memories.list(limit=0)).all()] == []


@running
async def test_a_page_is_data_on_request(path):
    async with opened(path) as ledger:
        await ledger.remember("One.")
        await ledger.remember("Two.")
        page = await ledger.memories.list(limit=1)
        assert page.to_dict() == {"items": [page[0].to_dict()], "next": page.next}
        assert (await ledger.sessions.grep("One")).to_dict()["total"] == 0


@running
async def test_a_page_read_in_another_way_names_the_right_way(path):
    async with opened(path) as ledger:
        await ledger.remember("One.")
        page = await ledger.memories.list()
        assert [memory.content for memory in page] == ["One."]
        with pytest.raises(TypeError, match=r"for item in page.*async for item in page\.all\(\)"):
            async for _ in page:
                pass
        for wrong in (lambda: [*page.all()], lambda: list(page.all())):
            with pytest.raises(TypeError, match=r"async for item in page\.all\(\)"):
                wrong()
        items = page.all()
        assert (await anext(items)).content == "One."
        await items.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(items)


@running
async def test_the_past_is_read_and_not_written(path):
    async with opened(path) as ledger:
        first = await ledger.remember("One.")
        await ledger.remember("Two.")
        past = await ledger.at(first.position)
        assert [memory.content for memory in await past.memories.list()] == ["One."]
        assert (past.as_of, await past.position()) == (first.recorded_at, first.position)
        assert not hasattr(past, "remember")
        found = await ledger.history.bisect(lambda then: len(then.memories.list()) == 2)
        assert found.position == first.position + 1
        with pytest.raises(RejectedError):
            await ledger.at(99)


@running
async def test_classmethods_and_temporary_ledgers_are_awaited(path, tmp_path):
    async with await AsyncLedger.temporary(user="ada") as ledger:
        await ledger.remember("One.")
        await ledger.maintenance.backup(tmp_path / "backup.db")
    assert (await AsyncLedger.recover(tmp_path / "backup.db", path)).events == 2
    assert (await AsyncLedger.doctor(path)).ok
    with pytest.raises(NotFoundError):
        await AsyncLedger.open(tmp_path / "none.db", create=False)


@running
async def test_an_opening_is_awaited_or_entered(path):
    async with AsyncLedger.open(path, user="ada") as ledger:
        assert type(ledger) is AsyncLedger
        await ledger.remember("One.")
    with pytest.raises(RejectedError, match="closed"):
        await ledger.remember("Two.")
    async with await AsyncLedger.open(path, user="ada") as ledger, AsyncLedger.temporary() as other:
        assert (len(await ledger.memories.list()), len(await other.memories.list())) == (1, 0)
    for opened_by in (asyncio.create_task, asyncio.ensure_future, lambda opening: opening):
        await (await opened_by(AsyncLedger.open(path))).aclose()
    with pytest.raises(NotFoundError):
        async with AsyncLedger.open(path.with_name("none.db"), create=False):
            raise AssertionError


@running
async def test_a_plain_with_names_async_with(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TypeError, match=r"async with AsyncLedger\.open"), AsyncLedger.open(path):
            pass
        gc.collect()
    async with AsyncLedger.open(path) as ledger:
        with pytest.raises(TypeError, match=r"async with AsyncLedger\.open"), ledger:
            pass
        with pytest.raises(TypeError, match=r"async with AsyncLedger\.open"), ledger.bind(user="ada"):
            pass


def test_an_opening_that_nobody_awaits_warns_by_its_name(path):
    with pytest.warns(RuntimeWarning, match=r"AsyncLedger\.open"):
        AsyncLedger.open(path)
        gc.collect()
    assert not path.exists()


@running
async def test_awaited_calls_raise_the_errors_of_the_plain_ledger(path):
    async with opened(path) as ledger:
        with pytest.raises(RejectedError, match="blank"):
            await ledger.remember(" ")
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            await ledger.remember("One.", colour="red")  # type: ignore[call-arg]


def test_a_ledger_is_opened_and_not_made(path):
    with pytest.raises(TypeError, match=r"await AsyncLedger\.open"):
        AsyncLedger(path)


@running
async def test_a_readonly_ledger_is_read(path):
    Ledger.open(path).close()
    async with await AsyncLedger.open(path, readonly=True) as ledger:
        assert len(await ledger.memories.list()) == 0
        for write in (lambda: ledger.remember("No."), lambda: ledger.in_batch(lambda plain: plain.remember("No."))):
            with pytest.raises(RejectedError, match="readonly"):
                await write()


@running
async def test_an_error_names_the_class_that_a_user_knows(path):
    async with opened(path) as ledger:
        bound = ledger.bind(user="ada")
        for each in (ledger, bound):
            with pytest.raises(AttributeError, match=r"^'Ledger' object has no attribute 'in_batch'"):
                await each.in_batch(lambda plain: plain.in_batch(len))
            with pytest.raises(AttributeError, match=r"^'AsyncLedger' object has no attribute 'close'"):
                each.close()
            with pytest.raises(TypeError, match=r"AsyncLedger\.open"):
                type(each)(path)
            assert repr(each).startswith("<AsyncLedger ")
            assert await each.in_batch(lambda plain: (type(plain).__name__, repr(plain)[:8])) == ("Ledger", "<Ledger ")


# --- groups ----------------------------------------------------------------------------------------------------------


@running
async def test_commands_of_many_tasks_are_one_commit(path, monkeypatch):
    async with opened(path) as ledger:
        commits = commits_of(ledger, monkeypatch)
        with probe.writer_held(probe.plain(ledger)):
            tasks = [asyncio.create_task(ledger.remember(f"The memory {number}.")) for number in range(TASKS)]
            await asyncio.sleep(0)
        answers = await asyncio.gather(*tasks)
        assert [answer.position for answer in answers] == list(range(2, 2 + TASKS))
        assert commits == [1 + TASKS]


@running
async def test_one_commands_error_is_its_own(path, monkeypatch):
    async with opened(path) as ledger:
        commits = commits_of(ledger, monkeypatch)
        with probe.writer_held(probe.plain(ledger)):
            works = (ledger.remember("One."), ledger.promote("m_none"), ledger.remember(""), ledger.remember("Two."))
            tasks = [asyncio.create_task(work) for work in works]
            await asyncio.sleep(0)
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(answer).__name__ for answer in answers] == ["Memory", "NotFoundError", "RejectedError", "Memory"]
        assert len(commits) == 1


@running
async def test_a_failed_commit_fails_every_task_of_the_group(path, monkeypatch):
    async with opened(path) as ledger:
        await ledger.remember("Zero.")
        transaction = type(probe.writing(probe.plain(ledger)).transaction)
        failures, finish = [StorageError("the disk is full")], transaction.finish
        monkeypatch.setattr(
            transaction, "finish", lambda self: finish(self) if not failures else (_ for _ in ()).throw(failures.pop())
        )
        with probe.writer_held(probe.plain(ledger)):
            tasks = [asyncio.create_task(ledger.remember(f"The memory {number}.")) for number in range(3)]
            await asyncio.sleep(0)
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert {str(answer) for answer in answers} == {
            "the disk is full; 2 other commands were in the same commit, and nothing of it was written"
        }
        assert len(await ledger.memories.list()) == 1


@running
async def test_of_twenty_tasks_that_expect_one_position_one_wins(path):
    async with opened(path) as ledger:
        memory = await ledger.remember("One.")
        works = (ledger.memories.set_confidence(memory.id, n / 100, expected=memory.position) for n in range(1, 21))
        answers = await asyncio.gather(*works, return_exceptions=True)
        assert sum(isinstance(answer, ConflictError) for answer in answers) == 19


@running
async def test_a_cancelled_await_leaves_the_command(path):
    async with opened(path) as ledger:
        with probe.writer_held(probe.plain(ledger)) as wait_for:
            tasks = [asyncio.create_task(ledger.remember("Direct.")), asyncio.create_task(ledger.capture("Planned."))]
            await asyncio.sleep(0)
            await asyncio.to_thread(wait_for, 2)
            for task in tasks:
                task.cancel()
            assert all(
                isinstance(each, asyncio.CancelledError)
                for each in await asyncio.gather(*tasks, return_exceptions=True)
            )
        await ledger.remember("After it.")
        assert {memory.content for memory in await ledger.memories.list()} == {"Direct.", "After it."}
        while not await ledger.interactions.list():
            await asyncio.sleep(0.01)


# --- batches ---------------------------------------------------------------------------------------------------------


@running
async def test_a_function_runs_whole_on_the_writer_thread_as_one_commit(path, monkeypatch):
    async with opened(path, user="ada") as ledger:
        commits = commits_of(ledger, monkeypatch)

        def import_all(plain):
            assert threading.current_thread().name == "ledger-writer"
            first = plain.remember("One.")
            plain.supersede(first.id, "Two.")
            return [memory.content for memory in plain.memories.list()]

        assert await ledger.in_batch(import_all) == ["Two."]
        assert len(commits) == 1


@running
async def test_an_exception_takes_back_the_whole_function(path):
    async with opened(path) as ledger:

        def fail(plain):
            plain.remember("Lost.")
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await ledger.in_batch(fail)
        with pytest.raises(RuntimeError, match="StopIteration"):
            await ledger.in_batch(lambda plain: next(iter(())))
        assert len(await ledger.memories.list()) == 0


@running
async def test_a_function_in_a_batch_is_one_commit_beyond_the_bounds_of_a_batch(path, monkeypatch):
    monkeypatch.setattr("ledger.core.batches.BATCH_EVENTS", 3)

    def fail(plain):
        for number in range(8):
            plain.remember(f"The memory {number}.")
        raise ZeroDivisionError

    async with opened(path) as ledger:
        with pytest.raises(ZeroDivisionError):
            await ledger.in_batch(fail)
        assert len(await ledger.memories.list()) == 0


@running
async def test_a_batch_around_awaits_is_refused_with_the_way_out(path):
    async with opened(path) as ledger:
        with pytest.raises(RejectedError, match="in_batch"):
            async with ledger.batch():
                pass

        async def coroutine(plain):
            plain.remember("No.")

        for function in (coroutine, lambda plain: coroutine(plain), 5):
            with pytest.raises(RejectedError, match="plain function"):
                await ledger.in_batch(function)


@running
async def test_a_generator_as_a_batch_is_refused_and_writes_nothing(path):
    async with opened(path) as ledger:

        def generator(plain):
            yield plain.remember("No.")

        async def asynchronous(plain):
            yield plain.remember("No.")

        for function in (generator, asynchronous):
            with pytest.raises(RejectedError, match="plain function"):
                await ledger.in_batch(function)
        for function in (
            lambda plain: generator(plain),
            lambda plain: map(plain.remember, ["No."]),
            lambda plain: [plain.remember("No."), generator(plain)][1],
            lambda plain: asynchronous(plain),
        ):
            with pytest.raises(RejectedError, match=r"return list\("):
                await ledger.in_batch(function)
        assert len(await ledger.memories.list()) == 0
        assert await ledger.in_batch(lambda plain: list(map(plain.remember, []))) == []


@pytest.mark.parametrize("options", [{}, {"scanners": [Quiet()]}], ids=["writer thread", "worker thread"])
def test_the_asynchronous_ledger_inside_its_own_batch_is_refused(path, options):
    """It would wait for the thread that waits for it."""

    async def first(page):
        return [memory async for memory in page.all()]

    async def watch(ledger):
        return [entry async for entry in ledger.history.follow(1)]

    @running
    async def test():
        async with opened(path, **options) as ledger:
            calls = (
                lambda: ledger.remember("No."),
                lambda: ledger.bind(user="ada").remember("No."),
                lambda: ledger.capture("No."),
                lambda: ledger.in_batch(lambda plain: plain.remember("No.")),
                lambda: ledger.memories.list(),
                lambda: watch(ledger),
                lambda: ledger.history.wait(1_000),
                lambda: ledger.aclose(),
            )
            for call in calls:
                with pytest.raises(RejectedError, match="call `plain`") as caught:
                    await ledger.in_batch(lambda plain, call=call: asyncio.run(call()))
                assert caught.value.rule == "batch"
            assert await ledger.in_batch(lambda plain: len(plain.memories.list())) == 0
            await ledger.remember("Yes.")

    test()


# --- threads ---------------------------------------------------------------------------------------------------------


@running
async def test_no_call_touches_the_file_on_the_thread_of_the_event_loop(path, monkeypatch):
    touched: list[str] = []
    here = threading.get_ident()
    async with opened(path) as ledger:
        store = probe.store(probe.plain(ledger))
        for name in ("snapshot", "transact", "head", "checkpoint", "past_view", "lent"):
            real = getattr(store, name)

            def seen(*arguments, real=real, name=name, **options):
                if threading.get_ident() == here:
                    touched.append(name)
                return real(*arguments, **options)

            monkeypatch.setattr(store, name, seen)
        memory = await ledger.remember("The user likes green tea.")
        await ledger.capture("What do I like?", "You like green tea.", session="s", append=True)
        await ledger.recall("tea")
        await ledger.context("tea", session="s")
        session = ledger.session("s")
        await session.id()
        await session.compact()
        await session.append("user", "Bye.")
        assert [entry.position async for entry in (await ledger.history.log()).all()]
        async for _ in ledger.history.follow(1):
            break
        await (await ledger.at(2)).memories.list()
        await ledger.undo(memory.position, cascade=True)
        await ledger.jobs.run()
        await ledger.maintenance.rebuild()
        await ledger.proof.verify()
        await ledger.position()
        assert ledger.path and ledger.id and ledger.guards.redactions is not None
    assert touched == []


@running
async def test_many_readers_wait_for_no_writer(path):
    async with opened(path) as ledger:
        await ledger.remember("The user likes tea.")
        with probe.writer_held(probe.plain(ledger)):
            waiting = asyncio.create_task(ledger.remember("Later."))
            packs = await asyncio.gather(*(ledger.recall("tea") for _ in range(100)))
            assert not waiting.done()
        assert {len(pack.items) for pack in packs} == {1}
        await waiting


@running
async def test_a_model_is_asked_while_others_write(path):
    asked, go_on = threading.Event(), threading.Event()

    def model(request):
        asked.set()
        go_on.wait()
        raise OSError("no answer")

    async with opened(path, model=model) as ledger:
        turn = await ledger.capture("I live in Lisbon.", "Noted.")
        extracting = asyncio.create_task(ledger.extract(turn.id, timeout=60))
        await asyncio.to_thread(asked.wait)
        await ledger.remember("Written meanwhile.")
        assert not extracting.done()
        go_on.set()
        with pytest.raises(ModelError):
            await extracting


@running
async def test_a_users_own_scanner_does_not_run_on_the_writer_thread(path):
    class Scanner:
        name = "mine"
        threads: ClassVar[set[str]] = set()

        def scan(self, text):
            self.threads.add(threading.current_thread().name)
            return ()

    scanner = Scanner()
    async with opened(path, scanners=[scanner]) as ledger:
        await ledger.remember("The user likes green tea.")
    assert scanner.threads and all(name.startswith("ledger-worker") for name in scanner.threads)


@running
async def test_two_ledgers_on_one_file_write_at_once(path):
    async with opened(path) as ledger, await AsyncLedger.open(path) as other:
        works = [each.remember(f"The memory {number}.") for number in range(100) for each in (ledger, other)]
        answers = await asyncio.gather(*works)
        assert sorted(answer.position for answer in answers) == list(range(2, 202))
        assert sum(answer.absorbed for answer in answers) == 100


def test_one_ledger_serves_several_event_loops(path):
    ledger = asyncio.run(AsyncLedger.open(path))

    async def write(number):
        await asyncio.gather(*(ledger.remember(f"The memory {number} {each}.") for each in range(10)))

    threads = [threading.Thread(target=lambda n=n: asyncio.run(write(n))) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    asyncio.run(ledger.aclose())
    with Ledger.open(path) as plain:
        assert len(contents(plain)) == 40


# --- waiting ---------------------------------------------------------------------------------------------------------


@running
async def test_follow_gives_each_event_that_is_committed(path):
    async with opened(path) as ledger:

        async def three():
            seen = []
            async for entry in ledger.history.follow(1, types=["MemoryCaptured"]):
                seen.append(entry.data.content)
                if len(seen) == 3:
                    return seen
            return None

        following = [asyncio.create_task(three()) for _ in range(5)]
        for number in range(3):
            await ledger.remember(f"The memory {number}.")
        assert await asyncio.gather(*following) == [[f"The memory {number}." for number in range(3)]] * 5


@running
async def test_more_waits_than_threads_leave_the_reads_alone(path):
    async with opened(path) as ledger:
        waits = [asyncio.create_task(ledger.history.wait(2)) for _ in range(40)]
        ended = threading.Event()
        stopped = asyncio.create_task(ledger.history.wait(1_000, cancel=ended))
        assert len(await ledger.memories.list()) == 0
        await ledger.remember("One.")
        assert await asyncio.gather(*waits) == [True] * 40
        ended.set()
        assert await stopped is False
        with pytest.raises(RejectedError, match="cancel"):
            await ledger.history.wait(1_000, cancel=5)  # type: ignore[arg-type]


@running
async def test_a_cancelled_wait_and_the_end_of_the_ledger_end_their_threads(path):
    async with opened(path) as ledger:
        wait = asyncio.create_task(ledger.history.wait(1_000))

        async def follow():
            return [entry async for entry in ledger.history.follow()]

        following = asyncio.create_task(follow())
        await asyncio.sleep(0.05)
        wait.cancel()
    assert await following == []
    while any(thread.name.startswith("ledger-") for thread in threading.enumerate()):
        await asyncio.sleep(0.01)


@running
async def test_work_reports_each_pass_until_the_iteration_ends(path):
    async with opened(path) as ledger:
        await ledger.capture("I live in Lisbon.", "Noted.")
        reports = [report async for report in ledger.jobs.work()]
        assert len(reports) >= 1
        async for _ in ledger.jobs.work(follow=True):
            break


@running
async def test_the_end_of_the_ledger_ends_work_between_two_pieces(path):
    begun, go_on = threading.Event(), threading.Event()

    def model(request):
        begun.set()
        go_on.wait()
        return "[]"

    async with opened(path, model=model) as ledger:
        await ledger.capture("I live in Lisbon since March.", "Noted.")

        async def work():
            return [report async for report in ledger.jobs.work(follow=True)]

        working = asyncio.create_task(work())
        await asyncio.to_thread(begun.wait)
    go_on.set()
    assert len(await working) <= 1


# --- the end ---------------------------------------------------------------------------------------------------------


@running
async def test_a_close_waits_for_what_is_under_way_and_refuses_what_comes_later(path):
    ledger = await AsyncLedger.open(path)
    with probe.writer_held(probe.plain(ledger)) as wait_for:
        tasks = [asyncio.create_task(ledger.remember(f"The memory {number}.")) for number in range(10)]
        tasks += [asyncio.create_task(ledger.capture(f"The turn {number}.", "Yes.")) for number in range(10)]
        await asyncio.sleep(0)
        await asyncio.to_thread(wait_for, 20)
        closing = asyncio.create_task(ledger.aclose())
        await asyncio.sleep(0)
        for late in (ledger.remember("Late."), ledger.memories.list(), ledger.capture("Late."), ledger.history.wait(1)):
            with pytest.raises(RejectedError, match="closed"):
                await late
    answers = await asyncio.gather(*tasks)
    await closing
    await ledger.aclose()
    assert all(answer.reinforcement == "done" for answer in answers[10:])
    with Ledger.open(path) as plain:
        agrees(plain)
        assert (len(contents(plain)), len(plain.interactions.list())) == (10, 10)


@running
async def test_tasks_that_write_while_the_ledger_closes_lose_no_answer(path):
    ledger, answered = await AsyncLedger.open(path), []

    async def write(task):
        for number in range(10_000):
            try:
                answered.append((await ledger.remember(f"The memory {task} {number}.")).content)
            except RejectedError as error:
                return error.rule
        return "never closed"

    tasks = [asyncio.create_task(write(number)) for number in range(TASKS)]
    while len(answered) < 200:
        await asyncio.sleep(0.001)
    await ledger.aclose()
    assert set(await asyncio.gather(*tasks)) == {"closed"}
    with Ledger.open(path) as plain:
        assert contents(plain) == set(answered)


def test_an_event_loop_that_ended_before_the_answer_harms_nobody(path):
    ledger = asyncio.run(AsyncLedger.open(path))

    async def leave():
        asyncio.get_running_loop().call_soon(asyncio.get_running_loop().stop)
        await ledger.remember("Nobody waits.")

    loop = asyncio.new_event_loop()
    with probe.writer_held(probe.plain(ledger)):
        task = loop.create_task(leave())
        loop.run_forever()
        task.cancel()
        loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
        loop.close()
    assert asyncio.run(ledger.memories.list()) is not None
    asyncio.run(ledger.aclose())
    with Ledger.open(path) as plain:
        assert contents(plain) == {"Nobody waits."}
    gc.collect()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
