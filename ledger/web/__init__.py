"""The page to look at: what is believed, why, and what an agent would see, in a browser on this machine.

``serving.serve`` is the command ``memory-ledger web``. ``gate`` decides who gets an answer, ``app`` turns an address into an
answer, ``beliefs``, ``looking`` and ``told`` ask the ledger, ``acts`` changes it, and the templates show the answers.
``export_html`` makes a file of a page. Everything here uses the public API of the library. Needs the extra ``web``.
"""

from __future__ import annotations

from ledger.web.exporting import export_html as export_html
