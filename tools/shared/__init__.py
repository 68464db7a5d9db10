"""Programs that try a log that machines share; none of it is shipped or part of the tests."""
