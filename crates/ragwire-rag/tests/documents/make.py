"""Writes the documents of this folder, with the libraries that most programs use to write such files:
python-docx, python-pptx, openpyxl, EbookLib and odfpy. Their text was written for these tests.

    pip install python-docx python-pptx openpyxl EbookLib odfpy && python make.py [names of functions]
"""

import datetime
import pathlib
import sys

import docx
import openpyxl
import pptx
from ebooklib import epub
from odf import dc, draw, office, opendocument, presentation, style, table, text

HERE = pathlib.Path(__file__).parent


def word():
    document = docx.Document()
    document.core_properties.title = "The bird guide"
    document.sections[0].header.paragraphs[0].text = "Running head"
    document.add_heading("The bird guide", 0)
    document.add_heading("Feeding", 1)
    document.add_paragraph("A robin eats worms. ").add_run("In winter it eats seeds.").bold = True
    document.add_paragraph("sunflower seeds", style="List Bullet")
    table = document.add_table(rows=3, cols=2)
    for row, cells in zip(table.rows, [("Bird", "Food"), ("robin", "worms"), ("owl", "mice & voles")]):
        for cell, text in zip(row.cells, cells):
            cell.text = text
    document.add_heading("Counting", 2)
    code = document.styles.add_style("Source Code", docx.enum.style.WD_STYLE_TYPE.PARAGRAPH)
    for line in ["for bird in garden:", "    count(bird)"]:
        document.add_paragraph(line, style=code)
    document.add_paragraph("Count at dawn.")
    document.save(HERE / "birds.docx")


def powerpoint():
    deck = pptx.Presentation()
    deck.core_properties.title = "Birds in slides"
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.title.text = "Feeding"
    slide.placeholders[1].text = "A robin eats worms.\nAn owl eats mice."
    slide.notes_slide.notes_text_frame.text = "Mention the winter."
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    slide.shapes.title.text = "Prices"
    inch = pptx.util.Inches(1)
    table = slide.shapes.add_table(2, 2, inch, inch, inch * 4, inch).table
    for row, cells in enumerate([("Food", "Price"), ("seeds", "2 euros")]):
        for column, text in enumerate(cells):
            table.cell(row, column).text = text
    deck.save(HERE / "birds.pptx")


def excel():
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Sightings"
    sheet.append(["Bird", "Day", "Share", "Seen"])
    sheet.append(["robin", datetime.date(2026, 1, 31), 0.25, True])
    sheet.append(["owl", datetime.datetime(2026, 2, 1, 22, 30), 0.125, None])
    sheet["B2"].number_format = "yyyy-mm-dd"
    sheet["B3"].number_format = "yyyy-mm-dd hh:mm"
    for cell in ("C2", "C3"):
        sheet[cell].number_format = "0.0%"
    other = book.create_sheet("Notes")
    other["B2"] = "Count at dawn."
    hidden = book.create_sheet("Internal")
    hidden["A1"] = "Nobody sees this."
    hidden.sheet_state = "hidden"
    book.save(HERE / "birds.xlsx")


def book():
    birds = epub.EpubBook()
    birds.set_identifier("ragwire-birds")
    birds.set_title("The book of birds")
    birds.set_language("en")
    chapters = []
    for number, (title, text) in enumerate(
        [("Robins", "A robin sings at dawn."), ("Owls", "An owl hunts at night.")]
    ):
        chapter = epub.EpubHtml(title=title, file_name=f"text/chapter {number}.xhtml", lang="en")
        chapter.content = f"<h1>{title}</h1><p>{text}</p><pre>count({number})</pre>"
        birds.add_item(chapter)
        chapters.append(chapter)
    birds.toc = chapters
    birds.add_item(epub.EpubNcx())
    birds.add_item(epub.EpubNav())
    birds.spine = ["nav", *chapters]
    epub.write_epub(HERE / "birds.epub", birds)


def rows(cells, header=0):
    """Returns a table of OpenDocument."""
    made = table.Table(name="Prices")
    head = table.TableHeaderRows()
    for number, values in enumerate(cells):
        row = table.TableRow()
        for value in values:
            cell = table.TableCell()
            cell.addElement(text.P(text=value))
            row.addElement(cell)
        (head if number < header else made).addElement(row)
        if number + 1 == header:
            made.addElement(head)
    return made


def open_text():
    document = opendocument.OpenDocumentText()
    document.meta.addElement(dc.Title(text="The open guide"))
    variant = style.Style(name="P1", family="paragraph", parentstylename="Preformatted_20_Text")
    document.automaticstyles.addElement(variant)
    body = document.text
    body.addElement(text.P(stylename="Title", text="A title"))
    body.addElement(text.H(outlinelevel=1, text="Feeding"))
    paragraph = text.P(text="A robin")
    paragraph.addElement(text.S(c=1))
    paragraph.addElement(text.Span(text="eats worms."))
    note = text.Note(noteclass="footnote", id="n1")
    note.addElement(text.NoteCitation(text="1"))
    inside = text.NoteBody()
    inside.addElement(text.P(text="In winter it eats seeds."))
    note.addElement(inside)
    paragraph.addElement(note)
    comment = office.Annotation()
    comment.addElement(text.P(text="A comment."))
    paragraph.addElement(comment)
    body.addElement(paragraph)
    items = text.List()
    for seeds in ["sunflower seeds", "hemp"]:
        item = text.ListItem()
        item.addElement(text.P(text=seeds))
        items.addElement(item)
    body.addElement(items)
    body.addElement(rows([("Bird", "Food"), ("robin", "worms"), ("owl", "mice & voles")], header=1))
    body.addElement(text.H(outlinelevel=2, text="Counting"))
    for line in ["for bird in garden:", "count(bird)"]:
        listing = text.P(stylename=variant)
        if line.startswith("count"):
            listing.addElement(text.S(c=4))
        listing.addText(line)
        body.addElement(listing)
    body.addElement(text.P(text="Count at dawn."))
    document.save(HERE / "birds.odt")


def open_slides():
    document = opendocument.OpenDocumentPresentation()
    layout = style.PageLayout(name="layout")
    document.automaticstyles.addElement(layout)
    master = style.MasterPage(name="master", pagelayoutname=layout)
    document.masterstyles.addElement(master)
    for title, lines, notes in [
        ("Feeding", ["A robin eats worms.", "An owl eats mice."], "Mention the winter."),
        ("", ["Nothing else."], None),
    ]:
        slide = draw.Page(masterpagename=master)
        document.presentation.addElement(slide)
        for kind, contents in [("title", [title]), ("outline", lines), ("footer", ["Running foot"])]:
            frame = draw.Frame(attributes={"class": kind}, width="9cm", height="2cm")
            box = draw.TextBox()
            for line in contents:
                box.addElement(text.P(text=line))
            frame.addElement(box)
            slide.addElement(frame)
        if notes:
            frame = draw.Frame(attributes={"class": "notes"}, width="9cm", height="2cm")
            box = draw.TextBox()
            box.addElement(text.P(text=notes))
            frame.addElement(box)
            noted = presentation.Notes()
            noted.addElement(frame)
            slide.addElement(noted)
            frame = draw.Frame(width="9cm", height="2cm")
            frame.addElement(rows([("Food", "Price"), ("seeds", "2 euros")], header=1))
            slide.addElement(frame)
    document.save(HERE / "birds.odp")


def open_sheets():
    document = opendocument.OpenDocumentSpreadsheet()
    hiding = style.Style(name="ta2", family="table")
    hiding.addElement(style.TableProperties(display="false"))
    document.automaticstyles.addElement(hiding)
    for name, look, cells in [
        ("Sightings", None, [("Bird", "Day", "Share"), ("robin", "2026-01-31", "25%"), ("owl", "2026-02-01", "")]),
        ("Internal", hiding, [("Nobody sees this.", "No.")]),
    ]:
        sheet = table.Table(name=name, **({"stylename": look} if look else {}))
        for values in cells:
            row = table.TableRow()
            for value in values:
                cell = table.TableCell(valuetype="string")
                cell.addElement(text.P(text=value))
                row.addElement(cell)
            row.addElement(table.TableCell(numbercolumnsrepeated=16000))
            sheet.addElement(row)
        empty = table.TableRow(numberrowsrepeated=1048000)
        empty.addElement(table.TableCell(numbercolumnsrepeated=16384))
        sheet.addElement(empty)
        document.spreadsheet.addElement(sheet)
    document.save(HERE / "birds.ods")


ALL = [word, powerpoint, excel, book, open_text, open_slides, open_sheets]
for make in ALL:
    if not sys.argv[1:] or make.__name__ in sys.argv[1:]:
        make()
