"""A launch after which memory is changed, as a defect of the card would."""

from torch_spyre import _C


class ChangedLaunch:
    """A kernel after whose launch some bytes of an argument are changed."""

    def __init__(self, run, index, positions):
        self.run, self.index, self.positions = run, index, positions

    def __call__(self, *tensors):
        self.run(*tensors)
        content = _C._device_bytes(tensors[self.index])
        content[self.positions] ^= 0x40
        _C._set_device_bytes(tensors[self.index], content)
