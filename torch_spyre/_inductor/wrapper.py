"""Generates wrappers that allocate buffers with layouts and call bundles."""

from typing import Any

from torch._inductor.codegen.wrapper import PythonWrapperCodegen

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
            from torch_spyre._C import DataFormats, SpyreTensorLayout, spyre_empty_with_layout
            from torch_spyre._inductor.async_compile import SpyreAsyncCompile
            from torch_spyre._inductor.op_spec import IndirectAccess, LoopSpec, OpSpec, TensorArg
            from torch_spyre._inductor.op_spec import UnimplementedOp, sympify
            from torch_spyre._inductor.runtime.views import in_default_layout, reinterpret_tensor
            async_compile = SpyreAsyncCompile()
            """,
            strip=True,
        )

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


def layout_source(layout: SpyreTensorLayout) -> str:
    return (
        f"SpyreTensorLayout({list(layout.device_size)}, {list(layout.stride_map)}, "
        f"DataFormats.{layout.device_dtype.name})"
    )
