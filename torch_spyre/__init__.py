"""IBM Spyre as a PyTorch device.

`import torch` is enough: PyTorch finds this package through its `torch.backends` entry point and
calls `_autoload`. With TORCH_DEVICE_BACKEND_AUTOLOAD=0 a program may call it itself.
"""

__version__ = "0.1.0"

_loaded = False


def _autoload() -> None:
    """Register the device with PyTorch, once. This opens no card and imports no compiler."""
    global _loaded
    if _loaded:
        return
    _loaded = True
    # Here and not above, so that `spyre knobs` and the like need no torch.
    from torch_spyre import knobs, logging_config

    knobs.set_vendor_defaults()
    knobs.warn_about_unknown_variables()
    logging_config.configure()

    from torch_spyre.device.registration import register

    register()
