"""The reference model of layouts: the device offset of every host element.

An allocation is a flat array of codes (see `formats`). A host element is identified by its *host
offset*, which PyTorch computes from index, strides and storage offset; views of one storage
therefore share device offsets. The layouts are the published ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray

from torch_spyre.testing.formats import BYTES_IN_STICK, Codes, DeviceFormat, device_format

Offsets = NDArray[np.int64]

STANDARD = "STANDARD"
DL16_TO_FP32 = "DL16_TO_FP32"
FP32_TO_DL16 = "FP32_TO_DL16"
NO_HOST_DIM = -1
REPLICATE = 0


@dataclass(frozen=True)
class Layout:
    """The four fields of a `SpyreTensorLayout`."""

    device_size: tuple[int, ...]
    stride_map: tuple[int, ...]
    format: DeviceFormat
    arrangement: str = STANDARD

    @property
    def device_bytes(self) -> int:
        return BYTES_IN_STICK * prod(self.device_size[:-1])

    def empty_device(self, fill_byte: int = 0) -> Codes:
        """Return device memory for one tensor of this layout, every byte set to `fill_byte`."""
        return np.full(self.device_bytes, fill_byte, np.uint8).view(self.format.code_dtype)


# --- Building layouts -----------------------------------------------------------------------------


def contiguous_strides(size: Sequence[int]) -> tuple[int, ...]:
    """Return row-major strides; unlike in PyTorch, a size of zero makes outer strides zero."""
    return tuple(prod(size[i + 1 :]) for i in range(len(size)))


def default_layout(host_size: Sequence[int], dtype: torch.dtype) -> Layout:
    """Return the layout of a contiguous tensor."""
    order = range(len(host_size))
    return layout(host_size, contiguous_strides(host_size), dtype, order)


def layout(
    host_size: Sequence[int],
    host_strides: Sequence[int],
    dtype: torch.dtype,
    dim_order: Sequence[int],
) -> Layout:
    """Return the layout with sticks along the last dim of `dim_order`; -1 means sparse sticks."""
    order = list(dim_order)
    is_dense = len(order) == len(host_size)
    is_sparse = len(order) == len(host_size) + 1 and order[-1] == NO_HOST_DIM
    if not (is_dense or is_sparse):
        raise ValueError(f"Incompatible host_size and dim_order: {list(host_size)} and {order}")
    device = device_format(dtype)
    if not host_size:
        return Layout((1, device.elements_per_stick), (NO_HOST_DIM, NO_HOST_DIM), device)
    host_dims = [*order[1:], order[0], order[-1]]
    sizes = _device_sizes(host_size, host_dims, device.elements_per_stick)
    return Layout(sizes, _stride_map(host_size, host_strides, host_dims, sizes), device)


def _device_sizes(
    host_size: Sequence[int], host_dims: Sequence[int], per_stick: int
) -> tuple[int, ...]:
    stick = host_dims[-1]

    def outer_size(host_dim: int) -> int:
        if host_dim == NO_HOST_DIM:
            return 1
        if host_dim == stick:
            return -(-host_size[stick] // per_stick)
        return host_size[host_dim]

    return (*(outer_size(host_dim) for host_dim in host_dims[:-1]), per_stick)


def _stride_map(
    host_size: Sequence[int],
    host_strides: Sequence[int],
    host_dims: Sequence[int],
    device_size: Sequence[int],
) -> tuple[int, ...]:
    next_stride = dict(enumerate(host_strides))
    result: list[int] = []
    for host_dim, size in reversed(list(zip(host_dims, device_size, strict=True))):
        if host_dim == NO_HOST_DIM or host_size[host_dim] == 1:
            result.append(NO_HOST_DIM)
            continue
        result.append(next_stride[host_dim])
        next_stride[host_dim] *= size
    return tuple(reversed(result))


# --- Device offsets -------------------------------------------------------------------------------


def device_offset(
    host_offsets: int | Offsets,
    device_size: Sequence[int],
    stride_map: Sequence[int],
    arrangement: str = STANDARD,
) -> Offsets:
    """Return the device offset of elements (of the first copy, if they are replicated)."""
    coordinates = _rearranged(
        _coordinates(host_offsets, device_size, stride_map), device_size, stride_map, arrangement
    )
    strides = contiguous_strides(device_size)
    zero = np.zeros_like(host_offsets, dtype=np.int64)
    return sum((c * strides[dim] for dim, c in coordinates.items()), start=zero)


def _coordinates(
    host_offsets: int | Offsets, device_size: Sequence[int], stride_map: Sequence[int]
) -> dict[int, Offsets]:
    """Decompose a host offset as a mixed-radix number into device coordinates."""
    dims = [d for d, step in enumerate(stride_map) if step > 0 and device_size[d] > 1]
    dims.sort(key=lambda dim: -stride_map[dim])
    remainder = np.asarray(host_offsets, dtype=np.int64)
    coordinates: dict[int, Offsets] = {}
    for dim in dims:
        coordinates[dim] = remainder // stride_map[dim]
        remainder = remainder % stride_map[dim]
        if np.any(coordinates[dim] >= device_size[dim]) or np.any(coordinates[dim] < 0):
            raise ValueError(
                f"a host offset is out of bounds in device dim {dim} of {list(device_size)}"
            )
    if np.any(remainder != 0):
        raise ValueError(f"a host offset is not a multiple of the strides {list(stride_map)}")
    return coordinates


def _rearranged(
    coordinates: dict[int, Offsets],
    device_size: Sequence[int],
    stride_map: Sequence[int],
    arrangement: str,
) -> dict[int, Offsets]:
    """Permute the coordinates within sticks according to the arrangement."""
    stick = len(device_size) - 1
    if arrangement == STANDARD or stick not in coordinates:
        return coordinates
    slot = coordinates[stick]
    if arrangement == FP32_TO_DL16:
        half, group, element = slot // 32, slot % 32 // 4, slot % 4
        return {**coordinates, stick: 8 * group + 4 * half + element}
    if arrangement != DL16_TO_FP32:
        raise ValueError(f"the order of elements in {arrangement} sticks is not published")
    count = _stick_count_dim(device_size, stride_map)
    column = coordinates[count] * device_size[stick] + slot
    pair, group, second, element = column // 64, column % 64 // 8, column % 8 // 4, column % 4
    return {**coordinates, count: 2 * pair + second, stick: 4 * group + element}


def _stick_count_dim(device_size: Sequence[int], stride_map: Sequence[int]) -> int:
    step = device_size[-1] * stride_map[-1]
    dims = [d for d, s in enumerate(stride_map) if s == step and device_size[d] > 1]
    if len(dims) != 1 or device_size[dims[0]] % 2 != 0:
        raise ValueError(f"{list(device_size)} has no even number of sticks to alternate between")
    return dims[0]


# --- Copying --------------------------------------------------------------------------------------


def host_offsets(size: Sequence[int], stride: Sequence[int], offset: int = 0) -> Offsets:
    """Return the host offset of every element of a view, in an array of the view's shape."""
    offsets = np.full(tuple(size), offset, dtype=np.int64)
    for dim, (extent, step) in enumerate(zip(size, stride, strict=True)):
        shape = [1] * len(size)
        shape[dim] = extent
        offsets += np.arange(extent).reshape(shape) * step
    return offsets


def write(
    device: Codes, codes: Codes, layout: Layout, stride: Sequence[int], offset: int = 0
) -> None:
    """Write codes to the view (their shape, `stride`, `offset`) of a device allocation."""
    first = _device_offsets(codes.shape, layout, stride, offset)
    for copy in _copy_offsets(layout):
        device[first + copy] = codes


def read(
    device: Codes, layout: Layout, size: Sequence[int], stride: Sequence[int], offset: int = 0
) -> Codes:
    """Return the codes of the view (`size`, `stride`, `offset`) of a device allocation."""
    return np.asarray(device[_device_offsets(size, layout, stride, offset)])


def _device_offsets(
    size: Sequence[int], layout: Layout, stride: Sequence[int], offset: int
) -> Offsets:
    offsets = host_offsets(size, stride, offset)
    return device_offset(offsets, layout.device_size, layout.stride_map, layout.arrangement)


def _copy_offsets(layout: Layout) -> list[int]:
    """Return the device offsets of all copies of host offset 0, several with replicated dims."""
    strides = contiguous_strides(layout.device_size)
    replicated = [dim for dim, step in enumerate(layout.stride_map) if step == REPLICATE]
    return [
        sum(index * strides[dim] for index, dim in zip(indices, replicated, strict=True))
        for indices in product(*(range(layout.device_size[dim]) for dim in replicated))
    ]


# --- Examples that the model and the card are both checked against --------------------------------


@dataclass(frozen=True)
class WorkedLayout:
    """An example of a host tensor and its device layout."""

    host_size: tuple[int, ...]
    device_size: tuple[int, ...]
    stride_map: tuple[int, ...]
    device_bytes: int
    dtype: torch.dtype = torch.float16
    strides: tuple[int, ...] | None = None
    order: tuple[int, ...] | None = None

    @property
    def host_strides(self) -> tuple[int, ...]:
        return contiguous_strides(self.host_size) if self.strides is None else self.strides

    @property
    def dim_order(self) -> tuple[int, ...]:
        return tuple(range(len(self.host_size))) if self.order is None else self.order


_F8, _F32 = torch.float8_e4m3fn, torch.float32
# fmt: off
WORKED_LAYOUTS = [
    WorkedLayout((), (1, 64), (-1, -1), 128),
    WorkedLayout((1,), (1, 64), (-1, -1), 128),
    WorkedLayout((128,), (2, 64), (64, 1), 256),
    WorkedLayout((120,), (2, 64), (64, 1), 256),
    WorkedLayout((0,), (0, 64), (64, 1), 0),
    WorkedLayout((100,), (4, 32), (32, 1), 512, _F32),
    WorkedLayout((100,), (4, 32), (32, 1), 512, torch.int64),
    WorkedLayout((300,), (3, 128), (128, 1), 384, torch.int8),
    WorkedLayout((300,), (3, 128), (128, 1), 384, _F8),
    WorkedLayout((300,), (5, 64), (64, 1), 640, torch.bool),
    WorkedLayout((1024, 256), (4, 1024, 64), (64, 256, 1), 524288),
    WorkedLayout((512, 240), (4, 512, 64), (64, 240, 1), 262144),
    WorkedLayout((512, 256), (8, 512, 32), (32, 256, 1), 524288, _F32),
    WorkedLayout((3, 200), (2, 3, 128), (128, 200, 1), 768, _F8),
    WorkedLayout((3, 192), (6, 3, 32), (32, 192, 1), 2304, torch.int32),
    WorkedLayout((5, 100, 150), (100, 3, 5, 64), (150, 64, 15000, 1), 192000),
    WorkedLayout((5, 100, 150), (5, 3, 100, 64), (15000, 64, 150, 1), 192000, order=(1, 0, 2)),
    WorkedLayout((2, 3, 4, 70), (3, 4, 2, 2, 64), (280, 70, 64, 840, 1), 6144),
    WorkedLayout((2, 32, 128, 64), (32, 128, 1, 2, 64), (8192, 64, 64, 262144, 1), 1048576),
    WorkedLayout((2, 3, 4, 5, 70), (3, 4, 5, 2, 2, 64), (1400, 350, 70, 64, 4200, 1), 30720),
    WorkedLayout((2, 3, 4, 5, 6, 70), (3, 4, 5, 6, 2, 2, 64),
                 (8400, 2100, 420, 70, 64, 25200, 1), 184320),
    WorkedLayout((512, 256), (8, 256, 64), (16384, 1, 256), 262144, order=(1, 0)),
    WorkedLayout((256, 512), (8, 256, 64), (16384, 1, 256), 262144, strides=(1, 256)),
    WorkedLayout((60, 40), (1, 60, 64), (3840, 1, 60), 7680, strides=(1, 60)),
    WorkedLayout((512, 8, 256), (8, 8, 256, 64), (256, 131072, 1, 2048), 2097152, order=(2, 1, 0)),
    WorkedLayout((512, 8, 256), (256, 1, 512, 64), (1, 16384, 2048, 256), 16777216,
                 order=(0, 2, 1)),
    WorkedLayout((7,), (1, 7, 64), (-1, 1, -1), 896, order=(0, -1)),
    WorkedLayout((512, 256), (256, 1, 512, 64), (1, -1, 256, -1), 16777216, order=(0, 1, -1)),
    WorkedLayout((2, 3, 5), (3, 5, 1, 2, 64), (5, 1, -1, 15, -1), 3840, order=(0, 1, 2, -1)),
    WorkedLayout((512, 1), (1, 512, 64), (-1, 1, -1), 65536),
    WorkedLayout((1, 512), (8, 1, 64), (64, -1, 1), 1024),
    WorkedLayout((512, 1, 256), (1, 4, 512, 64), (-1, 64, 256, 1), 262144),
    WorkedLayout((1, 55, 128), (55, 2, 1, 64), (128, 64, -1, 1), 14080),
    WorkedLayout((16, 1, 3, 1, 128), (1, 3, 1, 2, 16, 64), (-1, 128, -1, 64, 384, 1), 12288),
]
# fmt: on

# Host size, device size, stride map: explicit float16 layouts that must round-trip.
EXPLICIT_LAYOUTS = [
    ((40, 60), (1, 512, 64), (64, 60, 1)),
    ((40, 60), (1, 512, 64), (3840, 1, 60)),
    ((40, 60), (38, 64), (64, 1)),
    ((60,), (1, 512, 64), (64, 0, 1)),
    ((60,), (1, 60, 64), (64, 1, 1)),
    ((60,), (2, 1, 2, 64), (15, 64, 30, 1)),
    ((40, 60), (24, 1, 2, 64), (60, 64, 1440, 1)),
    ((40, 60), (3, 4, 3, 1, 2, 64), (600, 180, 60, 64, 1800, 1)),
    ((4800,), (3, 2, 14, 64), (120, 64, 360, 1)),
    ((6, 3, 128), (6, 3, 2, 64), (384, 128, 64, 1)),
]
