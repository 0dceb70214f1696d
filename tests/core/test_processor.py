"""What core/c/processor.h says of the processor, beside what the operating system says of it."""

import ctypes
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

HEADERS = Path(__file__).parents[2] / "src/banditmips/core/c"
CPUINFO = Path("/proc/cpuinfo")
AVX2 = {"avx2", "fma", "f16c", "popcnt", "bmi1", "bmi2"}
AVX512 = AVX2 | {"avx512f", "avx512dq", "avx512cd", "avx512bw", "avx512vl"}
WANTED = {"avx2": AVX2, "avx512": AVX512, "avx512_bits_and_bytes": AVX512 | {"avx512_vpopcntdq", "avx512_vnni"}}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="processor.h asks x86-64 processors only")
@pytest.mark.skipif(not CPUINFO.exists(), reason="there is no /proc/cpuinfo to compare with")
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_the_processor_has_what_the_operating_system_says(tmp_path):
    functions = "".join(f"int {name}(void) {{ return bm_has_{name}(); }}\n" for name in WANTED)
    (tmp_path / "ask.c").write_text(f'#include "processor.h"\n{functions}')
    command = ["cc", "-Wall", "-Werror", "-shared", "-fPIC", f"-I{HEADERS}", "ask.c", "-o", "ask.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    library = ctypes.CDLL(str(tmp_path / "ask.so"))
    line = next(line for line in CPUINFO.read_text().splitlines() if line.startswith("flags"))
    flags = set(line.split(":")[1].split())
    assert {name: bool(getattr(library, name)()) for name in WANTED} == {
        name: wanted <= flags for name, wanted in WANTED.items()
    }
