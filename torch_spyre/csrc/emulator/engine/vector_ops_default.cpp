// The vector instructions for any host.
#define SPYRE_KERNEL_NAMESPACE kernels_default
#define SPYRE_KERNEL_NAME "default"
#include "emulator/engine/vector_kernels.inc"
