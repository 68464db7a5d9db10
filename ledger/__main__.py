"""``python -m ledger`` is ``memory-ledger``."""

from ledger.cli import main

if __name__ == "__main__":
    main()
