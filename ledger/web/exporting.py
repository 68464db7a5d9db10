"""A page as one file of HTML: the same templates, without links, forms and script."""

from __future__ import annotations

import re

from ledger import Ledger, PastLedger, RejectedError
from ledger.web.app import PAGES, html_of
from ledger.web.asking import Desk, WebQuestion
from ledger.web.gate import WebSession
from ledger.web.rendering import POLICY, environment

QUESTIONS = {"beliefs": "q", "agent": "q", "timeline": "actor"}  # the filter that a subject is, of pages without one
_ID = re.compile("[a-z]_[0-9a-z]{3,}")  # of a subject, whose timeline is the answer of its audit
LEFT_OUT = ("form", "script", "footer", "nav")  # elements of the templates that a file has not
_LINK = re.compile(r'(<a\b[^<>]*?) href="/[^"]*"')


def export_html(ledger: Ledger, page: str = "beliefs", subject: str = "", *, as_of: str | None = None) -> str:
    """Return a page of ``memory-ledger web`` as one text of HTML that needs nothing else.

    Args:
        ledger: The open ledger, bound to the user whose memory is shown.
        page: "beliefs", "belief", "session", "agent" (the prompt of an agent), "timeline", "review", "held" or "trust".
        subject: The id of the belief, the session, the question of the agent, the words of beliefs, or of the timeline an
            actor or the id of what it is about (the answer of its audit).
        as_of: The moment to show: a position, or a time with its offset; None for now.

    Raises:
        RejectedError: There is no such page, or it needs a subject.
        NotFoundError: This user has no such subject.
    """
    if (found := PAGES.get(page)) is None:
        raise RejectedError(f"there is no page {page!r:.40}; {', '.join(PAGES)} are")
    if not found.label and not subject:
        raise RejectedError(f"the page {page!r} needs a subject: the id of a belief, or a session")
    if isinstance(ledger, PastLedger):
        raise RejectedError("name the moment by as_of, and hand in the ledger itself")
    name = "subject" if page == "timeline" and _ID.match(subject) else QUESTIONS.get(page)
    filters = [(name, subject)] if name and subject else []
    desk = Desk(ledger, WebSession(), "", as_of=as_of)
    asked = WebQuestion(desk, f"/{page}", filters, subject)
    text = html_of(environment(), found.view(asked), asked)
    policy = POLICY.partition("; script-src")[0]
    text = text.replace("<title>", f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<title>', 1)
    for element in LEFT_OUT:  # texts are escaped, so each < begins a tag of the templates
        first, *others = text.split(f"<{element}")
        text = first + "".join(each.partition(f"</{element}>")[2] for each in others)
    return _LINK.sub(r"\1", text)
