//! Finds tables of contents in PDFs. They have the words of all headings and answer nothing.

use std::ops::Range;

use super::layout::Line;
use crate::documents::parse::lines::is_contents_title;

/// The fewest lines of a table without leaders, and of the rest of one on its last page.
const MIN_LINES: usize = 6;
const MIN_LAST_LINES: usize = 2;
/// The fewest dots of a leader before a number, and of one whose number is elsewhere.
const LEADER_DOTS: usize = 4;
const LONG_LEADER_DOTS: usize = 6;

/// Finds the lines of tables of contents, page by page.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Whether the page before was one, so that this one may continue it.
    was_on_page_before: bool,
}

impl Contents {
    /// Returns for each line of the next page whether it belongs to a table of contents.
    pub(super) fn find(&mut self, lines: &[&Line]) -> Vec<bool> {
        let mut found: Vec<bool> = lines.iter().map(|line| has_leader(&line.text)).collect();
        let titled = lines.iter().position(|line| is_contents_title(&line.text));
        let list = match titled {
            Some(title) => rising_from(lines, title + 1, MIN_LINES),
            // Its rest is at the top of the page.
            None if self.was_on_page_before => rising_from(lines, 0, MIN_LAST_LINES),
            None => None,
        };
        if let Some(list) = list {
            found[list].fill(true);
        }
        self.was_on_page_before = found.iter().any(|found| *found);
        found
    }
}

/// Returns the lines from `start` on that end with the numbers of pages, none smaller than the one before, if so many do.
/// A heading of two lines has its number on the second.
fn rising_from(lines: &[&Line], start: usize, least: usize) -> Option<Range<usize>> {
    let (mut end, mut last, mut count) = (start, 0, 0);
    for (at, line) in lines.iter().enumerate().skip(start) {
        match page_number(&line.text) {
            Some(number) if number >= last => (end, last, count) = (at + 1, number, count + 1),
            None if at <= end => {}
            Some(_) | None => break,
        }
    }
    (count >= least).then_some(start..end)
}

/// Returns whether dots lead from a heading to the number of its page, which may be on another line.
fn has_leader(text: &str) -> bool {
    let end = text.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c.is_whitespace());
    let dots = end
        .chars()
        .rev()
        .take_while(|c| matches!(c, '.' | '…' | '·' | ' '));
    let dots: usize = dots
        .map(|c| match c {
            '…' => 3,
            ' ' => 0,
            _ => 1,
        })
        .sum();
    let least = if end.len() == text.trim_end().len() {
        LONG_LEADER_DOTS
    } else {
        LEADER_DOTS
    };
    text.len() - end.len() <= 6 && dots >= least && end.contains(char::is_alphabetic)
}

/// Returns the number at the end of a line of letters.
fn page_number(text: &str) -> Option<u32> {
    let (heading, number) = text.trim_end().rsplit_once(char::is_whitespace)?;
    let has_letters = heading.chars().filter(|c| c.is_alphabetic()).count() >= 3;
    (has_letters && number.len() <= 4)
        .then(|| number.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::parse::pdf::listing::Pitch;

    fn found(contents: &mut Contents, lines: &[&str]) -> Vec<bool> {
        let lines: Vec<Line> = lines
            .iter()
            .map(|text| Line {
                text: (*text).to_owned(),
                size: 10.0,
                x: 72.0,
                text_x: None,
                end: 200.0,
                y: 100.0,
                turned: false,
                pitch: Pitch::default(),
            })
            .collect();
        contents.find(&lines.iter().collect::<Vec<_>>())
    }

    #[test]
    fn leaders_end_at_a_page() {
        for (line, wanted) in [
            ("New features . . . . . . . . 23", true),
            ("1.2 The robin ........ xii", true),
            ("The owl . . . . . . .", true),
            ("Die Amsel …… 7", true),
            ("and so on ... 3", false),
            ("A sentence. 3", false),
            ("Wait....", false),
            // The progress of a program.
            ("..........", false),
            ("a list 1, 2, ..., n", false),
        ] {
            assert_eq!(found(&mut Contents::default(), &[line]), [wanted], "{line}");
        }
    }

    #[test]
    fn a_titled_list_of_rising_numbers_is_a_table_of_contents() {
        let lines = [
            "A Book",
            "Contents",
            "Introduction 1",
            "The robin and how 3",
            "it sings",
            "The owl 7",
            "The carp 7",
            "The pike 12",
            "The end 20",
        ];
        let mut contents = Contents::default();
        let wanted = [false, false, true, true, true, true, true, true, true];
        assert_eq!(found(&mut contents, &lines), wanted);
        // The next page continues it, and the one after that has a table.
        let next = [
            "Index 30",
            "Notes 31",
            "Names 32",
            "Places 33",
            "Years 34",
            "Thanks 35",
        ];
        assert_eq!(found(&mut contents, &next), [true; 6]);
        let text = ["A robin is a bird.", "It sings in 3", "of 4 seasons."];
        assert_eq!(found(&mut contents, &text), [false; 3]);
        assert_eq!(found(&mut contents, &next), [false; 6]);
        // Text below a table of contents stays, whatever its lines end with.
        let text = [
            "A robin sings at 5",
            "until it is 6",
            "o'clock, and then",
            "it stops until 2014",
        ];
        let with_text = [&lines[..], &text].concat();
        let stays = [&wanted[..], &[false; 4]].concat();
        assert_eq!(found(&mut Contents::default(), &with_text), stays);
        let table = ["Robins 3", "Owls 1", "Carps 9", "Pikes 2", "Wrens 30", "Crows 4"];
        assert_eq!(found(&mut Contents::default(), &table), [false; 6]);
    }
}
