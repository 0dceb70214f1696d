"""Nothing for Python: what compiled modules share is in kernels.pxd."""
