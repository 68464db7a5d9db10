"""Programs that try the doors with clients that others wrote; none of it is shipped or part of the tests."""
