"""A lease of a job, an extraction or a compaction is one of all machines; a rebuild's is of one file."""

from __future__ import annotations

import probe

from ledger.log.lease import leased
from tools.shared.double import assert_equal


def test_a_lease_keeps_other_machines_out_until_it_ends(machines):
    a, b = (probe.store(machines.open(name)) for name in "ab")
    with leased(a, "compact x", 60) as lease:
        assert lease is not None
        (holder,) = machines.server.leases.values()
        assert holder.startswith("a-")
        with leased(b, "compact x", 60) as other, leased(b, "compact y", 60) as free:
            assert (other, free is not None) == (None, True)
        assert lease.renew()
    with leased(b, "compact x", 60) as lease:
        assert lease is not None
    assert machines.server.leases == {}


def test_two_machines_do_each_pending_piece_of_a_job_once(machines):
    a, b = machines.open("a"), machines.open("b")
    a.remember("Ada likes green tea")
    with a.batch():
        a.capture("Tea?", "Ada likes green tea, I know.")
    machines.news()
    reports = [next(iter(ledger.jobs.work())) for ledger in (a, b)]
    assert sum(report.reinforced_interactions for report in reports) == 1
    machines.news()
    assert_equal(a, b)


def test_two_machines_rebuild_at_the_same_time(machines):
    a, b = machines.open("a"), machines.open("b")
    a.remember("Ada likes green tea")
    with probe.store(a).transact() as transaction:
        transaction.connection.execute("INSERT INTO leases VALUES ('rebuild', 'x', 9e9)")
        b.maintenance.rebuild()
    machines.news()
    assert_equal(b)
