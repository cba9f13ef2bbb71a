"""Run the tests with the kernels of other processors: ``python -m tests.portable [KERNELS ...]``.

OpenBLAS chooses kernels by processor, NumPy loops; both let the environment decide. A result that rounding
decides differs between them. Kernels that this processor cannot run are named and left out.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys

from numpy._core._multiarray_umath import __cpu_features__

#: OpenBLAS' name of the kernels, the feature of the processor that they need, and whether NumPy's loops are
#: held to those of the same age.
KERNELS = {
    "Haswell": ("AVX2", False),
    "Sandybridge": ("AVX", True),
    "Prescott": ("SSE3", False),
    "SkylakeX": ("AVX512F", False),
}
NEWER_LOOPS = ("X86_V3", "X86_V4", "AVX512_ICL")


def environment(name: str, old_loops: bool) -> dict[str, str]:
    """The environment in which OpenBLAS, NumPy's and SciPy's, takes these kernels."""
    disabled = " ".join(each for each in NEWER_LOOPS if old_loops and __cpu_features__.get(each))
    return {**os.environ, "OPENBLAS_CORETYPE": name} | (
        {"NPY_DISABLE_CPU_FEATURES": disabled} if disabled else {}
    )


def main(names: list[str], arguments: list[str]) -> int:
    """Run pytest once for each kind of kernels; the number of runs that fail."""
    if platform.machine() not in ("x86_64", "AMD64"):
        print(f"kernels can be chosen on x86-64, not on {platform.machine()}; make test runs its own")
        return 0
    failed, left_out = [], []
    for name in names:
        feature, old_loops = KERNELS[name]
        if not __cpu_features__.get(feature):
            left_out.append(f"{name} (this processor has no {feature})")
            continue
        print(f"== pytest, OpenBLAS kernels {name}", flush=True)
        command = [sys.executable, "-m", "pytest", *arguments]
        if subprocess.run(command, env=environment(name, old_loops)).returncode:
            failed.append(name)
    print(f"failed: {', '.join(failed) or 'none'}; left out: {', '.join(left_out) or 'none'}")
    return len(failed)


if __name__ == "__main__":
    chosen = [each for each in sys.argv[1:] if each in KERNELS]
    sys.exit(main(chosen or list(KERNELS), [each for each in sys.argv[1:] if each not in KERNELS]))
