"""Works that are done all at once."""

from __future__ import annotations

import threading


def together(*works):
    """Run each work in a thread of its own, all at once, and return the errors that they raised."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(works))

    def run(work):
        try:
            barrier.wait()
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors
