"""Print the private names that the installed PyTorch lacks: the first step of a port.

Run it with TORCH_DEVICE_BACKEND_AUTOLOAD=0, so that `import torch` does not apply the patches.
"""

import sys

from torch_spyre.pytorch_internals.check import problem_of
from torch_spyre.pytorch_internals.registry import PATCHES
from torch_spyre.pytorch_internals.uses import USES


def main() -> int:
    names = [(target, f"patch {patch.name!r}") for patch in PATCHES for target in patch.targets]
    names += [(use.name, use.purpose) for use in USES]
    problems = [(problem_of(name), user) for name, user in names]
    for problem, user in problems:
        if problem is not None:
            print(f"{problem} (needed for: {user})")
    missing = sum(problem is not None for problem, _ in problems)
    print(f"{len(names)} private names of PyTorch checked, {missing} problems")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
