"""The ATen ops that the card runs, by name: the one list of them.

The eager mode has kernels for them, and compiled graphs keep them. Nothing here imports the
compiler, so that importing torch stays quick.
"""

# What the compiler lowers itself, by kind.
_LOWERED = {
    "pointwise": """
        abs add bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift
        bitwise_xor ceil clamp clamp_max clamp_min copysign cos div eq erf exp exp2 expm1 fill
        floor fmod ge gelu gt isinf isnan le log log10 log1p log2 logical_and logical_not
        logical_or logical_xor lt maximum minimum mul ne neg pow reciprocal relu remainder round
        rsqrt sigmoid sign silu sin softplus sqrt square sub tanh trunc where
    """,
    "view": """
        _unsafe_view alias as_strided detach diagonal expand lift_fresh lift_fresh_copy permute
        reshape select slice split split_with_sizes squeeze t transpose unbind unfold unsqueeze view
    """,
    "creation": """
        empty full scalar_tensor
    """,
    "reduction": """
        amax amin any argmax argmin max mean min prod sum
    """,
    "product": """
        bmm mm
    """,
    "data movement": """
        _unsafe_index_put cat clone constant_pad_nd copy copy_ embedding gather index index_put
        index_put_ index_select scatter scatter_add scatter_reduce select_scatter slice_scatter
    """,
}

# What decomposes into those.
_MADE_OF_OTHERS = """
    __lshift__ __rshift__ _adaptive_avg_pool2d _adaptive_avg_pool2d_backward
    _adaptive_avg_pool3d _adaptive_avg_pool3d_backward _cdist_forward _embedding_bag
    _embedding_bag_backward _embedding_bag_dense_backward _embedding_bag_forward_only
    _embedding_bag_per_sample_weights_backward _grouped_mm _index_put_impl _log_softmax
    _log_softmax_backward_data _native_batch_norm_legit _native_batch_norm_legit_functional
    _native_batch_norm_legit_no_training _prelu_kernel _prelu_kernel_backward _scaled_mm
    _softmax _softmax_backward_data _thnn_fused_gru_cell _thnn_fused_gru_cell_backward
    _thnn_fused_lstm_cell _thnn_fused_lstm_cell_backward_impl _upsample_bicubic2d_aa
    _upsample_bicubic2d_aa_backward _upsample_bilinear2d_aa _upsample_bilinear2d_aa_backward
    _upsample_nearest_exact1d _upsample_nearest_exact1d_backward _upsample_nearest_exact2d
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
    nll_loss_forward nonzero_static norm ones_like polygamma put reflection_pad1d
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

LOWERED = {kind: names.split() for kind, names in _LOWERED.items()}
MADE_OF_OTHERS = _MADE_OF_OTHERS.split()
