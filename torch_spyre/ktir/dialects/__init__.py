"""The dialects of KTIR: `ktdp`, `spyreop`, and xDSL's standard dialects with additions."""
