"""A check of the plugin's skills by the reference tool of the Agent Skills specification, the package ``skills-ref``.

Claude Code has fields of its own, which the specification does not allow and no other file of a plugin can hold. They are named,
and the rest of the skill is checked.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SKILLS = Path(__file__).resolve().parent.parent.parent / "ledger/doors/plugin/claude/skills"
OF_CLAUDE_CODE = {"learn": ("context", "model")}  # runs the skill apart from the conversation, with a small model


def main() -> int:
    failed = False
    for skill in sorted(SKILLS.iterdir()):
        problem = found(skill)
        failed = failed or problem != ""
        own = OF_CLAUDE_CODE.get(skill.name, ())
        print(f"{skill.name}: {problem or 'valid'}" + (f", but for {' and '.join(own)} of Claude Code" if own else ""))
    return int(failed)


def found(skill: Path) -> str:
    """Return what the tool says of a skill without the fields of Claude Code, or "" if the skill is valid."""
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(skill, Path(folder, skill.name))
        text = (copy / "SKILL.md").read_text(encoding="utf-8")
        for field in OF_CLAUDE_CODE.get(skill.name, ()):
            text, number = re.subn(rf"^{field}: .+\n", "", text, count=1, flags=re.MULTILINE)
            if not number:
                return f"has no field {field} any more, so {Path(__file__).name} need not name it"
        (copy / "SKILL.md").write_text(text, encoding="utf-8")
        tool = Path(sys.executable).with_name("agentskills")
        done = subprocess.run([tool, "validate", copy], capture_output=True, text=True)
        return "" if done.returncode == 0 else (done.stdout + done.stderr).strip()


if __name__ == "__main__":
    raise SystemExit(main())
