"""Formulas as MathML, written at build time: viewing them needs neither a script nor the network."""

import re
from html import escape

from docutils.nodes import SkipNode
from latex2mathml.converter import convert

# An inline formula longer than this may be wider than a phone: it gets a scroll bar of its own.
LONG = 45


def to_mathml(latex, display):
    """Convert a formula, and refuse commands that the converter does not know."""
    mathml = convert(latex.strip(), display=display)
    unknown = re.findall(r">\s*(\\[^<]*)<", mathml)
    if unknown:
        raise ValueError(f"formula: expected known commands, got {unknown[0]} in {latex}")
    return mathml


def visit_math(self, node):
    latex = node.astext()
    kind = "math notranslate math-long" if len(latex) > LONG else "math notranslate"
    self.body.append(f'<span class="{kind}" title="{escape(latex)}">')
    self.body.append(to_mathml(latex, "inline") + "</span>")
    raise SkipNode


def visit_displaymath(self, node):
    identifiers = "".join(f'<span id="{escape(name)}"></span>' for name in node.get("ids", []))
    self.body.append(f'<div class="math notranslate">{identifiers}')
    self.body.append(to_mathml(node.astext(), "block") + "</div>\n")
    raise SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displaymath, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
