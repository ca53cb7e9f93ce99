import pytest


@pytest.fixture(scope="session", autouse=True)
def programs_of_the_tests_alone(tmp_path_factory):
    """Tests neither use nor fill the user's folder of compiled programs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCH_SPYRE_PROGRAM_CACHE", str(tmp_path_factory.mktemp("programs")))
        yield
