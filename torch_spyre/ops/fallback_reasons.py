"""Why ops run on the CPU, and which of them have a kernel for that.

An op that the registry does not list reaches the boxed fallback (`csrc/torch/fallback.cpp`), unless
PyTorch composes it from other ops. `CPU_KERNELS` are ops whose composition would be slower or less
accurate than the op itself: they run whole on the CPU, by `csrc/torch/cpu_kernels.cpp`.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase

_MORE_ROUNDING = "PyTorch composes it of more steps, each rounded to the card's formats"
_OTHER_DTYPES = "it computes by way of complex or float64, which the card has no format for"
_OUT_RESIZED = "PyTorch composes it for out= by way of a tensor that is resized with a warning"
_LONG_DRAWS = "its draws of int64 are limited to the 32 bits that the card stores"
_OTHER_DEVICES = "PyTorch's composition is for other devices"


@dataclass(frozen=True)
class CpuKernel:
    """An overload that C++ registers, in a form of `cpu_kernels.cpp`."""

    name: str
    form: str
    reason: str

    @property
    def dispatcher_name(self) -> str:
        return f"aten::{self.name.removesuffix('.default')}"


def _kernels(form: str, reason: str, names: str) -> list[CpuKernel]:
    return [CpuKernel(name, form, reason) for name in names.split()]


# Where the registry has a native kernel too, this one is for TORCH_SPYRE_EAGER=fallback.
CPU_KERNELS = {
    kernel.name: kernel
    for kernel in (
        *_kernels(
            "whole",
            _MORE_ROUNDING,
            """
            addr.default addr.out linalg__powsum.default mish_backward.default mse_loss.default
            native_channel_shuffle.default native_group_norm.default native_layer_norm.default
            silu_backward.default smooth_l1_loss.default
            """,
        ),
        *_kernels(
            "whole",
            _OUT_RESIZED,
            """
            _stack.default _stack.out all.dims all.dims_out any.dims any.dims_out mode.values
            """,
        ),
        *_kernels("whole", _OTHER_DEVICES, "hash_tensor.default"),
        *_kernels(
            "whole",
            _OTHER_DTYPES,
            "complex.default linalg_pinv.atol_rtol_tensor polar.default",
        ),
        *_kernels(
            "whole with gradients",
            _OTHER_DTYPES,
            """
            fft_fft.default fft_fft2.default fft_fftn.default fft_hfft.default fft_hfft.out
            fft_hfft2.default fft_hfft2.out fft_hfftn.default fft_hfftn.out fft_ifft.default
            fft_ifft2.default fft_ifftn.default fft_ihfft.default fft_ihfft2.default
            fft_ihfftn.default fft_irfft.default fft_irfft.out fft_irfft2.default fft_irfft2.out
            fft_irfftn.default fft_irfftn.out fft_rfft.default fft_rfft2.default fft_rfftn.default
            float_power.Scalar float_power.Tensor_Scalar float_power.Tensor_Tensor
            linalg_matrix_rank.default linalg_matrix_rank.atol_rtol_float
            linalg_matrix_rank.atol_rtol_float_out linalg_matrix_rank.atol_rtol_tensor
            linalg_matrix_rank.atol_rtol_tensor_out linalg_matrix_rank.out
            linalg_matrix_rank.out_tol_tensor linalg_matrix_rank.tol_tensor linalg_pinv.default
            linalg_pinv.atol_rtol_float linalg_pinv.rcond_tensor stft.default stft.center
            """,
        ),
        *_kernels("gradients", "its gradient computes in float64", "renorm.default"),
        *_kernels("statistics", "its CPU kernel updates statistics", "native_batch_norm.default"),
        *_kernels("select_scatter", "PyTorch copies padding", "select_scatter.default"),
        *_kernels("view_as_complex", _OTHER_DTYPES, "view_as_complex.default"),
        *_kernels("random", _LONG_DRAWS, "random_.default"),
        *_kernels("random from", _LONG_DRAWS, "random_.from"),
        *_kernels("dropout", "PyTorch's draws from the CPU's generator", "native_dropout.default"),
        *_kernels("slice_scatter", "PyTorch copies padding", "slice_scatter.default"),
    )
}
# Registered by C++ whatever the knobs are: PyTorch calls them on out-of-tree devices only, or their
# CPU kernels change arguments that their schemas do not declare.
STATIC_CPU_KERNELS = (
    *_kernels(
        "static",
        "PyTorch has no kernel of it that the boxed fallback could call",
        """
        batch_norm_update_stats.default batch_norm_update_stats.out
        convolution_backward_overrideable.default convolution_overrideable.default
        native_batch_norm.out
        """,
    ),
)

_FACTORIZATION = "linear algebra: the card has matmuls and triangular solves, but no factorizations"
_FOURIER = "Fourier transforms: the card has no format for complex elements"
_RANDOM = "random draws by rejection: nothing decomposes it yet"
_POLYNOMIAL = "special functions: it has no decomposition into functions of the card"
_DYNAMIC_PROGRAM = "a recurrence over time steps, which the compiler cannot express as loops"
_COMPOSED_ABOVE = "ctc_loss is native; its steps called alone have results of data-dependent size"
_QUANTIZED = "the card holds no quantized tensors"
_SPARSE = "the card holds no sparse or nested tensors"
_CPU_FORMAT = "a format of the CPU's own libraries"
_DATA_DEPENDENT = "the size of the result depends on data, and nothing composes it yet"
_NOT_DECOMPOSED = "nothing decomposes it yet"

# Families of ops, by patterns of names; the first match counts.
FAMILIES = (
    (_FOURIER, "_fft_* fft_* stft istft"),
    (
        _QUANTIZED,
        """
        *quant* _fused_moving_avg_obs_fq* q_per_channel_* int_repr _convert_weight_to_int* _int_mm
        _weight_int*
        """,
    ),
    (
        _SPARSE,
        """
        *sparse* *_indices *_indices_copy _nested* _jagged* _padded_dense* _indices* _values*
        _coalesce* indices* values* *_coo_* *_csr_* _spdiags dense_dim is_coalesced
        _validate_compressed* to_padded_tensor
        """,
    ),
    (_CPU_FORMAT, "*mkldnn* *cudnn* *miopen* *mps* _nnpack* _triton* *_for_cpu* from_file"),
    (
        _RANDOM,
        """
        binomial poisson _sample_dirichlet _standard_gamma _philox* _fused_dropout
        fractional_max_pool*
        """,
    ),
    (
        _FACTORIZATION,
        """
        _linalg_* linalg_* _cholesky* cholesky* geqrf lu_* ormqr orgqr triangular_solve
        _compute_linear_combination matrix_exp
        """,
    ),
    (
        _POLYNOMIAL,
        """
        special_* igamma* _standard_gamma_grad _dirichlet_grad
        """,
    ),
    (_COMPOSED_ABOVE, "_ctc_loss*"),
    (_DYNAMIC_PROGRAM, "gcd* lcm* nextafter* segment_reduce _segment_reduce*"),
    (_DATA_DEPENDENT, "unique* _unique histogram* _histogramdd* mode _pack_padded_sequence"),
)


def fallback_reason(op: str, overload: str = "default") -> str:
    """Return why an op runs on the CPU where the registry has no native kernel for it."""
    kernel = CPU_KERNELS.get(f"{op}.{overload or 'default'}")
    if kernel is not None:
        return kernel.reason
    for reason, patterns in FAMILIES:
        if any(fnmatchcase(op, pattern) for pattern in patterns.split()):
            return reason
    return _NOT_DECOMPOSED
