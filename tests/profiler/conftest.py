from profiles import traced  # noqa: F401  (fixture)
