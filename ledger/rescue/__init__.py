"""Rescue: backup and recovery, the doctor, and the rebuild that repairs damaged projections."""
