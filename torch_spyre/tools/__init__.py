"""The command `spyre`: one file per subcommand, put together in `cli.py`."""
