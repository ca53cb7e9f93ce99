"""Settings that generated code depends on. Inductor hashes them into the keys of its caches."""

import sys

from torch.utils._config_module import install_config_module

# The sizes, strides, offset and device layout of each input of the graph being compiled. Set
# during one compilation, so that the cache does not return graphs for other layouts.
input_layouts: str = ""
# Everything else that changes generated code: knobs, the version, and the card.
environment: str = ""

install_config_module(sys.modules[__name__])
