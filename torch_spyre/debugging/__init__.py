"""Tools for finding out why a result is wrong: replaying one kernel, and bisecting a program."""
