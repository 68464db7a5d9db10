"""The contract of a shared log, on every log that keeps it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from shared_rows import START, erasing, locked, publication, rows_after, states, write

from ledger.domain.errors import BusyError, ConflictError
from ledger.log.envelope import GENESIS
from ledger.log.shared.port import SharedBlob, SharedLog, Tip
from tools.shared.double import Double, Server

OpenLog = Callable[[str], SharedLog]
TIMEOUT_SECONDS = 1.0


def in_postgres(request: pytest.FixtureRequest) -> OpenLog:
    url, tenant = request.getfixturevalue("shared_url"), request.getfixturevalue("tenant")
    from ledger.log.shared.postgres import PostgresLog

    return lambda machine: PostgresLog(url, tenant, machine, timeout_seconds=TIMEOUT_SECONDS)


def in_memory(request: pytest.FixtureRequest) -> OpenLog:
    server = Server()
    return lambda machine: Double(server, machine, busy_seconds=TIMEOUT_SECONDS)


KINDS = {"memory": in_memory, "postgres": in_postgres}
only_of_a_server = pytest.mark.parametrize(
    "open_log", ["postgres"], indirect=True
)  # the double leaves that to its tests


@pytest.fixture(params=KINDS)
def open_log(request: pytest.FixtureRequest) -> Iterator[OpenLog]:
    """Open the log of one tenant as a machine."""
    kind = KINDS[request.param](request)
    logs: list[SharedLog] = []

    def opened(machine: str) -> SharedLog:
        logs.append(kind(machine))
        return logs[-1]

    yield opened
    for log in logs:
        log.close()


@pytest.fixture
def log(open_log: OpenLog) -> SharedLog:
    return open_log("ada")


def test_a_new_log_is_empty(log: SharedLog) -> None:
    tail = locked(log)
    assert (tail.tip, tail.head_there, list(tail.rows), list(tail.blobs), tail.is_cut) == (
        START,
        GENESIS,
        [],
        [],
        False,
    )
    log.release()
    assert log.tail(0, 10).tip == START


def test_what_was_published_is_read_as_it_was_written(log: SharedLog, open_log: OpenLog) -> None:
    tail = locked(log)
    rows = rows_after(tail.tip, '{"text":"back\\\\slash, \\"quoted\\", it\'s"}', '{"text":"Zürich 東京 😀 %s $1"}')
    blobs = [SharedBlob("b_1", 2, bytes(range(256)), None), SharedBlob("b_2", 2, b"", None)]
    log.publish(publication(tail.tip, rows, blobs))
    other = open_log("bob").tail(0, 10)
    assert list(other.rows) == rows
    assert list(other.blobs) == blobs
    assert other.tip == Tip(2, rows[1].head)


def test_a_commit_without_the_lock_is_written_only_where_the_log_ends(log: SharedLog, open_log: OpenLog) -> None:
    end = write(log, "1")
    assert open_log("bob").append(publication(end, rows_after(end, "2"), [SharedBlob("b_1", 2, b"x", None)]))
    late = publication(end, rows_after(end, "another 2"), [SharedBlob("b_2", 2, b"x", None)])
    assert not log.append(late)
    another = Tip(2, b"x" * 32)
    assert not log.append(publication(another, rows_after(another, "3")))
    tail = log.tail(0, 10)
    assert (states(tail), [blob.id for blob in tail.blobs]) == (["1", "2"], ["b_1"])
    locked(log, tail.tip)


def test_a_commit_without_the_lock_waits_for_who_has_it(log: SharedLog, open_log: OpenLog) -> None:
    end = write(log, "1")
    locked(log, end)
    with pytest.raises(BusyError):
        open_log("bob").append(publication(end, rows_after(end, "2")))
    log.release()
    assert open_log("bob").append(publication(end, rows_after(end, "2")))


def test_a_tail_begins_behind_the_position_and_tells_the_head_there(log: SharedLog) -> None:
    write(log, "1", "2", "3")
    tail = log.tail(2, 10)
    assert states(tail) == ["3"]
    assert tail.head_there == log.tail(0, 10).rows[1].head
    assert log.tail(3, 10).head_there == tail.tip.head


def test_a_log_that_ends_before_the_position_tells_no_head_there(log: SharedLog) -> None:
    write(log, "1")
    tail = locked(log, Tip(5, b"x" * 32))
    log.release()
    assert (tail.head_there, tail.tip.position, list(tail.rows)) == (None, 1, [])


def test_a_tail_that_is_cut_has_as_many_rows_as_the_limit(log: SharedLog) -> None:
    write(log, *"12345")
    assert [(states(tail), tail.is_cut) for tail in (log.tail(1, 3), log.tail(2, 3), log.tail(0, 1))] == [
        (["2", "3", "4"], True),
        (["3", "4", "5"], False),
        (["1"], True),
    ]


def test_a_tail_that_is_cut_has_the_blobs_of_its_rows(log: SharedLog) -> None:
    write(log, "1", blobs=[("b_1", b"1")])
    write(log, "2", blobs=[("b_2", b"2")])
    assert [blob.id for blob in log.tail(0, 1).blobs] == ["b_1"]
    assert [blob.id for blob in log.tail(1, 5).blobs] == ["b_2"]


def test_a_lock_whose_tail_is_cut_is_let_go(log: SharedLog, open_log: OpenLog) -> None:
    write(log, *"12345")
    assert log.lock(0, GENESIS, 2).is_cut
    locked(open_log("bob"))


def test_a_log_that_is_locked_is_busy_for_others_and_is_read_by_all(log: SharedLog, open_log: OpenLog) -> None:
    write(log, "1")
    locked(log)
    with pytest.raises(BusyError):
        locked(open_log("bob"))
    assert states(open_log("bob").tail(0, 5)) == ["1"]
    log.release()
    assert states(locked(open_log("bob"))) == ["1"]


def test_who_waits_for_the_lock_gets_the_tail_that_came_meanwhile(log: SharedLog, open_log: OpenLog) -> None:
    tail, waited = locked(log), []
    bob = open_log("bob")

    def wait() -> None:
        waited.append(locked(bob))
        bob.release()

    thread = threading.Thread(target=wait)
    thread.start()
    log.publish(publication(tail.tip, rows_after(tail.tip, "of ada")))
    thread.join()
    assert states(waited[0]) == ["of ada"]


def test_a_release_leaves_nothing(log: SharedLog) -> None:
    locked(log)
    log.release()
    log.release()
    assert log.tail(0, 5).tip == START


@only_of_a_server
def test_rows_that_do_not_follow_the_last_are_refused(log: SharedLog) -> None:
    tip = write(log, "1")
    locked(log, tip)
    with pytest.raises(ConflictError):
        log.publish(publication(Tip(5, tip.head), rows_after(Tip(5, tip.head), "a gap")))
    locked(log, tip)
    with pytest.raises(ConflictError):
        log.publish(publication(START, rows_after(START, "again")))
    assert states(log.tail(0, 5)) == ["1"]


@only_of_a_server
def test_after_a_refusal_the_lock_is_free(log: SharedLog, open_log: OpenLog) -> None:
    tip = write(log, "1")
    locked(log, tip)
    with pytest.raises(ConflictError):
        log.publish(publication(START, rows_after(START, "again")))
    locked(open_log("bob"), tip)


@only_of_a_server
def test_a_commit_is_written_whole_or_not_at_all(log: SharedLog) -> None:
    write(log, "1", blobs=[("b_1", b"1")])
    tail = locked(log)
    with pytest.raises(ConflictError):
        log.publish(publication(tail.tip, rows_after(tail.tip, "2"), [SharedBlob("b_1", 2, b"again", None)]))
    assert states(log.tail(0, 5)) == ["1"]


def test_a_shared_log_takes_2500_events_in_one_commit(log: SharedLog) -> None:
    numbers = [str(number) for number in range(2500)]
    assert write(log, *numbers).position == 2500
    assert states(log.tail(0, 5000)) == numbers


def test_an_erasure_takes_texts_and_blobs_in_the_same_commit(log: SharedLog, open_log: OpenLog) -> None:
    write(log, "secret", "public", blobs=[("b_1", b"secret"), ("b_2", b"public")])
    tail = locked(log)
    erased = rows_after(tail.tip, by := erasing((1, "[gone]"), blobs=["b_1"]), type_="ContentErased")
    log.publish(publication(tail.tip, erased, (), [(1, "[gone]", 3)], [("b_1", 3)]))
    after = open_log("bob").tail(0, 5)
    assert states(after) == ["[gone]", "public", by]
    assert [row.erased_by for row in after.rows] == [3, None, None]
    assert [(blob.id, blob.data, blob.erased_by) for blob in after.blobs] == [
        ("b_1", None, 3),
        ("b_2", b"public", None),
    ]
    assert [row.head for row in after.rows[:2]] == [row.head for row in tail.rows]


def test_a_blob_is_erased_once(log: SharedLog) -> None:
    write(log, "1", blobs=[("b_1", b"secret")])
    for position in (2, 3):
        tail = locked(log)
        log.publish(
            publication(
                tail.tip,
                rows_after(tail.tip, erasing(blobs=["b_1"]), type_="ContentErased"),
                (),
                (),
                [("b_1", position)],
            )
        )
    assert log.tail(0, 5).blobs == [SharedBlob("b_1", 1, None, 2)]


def test_a_snapshot_is_one_moment(log: SharedLog) -> None:
    numbers = [str(number) for number in range(2100)]
    tip = write(log, *numbers, blobs=[(f"b_{number}", b"x") for number in range(40)])
    with log.snapshot() as (end, rows, blobs):
        write(log, "later", blobs=[("b_later", b"x")])
        assert end == tip
        assert [row.state for row in rows] == numbers
        assert len(list(blobs)) == 40


def test_a_snapshot_of_an_empty_log_is_empty(log: SharedLog) -> None:
    with log.snapshot() as (end, rows, blobs):
        assert (end, list(rows), list(blobs)) == (START, [], [])


def test_replicas_tell_their_lag_and_the_erasures_that_they_have_not_done(log: SharedLog, open_log: OpenLog) -> None:
    write(log, "1", "2")
    write(log, "erases", type_="ContentErased")
    log.report(3, 3)
    open_log("bob").report(1, 0)
    assert [(each.machine, each.position, each.lag, each.erasures_pending) for each in log.replicas()] == [
        ("ada", 3, 0, 0),
        ("bob", 1, 2, 1),
    ]
    open_log("bob").report(2, 3)
    assert [(each.machine, each.lag, each.erasures_pending) for each in log.replicas()][1] == ("bob", 1, 0)


def test_a_lease_has_one_holder(log: SharedLog, open_log: OpenLog) -> None:
    bob = open_log("bob")
    assert log.take_lease("sessions", "ada-1", 60)
    assert log.take_lease("sessions", "ada-1", 60)
    assert not bob.take_lease("sessions", "bob-1", 60)
    assert not bob.renew_lease("sessions", "bob-1", 60)
    assert bob.take_lease("compact", "bob-1", 60)
    bob.give_back_lease("sessions", "bob-1")
    assert log.renew_lease("sessions", "ada-1", 60)
    log.give_back_lease("sessions", "ada-1")
    assert bob.take_lease("sessions", "bob-1", 60)


@only_of_a_server
def test_a_lease_that_ran_out_is_taken_by_another_and_else_renewed(log: SharedLog) -> None:
    assert log.take_lease("sessions", "ada-1", 0)
    assert log.renew_lease("sessions", "ada-1", 0)
    assert log.take_lease("sessions", "bob-1", 60)
    assert not log.renew_lease("sessions", "ada-1", 60)


@only_of_a_server
def test_a_follower_hears_of_a_commit_of_another_machine(log: SharedLog, open_log: OpenLog) -> None:
    heard = threading.Event()
    stop = open_log("bob").follow(lambda tip: heard.set())
    try:
        assert heard.wait(30)
        heard.clear()
        write(log, "1")
        assert heard.wait(30)
    finally:
        stop()
    stop()
