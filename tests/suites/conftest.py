"""The shop, as a suite read from a folder."""

import pytest
from suite_shop import rows, write

from ace.suites.files import FileSuite


@pytest.fixture
def shop(tmp_path):
    return FileSuite.from_folder(write(tmp_path, rows()))
