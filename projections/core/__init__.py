"""The machinery that keeps tables equal to the log: projector, tables, rebuild, the past."""
