"""HTML of a report: one page that needs nothing but itself. Every text is escaped here, and nowhere else."""

import base64
import dataclasses
import html
from collections.abc import Iterable, Sequence

from engine.report.tables import Table
from engine.report.words import Passage

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""Even a text that got past the escaping could load or run nothing."""

_SHORT = 22
"""A cell of so few characters stays on one line."""

_STYLE = """
:root { --ink: #1f2430; --soft: #5b6472; --line: #dfe3ea; --accent: #332288; --panel: #f6f7fa; }
* { box-sizing: border-box; }
body { margin: 0; background: #fff; color: var(--ink); font: 16px/1.55 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 66rem; margin: 0 auto; padding: 2rem 1.5rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .3rem; }
h2 { font-size: 1.3rem; margin: 3rem 0 .8rem; padding-top: .8rem; border-top: 1px solid var(--line); }
h3 { font-size: 1.02rem; margin: 1.6rem 0 .3rem; }
p, li { max-width: 50rem; }
p { margin: .5rem 0; }
.lead, figcaption, .note { color: var(--soft); }
figcaption, .note { font-size: .88rem; }
.headline { background: var(--accent); color: #fff; border-radius: 12px; padding: 1.2rem 1.5rem; margin: 1.4rem 0 1rem; }
.headline dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(10rem, 1fr)); gap: 1rem 1.5rem; margin: 0; }
.headline dt { font-size: .8rem; color: #d9d4f2; }
.headline dd { margin: 0; font-size: 1.22rem; font-weight: 600; overflow-wrap: anywhere; }
.warning { border-left: 5px solid #b00020; background: #fdf1f2; padding: .6rem 1.2rem 1rem; margin: 1.4rem 0; border-radius: 0 8px 8px 0; }
.warning h3 { margin-top: .6rem; }
nav ul { list-style: none; display: flex; flex-wrap: wrap; gap: .3rem 1.3rem; padding: 0; margin: 1rem 0 0; font-size: .92rem; }
nav a { color: var(--accent); }
figure { margin: 1.2rem 0 2rem; }
img { max-width: 100%; height: auto; border: 1px solid var(--line); border-radius: 8px; padding: .8rem; background: #fff; }
.scroll { overflow-x: auto; margin: 1.2rem 0 .3rem; }
table { border-collapse: collapse; width: 100%; font-size: .86rem; line-height: 1.4; }
caption { text-align: left; font-weight: 600; font-size: .98rem; padding: .3rem 0; }
th, td { text-align: left; vertical-align: top; padding: .32rem .7rem .32rem 0; border-bottom: 1px solid var(--line); }
td { font-variant-numeric: tabular-nums; }
thead th { color: var(--soft); font-weight: 600; border-bottom: 2px solid var(--line); }
tbody th { font-weight: 400; color: var(--soft); width: 40%; }
td { overflow-wrap: anywhere; }
td.short { white-space: nowrap; }
tr.estimate td { color: var(--soft); font-style: italic; }
tr.certified td { font-weight: 600; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 8px; padding: .7rem 1rem; overflow-x: auto; margin: .7rem 0; }
code { font: .92em ui-monospace, "DejaVu Sans Mono", monospace; }
footer { margin-top: 3rem; color: var(--soft); font-size: .85rem; }
@media print {
  body { font-size: 10.5pt; } main { max-width: none; padding: 0; } nav { display: none; }
  .headline { background: #fff; color: #000; border: 2px solid #000; } .headline dt { color: #444; }
  figure, .headline, .warning, tr { break-inside: avoid; } h2, h3 { break-after: avoid; } .scroll { overflow: visible; }
}
""".strip()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Picture:
    """A figure of the page.

    Attributes:
      name: of its file, without suffix.
      png: the file's bytes.
      alternative: what it shows, for those who do not see it.
      caption: how to read it.
    """

    name: str
    png: bytes
    alternative: str
    caption: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Section:
    """A section with its own entry in the list of contents; `parts` in the order in which they appear."""

    anchor: str
    title: str
    parts: tuple[Passage | Picture | Table, ...]


def page(
    *, title: str, lead: str, headline: Sequence[tuple[str, str]], warnings: Iterable[Passage], sections: Sequence[Section], footer: str,
) -> str:
    """The whole page. The same arguments give the same text.

    Args:
      title, lead: of the page.
      headline: (name, value) in the box at the top; empty for none.
      warnings: what a reader must know before anything else.
      sections: the rest.
      footer: the last line.
    """
    contents = "".join(f'<li><a href="#{_escaped(one.anchor)}">{_escaped(one.title)}</a></li>' for one in sections)
    body = [
        f"<h1>{_escaped(title)}</h1>", f'<p class="lead">{_escaped(lead)}</p>', _headline(headline),
        *(f'<div class="warning">{_passage(one)}</div>' for one in warnings),
        f'<nav aria-label="Contents"><ul>{contents}</ul></nav>', *map(_section, sections), f"<footer>{_escaped(footer)}</footer>",
    ]
    return "\n".join([
        "<!DOCTYPE html>", '<html lang="en">', "<head>", '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_escaped(_POLICY)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">', f"<title>{_escaped(title)}</title>",
        f"<style>{_STYLE}</style>", "</head>", "<body>", "<main>", *body, "</main>", "</body>", "</html>", "",
    ])


def _headline(items: Sequence[tuple[str, str]]) -> str:
    if not items:
        return ""
    entries = "".join(f"<div><dt>{_escaped(name)}</dt><dd>{_escaped(value)}</dd></div>" for name, value in items)
    return f'<section class="headline" aria-label="Result"><dl>{entries}</dl></section>'


def _section(section: Section) -> str:
    made = {Passage: _passage, Picture: _picture, Table: _table}
    parts = "\n".join(made[type(part)](part) for part in section.parts)
    return f'<section id="{_escaped(section.anchor)}">\n<h2>{_escaped(section.title)}</h2>\n{parts}\n</section>'


def _passage(passage: Passage) -> str:
    heading = f"<h3>{_escaped(passage.heading)}</h3>" if passage.heading else ""
    paragraphs = "".join(f"<p>{_escaped(text)}</p>" for text in passage.paragraphs)
    points = "".join(f"<li>{_escaped(text)}</li>" for text in passage.points)
    command = "" if passage.command is None else f"<pre><code>{_escaped(passage.command)}</code></pre>"
    return heading + paragraphs + (f"<ul>{points}</ul>" if points else "") + command


def _picture(picture: Picture) -> str:
    data = base64.b64encode(picture.png).decode("ascii")
    return (
        f'<figure><img src="data:image/png;base64,{data}" alt="{_escaped(picture.alternative)}">'
        f"<figcaption>{_escaped(picture.caption)}</figcaption></figure>"
    )


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{_escaped(name)}</th>' for name in table.columns)
    head = f"<thead><tr>{head}</tr></thead>" if head else ""
    rows = "".join(map(_row if table.columns else _named_row, table.rows))
    note = f'<p class="note">{_escaped(table.note)}</p>' if table.note else ""
    return (
        f'<div class="scroll" tabindex="0"><table><caption>{_escaped(table.caption)}</caption>{head}<tbody>{rows}</tbody></table></div>{note}'
    )


def _row(cells: Sequence[str]) -> str:
    look = next((f' class="{kind}"' for kind in ("certified", "estimate") if any(cell.split(",")[0] == kind for cell in cells)), "")
    return f"<tr{look}>" + "".join(map(_cell, cells)) + "</tr>"


def _cell(text: str) -> str:
    look = ' class="short"' if len(text) <= _SHORT else ""
    return f"<td{look}>{_escaped(text)}</td>"


def _named_row(cells: Sequence[str]) -> str:
    name, value = cells
    return f'<tr><th scope="row">{_escaped(name)}</th><td>{_escaped(value)}</td></tr>'


def _escaped(text: str) -> str:
    # A lone surrogate, as a damaged file name has, cannot be encoded.
    return html.escape(text.encode("utf-8", "replace").decode("utf-8"))
