"""Everything that changes private parts of PyTorch, or relies on them.

- `registry.PATCHES` lists every change, one `Patch` record each: what it changes, why there is no
  public way, and what breaks if PyTorch changes. Each patch is defined in a module of this folder.
- `uses.USES` lists every private name that the package only uses, with what we rely on.
- `check` looks all of these up in the installed PyTorch; `python -m torch_spyre.pytorch_internals`
  prints what is missing.

docs/porting-to-a-new-pytorch.md explains how to use them for a new release.
"""

import torch  # noqa: F401  (first: PyTorch's autoload imports the modules of this folder)
