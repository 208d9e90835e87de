"""The most memory that CuPy's arrays take at one time: counted at each allocation, not what the pool has reserved."""

from collections.abc import Callable
from types import ModuleType


def peak_of(work: Callable[[], object], cupy: ModuleType) -> int:
    """Bytes at the peak of ``work()``, beyond what is allocated when it begins."""

    class Watch(cupy.cuda.memory_hook.MemoryHook):
        name = "peak"

        def __init__(self):
            self.now = self.peak = 0
            self.sizes: dict[int, int] = {}

        def malloc_postprocess(self, **event):
            self.sizes[event["mem_ptr"]] = event["mem_size"]
            self.now += event["mem_size"]
            self.peak = max(self.peak, self.now)

        def free_postprocess(self, **event):
            self.now -= self.sizes.pop(event["mem_ptr"], 0)  # what was there before is not counted

    watch = Watch()
    with watch:
        work()
    return watch.peak
