from kernel_fixtures import (  # noqa: F401  (fixtures)
    compiled_kernels,
    guards_are_not_timed,
    memory_was_used_before,
    no_fallbacks,
    verified_kernels,
    with_kernels,
)
