import pytest


@pytest.fixture
def plan_scope(request):
    """Tests here compare values with the CPU: each eager op is compiled once a file."""
    return request.module.__name__
