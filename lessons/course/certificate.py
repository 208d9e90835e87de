"""What ``my_transformer`` ends with: one page about the model made of the student's functions."""

import base64
import datetime
import io
import textwrap
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import minitransformer
from course.mine import folder, source_hash

MEANING = (
    "This page proves that these functions work: each passed the tests of its exercise again, and together they "
    "are the model measured here. It does not prove who wrote them."
)


def certificate(faults: Mapping[str, str], facts: Mapping[str, str], losses: Sequence[float], nothing: float) -> Figure:
    """A page of what is the student's, what was measured and the losses; ``certificate.html`` and ``.png`` beside it.

    faults: of ``assembled``
    facts: what was measured, in words
    nothing: the loss of a model that knows nothing
    """
    own = sorted(name for name, fault in faults.items() if not fault)
    lines = {"Date": str(datetime.date.today()), "minitransformer": minitransformer.__version__, **facts}
    lines["Yours"] = f"{len(own)} of {len(faults)} functions{': ' if own else ''}{', '.join(own)}"
    if others := sorted(set(faults) - set(own)):
        lines["Not yours yet"] = ", ".join(others)
    if own:
        lines["SHA-256 of your sources"] = source_hash(own)
    figure = page(lines, losses, nothing)
    if (place := folder()) is None:
        print("Nothing is kept here, so the certificate is not written.")
        return figure
    try:
        place.mkdir(parents=True, exist_ok=True)
        figure.savefig(place / "certificate.png", dpi=120)
        (place / "certificate.html").write_text(html(lines, losses, nothing), encoding="utf-8")
        print(f"Written: {place / 'certificate.html'} and certificate.png")
    except OSError as error:
        print(f"The certificate is not written: {error}.")
    return figure


def draw_losses(axes: Axes, losses: Sequence[float], nothing: float) -> None:
    """Each update's loss, their mean over 20, and the loss of knowing nothing."""
    axes.plot(range(1, len(losses) + 1), losses, color="0.75", linewidth=0.8, label="each update")
    mean = np.convolve(losses, np.ones(20) / 20, "valid")
    axes.plot(range(20, len(losses) + 1), mean, color="k", label="mean of 20 updates")
    axes.axhline(nothing, color="k", linestyle="--", linewidth=1, label=f"knowing nothing: {nothing:.2f}")
    axes.set(xlabel="update", ylabel="loss, nats per token", ylim=(0, None))
    axes.legend(fontsize=8)


def page(lines: Mapping[str, str], losses: Sequence[float], nothing: float) -> Figure:
    figure = Figure(figsize=(8, 9))
    figure.text(0.08, 0.95, "My Transformer", fontsize=20, va="top")
    rows = [
        row
        for name, text in lines.items()
        for row in textwrap.wrap(f"{name}: {text}", 96, subsequent_indent="    ", break_on_hyphens=False)
    ]
    figure.text(0.08, 0.9, "\n".join(rows), fontsize=9, va="top", linespacing=1.5, parse_math=False)
    figure.text(0.08, 0.03, textwrap.fill(MEANING, 110), fontsize=8, va="bottom")
    draw_losses(figure.add_axes((0.12, 0.14, 0.8, 0.27)), losses, nothing)
    return figure


def html(lines: Mapping[str, str], losses: Sequence[float], nothing: float) -> str:
    figure, image = Figure(figsize=(7, 3), layout="constrained"), io.BytesIO()
    draw_losses(figure.add_subplot(), losses, nothing)
    figure.savefig(image, dpi=120)
    rows = "\n".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in lines.items())
    return f"""<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>My Transformer</title>
<style>
body {{ font-family: sans-serif; max-width: 50em; margin: 2em auto }}
th {{ text-align: left; vertical-align: top; padding-right: 1em }}
td {{ overflow-wrap: anywhere }}
img {{ max-width: 100% }}
</style>
<h1>My Transformer</h1>
<table>
{rows}
</table>
<img alt="Loss of each update" src="data:image/png;base64,{base64.b64encode(image.getvalue()).decode()}">
<p>{MEANING}</p>
</html>
"""
