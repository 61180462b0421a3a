//! Indentation, items of lists and titles of contents, for the readers that go through a text line by line.

/// What a table of contents is called.
const CONTENTS_TITLES: [&str; 14] = [
    "contents",
    "table of contents",
    "list of figures",
    "list of tables",
    "inhalt",
    "inhaltsverzeichnis",
    "sommaire",
    "table des matières",
    "índice",
    "índice general",
    "contenido",
    "indice",
    "sommario",
    "inhoudsopgave",
];

/// Returns the number of columns before the text of a line, with tabs of so many columns.
pub(super) fn indent(line: &str, tab: usize) -> usize {
    let spaces = line.chars().map_while(|c| match c {
        '\t' => Some(tab),
        c if c.is_whitespace() => Some(1),
        _ => None,
    });
    spaces.sum()
}

/// Returns whether a line, without its indentation, begins an item of a list: with one of the marks, or a number.
pub(super) fn is_item(line: &str, marks: &[&str]) -> bool {
    if marks.iter().any(|mark| line.starts_with(mark)) {
        return true;
    }
    let number = line.split_once(' ').map_or("", |(number, _)| number);
    let digits = number.trim_start_matches('(').trim_end_matches(['.', ')']);
    let is_number = (1..=3).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number && number.ends_with(['.', ')'])
}

/// Returns whether a line is the title of a table of contents.
pub(super) fn is_contents_title(line: &str) -> bool {
    let line = line.trim().trim_end_matches(':');
    CONTENTS_TITLES.contains(&&*line.to_lowercase())
}
