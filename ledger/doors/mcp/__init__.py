"""A Model Context Protocol server over a ledger, for agents and chat clients that speak MCP: ``memory-ledger mcp``.

``serving`` runs the server over stdio or HTTP, ``server`` puts it together, ``tools`` holds what every agent is offered and
``reviewing`` what a person has to consent to. All need the extra ``mcp``.
"""
