// The matmul kernels for AVX-512.
#define SPYRE_KERNEL_NAMESPACE kernels_avx512
#define SPYRE_KERNEL_NAME "avx512"
#include "emulator/engine/matmul_kernels.inc"
