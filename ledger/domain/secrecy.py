"""The secrets in a text, for rules and errors."""


def redacted(text: str) -> str:
    """Return a text with marks for its secrets; the name of the scanner beside the kind of a secret is none."""
    from ledger.domain.scan import secrets  # with the first text, because the scanner reads a file of patterns

    hits = secrets.scan(text)
    return secrets.redacted(text, [hit for hit in hits if text[hit.start : hit.end].strip("(),.;:") != secrets.NAME])
