"""What documents of the repository need to become pages.

Links from a page to a file that is no page lead to the repository. A list that follows a line of
text gets the empty line that Python-Markdown wants before it.
"""

import pathlib
import posixpath
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\((?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?\)")
ITEM = re.compile(r"([-*]|\d+\.) ")
FENCE = re.compile(r"\s*```")


def on_page_markdown(markdown, page, config, files):
    directory = posixpath.dirname(page.file.src_uri)

    def lead(match):
        target = posixpath.normpath(posixpath.join(directory, match[1]))
        path = ROOT / target
        if files.get_file_from_path(target) or not path.exists():
            return match[0]
        kind = "tree" if path.is_dir() else "blob"
        return f"]({config.extra['repository']}/{kind}/main/{target}{match[2] or ''})"

    lines, in_code, in_list = [], False, False
    for line in markdown.split("\n"):
        if FENCE.match(line):
            in_code = not in_code
        elif not in_code:
            line = LINK.sub(lead, line)
            if ITEM.match(line):
                if not in_list and lines and lines[-1].strip():
                    lines.append("")
                in_list = True
            elif not line.startswith(" ") and line.strip() == line:
                in_list = in_list and line == ""
        lines.append(line)
    return "\n".join(lines)
