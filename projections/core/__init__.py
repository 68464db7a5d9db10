"""How tables are kept equal to the log: projector, tables, rebuild, the past."""
