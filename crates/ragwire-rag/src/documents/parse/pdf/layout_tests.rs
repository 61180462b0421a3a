//! Tests of lists, headings and sentences, with PDFs of a page.

use super::tests::{FONT, lines, lines_in, page_of};
use super::*;
use crate::test_data;

/// A page with lines of a size, at an x, a y and a text each.
fn sized_lines(lines: &[(u32, u32, u32, &str)]) -> Vec<u8> {
    let show = |(size, x, y, text): &(u32, u32, u32, &str)| {
        let text = text.replace('(', "\\(").replace(')', "\\)");
        format!("BT /F {size} Tf {x} {y} Td ({text}) Tj ET\n")
    };
    page_of(FONT, &lines.iter().map(show).collect::<String>())
}

/// The text of each block in its lists: `#1` and `-` begin items, `+` continues one, two spaces are a depth.
fn outline(bytes: &[u8]) -> Vec<String> {
    let parsed = parse(bytes, &ParseLimits::default()).unwrap();
    let blocks = parsed.blocks.iter().map(|block| {
        let Some(item) = block.item else {
            return block.text.clone();
        };
        let mark = match (item.continued, item.number) {
            (true, _) => "+".to_owned(),
            (false, Some(number)) => format!("#{number}"),
            (false, None) => "-".to_owned(),
        };
        format!("{}{mark} {}", "  ".repeat(item.depth as usize - 1), block.text)
    });
    blocks.collect()
}

#[test]
fn lists_are_found_by_their_marks_and_indentation() {
    let bytes = lines(&[
        (
            'F',
            72,
            740,
            "Feed the birds that come to the garden in this order:",
        ),
        (
            'F',
            85,
            720,
            "1. Fill the feeder with seeds until it is full, but not",
        ),
        ('F', 97, 708, "more. Close it."),
        ('F', 97, 690, "Wait for a while."),
        ('F', 103, 672, "- Robins come first."),
        ('F', 103, 660, "- Finches"),
        ('F', 110, 648, "come later."),
        ('F', 85, 630, "2. Look at them."),
        ('F', 97, 618, "A Title"),
        (
            'F',
            140,
            606,
            "and what is set apart from it by the indentation of its lines.",
        ),
        ('F', 72, 588, "They sing at dawn. That is known to"),
        ('F', 72, 576, "3. A list does not begin within a sentence,"),
        ('F', 84, 564, "and this - which is only a dash - is none."),
        ('F', 72, 540, "a) Owls hunt."),
        ('F', 72, 528, "b) Robins sing."),
        ('F', 72, 490, "1. Owls"),
        (
            'F',
            90,
            466,
            "Owls hunt at night, and they do that in every garden of the town.",
        ),
    ]);
    assert_eq!(
        outline(&bytes),
        [
            "Feed the birds that come to the garden in this order:",
            "#1 Fill the feeder with seeds until it is full, but not more. Close it.",
            "+ Wait for a while.",
            "  - Robins come first.",
            "  - Finches come later.",
            "#2 Look at them. A Title",
            "+ and what is set apart from it by the indentation of its lines.",
            "They sing at dawn. That is known to 3. A list does not begin within a sentence, and this - which is only a dash - \
             is none.",
            "- a) Owls hunt.",
            "- b) Robins sing.",
            "Owls hunt at night, and they do that in every garden of the town.",
        ]
    );
    let parsed = parse(&bytes, &ParseLimits::default()).unwrap();
    assert_eq!(parsed.blocks.last().unwrap().heading.as_deref(), Some("1. Owls"));
}

#[test]
fn lists_are_found_in_other_layouts() {
    let bytes = lines(&[
        (
            'F',
            72,
            760,
            "A list whose numbers end at the same place, below a colon:",
        ),
        ('F', 72, 744, "9. Nine."),
        ('F', 67, 732, "10. Ten."),
        (
            'F',
            67,
            720,
            "12. Twelve is not the next one, and nothing else says that it is an item.",
        ),
        // Not indented below its mark.
        (
            'F',
            72,
            700,
            "* A robin sings at dawn in the garden, and it does that until the",
        ),
        ('F', 72, 688, "sun is high."),
        ('F', 72, 676, "* An owl hunts at night."),
        (
            'F',
            72,
            664,
            "This is not in the list, because the sentence above it has ended.",
        ),
        // The next line is as far from the margin as the text behind the number.
        (
            'F',
            72,
            640,
            "1. Robins like the garden of the house and the seeds that are in the",
        ),
        ('F', 84, 628, "Feeder."),
        ('F', 84, 560, "Far below the list."),
        ('F', 72, 540, "1. Open the door of the house:"),
        ('F', 72, 520, "There is one more thing to do:"),
        ('F', 72, 508, "- Close the door of the house."),
        // The next column.
        (
            'F',
            320,
            760,
            "Text of the next column, which has nothing to do with the list.",
        ),
        ('F', 320, 740, "o Not an item."),
        ('F', 320, 720, "- An item that"),
        ('F', 332, 708, "o has another one,"),
        ('F', 332, 696, "and more."),
    ]);
    assert_eq!(
        outline(&bytes),
        [
            "A list whose numbers end at the same place, below a colon:",
            "#9 Nine.",
            "#10 Ten.",
            "12. Twelve is not the next one, and nothing else says that it is an item.",
            "- A robin sings at dawn in the garden, and it does that until the sun is high.",
            "- An owl hunts at night.",
            "This is not in the list, because the sentence above it has ended.",
            "#1 Robins like the garden of the house and the seeds that are in the Feeder.",
            "Far below the list.",
            "#1 Open the door of the house:",
            "There is one more thing to do:",
            "- Close the door of the house.",
            "Text of the next column, which has nothing to do with the list.",
            "o Not an item.",
            "- An item that",
            "  - has another one, and more.",
        ]
    );
}

#[test]
fn lists_end_and_continue_where_the_page_shows_it() {
    let bytes = lines(&[
        (
            'F',
            54,
            760,
            "Birds of the garden and what they like to do there:",
        ),
        ('F', 54, 744, "\\267 Robins sing."),
        ('F', 66, 732, "They do that at dawn."),
        // A paragraph with an indented first line, as far below the line above as any other line.
        (
            'F',
            69,
            720,
            "Nobody knows why, and everybody is woken up by it in",
        ),
        ('F', 54, 708, "the early morning of a day in spring."),
        ('F', 54, 688, "1. Owls hunt mice until the sun rises."),
        ('F', 54, 664, "2. Finches like"),
        // The next column.
        ('F', 329, 760, "sunflowers."),
        ('F', 317, 748, "3. Wrens hide."),
        (
            'F',
            317,
            736,
            "Text of the second column that does not belong to it.",
        ),
        ('F', 317, 716, "\\267 Crows"),
        ('F', 317, 704, "\\267 Jays"),
        ('F', 450, 760, "\\267 Magpies"),
    ]);
    assert_eq!(
        outline(&bytes),
        [
            "Birds of the garden and what they like to do there:",
            "- Robins sing. They do that at dawn.",
            "Nobody knows why, and everybody is woken up by it in the early morning of a day in spring.",
            "#1 Owls hunt mice until the sun rises.",
            "#2 Finches like sunflowers.",
            "#3 Wrens hide.",
            "Text of the second column that does not belong to it.",
            "- Crows",
            "- Jays",
            "- Magpies",
        ]
    );
}

#[test]
fn headings_and_items_of_other_sizes_are_kept_apart() {
    let bytes = sized_lines(&[
        (24, 72, 770, "The Garden"),
        (10, 72, 740, "1. Robins sing."),
        (10, 72, 728, "2. Owls hunt."),
        (14, 72, 690, "3. Results"),
        (
            10,
            72,
            664,
            "All birds of the garden have something to do at all times.",
        ),
        // A little larger than the text.
        (11, 72, 630, "3.1 All that could be said of the birds"),
        (
            10,
            72,
            594,
            "It is not much, but it is what everybody wanted to know.",
        ),
        (
            10,
            72,
            564,
            "3.2 The owner of the garden gives all the seeds to the",
        ),
        (10, 72, 552, "Birds, and nobody else."),
    ]);
    let parsed = parse(&bytes, &ParseLimits::default()).unwrap();
    let headings: Vec<_> = parsed
        .blocks
        .iter()
        .map(|block| (block.heading.as_deref().unwrap_or_default(), &block.text[..4]))
        .collect();
    let last = "3. Results > 3.1 All that could be said of the birds";
    assert_eq!(
        headings,
        [
            ("", "Robi"),
            ("", "Owls"),
            ("3. Results", "All "),
            (last, "It i"),
            (last, "3.2 "),
        ]
    );
}

#[test]
fn the_rest_of_a_sentence_does_not_become_a_heading() {
    let bytes = lines(&[
        (
            'F',
            54,
            700,
            "The robins stay in the garden of the house for the next",
        ),
        ('F', 317, 760, "12 Months"),
        (
            'F',
            317,
            724,
            "or longer, as long as there are seeds to eat for all of them.",
        ),
    ]);
    let parsed = parse(&bytes, &ParseLimits::default()).unwrap();
    let texts: Vec<_> = parsed.blocks.iter().map(|block| block.text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "The robins stay in the garden of the house for the next 12 Months",
            "or longer, as long as there are seeds to eat for all of them.",
        ]
    );
}

#[test]
fn a_line_without_end_returns_soon() {
    let one_line = |text: &str, limits: &ParseLimits| parse(&lines(&[('F', 72, 700, text)]), limits);
    test_data::check_returns_soon(one_line, &["a b ", " "]);
}

#[test]
fn headings_are_below_those_whose_numbers_begin_theirs() {
    let bytes = sized_lines(&[
        (24, 72, 770, "The Garden"),
        (20, 72, 740, "4 Birds"),
        (16, 72, 710, "4.2 Robins"),
        (
            10,
            72,
            690,
            "A robin sings at dawn in the garden, which everybody knows.",
        ),
        (16, 300, 640, "See the picture"),
        (
            10,
            72,
            600,
            "It is red and brown, and it eats seeds and worms and insects.",
        ),
        (12, 72, 560, "4.2.1 Songs of the robin: at dawn, in spring,"),
        (12, 100, 546, "and at night"),
        (
            10,
            72,
            520,
            "They are long and loud, and most of them begin at four o'clock.",
        ),
        (
            10,
            72,
            490,
            "4.2.2 Check that the robin has enough to eat in a hard winter",
        ),
        (
            10,
            100,
            478,
            "(see Feeding), and that nobody keeps it from the seeds there.",
        ),
        (
            10,
            72,
            448,
            "4.3 Look at the robin when it sings and do not disturb it",
        ),
        (10, 72, 436, "because it is shy."),
        (20, 72, 400, "Appendix of pictures"),
        (
            10,
            72,
            370,
            "A picture of a robin that sings at dawn in the garden of a house.",
        ),
    ]);
    let parsed = parse(&bytes, &ParseLimits::default()).unwrap();
    let headings: Vec<_> = parsed
        .blocks
        .iter()
        .map(|block| (block.heading.as_deref().unwrap_or_default(), &block.text[..6]))
        .collect();
    assert_eq!(
        headings,
        [
            ("4 Birds > 4.2 Robins", "A robi"),
            ("4 Birds > See the picture", "It is "),
            (
                "4 Birds > 4.2 Robins > 4.2.1 Songs of the robin: at dawn, in spring, and at night",
                "They a"
            ),
            (
                "4 Birds > 4.2 Robins > 4.2.1 Songs of the robin: at dawn, in spring, and at night",
                "4.2.2 "
            ),
            (
                "4 Birds > 4.2 Robins > 4.2.1 Songs of the robin: at dawn, in spring, and at night",
                "4.3 Lo"
            ),
            ("Appendix of pictures", "A pict"),
        ]
    );
}

#[test]
fn tabs_for_spaces_do_not_become_columns() {
    let font = FONT.replace(">>", "/Encoding<</Type/Encoding/Differences[32/controlHT]>>>>");
    let bytes = lines_in(
        &font,
        &[
            ('F', 72, 700, "A robin sings at dawn in the garden,"),
            ('F', 72, 688, "and an owl hunts"),
            ('F', 72, 676, "at night."),
        ],
    );
    assert_eq!(
        outline(&bytes),
        ["A robin sings at dawn in the garden, and an owl hunts at night."]
    );
}
