"""Programs that made the reference values of the tests; none of them is needed to run the tests."""
