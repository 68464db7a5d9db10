"""``python -m ledger``, which is the same as ``memory-ledger``."""

from ledger.cli.app import main

if __name__ == "__main__":
    main()
