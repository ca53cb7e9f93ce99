"""The summary of TORCH_SPYRE_VERIFY: how much it has checked, and what it could not check.

```python
from torch_spyre.debugging import verification
print(verification.summary())
```
"""

import warnings
from collections import Counter
from dataclasses import dataclass, field, replace

from torch_spyre.errors import UnverifiedWarning, VerificationError
from torch_spyre.logging_config import get_logger

logger = get_logger(__name__)


@dataclass
class VerificationSummary:
    """How much TORCH_SPYRE_VERIFY has checked in this process so far."""

    launches: int = 0
    kernels: int = 0
    # Elements of outputs; those that were compared, but may have any value by their bounds.
    elements: int = 0
    unbounded_elements: int = 0
    # Reasons why results of ops were not verified, with the number of launches.
    unverified: Counter[str] = field(default_factory=Counter)
    # The errors that were raised.
    divergences: list[VerificationError] = field(default_factory=list)

    def copy(self) -> "VerificationSummary":
        return replace(
            self, unverified=Counter(self.unverified), divergences=list(self.divergences)
        )

    def __str__(self) -> str:
        lines = [
            f"verified {self.launches} launches of {self.kernels} kernels: {self.elements} "
            f"elements, of which {self.unbounded_elements} may have any value"
        ]
        lines += [
            f"not verified: {reason} ({count} launches)"
            for reason, count in self.unverified.most_common()
        ]
        return "\n".join(lines)


_summary = VerificationSummary()


def summary() -> VerificationSummary:
    """Return the summary of this process."""
    return _summary


def count_unverified(kernel: str, reason: str) -> None:
    """Count a launch of which something was not verified; warn if it is the first of its kind."""
    _summary.unverified[reason] += 1
    if _summary.unverified[reason] == 1:
        warnings.warn(UnverifiedWarning(kernel, reason), stacklevel=2)
    logger.info("not verified in %s: %s", kernel, reason)
