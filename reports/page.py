"""Puts a page together: one file, no network, plotly.js and our own scripts inlined once each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any

from inputs.given import json_escaped, printable
from reports.markup import PageSection


@cache
def asset(name: str) -> str:
    """The text of a file in ``reports/assets``."""
    return (files("reports") / "assets" / name).read_text(encoding="utf-8")


@cache
def plotly_script() -> str:
    """plotly.js, minified, safe inside a script element."""
    from plotly.offline import get_plotlyjs

    return _inside_script(str(get_plotlyjs()))


def script_json(payload: Mapping[str, Any]) -> str:
    """JSON that may stand in a script element: nothing in it can end the element."""
    text = json.dumps(payload, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return json_escaped(text.replace("<", "\\u003c"))


def _inside_script(code: str) -> str:
    return code.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def contents(sections: Sequence[PageSection]) -> str:
    """Links to the sections."""
    return "".join(f'<a href="#{s.anchor}">{s.short}</a>' for s in sections)


def assemble(
    template: str, *, styles: Sequence[str], scripts: Sequence[str], sections: Sequence[PageSection], **parts: str
) -> str:
    """Fill ``template`` (an asset) with assets, sections and further parts (HTML already).

    Pages without charts omit plotly.js, 95 % of the size of other pages.
    """
    payload = {name: value for section in sections for name, value in section.payload.items()}
    return Template(asset(template)).substitute(
        {name: printable(part, keep="\n\t") for name, part in parts.items()},
        styles="\n".join(asset(name) for name in styles),
        scripts=_inside_script("\n".join(asset(name) for name in scripts)),
        plotly=plotly_script() if "charts.js" in scripts else "",
        contents=contents(sections),
        sections=printable("\n".join(section.html() for section in sections), keep="\n\t"),
        payload=script_json(payload),
    )
