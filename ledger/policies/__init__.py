"""Whenever something was recorded, ask for what follows from it: reinforcement, extraction, expiry."""
