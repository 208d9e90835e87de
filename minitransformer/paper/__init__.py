"""The paper audit: which code implements each claim of the paper, which test checks it, and what was measured."""

from minitransformer.paper.claims import Claim, Location, Switch, read_claims, read_sections
from minitransformer.paper.page import html_page, markdown_page, terminal_text

__all__ = [
    "Claim",
    "Location",
    "Switch",
    "html_page",
    "markdown_page",
    "read_claims",
    "read_sections",
    "terminal_text",
]
