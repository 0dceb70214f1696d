"""Modules beside these tests can be imported by name, whichever test is run."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
