"""The page to look at: what is believed, why, and what an agent would see, in a browser on this machine.

``serving.serve`` is the command ``memory-ledger web``. ``gate`` decides who gets an answer, ``app`` turns an address into an
answer, ``beliefs`` and ``pages`` ask the ledger, ``acts`` changes it, and the templates show the answers. Everything here uses
the public API of the library. Needs the extra ``web``.
"""
