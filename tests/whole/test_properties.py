"""Any sequence of commands: what the commands folded, what a rebuild folds, and the oracle all agree."""

from __future__ import annotations

import tempfile
from contextlib import suppress

import probe
import pytest
from commands import START, TEXTS, USERS
from conftest import LONG
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test
from machine import PROJECTS, LedgerMachine, numbers
from places import QUICK
from soundness import problems, types

from ledger import Ledger, LedgerError
from projections.core import rebuild


@pytest.mark.slow
def test_the_ledger_and_the_oracle_agree():
    run_state_machine_as_test(
        LedgerMachine,
        settings=settings(
            max_examples=600 if LONG else 6,  # the crash harness runs 2,000 steps of it, in the same task
            stateful_step_count=60 if LONG else 35,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


# --- folding in any rhythm -------------------------------------------------------------------------------------------

actions = st.lists(
    st.tuples(
        st.sampled_from(
            ("remember", "propose", "promote", "reject", "adjust", "reinforce", "supersede", "retract", "restore", "state",
             "alias", "capture", "extract", "undo", "redo", "policy")
        ),
        st.sampled_from(TEXTS),
        numbers,
        st.sampled_from(USERS[:2]),
    ),
    max_size=30,
)  # fmt: skip


def act(ledger, action, text, number, user):
    """One command; the same on every ledger that went the same way so far. A refusal is an answer too."""
    asked = ledger.bind(user=user)
    memories = asked.memories.list(statuses=())
    id = memories[number % len(memories)].id if memories else "m_0000000000000000"
    turns = asked.interactions.list()
    turn = turns[number % len(turns)].id if turns else "i_0000000000000000"
    calls = {
        "remember": lambda: asked.remember(text, project=PROJECTS[number % 3]),
        "propose": lambda: asked.propose(text),
        "adjust": lambda: asked.memories.set_confidence(id, number / 10_000),
        "supersede": lambda: asked.supersede(id, text),
        "state": lambda: asked.projects.set_state("Home", "fact", "x", text),
        "alias": lambda: asked.projects.add_alias("Home", "casa"),
        "capture": lambda: asked.capture("What?", text, project="Home", session="s"),
        "extract": lambda: asked.extract(turn),
        "undo": lambda: asked.undo(1 + number % ledger.position, cascade=True),
        "redo": lambda: asked.redo(1 + number % ledger.position),
        "policy": lambda: asked.policy.set(gain=(number % 10) / 100),
    }
    with suppress(LedgerError):
        calls.get(action, lambda: getattr(asked, action)(id))()


@pytest.mark.slow
@settings(max_examples=300 if LONG else 10, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    actions=actions, batch=st.sampled_from((1, 7, 1_000)), tail=st.sampled_from((0, 1, 1_000)), cut=st.integers(0, 30)
)
def test_one_by_one_and_in_a_batch_and_by_a_rebuild_of_any_rhythm_fold_the_same(actions, batch, tail, cut):
    kept = rebuild.BATCH, rebuild.TAIL
    with tempfile.TemporaryDirectory(dir=QUICK) as folder:
        options = {"clock": lambda: START}
        with Ledger.open(f"{folder}/one.db", **options) as one, Ledger.open(f"{folder}/all.db", **options) as all_:
            for action in actions:
                act(one, *action)
            with all_.batch():
                for action in actions[:cut]:
                    act(all_, *action)
            all_.jobs.run(jobs=("reinforcement", "extraction", "expiry"))
            for action in actions[cut:]:
                act(all_, *action)
            try:
                rebuild.BATCH, rebuild.TAIL = batch, tail
                for each in (one, all_):
                    assert problems(each) == []
                    folded = each.proof.digest()
                    assert probe.rebuild(each).digest == folded
            finally:
                rebuild.BATCH, rebuild.TAIL = kept
            if not any(action[0] in ("capture", "undo", "redo") for action in actions):
                assert types(one) == types(all_)
                # Ids and secrets are random; what people see is not.
                for user in USERS[:2]:
                    listed = [each.bind(user=user).memories.list(statuses=()) for each in (one, all_)]
                    shown = [
                        [(m.content, m.status, m.confidence, m.project, m.position) for m in each] for each in listed
                    ]
                    assert shown[0] == shown[1]
