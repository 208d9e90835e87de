"""Programs around the package."""

from minitransformer.cli.common import report_errors

__all__ = ["report_errors"]
