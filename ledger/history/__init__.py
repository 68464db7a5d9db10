"""What happened, who did it, and the same without somebody or something."""
