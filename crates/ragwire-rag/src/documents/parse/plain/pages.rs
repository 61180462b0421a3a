//! Takes text apart into lines, without what is printed on each page.

use std::collections::{HashMap, HashSet};

use super::{ENDS, MIN_GAP};

/// The fewest pages that a header or a footer is on.
const MIN_PAGES: usize = 3;
/// What the number of a page is compared as.
const NUMBER: &str = "#";
/// The fewest empty lines above and below a header or a footer where nothing else separates the pages.
const MIN_MARGIN: usize = 2;
/// The fewest lines of a page there.
const MIN_HEIGHT: usize = 20;

/// Returns the lines without the headers and footers of printed pages, such as those of an RFC.
pub(super) fn without_pages(text: &str) -> Vec<&str> {
    let pages = if text.contains('\x0c') {
        separated(text)
    } else {
        of_one_height(text)
    };
    let mut lines: Vec<&str> = Vec::new();
    for page in pages {
        drop_empty(&mut lines);
        let mut rest = page.into_iter().skip_while(|line| line.is_empty()).peekable();
        let continues = rest
            .peek()
            .is_some_and(|first| first.trim_start().starts_with(char::is_lowercase));
        let has_ended = |last: &&str| last.ends_with(ENDS);
        if lines.last().is_some_and(|last| has_ended(last) || !continues) {
            lines.push("");
        }
        lines.extend(rest);
    }
    drop_empty(&mut lines);
    lines
}

fn drop_empty(lines: &mut Vec<&str>) {
    while lines.pop_if(|last| last.is_empty()).is_some() {}
}

/// Returns the pages of a text with form feeds.
fn separated(text: &str) -> Vec<Vec<&str>> {
    let mut pages: Vec<Vec<&str>> = text
        .split('\x0c')
        .map(|page| {
            let mut lines = page
                .lines()
                .map(str::trim_end)
                .skip_while(|line| line.is_empty())
                .collect();
            drop_empty(&mut lines);
            lines
        })
        .collect();
    let mut edges: HashMap<String, usize> = HashMap::new();
    for page in &pages {
        let of_page: HashSet<String> = [page.first(), page.last()]
            .into_iter()
            .flatten()
            .map(|line| key(line))
            .collect();
        for edge in of_page {
            *edges.entry(edge).or_default() += 1;
        }
    }
    let least = MIN_PAGES.max(pages.len() / 2);
    let is_repeated = |line: &str| {
        let key = key(line);
        // The end of a block of code is repeated too.
        let is_text = key == NUMBER || key.chars().any(char::is_alphabetic);
        is_text && edges.get(&key).is_some_and(|count| *count >= least)
    };
    for page in &mut pages {
        while page
            .pop_if(|last| is_footer(last) || is_repeated(last) || last.is_empty())
            .is_some()
        {}
        if page.first().is_some_and(|first| is_repeated(first)) {
            page.remove(0);
        }
    }
    pages
}

/// Returns the pages of a text that has a header or a footer after each so many lines, between empty lines.
fn of_one_height(text: &str) -> Vec<Vec<&str>> {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let mut alone: HashMap<String, Vec<usize>> = HashMap::new();
    let mut empty = MIN_MARGIN;
    let mut last = None;
    for (at, line) in lines.iter().enumerate() {
        if line.is_empty() {
            empty += 1;
            if let Some(at) = last.filter(|_| empty == MIN_MARGIN) {
                alone.entry(key(lines[at])).or_default().push(at);
            }
        } else {
            last = (empty >= MIN_MARGIN && line.trim().contains(MIN_GAP)).then_some(at);
            empty = 0;
        }
    }
    let mut breaks: Vec<usize> = alone
        .into_values()
        .filter(|places| is_regular(places))
        .flatten()
        .collect();
    breaks.sort_unstable();
    let mut pages = Vec::new();
    let mut from = 0;
    for at in breaks {
        // A footer and the header below it are one break.
        if lines[from..at].iter().any(|line| !line.is_empty()) {
            pages.push(lines[from..at].to_vec());
        }
        from = at + 1;
    }
    pages.push(lines[from..].to_vec());
    pages
}

/// Returns whether most places have the same distance from the next one.
fn is_regular(places: &[usize]) -> bool {
    let mut distances: HashMap<usize, usize> = HashMap::new();
    for pair in places.windows(2) {
        *distances.entry(pair[1] - pair[0]).or_default() += 1;
    }
    let pages = distances.iter().filter(|(height, _)| **height >= MIN_HEIGHT);
    let most = pages.map(|(_, count)| *count).max().unwrap_or_default();
    most >= MIN_PAGES && most * 2 > places.len() - 1
}

/// Returns a header or footer without the number of its page.
fn key(line: &str) -> String {
    let line = line.trim();
    let has_digits = line.contains(|c: char| c.is_ascii_digit());
    if has_digits && line.chars().all(|c| c.is_ascii_digit() || "-– ".contains(c)) {
        return NUMBER.to_owned();
    }
    let digit = |c: char| if c.is_ascii_digit() { '#' } else { c };
    if line.contains(MIN_GAP) {
        let words: Vec<&str> = line.split_whitespace().collect();
        return words.join(" ").chars().map(digit).collect();
    }
    // The first lines of chapters differ in their numbers.
    line.to_owned()
}

/// Returns whether a line ends a page of an RFC: `Fielding, et al.   Standards Track   [Page 3]`.
fn is_footer(line: &str) -> bool {
    let number = line.strip_suffix(']').and_then(|line| line.rsplit_once("[Page "));
    number.is_some_and(|(_, number)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_footers_of_pages_are_left_out() {
        let text = "One is\n\nA. Author       Standards Track     [Page 1]\n\x0c\nRFC 1   Birds   May 1999\n\n\ncontinued here.\n\n\
                    A. Author       Standards Track     [Page 2]\n\x0c\nRFC 1   Birds   May 1999\n\nTwo.\n\x0cThree.\n\
                    \x0c\nRFC 1   Birds   May 1999\n\nFour.\n\x0cFive.\n";
        assert_eq!(
            without_pages(text),
            [
                "One is",
                "continued here.",
                "",
                "Two.",
                "",
                "Three.",
                "",
                "Four.",
                "",
                "Five."
            ]
        );
        // Numbers of pages differ, and those of chapters too.
        let page = |n: u32| format!("Chapter {n}\n\nA robin.\n\nBirds      {n}\n\x0c");
        let text: String = (1..4).map(page).collect();
        let expected = [1, 2, 3].map(|n| format!("Chapter {n}\n\nA robin."));
        assert_eq!(without_pages(&text).join("\n"), expected.join("\n\n"));
    }

    #[test]
    fn pages_of_one_height_need_no_form_feed() {
        let page = |n: u32| {
            format!(
                "Birds      {n}\n\n\nA robin and\n\n\nVersion 1       May 1999{}",
                "\n".repeat(20)
            )
        };
        let text: String = (1..5).map(page).collect();
        assert_eq!(
            without_pages(&text),
            [
                "A robin and",
                "",
                "A robin and",
                "",
                "A robin and",
                "",
                "A robin and"
            ]
        );
        let text = text.replace("\n\n\nA robin", "\n\n\nin a robin");
        assert_eq!(
            without_pages(&text),
            [
                "in a robin and",
                "in a robin and",
                "in a robin and",
                "in a robin and"
            ]
        );
        // A page of one line and the end of code are not headers, and the number of a page is one.
        assert_eq!(
            without_pages("Robins.\x0cRobins.\x0cOwls."),
            ["Robins.", "", "Robins.", "", "Owls."]
        );
        let code = "int a()\n{\n}\n\x0c".repeat(4);
        let ends = without_pages(&code).into_iter().filter(|line| *line == "}");
        assert_eq!(ends.count(), 4);
        let page = |(n, bird): (usize, &str)| format!("its {bird} and\n\n- {n} -\n\x0c");
        let birds = ["owl", "robin", "wren", "tit"];
        let numbered: String = birds.into_iter().enumerate().map(page).collect();
        assert_eq!(
            without_pages(&numbered),
            birds.map(|bird| format!("its {bird} and"))
        );
        // Headings have no regular distances.
        let chapter = |n: usize| format!("{n}.   Owls\n\n\n{}\n\n", "Text.\n".repeat(20 + n));
        let text: String = (1..6).map(chapter).collect();
        assert_eq!(without_pages(&text).len(), text.trim_end().lines().count());
    }
}
