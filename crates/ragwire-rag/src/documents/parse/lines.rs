//! Indentation and items of lists, for the readers that go through a text line by line.

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
