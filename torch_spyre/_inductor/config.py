"""What decides how graphs are compiled. Inductor hashes it into the keys of its caches."""

import sys

from torch.utils._config_module import install_config_module

# Of the graph being compiled: sizes, strides, offset and device layout of each input. Set for the
# time of one compilation, so that graphs for other layouts are not found in the cache.
input_layouts: str = ""
# Everything else that changes generated code: knobs, the version, and the card.
environment: str = ""

install_config_module(sys.modules[__name__])
