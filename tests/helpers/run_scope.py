"""The scope of this run. conftest.py sets it before tests are collected."""

# True if the run leaves out the heavy tests.
is_quick = False
