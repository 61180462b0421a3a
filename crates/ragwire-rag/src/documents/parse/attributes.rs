//! Counts the attributes of tags before a page is parsed: the parser compares each attribute of a tag
//! with all before it, so 200,000 attributes of one tag take it 19 seconds.

/// The most attributes of one tag. The longest lists of real pages have some dozen.
const MAX_ATTRIBUTES: usize = 2_000;
/// Elements whose contents are text, in which `<` begins no tag.
const RAW: [&str; 4] = ["script", "style", "textarea", "title"];

/// Returns the limit if a tag of the page has more attributes.
pub(super) fn beyond_limit(page: &str) -> Option<usize> {
    let mut rest = page;
    while let Some((_, after)) = rest.split_once('<') {
        let tag = after.strip_prefix('/');
        let (tag, is_end) = tag.map_or((after, false), |tag| (tag, true));
        if !tag.starts_with(|first: char| first.is_ascii_alphabetic()) {
            rest = after;
            continue;
        }
        let (attributes, length) = attributes(tag.as_bytes());
        if attributes > MAX_ATTRIBUTES {
            return Some(MAX_ATTRIBUTES);
        }
        rest = &tag[length..];
        let name = tag
            .split(|c: char| !c.is_ascii_alphanumeric())
            .next()
            .unwrap_or_default();
        let raw = RAW.iter().find(|raw| !is_end && name.eq_ignore_ascii_case(raw));
        if let Some(raw) = raw {
            rest = after_text(rest, raw);
        }
    }
    None
}

/// Returns the page from the end tag of an element on.
fn after_text<'a>(page: &'a str, element: &str) -> &'a str {
    let mut rest = page;
    while let Some(at) = rest.find("</") {
        rest = &rest[at..];
        let name = rest.as_bytes().get(2..2 + element.len());
        if name.is_some_and(|name| name.eq_ignore_ascii_case(element.as_bytes())) {
            return rest;
        }
        rest = &rest[2..];
    }
    ""
}

/// Counts the attributes of the tag that begins here, at least as the parser does. Also returns the
/// length of the tag.
fn attributes(tag: &[u8]) -> (usize, usize) {
    let (mut count, mut quote) = (0, None);
    // The name of the tag is a word too.
    let (mut is_in_word, mut is_value) = (true, false);
    for (at, byte) in tag.iter().enumerate() {
        match byte {
            byte if quote == Some(byte) => quote = None,
            _ if quote.is_some() => {}
            b'>' => return (count, at + 1),
            b'/' | b' ' | b'\t' | b'\n' | b'\r' | b'\x0c' => is_in_word = false,
            b'"' | b'\'' if is_value && !is_in_word => (quote, is_value) = (Some(byte), false),
            b'=' => {
                // At the beginning of a word it is part of a name.
                count += usize::from(!is_in_word);
                (is_in_word, is_value) = (false, true);
            }
            _ if is_in_word => {}
            _ => {
                count += usize::from(!is_value);
                (is_in_word, is_value) = (true, false);
            }
        }
    }
    (count, tag.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_counted_as_the_parser_sees_them() {
        for (tag, count) in [
            ("p>", 0),
            ("br/>", 0),
            ("a href=x>", 1),
            ("a href=\"x y z\" id='> b' hidden>", 3),
            ("a  b = c  d>", 3),
            ("a =1 =2>", 2),
            ("input disabled/checked>", 2),
            ("p a b", 2),
        ] {
            assert_eq!(attributes(tag.as_bytes()).0, count, "{tag}");
        }
    }

    #[test]
    fn only_tags_have_attributes() {
        let words = "w ".repeat(2 * MAX_ATTRIBUTES);
        for page in [
            format!("<p>{words}</p> 1 < 2 {words}"),
            format!("<script>if (a<b) {words}</script><p>x</p>"),
            format!("<img src=\"{words}\" alt='{words}'>"),
            format!("<TITLE>a<b {words}</Title>"),
        ] {
            assert_eq!(beyond_limit(&page), None, "{}", &page[..40]);
        }
        for page in [
            format!("<p {words}>"),
            format!("<p></p {words}>"),
            format!("<script>a<b</script><p {words}"),
        ] {
            assert_eq!(beyond_limit(&page), Some(MAX_ATTRIBUTES), "{}", &page[..20]);
        }
    }
}
