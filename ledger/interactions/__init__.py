"""What people asked, and what was answered."""
