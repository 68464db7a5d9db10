"""Any sequence of commands on sessions, by the machine that plays them."""

from __future__ import annotations

from hypothesis import settings
from session_machine import LONG, Sessions

TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=100 if LONG else 6, stateful_step_count=40 if LONG else 12, deadline=None)
