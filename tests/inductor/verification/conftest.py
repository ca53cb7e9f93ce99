from kernel_fixtures import with_kernels  # noqa: F401  (a fixture)
