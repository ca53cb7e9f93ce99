"""Generates wrappers that allocate buffers with layouts and call bundles."""

from typing import Any

from torch._inductor.codegen.wrapper import EnterCudaStreamContextLine, PythonWrapperCodegen
from torch._inductor.ir import NoneLayout
from torch._inductor.utils import IndentedBuffer
from torch._inductor.virtualized import V

from torch_spyre._C import SpyreTensorLayout
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.errors import UnsupportedError


class SpyreWrapper(PythonWrapperCodegen):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch has no types here
        # The layouts of the buffers that bundles write.
        self.layouts: dict[str, SpyreTensorLayout] = {}

    @staticmethod
    def create(
        is_subgraph: bool,
        subgraph_name: str | None,
        parent_wrapper: PythonWrapperCodegen | None,
        partition_signatures: Any = None,
    ) -> PythonWrapperCodegen:
        if is_subgraph:
            raise UnsupportedError("graphs inside of a graph")
        return SpyreWrapper()

    def write_header(self) -> None:
        super().write_header()
        self.header.splice(
            """
            from contextlib import nullcontext
            from torch._dynamo.graph_bytecode_inputs import get_external_object_by_index
            from torch_spyre._C import DataFormats, SpyreTensorLayout, spyre_empty_with_layout
            from torch_spyre._inductor.async_compile import SpyreAsyncCompile
            from torch_spyre._inductor.op_spec import IndirectAccess, LoopSpec, OpSpec, TensorArg
            from torch_spyre._inductor.op_spec import UnimplementedOp, sympify
            from torch_spyre._inductor.runtime.views import in_default_layout, reinterpret_tensor
            async_compile = SpyreAsyncCompile()
            """,
            strip=True,
        )

    def generate_fallback_kernel(self, node: Any) -> None:
        if isinstance(node.layout, NoneLayout):
            # It may order streams, as `streams::wait_stream` does: what stands before it has to
            # be launched before it. Buffers that it reads last must not be freed yet.
            from torch_spyre._inductor.scheduling import SpyreScheduling  # imports this module

            for backend in V.graph.scheduler.backends.values():
                if isinstance(backend, SpyreScheduling):
                    backend.write_pending()
        super().generate_fallback_kernel(node)

    def codegen_cuda_stream_enter(self, stream_idx: int) -> EnterCudaStreamContextLine:
        V.graph.scheduler.flush()
        line = _EnterStream(stream_idx)
        self.writeline(line)
        return line

    def codegen_cuda_stream_exit(self) -> None:
        V.graph.scheduler.flush()
        super().codegen_cuda_stream_exit()

    def make_buffer_allocation(self, buffer: Any) -> str:
        device = buffer.get_device()
        if device is None or device.type != DEVICE_NAME:
            line: str = super().make_buffer_allocation(buffer)
            return line
        name = buffer.get_name()
        size = self.codegen_python_shape_tuple(tuple(buffer.get_size()))
        stride = self.codegen_python_shape_tuple(tuple(buffer.get_stride()))
        layout = self.layouts.get(name)
        if layout is None:
            return (
                f"{name} = empty_strided({size}, {stride}, device='{DEVICE_NAME}:{device.index}', "
                f"dtype={buffer.get_dtype()})"
            )
        return (
            f"{name} = spyre_empty_with_layout({size}, {stride}, {buffer.get_dtype()}, "
            f"{layout_source(layout)}, device('{DEVICE_NAME}', {device.index}))"
        )


class _EnterStream(EnterCudaStreamContextLine):
    """Makes a stream of the program current; index 0 is the one that is current at the call.

    Inductor declares streams where it enters the guard of a GPU. Our kernels need no guard.
    """

    def codegen(self, code: IndentedBuffer) -> None:
        streams = V.graph.scheduler.stream_idx_to_user_obj_idx
        position = streams.get(self.stream_idx)
        stream = (
            "nullcontext()" if position is None else f"get_external_object_by_index({position})"
        )
        code.writeline(f"with {stream}:")
        code.do_indent()


def layout_source(layout: SpyreTensorLayout) -> str:
    return (
        f"SpyreTensorLayout({list(layout.device_size)}, {list(layout.stride_map)}, "
        f"DataFormats.{layout.device_dtype.name})"
    )
