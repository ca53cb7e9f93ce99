"""The rectangle of device memory that an access covers, with sizes that are known at launch."""

from dataclasses import dataclass

from torch_spyre._inductor.tiling.access import Access, Sum
from torch_spyre._inductor.to_ktir.extents import Size


@dataclass(frozen=True)
class MemoryBox:
    """One dim of a rectangle in device memory: see `tiling.access.Box`."""

    sum: Sum
    stride: Size
    size: Size
    stick: int = 0

    @property
    def is_stick(self) -> bool:
        return self.stick > 0


@dataclass(frozen=True)
class MemoryBoxes:
    """The dims of a rectangle, and its offset from the start of the tensor."""

    boxes: tuple[MemoryBox, ...]
    offset: Size = 0


def boxes_of(access: Access) -> MemoryBoxes | None:
    """Return the rectangle of an access whose sizes are all known; None if it is none."""
    if access.boxes is None:
        return None
    return MemoryBoxes(
        tuple(MemoryBox(box.sum, box.stride, box.size, box.stick) for box in access.boxes)
    )
