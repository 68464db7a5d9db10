"""Play random lives of three machines that share a log in memory: python3 -m tools.shared.lives [--lives 200] [--commands 100].

Each machine lags at random, restarts, and loses its connection. In the end the digests of all machines, of a fresh one and of
a rebuilt one are equal, the logs are sound, and every erasure is completed. A seed that fails is named.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from shared_lives import Life


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--lives", type=int, default=200)
    parser.add_argument("--commands", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first life")
    given = parser.parse_args()
    done, refused, started = Counter[str](), 0, time.monotonic()
    for seed in range(given.first, given.first + given.lives):
        with tempfile.TemporaryDirectory() as folder:
            life = Life(Path(folder), seed)
            try:
                life.play(given.commands)
            except BaseException:
                print(f"the life with the seed {seed} failed")
                raise
            done.update(life.done)
            refused += sum(life.refusals.values())
    kinds = ", ".join(f"{name.removeprefix('do_')} {count}" for name, count in done.most_common())
    print(f"{given.lives} lives in {time.monotonic() - started:.0f} s: {kinds}; {refused} commands were refused")


if __name__ == "__main__":
    main()
