"""The registry of native ops: how every ATen op runs on the card.

The eager mode, compiled graphs, the decomposition table, the CPU kernels of the C++ side and the
docs derive from it and from `fallback_reasons.py`, which lists why ops fall back;
`tests/ops/native/test_registry.py` compares both with the dispatcher. Nothing here imports torch or
the compiler, so that importing torch stays quick.

`add` stands for every overload of an op and of its in-place form, `add.Tensor` and `copy.default`
for that overload only. The entry of an overload has priority over the entry of its op.
"""

from dataclasses import dataclass
from enum import StrEnum

DEVICE_KEY, AUTOGRAD_KEY = "PrivateUse1", "AutogradPrivateUse1"


class Kind(StrEnum):
    """How an op is implemented on the card."""

    LOWERING = "lowering"  # the compiler lowers it to a loop
    DECOMPOSITION = "decomposition"  # the compiler decomposes it into ops that it lowers
    KERNEL = "kernel"  # Python code in ops/ that calls other ops of the card
    COMPOSITE = "composite"  # C++ code that calls other ops
    VIEW = "view"  # nothing runs
    COPY = "copy"  # the DMA engine runs it
    METADATA = "metadata"  # C++ code that reads or changes what PyTorch holds about a tensor


@dataclass(frozen=True)
class OpEntry:
    """The implementation of an op or of one of its overloads."""

    name: str
    kind: Kind
    # The group of the op in docs/ops.md.
    category: str = ""
    # Where the kernel is: a file of csrc/torch, or a function of a module in ops/.
    cpp_file: str = ""
    function: str = ""
    # The dispatcher's keys that a kernel is registered for.
    keys: tuple[str, ...] = (DEVICE_KEY,)
    # The compiler does not use PyTorch's decomposition: the card has an instruction for the op.
    is_kept_whole: bool = False
    # The decomposition runs op by op in eager mode: the op returns more than tensors.
    runs_op_by_op: bool = False
    # The kernel is registered with TORCH_SPYRE_EAGER=fallback, too: the CPU's result is none that
    # the card can hold.
    is_always_registered: bool = False

    @property
    def is_overload(self) -> bool:
        return "." in self.name

    @property
    def dispatcher_name(self) -> str:
        """The name of an overload as the dispatcher spells it."""
        return f"aten::{self.name.removesuffix('.default')}"


_LOWERED = {
    "pointwise": """
        abs add bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift
        bitwise_xor ceil clamp clamp_max clamp_min copysign cos div eq erf exp exp2 expm1
        fill floor fmod ge gelu gt isinf isnan le log log10 log1p log2 logical_and
        logical_not logical_or logical_xor lt maximum minimum mul ne neg pow reciprocal relu
        remainder round rsqrt sigmoid sign silu sin softplus sqrt square sub tanh trunc
        where
    """,
    "view": """
        _unsafe_view alias as_strided detach diagonal expand lift_fresh lift_fresh_copy
        permute reshape select slice split split_with_sizes squeeze t transpose unbind
        unfold unsqueeze view
    """,
    "creation": """
        empty full scalar_tensor
    """,
    "reduction": """
        amax amin any argmax argmin max mean min prod sum
    """,
    "matmul": """
        bmm mm
    """,
    "data movement": """
        _unsafe_index_put cat clone constant_pad_nd copy copy_ embedding gather index
        index_put index_put_ index_select scatter scatter_add scatter_reduce select_scatter
        slice_scatter
    """,
}
_DECOMPOSED = """
    __lshift__ __rshift__ _adaptive_avg_pool2d _adaptive_avg_pool2d_backward
    _adaptive_avg_pool3d _adaptive_avg_pool3d_backward _cdist_forward _embedding_bag
    _embedding_bag_backward _embedding_bag_dense_backward _embedding_bag_forward_only
    _embedding_bag_per_sample_weights_backward _grouped_mm _index_put_impl _log_softmax
    _log_softmax_backward_data _masked_softmax _masked_softmax_backward _native_batch_norm_legit
    _native_batch_norm_legit_functional _native_batch_norm_legit_no_training
    _native_multi_head_attention _prelu_kernel _prelu_kernel_backward _scaled_mm _softmax
    _softmax_backward_data _thnn_fused_gru_cell _thnn_fused_gru_cell_backward
    _thnn_fused_lstm_cell _thnn_fused_lstm_cell_backward_impl _transform_bias_rescale_qkv
    _transformer_encoder_layer_fwd _upsample_bicubic2d_aa _upsample_bicubic2d_aa_backward
    _upsample_bilinear2d_aa _upsample_bilinear2d_aa_backward _upsample_nearest_exact1d
    _upsample_nearest_exact1d_backward _upsample_nearest_exact2d
    _upsample_nearest_exact2d_backward _upsample_nearest_exact3d
    _upsample_nearest_exact3d_backward _weight_norm_interface _weight_norm_interface_backward
    acos acosh adaptive_max_pool2d adaptive_max_pool2d_backward adaptive_max_pool3d
    adaptive_max_pool3d_backward addbmm addcdiv addcmul addmm addmv addr all aminmax angle
    arange asin asinh atan atan2 atanh avg_pool2d avg_pool2d_backward avg_pool3d
    avg_pool3d_backward baddbmm binary_cross_entropy binary_cross_entropy_backward bucketize
    celu channel_shuffle col2im convolution convolution_backward cosh count_nonzero cummax
    cummin cumprod cumsum digamma dot elu elu_backward embedding_dense_backward embedding_renorm
    erfc erfinv eye flip floor_divide fmax fmin frac full_like gelu_backward glu glu_backward
    grid_sampler_2d grid_sampler_2d_backward grid_sampler_3d grid_sampler_3d_backward hardshrink
    hardshrink_backward hardsigmoid hardsigmoid_backward hardswish hardswish_backward hardtanh
    hardtanh_backward heaviside histc huber_loss huber_loss_backward hypot i0 im2col index_add
    index_copy index_fill index_reduce isin isneginf isposinf kthvalue leaky_relu
    leaky_relu_backward lerp lgamma linalg_cross linalg_solve_triangular linalg_vector_norm
    linspace log_sigmoid_backward log_sigmoid_forward logaddexp logaddexp2 logcumsumexp logit
    logspace logsumexp masked_fill masked_scatter max_pool2d_with_indices
    max_pool2d_with_indices_backward max_pool3d_with_indices max_pool3d_with_indices_backward
    max_unpool2d max_unpool3d median mish mish_backward mse_loss mse_loss_backward
    multi_margin_loss mv mvlgamma nan_to_num nanmedian nansum native_batch_norm_backward
    native_dropout_backward native_group_norm native_group_norm_backward native_layer_norm
    native_layer_norm_backward nll_loss2d_backward nll_loss2d_forward nll_loss_backward
    nll_loss_forward nonzero_static norm ones_like pixel_shuffle pixel_unshuffle polygamma put
    reflection_pad1d
    reflection_pad1d_backward reflection_pad2d reflection_pad2d_backward reflection_pad3d
    reflection_pad3d_backward repeat replication_pad1d replication_pad1d_backward
    replication_pad2d replication_pad2d_backward replication_pad3d replication_pad3d_backward
    roll rsub searchsorted selu sgn sigmoid_backward signbit silu_backward sinc sinh
    smooth_l1_loss smooth_l1_loss_backward soft_margin_loss softplus_backward softshrink
    softshrink_backward sort special_entr special_erfcx special_i0e special_i1 special_i1e
    special_log_ndtr special_ndtri special_xlog1py std std_mean take tan tanh_backward threshold
    threshold_backward topk trace tril tril_indices triu triu_indices upsample_bicubic2d
    upsample_bicubic2d_backward upsample_bilinear2d upsample_bilinear2d_backward
    upsample_linear1d upsample_linear1d_backward upsample_nearest1d upsample_nearest1d_backward
    upsample_nearest2d upsample_nearest2d_backward upsample_nearest3d
    upsample_nearest3d_backward upsample_trilinear3d upsample_trilinear3d_backward var var_mean
    vdot xlogy zeros_like
"""

# Decomposed in graphs alone. In eager mode they have kernels of their own, or PyTorch composes them
# from in-place ops that have.
_DECOMPOSED_IN_GRAPHS = """
    bernoulli.Tensor bernoulli.default bernoulli.p cauchy.default exponential.default
    geometric.default log_normal.default normal.float_float normal_functional.default
    rand.default rand.generator rand_like.default randint.default randint.generator randint.low
    randint.low_generator randint_like.default randint_like.low_dtype randn.default
    randn.generator randn_like.default random.default random.from random.to randperm.default
    rrelu_with_noise_functional.default uniform.default
"""
# Ops of other namespaces that compiled graphs keep.
_OTHER_GRAPH_OPS = (
    "prims::_unsafe_index_put_",
    "prims::broadcast_in_dim",
    "prims::convert_element_type",
    "prims::iota",
    "prims::rev",
    "spyre::attention",
    "spyre::random_words",
    "spyre::upper_half",
)
_KIND_OF_CATEGORY = {"view": Kind.VIEW}
_COPIES = ("clone", "copy", "copy_")
# The card has an instruction for the op, or a matmul whatever its sizes.
_KEPT_WHOLE = ("bmm", "gelu", "index_select", "mm", "silu")
_RUN_OP_BY_OP = (
    "_scaled_dot_product_fused_attention_overrideable",
    "_scaled_dot_product_fused_attention_overrideable_backward",
    "bincount",
)

# Ops that do more than return new tensors of a known size: Python functions of ops/.
_KERNELS = {
    "_amp_foreach_non_finite_check_and_unscale_.default": "loss_scaling:unscale",
    "_amp_update_scale_.default": "loss_scaling:update_scale",
    "_assert_async.default": "nonzero:assert_async",
    "_assert_async.msg": "nonzero:assert_async",
    "_batch_norm_no_update.default": "batch_norm:no_update",
    "_batch_norm_with_update.default": "batch_norm:with_update",
    "_native_batch_norm_legit.default": "batch_norm:native_batch_norm",
    "_nested_tensor_from_mask.default": "transformer:from_mask",
    "_nested_tensor_from_mask_left_aligned.default": "transformer:is_left_aligned",
    "_unique2.default": "unique:unique",
    "batch_norm_backward.default": "batch_norm:backward",
    "ctc_loss.IntList": "ctc_loss:ctc_loss",
    "ctc_loss.Tensor": "ctc_loss:ctc_loss",
    "equal.default": "equal:equal",
    "masked_select.default": "nonzero:masked_select",
    "bernoulli.out": "random_composites:bernoulli_out",
    "multinomial.default": "multinomial:multinomial",
    "normal.Tensor_Tensor": "random_composites:normal",
    "normal.Tensor_Tensor_out": "random_composites:normal_out",
    "normal.Tensor_float": "random_composites:normal",
    "normal.Tensor_float_out": "random_composites:normal_out",
    "normal.float_Tensor": "random_composites:normal",
    "normal.float_Tensor_out": "random_composites:normal_out",
    "randperm.generator_out": "random_composites:randperm_out",
    "rrelu_with_noise.default": "random_composites:rrelu_with_noise",
    "rrelu_with_noise.out": "random_composites:rrelu_with_noise_out",
    "rrelu_with_noise_.default": "random_composites:rrelu_with_noise_",
    "native_batch_norm.default": "batch_norm:native_batch_norm",
    "nonzero.default": "nonzero:nonzero",
    "randint_like.Tensor": "randint:randint_like",
    "randint_like.Tensor_generator": "randint:randint_like",
    "repeat_interleave.Tensor": "nonzero:repeat_interleave",
    "unique_consecutive.default": "unique:unique_consecutive",
}
_ALWAYS_REGISTERED = (
    "_nested_tensor_from_mask.default",
    "_nested_tensor_from_mask_left_aligned.default",
)
# PyTorch composes them from ops that have a gradient; so do these kernels.
_BEFORE_AUTOGRAD = ("ctc_loss.IntList", "ctc_loss.Tensor")
# Kernels that draw from a generator, in ops/random.py.
_RANDOM = (
    "bernoulli_.Tensor",
    "bernoulli_.float",
    "cauchy_.default",
    "exponential_.default",
    "geometric_.default",
    "log_normal_.default",
    "native_dropout.default",
    "normal_.default",
    "random_.default",
    "random_.from",
    "random_.to",
    "uniform_.default",
)
# Fused optimizers: one kernel of the card per parameter, in ops/optimizers.py.
_OPTIMIZERS = ("_fused_adagrad_", "_fused_adam_", "_fused_adamw_", "_fused_sgd_")
# Complex tensors are pairs of real ones. Their kernels go before autograd, which then sees the real
# tensors. TORCH_SPYRE_UNSUPPORTED_DTYPE=store leaves them out: complex tensors are raw then.
_COMPLEX = ("complex", "polar", "view_as_complex")

_BOTH_KEYS = (DEVICE_KEY, AUTOGRAD_KEY)
# What C++ registers whatever the knobs are.
_CPP = {
    ("tensors.cpp", Kind.VIEW): """
        _reshape_alias.default _unsafe_view.default alias.default as_strided.default
        as_strided_.default unfold.default view.default view.dtype
    """,
    ("tensors.cpp", Kind.METADATA): """
        _has_compatible_shallow_copy_type.default empty.memory_format empty_strided.default
    """,
    ("raw_views.cpp", Kind.VIEW): "view_as_real.default",
    ("resize.cpp", Kind.METADATA): """
        resize_.default set_.default set_.source_Storage set_.source_Storage_storage_offset
        set_.source_Tensor
    """,
    ("kernels.cpp", Kind.COPY): """
        _copy_from.default _copy_from_and_resize.default _local_scalar_dense.default
        _to_copy.default fill_.Scalar fill_.Tensor zero_.default
    """,
    ("kernels.cpp", Kind.METADATA): """
        record_stream.default
    """,
    ("composites.cpp", Kind.COPY): """
        as_strided_scatter.default copy.default diagonal_scatter.default
    """,
    ("composites.cpp", Kind.COMPOSITE): """
        _efficientzerotensor.default _lazy_clone.default batch_norm.default
    """,
    ("attention.cpp", Kind.COMPOSITE): """
        _fused_sdp_choice.default scaled_dot_product_attention.default
    """,
}
# Of these, the kernel for autograd is C++'s, too: PyTorch's would call other ops.
_CPP_BEFORE_AUTOGRAD = ("batch_norm.default", "scaled_dot_product_attention.default")


def _entries() -> list[OpEntry]:
    entries = []
    for category, names in _LOWERED.items():
        for name in names.split():
            kind = Kind.COPY if name in _COPIES else _KIND_OF_CATEGORY.get(category, Kind.LOWERING)
            entries.append(OpEntry(name, kind, category, is_kept_whole=name in _KEPT_WHOLE))
    entries += [
        OpEntry(name, Kind.DECOMPOSITION, runs_op_by_op=name in _RUN_OP_BY_OP)
        for name in (*_DECOMPOSED.split(), *_RUN_OP_BY_OP)
    ]
    entries += [OpEntry(name, Kind.DECOMPOSITION) for name in _DECOMPOSED_IN_GRAPHS.split()]
    entries += [
        OpEntry(
            name,
            Kind.KERNEL,
            function=function,
            keys=_BOTH_KEYS if name in _BEFORE_AUTOGRAD else (DEVICE_KEY,),
            is_always_registered=name in _ALWAYS_REGISTERED,
        )
        for name, function in _KERNELS.items()
    ]
    entries += [OpEntry(name, Kind.KERNEL, function="random:RandomKernels") for name in _RANDOM]
    entries += [
        OpEntry(f"{name}.{overload}", Kind.KERNEL, function="optimizers:fused_kernels")
        for name in _OPTIMIZERS
        for overload in ("default", "tensor_lr")
    ]
    entries += [
        OpEntry(f"{name}.default", Kind.KERNEL, function=f"complex_as_real:{name}", keys=_BOTH_KEYS)
        for name in _COMPLEX
    ]
    for (file, kind), names in _CPP.items():
        for name in names.split():
            keys = _BOTH_KEYS if name in _CPP_BEFORE_AUTOGRAD else (DEVICE_KEY,)
            entries.append(OpEntry(name, kind, cpp_file=file, keys=keys))
    return entries


ENTRIES = {entry.name: entry for entry in _entries()}
# The ops that compiled graphs keep, by category.
CATEGORIES = {category: names.split() for category, names in _LOWERED.items()}
# The schemas that compiled graphs keep, by name; any other op falls back there.
GRAPH_OPS = frozenset(
    (
        *(f"aten::{entry.name}" for entry in ENTRIES.values() if entry.category),
        *_OTHER_GRAPH_OPS,
    )
)
# Those that compute nothing, and so accept dtypes that the card only stores.
MOVING_GRAPH_OPS = frozenset(
    (
        *(f"aten::{entry.name}" for entry in ENTRIES.values() if entry.category == "view"),
        *(f"aten::{name}" for name in (*_COPIES, "cat", "empty")),
        "prims::convert_element_type",
    )
)


def find_entry(op: str, overload: str) -> OpEntry | None:
    """Return the entry of an ATen overload: its own, or else the one of its op."""
    entry = ENTRIES.get(f"{op}.{overload or 'default'}") or ENTRIES.get(op)
    if entry is None and op.endswith("_") and not op.endswith("__"):
        entry = ENTRIES.get(op.removesuffix("_"))
    return entry
