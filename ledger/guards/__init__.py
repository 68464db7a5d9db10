"""The guards: scanners that search each text for secrets and threats before it is recorded, and the quarantine."""
