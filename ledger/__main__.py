"""``python -m ledger`` is ``memory-ledger``."""

from ledger.cli.app import main

if __name__ == "__main__":
    main()
