from kernel_fixtures import (  # noqa: F401  (fixtures)
    guards_are_not_timed,
    kernels_made,
    memory_was_used_before,
    native,
    verified_kernels,
    with_kernels,
)
