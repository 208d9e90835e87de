"""threadpoolctl where only the name of the system is another's: asked by that name it would call functions of a loader
that is not here. It finds no BLAS whose threads it could set, as of macOS's Accelerate."""


class ThreadpoolController:
    lib_controllers: list = []

    def select(self, **kwargs) -> "ThreadpoolController":
        return self
