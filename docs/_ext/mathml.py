"""Formulas as MathML, written at build time: viewing them needs neither a script nor the network.

The font is STIX Two Math (SIL Open Font License), as the package ziamath brings it, reduced to the
characters of formulas.
"""

import re
from html import escape
from importlib.resources import as_file, files
from pathlib import Path
from xml.etree import ElementTree

from docutils.nodes import SkipNode
from fontTools import subset
from latex2mathml.converter import convert

# An inline formula with more characters than this may be wider than a phone: it may be broken.
LONG = 24
OPENING, CLOSING = set("([{⟨⌊⌈"), set(")]}⟩⌋⌉")
BREAK_AFTER = set("=≤≥<>∈→↦,;≻⪰≪≫⊆←")
BREAK_BEFORE = set("+−-±")
NAMESPACE = "http://www.w3.org/1998/Math/MathML"
ElementTree.register_namespace("", NAMESPACE)
FONT = ("STIXTwoMath-Regular.ttf", "stix_two_math.woff")
RANGES = [
    (0x20, 0x17F),
    (0x370, 0x3FF),
    (0x2010, 0x2060),
    (0x20D0, 0x20DC),
    (0x2100, 0x214F),
    (0x2190, 0x232A),
    (0x25A0, 0x25FF),
    (0x27E6, 0x27EB),
    (0x2A00, 0x2AFF),
    (0x1D400, 0x1D7FF),
]


def to_mathml(latex, display):
    """Convert a formula, and refuse commands that the converter does not know."""
    mathml = convert(latex.strip(), display=display)
    unknown = re.findall(r">\s*(\\[^<]*)<", mathml)
    if unknown:
        raise ValueError(f"formula: expected known commands, got {unknown[0]} in {latex}")
    # Bars that \left and \right did not ask to stretch would stretch: nobody says which is which.
    return mathml.replace("<mo>&#x02016;</mo>", '<mo stretchy="false">&#x02016;</mo>')


def n_characters(elements):
    """Return about how many characters wide elements are."""
    return sum(len("".join(element.itertext())) for element in elements)


def in_parts(mathml):
    """Divide an inline formula where a line may be broken: at signs outside of parentheses."""
    root = ElementTree.fromstring(mathml)
    row = root[0] if len(root) == 1 and root[0].tag.endswith("mrow") else root
    parts, depth = [[]], 0
    for element in row:
        text = "".join(element.itertext()).strip()
        sign = element.tag.endswith("mo")
        depth += (text in OPENING) - (text in CLOSING) if sign else 0
        if sign and depth == 0 and text in BREAK_BEFORE and n_characters(parts[-1]) > 8:
            parts.append([])
        parts[-1].append(element)
        if sign and depth == 0 and text in BREAK_AFTER and n_characters(parts[-1]) > 3:
            parts.append([])
    return [part for part in parts if part]


def as_math(elements):
    """Write elements as a formula of their own."""
    for element in (elements[0], elements[-1]):  # a sign at the edge keeps the space of its middle
        if "".join(element.itertext()).strip() in BREAK_AFTER | BREAK_BEFORE and len(elements) > 1:
            element.set("form", "infix")
    math = ElementTree.Element(f"{{{NAMESPACE}}}math", display="inline")
    ElementTree.SubElement(math, f"{{{NAMESPACE}}}mrow").extend(elements)
    long = ' class="formula-long"' if n_characters(elements) > LONG else ""
    return f"<span{long}>{ElementTree.tostring(math, encoding='unicode')}</span>"


def visit_math(self, node):
    """Write an inline formula, in parts if it is long."""
    latex = node.astext()
    mathml = to_mathml(latex, "inline")
    if n_characters(ElementTree.fromstring(mathml)) > LONG:
        mathml = "<wbr>".join(as_math(part) for part in in_parts(mathml))
    self.body.append(f'<span class="formula notranslate" title="{escape(latex)}">{mathml}</span>')
    raise SkipNode


def visit_displaymath(self, node):
    """Write a formula on lines of its own."""
    anchors = "".join(f'<span id="{escape(name)}"></span>' for name in node.get("ids", []))
    self.body.append(f'<div class="formula notranslate">{anchors}')
    self.body.append(to_mathml(node.astext(), "block") + "</div>\n")
    raise SkipNode


def write_font(app, exception):
    """Write the font of formulas beside the style sheets."""
    target = Path(app.outdir) / "_static" / FONT[1]
    if exception or app.builder.format != "html" or target.exists():
        return
    options = subset.Options(flavor="woff", layout_features=["*"], notdef_outline=True)
    with as_file(files("ziamath") / "fonts" / FONT[0]) as path:
        font = subset.load_font(str(path), options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=[code for low, high in RANGES for code in range(low, high + 1)])
    subsetter.subset(font)
    subset.save_font(font, str(target), options)


def setup(app):
    """Register the extension."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displaymath, None))
    app.connect("build-finished", write_font)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
