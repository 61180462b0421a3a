"""Writes the documents of this folder, with the libraries that most programs use to write such files:
python-docx, python-pptx, openpyxl and EbookLib. Their text was written for these tests.

    pip install python-docx python-pptx openpyxl EbookLib && python make.py
"""

import datetime
import pathlib

import docx
import openpyxl
import pptx
from ebooklib import epub

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


word()
powerpoint()
excel()
book()
