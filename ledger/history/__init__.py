"""The history of a memory: what happened, who did it, undo and distrust, and the beliefs without something."""
