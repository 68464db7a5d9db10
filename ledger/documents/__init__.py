"""Documents: files and texts, cut into chunks that can be cited."""
