"""What turns and sessions say becomes candidates for review."""
