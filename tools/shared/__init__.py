"""Programs around a log that machines share in PostgreSQL."""
