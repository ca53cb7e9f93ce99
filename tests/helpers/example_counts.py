"""How many examples the tests of random graphs and programs try: each compiles."""

from hypothesis import HealthCheck, settings

FEW = settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
MANY = settings(FEW, max_examples=1500, derandomize=False, print_blob=True)
