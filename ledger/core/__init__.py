"""The machinery that runs every command and every read."""
