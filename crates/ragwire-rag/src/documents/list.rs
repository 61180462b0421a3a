//! Lists: which lines of a passage are items, and which continue one.

use serde::{Deserialize, Serialize};

/// The place of a paragraph in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ListItem {
    /// How many lists it is in, at least 1.
    pub depth: u32,
    /// Its number, if it begins an item of an ordered list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// Whether it continues an item: it is not the item's first paragraph.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub continued: bool,
}

impl ListItem {
    /// Returns the place of a paragraph that begins an item.
    pub(crate) fn new(depth: u32, number: Option<u64>) -> Self {
        Self {
            depth,
            number,
            continued: false,
        }
    }

    /// Returns the place of a paragraph that continues an item.
    pub(crate) fn continued(depth: u32) -> Self {
        Self {
            depth,
            number: None,
            continued: true,
        }
    }
}

/// Returns the place of a line, if it is in a list.
pub(crate) fn place_of(lines: &[ListLine], line: usize) -> Option<ListItem> {
    let at = lines.binary_search_by_key(&line, |one| one.line as usize).ok()?;
    lines.get(at).map(|one| one.item)
}

/// A line of a passage that is in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ListLine {
    /// The line, counted from 0.
    pub line: u32,
    /// Its place.
    #[serde(flatten)]
    pub item: ListItem,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::chunk::chunks;
    use crate::{ParseLimits, parse};

    /// The lines with their depths, their numbers, and whether they continue an item; 0 for a line that is in no list.
    fn lines(name: &str, text: &str) -> Vec<(String, u32, Option<u64>, bool)> {
        let parsed = parse(name, text.as_bytes(), &ParseLimits::default()).unwrap();
        let pieces = chunks(&parsed);
        let [piece] = &pieces[..] else {
            panic!("{pieces:?}")
        };
        let items = piece.items.as_ref().unwrap();
        let place = |(at, line): (usize, &str)| {
            let item = place_of(items, at).unwrap_or_else(|| ListItem::new(0, None));
            (line.to_owned(), item.depth, item.number, item.continued)
        };
        piece.text.split('\n').enumerate().map(place).collect()
    }

    #[test]
    fn lists_are_known_in_all_formats_that_mark_them() {
        let markdown = "Feed them:\n\n3. Fill it. Close it.\n\n   Wait.\n\n   - seeds\n   - nuts\n\n   ```\n   fill\n   ```\n\n\
            4. Look.\n\nThey come.\n\n- Robins\n";
        let html = "<p>Feed them:</p><ol start=3><li><p>Fill it. Close it.</p><p>Wait.</p><ul><li>seeds<li>nuts</ul>\
            <pre>fill</pre><li>Look.</ol><p>They come.</p><ul><li>Robins</ul>";
        let rst = "Feed them:\n\n3. Fill it.\n   Close it.\n\n   Wait.\n\n   - seeds\n   - nuts\n\n   .. code::\n\n      fill\n\n\
            #. Look.\n\nThey come.\n\n* Robins\n";
        let expected = [
            ("Feed them:", 0, None, false),
            ("Fill it. Close it.", 1, Some(3), false),
            ("Wait.", 1, None, true),
            ("seeds", 2, None, false),
            ("nuts", 2, None, false),
            ("fill", 0, None, false),
            ("Look.", 1, Some(4), false),
            ("They come.", 0, None, false),
            ("Robins", 1, None, false),
        ];
        let expected =
            expected.map(|(line, depth, number, continued)| (line.to_owned(), depth, number, continued));
        for (name, text) in [("a.md", markdown), ("a.html", html), ("a.rst", rst)] {
            assert_eq!(lines(name, text), expected, "{name}");
        }
        let adoc = "Feed them:\n\n. Fill it.\nClose it.\n+\nWait.\n\n* seeds\n* nuts\n+\n----\nfill\n----\n\n. Look.\n\n\
            They come.\n\n- Robins\n";
        let mut expected = expected;
        (expected[1].2, expected[6].2) = (Some(1), Some(2));
        assert_eq!(lines("a.adoc", adoc), expected);
    }

    #[test]
    fn a_paragraph_of_an_item_continues_it_in_the_next_chunk() {
        let text = format!("- First.\n- {}\n- Last.\n", "Robins like it here. ".repeat(120));
        let parsed = parse("a.md", text.as_bytes(), &ParseLimits::default()).unwrap();
        let items: Vec<_> = chunks(&parsed)
            .into_iter()
            .map(|piece| piece.items.unwrap())
            .collect();
        let line = |line, item| ListLine { line, item };
        let (begun, continued) = (ListItem::new(1, None), ListItem::continued(1));
        assert_eq!(
            items,
            [
                vec![line(0, begun), line(1, begun)],
                vec![line(0, continued), line(1, begun)]
            ]
        );
        // A cut between items repeats the one before it.
        let text: String = (1..60)
            .map(|n| format!("{n}. Robins like the food in feeder {n}.\n"))
            .collect();
        let parsed = parse("a.md", text.as_bytes(), &ParseLimits::default()).unwrap();
        let pieces = chunks(&parsed);
        for piece in &pieces {
            let items = piece.items.as_ref().unwrap();
            let numbers: Vec<_> = items.iter().map(|line| line.item.number).collect();
            let expected: Vec<_> = piece
                .text
                .lines()
                .map(|line| {
                    let number = line.trim_end_matches('.').rsplit(' ').next().unwrap();
                    Some(number.parse().unwrap())
                })
                .collect();
            assert_eq!(numbers, expected);
        }
        assert!(
            pieces.len() > 1 && pieces[1].repeated > Some(0),
            "{}",
            pieces.len()
        );
    }

    #[test]
    fn numbers_of_html_are_those_that_it_shows() {
        let numbers = |html: &str| -> Vec<Option<u64>> {
            lines("a.html", html)
                .into_iter()
                .map(|(_, _, number, _)| number)
                .collect()
        };
        for (html, expected) in [
            (
                "<ol start=' 3'><li>a<li value=7>b<li>c</ol>",
                [Some(3), Some(7), Some(8)],
            ),
            ("<ol reversed><li>a<li>b<li>c</ol>", [None; 3]),
            ("<ol start=-1><li>a<li>b<li>c</ol>", [None; 3]),
            // A table has no place in the list, and the text behind it has that of the item.
            (
                "<ol><li>a<li><table><tr><th>x<th>y</table>c</ol>",
                [Some(1), None, Some(2)],
            ),
        ] {
            assert_eq!(numbers(html), expected, "{html}");
        }
        // A list without items does not count.
        let inner = lines("a.html", "<ol><li>a<ul><p>b</ul>c<li>d</ol>");
        let places: Vec<_> = inner
            .iter()
            .map(|(_, depth, number, continued)| (*depth, *number, *continued))
            .collect();
        assert_eq!(
            places,
            [
                (1, Some(1), false),
                (1, None, true),
                (1, None, true),
                (1, Some(2), false)
            ]
        );
    }

    #[test]
    fn a_list_without_items_does_not_count() {
        let indented = lines("a.html", "<ul><p>One.</p><p>Two.</p></ul>");
        assert_eq!(
            indented,
            [
                ("One.".to_owned(), 0, None, false),
                ("Two.".to_owned(), 0, None, false)
            ]
        );
    }

    #[test]
    fn text_has_known_lists_if_it_has_any() {
        let items = |text: &str| {
            let parsed = parse("a.txt", text.as_bytes(), &ParseLimits::default()).unwrap();
            chunks(&parsed)[0].items.clone()
        };
        assert_eq!(items("One:\n\na\nb\n"), None);
        let item = |line| ListLine {
            line,
            item: ListItem::new(1, None),
        };
        assert_eq!(items("One:\n\n- a\n- b\n"), Some(vec![item(1), item(2)]));
    }
}
