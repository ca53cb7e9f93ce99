import generate_pictures
import pytest
from generated_sections import stale_files


@pytest.mark.heavy
def test_the_guide_to_profiling_shows_what_its_example_does(monkeypatch):
    monkeypatch.delenv("SPYRE_EMU_CHECK_COUNTS", raising=False)
    assert not stale_files(generate_pictures.contents()), "run `make generate`"
