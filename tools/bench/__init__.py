"""The benchmarks: ``tools/dev.py bench`` prints the tables of ``ledger/docs/measured.md``."""
