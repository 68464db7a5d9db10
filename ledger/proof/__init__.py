"""Proof: what a log can show to others, and the checks that take nothing for granted."""
