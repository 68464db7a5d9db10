"""How fast it is: the tables of ``ledger/docs/measured.md``, by ``tools/dev.py bench``."""
