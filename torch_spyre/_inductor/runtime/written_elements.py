"""The elements of a kernel's outputs that its ops write, as opposed to padding."""

from collections.abc import Mapping, Sequence

import torch

from torch_spyre._inductor.op_spec import OpSpec, index_names
from torch_spyre._inductor.verification.positions import Grid
from torch_spyre.constants import BYTES_IN_STICK
from torch_spyre.errors import NoReferenceError


def written_elements(
    stages: Sequence[Sequence[OpSpec]],
    memory_of_argument: Mapping[int, int],
    contents: Sequence[torch.Tensor],
) -> dict[int, torch.Tensor | None]:
    """Return a mask of the elements that ops write, by the memory of their argument.

    None stands for all elements: where indices decide, the others keep their values, and can be
    compared too.
    """
    masks: dict[int, torch.Tensor | None] = {}
    for spec in (spec for specs in stages for spec in specs):
        output = spec.output
        if output.arg_index < 0:
            continue
        memory = memory_of_argument[output.arg_index]
        count = contents[memory].numel() * output.elements_per_stick // BYTES_IN_STICK
        if memory in masks and masks[memory] is None:
            continue
        grid = Grid(spec.sizes)
        try:
            if index_names(output):
                raise NoReferenceError("the indices decide")
            positions = grid.positions(output.device_size, output.device_coordinates)
        except NoReferenceError:
            masks[memory] = None
            continue
        mask = masks.setdefault(memory, torch.zeros(count, dtype=torch.bool))
        assert mask is not None
        mask[positions.reshape(-1)] = True
    return masks
