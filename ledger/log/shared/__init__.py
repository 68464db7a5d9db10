"""A log that many machines share: the port that the writer speaks to, and its PostgreSQL side."""
