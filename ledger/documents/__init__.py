"""Files and texts, cut into chunks that can be cited."""
