"""Rescue: backup and recovery, the doctor, and the mending of damaged projections."""
