"""Evaluations of recall, extraction, policies and guards on data with known answers."""
