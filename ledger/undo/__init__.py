"""Undo, redo, distrust and trust: the least set of events that takes effect no longer, or again."""
