"""OpSpecs, KTIR and SuperDSC of representative kernels, as text.

`python tests/helpers/expected_text.py` accepts a change; its diff shows the effect on kernels.
"""

import pytest
from expected_text import FOLDER, expected, texts_of
from kernel_samples import SAMPLES


@pytest.mark.parametrize("name", SAMPLES)
def test_kernels_match_expected_text(name, tmp_path, monkeypatch):
    assert texts_of(name, tmp_path, monkeypatch.setenv) == expected(name)


def test_every_expected_folder_has_a_sample():
    assert {path.name for path in FOLDER.iterdir()} == set(SAMPLES)
