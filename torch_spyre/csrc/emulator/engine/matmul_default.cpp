// The matmul kernels for any CPU.
#define SPYRE_KERNEL_NAMESPACE kernels_default
#define SPYRE_KERNEL_NAME "default"
#include "emulator/engine/matmul_kernels.inc"
