"""Device programs: their instructions, their file form, their listing, their cache."""
