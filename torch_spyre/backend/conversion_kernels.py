"""Kernels that convert arrays on the card between the formats of tensors and of KTIR views.

Tensors of bfloat16, int64, uint8 and bool have other formats in device memory than views of these
types: f16, i32, i32 and f16.
"""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import torch

from torch_spyre.backend.execution import execute
from torch_spyre.backend.program.instructions import ElementType
from torch_spyre.cards import load_card

if TYPE_CHECKING:
    from torch_spyre.ktir.module import Module

_CHUNK = 2048
_TEMPLATE = """
#chunk = affine_set<(i) : (i >= 0, -i + {last} >= 0)>
#all = affine_set<(i)[n] : (i >= 0, -i + n - 1 >= 0)>
#same = affine_map<(i) -> (i)>
module {{
  func.func @convert(%source: index, %target: index, %n: index) attributes {{grid = [{cores}]}} {{
    %chunk = arith.constant {chunk} : index
    %step = arith.constant {step} : index
    %core = ktdp.get_compute_tile_id : index
    %start = arith.muli %core, %chunk : index
    %sources = ktdp.construct_memory_view %source, sizes: [%n], strides: [1] {{coordinate_set = #all, memory_space = #ktdp.memory_space<global>}} : memref<?x{source}>
    %targets = ktdp.construct_memory_view %target, sizes: [%n], strides: [1] {{coordinate_set = #all, memory_space = #ktdp.memory_space<global>}} : memref<?x{target}>
    scf.for %i = %start to %n step %step {{
      %from = ktdp.construct_access_tile %sources[%i] {{access_tile_set = #chunk, access_tile_order = #same}} : memref<?x{source}> -> !ktdp.access_tile<{chunk}xindex>
      %to = ktdp.construct_access_tile %targets[%i] {{access_tile_set = #chunk, access_tile_order = #same}} : memref<?x{target}> -> !ktdp.access_tile<{chunk}xindex>
      %x = ktdp.load %from : <{chunk}xindex> -> tensor<{chunk}x{source}>
{body}
      ktdp.store %y, %to : tensor<{chunk}x{target}>, <{chunk}xindex>
    }}
    return
  }}
}}
"""  # noqa: E501


@dataclass(frozen=True)
class _Memory:
    memory: torch.Tensor
    bytes: int


def convert(
    count: int,
    source: torch.Tensor,
    source_type: ElementType,
    target: torch.Tensor,
    target_type: ElementType,
) -> None:
    """Convert `count` elements at the start of one memory to another type in another memory."""
    # `kernels` binds arguments with this module.
    from torch_spyre.backend.kernels import compile_kernel

    if not count:
        return
    module = _module(source_type, target_type, load_card().compute.cores)
    program = compile_kernel(module, "convert", {}, frozenset({"source", "target"}))
    arrays = [
        _Memory(source, count * source_type.bytes),
        _Memory(target, count * target_type.bytes),
    ]
    execute(program, arrays, [count])


@cache
def _module(source: ElementType, target: ElementType, cores: int) -> "Module":
    from torch_spyre.ktir.module import load

    return load(
        _TEMPLATE.format(
            chunk=_CHUNK,
            last=_CHUNK - 1,
            cores=cores,
            step=cores * _CHUNK,
            source=source.mlir_name,
            target=target.mlir_name,
            body=_body(source, target),
        )
    )


def _body(source: ElementType, target: ElementType) -> str:
    """Return the ops that compute %y from %x."""
    before, after = (f"tensor<{_CHUNK}x{type.mlir_name}>" for type in (source, target))
    if target is ElementType.I1:
        zero = f"      %zero = arith.constant dense<0.0> : {before}\n"
        return f"{zero}      %y = arith.cmpf une, %x, %zero : {before}"
    if source is ElementType.I1:
        op = "uitofp"
    elif source.is_float:
        op = "convertf"
    else:
        op = "extsi" if target.bits > source.bits else "trunci"
    return f"      %y = arith.{op} %x : {before} to {after}"
