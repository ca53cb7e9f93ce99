// The conversion kernels for the instructions every CPU of the build's architecture has.
#define SPYRE_KERNEL_NAMESPACE kernels_default
#define SPYRE_KERNEL_NAME "default"
#include "emulator/convert_kernels.inc"
