"""Random lives of three machines; ``tools/shared/lives.py`` plays many long ones."""

from __future__ import annotations

import pytest

from tools.shared.life import ERASE_EACH, UNDO_EACH, command
from tools.shared.lives import Life


@pytest.mark.parametrize("seed", range(2))
def test_machines_over_a_real_server_are_equal_in_the_end(tmp_path, server, seed):
    from tools.shared.real import RealMachines

    life = Life(tmp_path, seed, RealMachines(tmp_path, server))
    life.play(40)
    assert len(life.done) > 8


@pytest.mark.parametrize("seed", range(2))
def test_machines_that_lag_at_random_are_equal_in_the_end(tmp_path, seed):
    life = Life(tmp_path, seed)
    life.play(40)
    assert len(life.done) > 8


@pytest.mark.parametrize("number", [1, UNDO_EACH, ERASE_EACH])
def test_a_machine_of_the_kill_loop_may_repeat_any_of_its_commands(machines, number):
    a = machines.open("a")
    for _ in range(3):
        command(a, "a", number)
    assert len(a.memories.list()) == (number == 1)
