"""Ops on the device, as Python sees them."""
