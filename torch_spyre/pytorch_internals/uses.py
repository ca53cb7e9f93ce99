"""Every private name of PyTorch that the package uses without changing it.

A test compares this table with the source: a new use needs an entry, and an entry without a use is
removed. Names that patches replace are in their records.
"""

from torch_spyre.pytorch_internals.records import PrivateName, PrivateUse


def _used(prefix: str, purpose: str, *names: str) -> tuple[PrivateUse, ...]:
    """Return a use of each of the names below a prefix."""
    return tuple(PrivateUse(PrivateName(f"{prefix}.{name}"), purpose) for name in names)


_DEVICE = (
    *_used("torch", "the module `torch.spyre`", "_register_device_module"),
    *_used("torch._C._nn", "parsing the arguments of `to`", "_parse_to"),
    *_used("torch._C._functorch", "recognising real tensors", "is_functorch_wrapped_tensor"),
    *_used("torch._tensor_str", "printing tensors", "_tensor_str"),
    PrivateUse(
        PrivateName("torch.autograd.Variable._execution_engine", members=("run_backward",)),
        "waiting for autograd's threads at exit",
    ),
)

_DISPATCHER = (
    PrivateUse(
        PrivateName(
            "torch._C.DispatchKey",
            members=(
                "Autograd",
                "AutogradPrivateUse1",
                "CompositeExplicitAutograd",
                "CompositeImplicitAutograd",
                "FuncTorchDynamicLayerBackMode",
                "FuncTorchDynamicLayerFrontMode",
                "Functionalize",
                "PrivateUse1",
                "Python",
                "PythonTLSSnapshot",
            ),
        ),
        "asking which kernels an op has; tracing eager ops under dispatch modes",
    ),
    *_used(
        "torch._C",
        "tracing eager ops under dispatch modes (`dispatch_keys.py`)",
        "_ForceDispatchKeyGuard",
        "_dispatch_tls_local_exclude_set",
        "_dispatch_tls_local_include_set",
    ),
    *_used("torch._ops", "names of ops in fallback policies", "OpOverloadPacket"),
    *_used("torch._C", "padded batches of transformer modules", "_disabled_torch_function_impl"),
    *_used("torch.Tensor", "padded batches of transformer modules", "_make_wrapper_subclass"),
    *_used(
        "torch._C",
        "listing the ops that need a kernel",
        "_dispatch_get_all_op_names",
        "_dispatch_has_kernel_for_dispatch_key",
    ),
    PrivateUse(
        PrivateName(
            "torch._ops.OpOverload", members=("_uncache_dispatch", "decompose", "py_impl", "tags")
        ),
        "the type of ops; calling and registering kernels of one dispatch key",
    ),
    *_used("torch", "checks of arguments with PyTorch's messages", "_check"),
    *_used("torch", "aliasing of `out=` arguments", "_debug_has_internal_overlap"),
    PrivateUse(
        PrivateName(
            "torch.utils._python_dispatch.TorchDispatchMode", members=("__torch_dispatch__",)
        ),
        "recording the ops of a model",
    ),
    *_used("torch.utils._python_dispatch", "constants while tracing", "_disable_current_modes"),
)

_DYNAMO = (
    PrivateUse(
        PrivateName(
            "torch._C._dynamo.eval_frame",
            members=("_FrameAction", "_FrameExecStrategy", "set_code_exec_strategy"),
        ),
        "kernels that Dynamo does not trace (`frame_skipping.py`)",
    ),
    *_used("torch._C._dynamo.guards", "views of host tensors in wrappers", "_reinterpret_tensor"),
    *_used("torch._dynamo", "forgetting compiled graphs between measurements", "reset"),
    *_used("torch._dynamo.convert_frame", "one compilation at a time", "compile_lock"),
    *_used("torch.compiler", "compiling outside of Dynamo", "_compile_session_context"),
    PrivateUse(
        PrivateName(
            "torch._dynamo.device_interface.DeviceInterface",
            members=(
                "Worker",
                "current_device",
                "current_stream",
                "device_count",
                "exchange_device",
                "get_compute_capability",
                "get_device_properties",
                "get_raw_stream",
                "is_available",
                "is_bf16_supported",
                "is_dtype_supported",
                "maybe_exchange_device",
                "memory_allocated",
                "set_device",
                "synchronize",
            ),
        ),
        "Dynamo's interface to a device, which we implement",
    ),
    PrivateUse(
        PrivateName(
            "torch._dynamo.device_interface.register_interface_for_device",
            ("device", "device_interface"),
        ),
        "registering that interface",
    ),
    *_used("torch._guards", "tracing outside of Dynamo", "TracingContext", "tracing"),
    *_used("torch._functorch.config", "no cache of autograd graphs", "patch"),
)

_FAKE_TENSORS = (
    *_used(
        "torch._prims_common",
        "strides of results",
        "make_channels_last_strides_for",
        "make_contiguous_strides_for",
        "suggest_memory_format",
    ),
    *_used("torch._subclasses", "shapes and dtypes of results", "FakeTensorMode"),
    *_used(
        "torch._subclasses.fake_tensor",
        "ops whose result has no static shape",
        "DataDependentOutputException",
        "DynamicOutputShapeException",
        "UnsupportedOperatorException",
    ),
    *_used("torch._subclasses.fake_tensor", "shapes and dtypes of results", "FakeTensorMode"),
    *_used("torch._subclasses.fake_tensor", "arguments without device memory", "FakeTensor"),
    *_used("torch._subclasses.fake_impls", "shapes of recurrent ops", "register_op_impl"),
    PrivateUse(
        PrivateName(
            "torch._subclasses.complex_tensor.ComplexTensor",
            members=("__tensor_unflatten__", "__torch_dispatch__"),
        ),
        "complex tensors as pairs of real ones",
    ),
)

_DECOMPOSITIONS = (
    *_used("torch._decomp.decompositions", "`interpolate`", "upsample_compute_output_size"),
    *_used("torch._inductor.decomposition", "Inductor's decompositions", "select_decomp_table"),
    PrivateUse(
        PrivateName(
            "torch._prims_common.ELEMENTWISE_TYPE_PROMOTION_KIND",
            members=("DEFAULT", "INT_TO_FLOAT"),
        ),
        "type promotion",
    ),
    *_used("torch._prims_common", "type promotion", "elementwise_dtypes"),
    *_used("torch._prims_common.wrappers", "resizing of `out=`", "_maybe_resize_out"),
    *_used("torch._refs.linalg", "norms", "vector_norm"),
)

_GRAPHS = (
    *_used(
        "torch.fx._lazy_graph_module",
        "graph modules without generated code",
        "_make_graph_module",
        "_use_lazy_graph_module",
    ),
    *_used(
        "torch.utils._pytree",
        "nested arguments",
        "tree_flatten",
        "tree_leaves",
        "tree_map",
        "tree_map_only",
        "tree_structure",
        "tree_unflatten",
    ),
    *_used("torch.utils._config_module", "our options of Inductor", "install_config_module"),
    *_used("torch.utils._ordered_set", "sets of buffer names", "OrderedSet"),
    *_used(
        "torch.utils._sympy.functions",
        "index expressions",
        "FloorDiv",
        "Identity",
        "Mod",
        "ModularIndexing",
        "PythonMod",
    ),
)

_INDUCTOR = (
    PrivateUse(
        PrivateName("torch._inductor.compile_fx.compile_fx", ("inner_compile", "decompositions")),
        "compiling a graph with our decompositions",
    ),
    *_used("torch._inductor.compile_fx", "compiling for one set of sizes", "compile_fx_inner"),
    *_used("torch._inductor", "the options of `torch.compile(mode=...)`", "list_mode_options"),
    *_used("torch._inductor.config", "options for our graphs", "patch", "trace.enabled"),
    *_used("torch._inductor.debug", "the debug folder of a graph", "DebugContext"),
    *_used("torch._inductor.exc", "errors of lowerings", "InductorError", "LoweringException"),
    PrivateUse(
        PrivateName("torch._inductor.async_compile.AsyncCompile", members=("wait",)),
        "the base class of the kernel builder in wrappers",
    ),
    PrivateUse(
        PrivateName(
            "torch._inductor.codegen.common.DeviceOpOverrides",
            members=("device_guard", "import_get_raw_stream_as", "set_device", "synchronize"),
        ),
        "source text in wrappers, which we implement",
    ),
    *_used(
        "torch._inductor.codegen.common",
        "registering our scheduling and wrapper",
        "init_backend_registration",
        "register_device_op_overrides",
    ),
    PrivateUse(
        PrivateName(
            "torch._inductor.codegen.common.register_backend_for_device",
            ("device_custom_pass", "device_custom_config"),
        ),
        "registering our scheduling and wrapper",
    ),
    PrivateUse(
        PrivateName("torch._functorch._aot_autograd.streams.wrap_all_sync_nodes_with_control_deps"),
        "keeping ops between waits for streams in their order",
    ),
    PrivateUse(
        PrivateName(
            "torch._inductor.codegen.wrapper.EnterCudaStreamContextLine", members=("codegen",)
        ),
        "the line of wrappers that makes a stream current, which we subclass",
    ),
    PrivateUse(
        PrivateName("torch._inductor.utils.IndentedBuffer", members=("do_indent", "writeline")),
        "writing lines of wrappers",
    ),
    PrivateUse(
        PrivateName(
            "torch._inductor.codegen.wrapper.PythonWrapperCodegen",
            members=(
                "codegen_cuda_stream_enter",
                "codegen_cuda_stream_exit",
                "codegen_python_shape_tuple",
                "create",
                "generate_fallback_kernel",
                "make_buffer_allocation",
                "write_header",
            ),
        ),
        "the wrapper, which we subclass",
    ),
    PrivateUse(
        PrivateName(
            "torch._inductor.scheduler.BaseScheduling",
            members=(
                "can_fuse_horizontal",
                "can_fuse_vertical",
                "codegen_node",
                "codegen_sync",
                "flush",
                "get_backend_features",
                "group_fn",
                "ready_to_flush",
            ),
        ),
        "the scheduling, which we implement",
    ),
    *_used(
        "torch._inductor.scheduler",
        "nodes of the schedule",
        "BaseSchedulerNode",
        "FusedSchedulerNode",
        "SchedulerNode",
    ),
    *_used("torch._inductor.utils", "names of kernels", "get_fused_kernel_name"),
    PrivateUse(
        PrivateName(
            "torch._inductor.custom_graph_pass.CustomGraphModulePass", members=("__call__", "uuid")
        ),
        "our pass over graphs, which we implement",
    ),
    *_used(
        "torch._inductor.custom_graph_pass",
        "our pass beside those of the user",
        "CustomGraphPass",
        "get_custom_graph_passes",
    ),
    *_used(
        "torch._inductor.fx_passes.post_grad",
        "views in graphs for ranges of sizes",
        "view_to_reshape",
    ),
    *_used(
        "torch._inductor.fx_passes.reinplace",
        "in-place ops of one graph",
        "reinplace_inplaceable_ops_core",
    ),
    PrivateUse(
        PrivateName(
            "torch._inductor.graph.GraphLowering",
            members=(
                "get_buffer",
                "get_dtype",
                "register_buffer",
                "register_operation",
                "run",
                "try_get_buffer",
            ),
        ),
        "lowering a graph to Inductor's IR",
    ),
    *_used(
        "torch._inductor.sizevars.SizeVarAllocator",
        "sizes of loops",
        "guarding_hint_or_throw",
        "simplify",
    ),
    PrivateUse(
        PrivateName(
            "torch._inductor.virtualized.V",
            members=(
                "set_extern_kernel_nodes",
                "set_fake_mode",
                "set_graph_handler",
                "set_ops_handler",
            ),
        ),
        "the context of lowerings",
    ),
    *_used("torch._inductor.virtualized", "ops in loop bodies", "ops"),
    PrivateUse(
        PrivateName(
            "torch._inductor.ops_handler.OpsHandler",
            members=(
                "abs",
                "add",
                "bitwise_and",
                "bitwise_right_shift",
                "constant",
                "eq",
                "gt",
                "identity",
                "index_expr",
                "indirect_indexing",
                "isinf",
                "isnan",
                "load",
                "logical_or",
                "lt",
                "masked",
                "mul",
                "pow",
                "relu",
                "sign",
                "square",
                "to_dtype",
                "where",
            ),
        ),
        "ops in loop bodies, which we create and record",
    ),
)

_INDUCTOR_IR = (
    *_used(
        "torch._inductor.ir",
        "IR nodes that lowerings create and passes inspect",
        "BaseView",
        "Buffer",
        "ComputedBuffer",
        "ConcatKernel.create",
        "FlexibleLayout",
        "GenericView",
        "Layout",
        "MutableBox",
        "MutationLayoutSHOULDREMOVE.realize_into",
        "NonOwningLayout",
        "NoneAsConstantBuffer",
        "NoneLayout",
        "Pointwise.create",
        "Reduction",
        "ReductionHint.DEFAULT",
        "ReinterpretView",
        "Scatter",
        "ShapeAsConstantBuffer",
        "StorageBox",
        "TensorBox.create",
        "as_storage_and_layout",
    ),
    *_used(
        "torch._inductor.lowering",
        "lowerings that ours are composed of",
        "add",
        "broadcast_tensors",
        "check_and_broadcast_indices",
        "clone",
        "div",
        "expand",
        "fallback_handler",
        "floordiv",
        "full",
        "full_like",
        "get_promoted_dtype",
        "index_impl",
        "index_output_size_and_inner_fn",
        "make_pointwise",
        "permute",
        "slice_",
        "to_dtype",
        "view",
        "where",
    ),
    *_used("torch._inductor.inductor_prims", "stores through indices", "_unsafe_index_put_"),
)

_TOOLS = (
    *_used("torch.testing._internal.common_methods_invocations", "`spyre opinfo`", "op_db"),
    *_used("torch.testing._internal.opinfo.core", "`spyre opinfo`", "OpInfo", "SampleInput"),
)

USES: tuple[PrivateUse, ...] = (
    *_DEVICE,
    *_DISPATCHER,
    *_DYNAMO,
    *_FAKE_TENSORS,
    *_DECOMPOSITIONS,
    *_GRAPHS,
    *_INDUCTOR,
    *_INDUCTOR_IR,
    *_TOOLS,
)
