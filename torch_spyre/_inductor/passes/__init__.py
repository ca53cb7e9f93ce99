"""Passes over bundles, one file each. Their order is the table in `pipeline.py`."""
