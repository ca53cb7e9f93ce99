"""Whether this run leaves out the heavy tests. Set by conftest.py before tests are collected."""

is_quick = False
