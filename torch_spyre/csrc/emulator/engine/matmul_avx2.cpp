// The matmul kernels for AVX2.
#define SPYRE_KERNEL_NAMESPACE kernels_avx2
#define SPYRE_KERNEL_NAME "avx2"
#include "emulator/engine/matmul_kernels.inc"
