"""The dialects that a KTIR module may use: `ktdp` and `spyreop`, and xDSL's own with additions."""
