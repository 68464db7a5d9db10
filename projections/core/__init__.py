"""The code that keeps the tables of the projections equal to the log: projector, tables, rebuild, and reads of the past."""
