"""The secrets in a text, for rules and errors. The scanner lies in ``ledger/guards`` and imports no rule and no error."""


def redacted(text: str) -> str:
    """Return a text with marks for its secrets."""
    from ledger.guards import secrets  # with the first text, because the scanner reads a file of patterns

    return secrets.redacted(text, secrets.scan(text))
