"""The rule "claims/1": what a model says its tools cannot do, which outlives the failure that it was said after.

"The edit tool fails on large files" is true of one moment and one machine; as a memory it keeps an agent from trying again.
rubino refuses such claims where facts are inserted; its pattern is not known, so this one is ours. It is applied to what is
extracted, never to what a person writes.
"""

from __future__ import annotations

import re

NAME = "claims/1"

_TOOL = (
    r"(?:(?:(?:the|a|an|this|that|my|our|its|your)\s+)?(?:[\w./-]+\s+){0,3}?(?:tool|command|function|"
    r"plugin|connector|integration|extension|"
    r"mcp(?: server)?|sandbox|terminal|shell|browser|search|api|endpoint|interpreter|editor|file system)s?"
    r"|(?:the\s+)?[`'\"][\w.:/-]+[`'\"](?:\s+\w+)?)"
)
_CANNOT = (
    r"(?:can(?:no|')t|can not|could(?: no|n')t|is (?:un|not )able to|are (?:un|not )able to|isn't able to|"
    r"is not (?:available|working|supported|allowed|functional|usable)|"
    r"isn't (?:available|working|supported|allowed)|is (?:broken|unavailable|disabled|unusable|missing|"
    r"unsupported|down|blocked)|"
    r"(?:always |often |usually |sometimes )?fail(?:s|ed)?\b|does(?: no|n')t (?:support|work|allow|handle|"
    r"have|exist|run|accept|recogni[sz]e|return)|"
    r"do(?: no|n')t (?:support|work|allow|handle|exist)|did(?: no|n')t (?:work|run)|won't (?:work|run|"
    r"accept)|will not (?:work|run)|has no (?:access|support)|"
    r"lacks (?:access|support|permission)|times? out|timed out|returns? (?:an? )?(?:errors?|nothing)|"
    r"crashe[sd]|throws|refuses to)"
)
_WHO = r"(?:i|the (?:assistant|agent|model|ai|bot)|this (?:agent|assistant|environment|sandbox))"
_OWN = (
    rf"\b{_WHO} (?:can(?:no|')t|can not|do(?:es)? not have|don't have|doesn't have|ha(?:ve|s) no|"
    rf"am not able to|am unable to|is (?:not able|unable) to|lacks?)\b"
    r".{0,40}\b(?:access|tools?|browse|internet|open|read|write|execute|run|edit|files?|network|"
    r"permission|commands?|images?|shell)\b"
)
_CLAIM = re.compile(rf"(?<!\w){_TOOL}\s+(?:currently\s+|also\s+|still\s+|just\s+)?{_CANNOT}|{_OWN}", re.IGNORECASE)


def is_tool_limitation(text: str) -> bool:
    """Whether a text claims that a tool, or the agent itself, cannot do something."""
    return _CLAIM.search(text) is not None
