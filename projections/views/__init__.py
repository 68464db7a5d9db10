"""The tables that commands and reads use, with one file for each projection or family of tables."""
