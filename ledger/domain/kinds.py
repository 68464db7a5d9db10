"""The kinds of memories. A kind of another name is kept as a word of the caller's own."""

from __future__ import annotations

KINDS = (
    *("identity", "preference", "project", "episodic", "knowledge", "adaptation"),  # as in ATOCore
    *("user_profile", "fact", "env"),  # as in rubino, which also has preference and project
    *("rule", "goal"),  # what an agent has to heed, and what is to be reached
)
SYNONYMS = {  # older names of rubino for some of its kinds
    "project_context": "project",
    **dict.fromkeys(("technical_decision", "task_state", "tool_result"), "fact"),
}
