"""The erasure of texts for good, from the log, the projections and the files, and the legal holds that prevent it."""
