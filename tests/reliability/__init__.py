"""Commands that test reliability at length; what they run forms products by NumPy's BLAS, as the tests do."""

import os

os.environ.setdefault("MINITRANSFORMER_BLAS", "numpy")
