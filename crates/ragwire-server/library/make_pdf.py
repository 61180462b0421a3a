"""Writes glossary.pdf, the sample document that has pages. Standard library only; run it in this folder after a change."""

import textwrap

TITLE = "A glossary of streamed answers"
PAGES = [
    [
        ("Turn", "A turn is one question and everything that is sent back for it. A turn always ends in exactly one way: completed,"
         " failed or stopped."),
        ("Event", "An event is one progress record of a turn, such as a search or a review. Events show the reader what is going on"
         " before the first word of the answer."),
        ("Sink", "The sink is where a pipeline puts its events and its text. A sink can be cloned, and all clones feed the same"
         " turn."),
    ],
    [
        ("Orchestrator", "The orchestrator is the code that retrieves and answers. The server knows it only as a function from a"
         " question and a sink to metadata."),
        ("Trailer", "The trailer is the JSON object that closes a framed stream. A stream without its whole trailer was cut."),
        ("Truncation", "Truncation means that a stream ended without its terminal. A truncated answer is shown as broken off, never"
         " as complete."),
    ],
]


def escape(text):
    return text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")


def content(number, entries):
    lines, y = [], 760
    if number == 1:
        lines.append(f"BT /F2 20 Tf 72 {y} Td ({TITLE}) Tj ET")
        y -= 44
    for word, meaning in entries:
        lines.append(f"BT /F2 14 Tf 72 {y} Td ({escape(word)}) Tj ET")
        y -= 22
        for line in textwrap.wrap(meaning, 84):
            lines.append(f"BT /F1 11 Tf 72 {y} Td ({escape(line)}) Tj ET")
            y -= 15
        y -= 16
    return "\n".join(lines)


def main():
    kids = " ".join(f"{5 + 2 * i} 0 R" for i in range(len(PAGES)))
    font = "<< /Type /Font /Subtype /Type1 /BaseFont /%s /Encoding /WinAnsiEncoding >>"
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(PAGES)} >>",
        font % "Helvetica",
        font % "Helvetica-Bold",
    ]
    for i, entries in enumerate(PAGES):
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 842] /Resources << /Font << /F1 3 0 R /F2 4 0 R >> >>"
            f" /Contents {6 + 2 * i} 0 R >>"
        )
        stream = content(i + 1, entries)
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    file, offsets = "%PDF-1.4\n", []
    for i, body in enumerate(objects, 1):
        offsets.append(len(file))
        file += f"{i} 0 obj\n{body}\nendobj\n"
    xref = len(file)
    file += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n" + "".join(f"{at:010} 00000 n \n" for at in offsets)
    file += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{xref}\n%%EOF\n"
    with open("glossary.pdf", "wb") as out:
        out.write(file.encode("ascii"))


main()
