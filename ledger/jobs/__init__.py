"""Background work: what follows a capture, and workers that do what waits."""
