"""Background work: the jobs after a capture, and workers for everything that is pending."""
