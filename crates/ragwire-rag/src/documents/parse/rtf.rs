//! Reads Rich Text Format: paragraphs, rows of tables, and headings by their outline level.
//!
//! One pass over the bytes, without recursion. Groups that are not text (fonts, pictures, fields'
//! instructions) are skipped.

use encoding_rs::{Encoding, WINDOWS_1252};

use super::blocks::Blocks;
use super::{BlockKind, DocumentKind, ParseError, ParseLimits, Parsed};

/// Groups without text for readers. Those that begin with `\*` are skipped too.
const SKIPPED: [&str; 22] = [
    "fonttbl",
    "colortbl",
    "stylesheet",
    "info",
    "pict",
    "object",
    "header",
    "headerl",
    "headerr",
    "headerf",
    "footer",
    "footerl",
    "footerr",
    "footerf",
    "fldinst",
    "listtable",
    "listoverridetable",
    "rsidtbl",
    "generator",
    "themedata",
    "xe",
    "tc",
];

pub(super) fn parse(bytes: &[u8], limits: &ParseLimits) -> Result<Parsed, ParseError> {
    let mut reader = Reader {
        blocks: Blocks::new(limits),
        encoding: WINDOWS_1252,
        groups: vec![Group::default()],
        text: String::new(),
        pending: Vec::new(),
        cells: Vec::new(),
        outline: None,
        after_unicode: 0,
        limits: *limits,
    };
    let mut rest = bytes;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'{' => {
                let group = reader.group();
                if reader.groups.len() > limits.max_html_depth {
                    return Err(ParseError::TooDeep {
                        limit: limits.max_html_depth,
                    });
                }
                reader.groups.push(group);
            }
            b'}' => {
                if reader.groups.len() > 1 {
                    reader.groups.pop();
                }
            }
            b'\\' => rest = reader.control(after)?,
            b'\r' | b'\n' => {}
            byte => reader.byte(*byte)?,
        }
    }
    reader.paragraph()?;
    Ok(Parsed::new(DocumentKind::Rtf, None, reader.blocks))
}

/// What a group sets until it ends.
#[derive(Clone, Copy, Debug)]
struct Group {
    skipped: bool,
    hidden: bool,
    /// Bytes that follow each character of Unicode, for readers without it.
    fallback_bytes: usize,
}

impl Default for Group {
    fn default() -> Self {
        Self {
            skipped: false,
            hidden: false,
            fallback_bytes: 1,
        }
    }
}

#[derive(Debug)]
struct Reader {
    blocks: Blocks,
    encoding: &'static Encoding,
    groups: Vec<Group>,
    text: String,
    /// Bytes of the text that are not decoded yet: a character may have two.
    pending: Vec<u8>,
    /// The cells of the open row.
    cells: Vec<String>,
    /// The level of the paragraph in the outline, counted from 0.
    outline: Option<u8>,
    /// Bytes to skip after a character of Unicode.
    after_unicode: usize,
    limits: ParseLimits,
}

impl Reader {
    fn group(&self) -> Group {
        self.groups.last().copied().unwrap_or_default()
    }

    fn change(&mut self, change: impl FnOnce(&mut Group)) {
        if let Some(group) = self.groups.last_mut() {
            change(group);
        }
    }

    fn byte(&mut self, byte: u8) -> Result<(), ParseError> {
        if self.after_unicode > 0 {
            self.after_unicode -= 1;
            return Ok(());
        }
        if !self.group().skipped && !self.group().hidden {
            self.pending.push(byte);
            return self.check();
        }
        Ok(())
    }

    /// A paragraph without an end would otherwise be held whole.
    fn check(&self) -> Result<(), ParseError> {
        let limit = self.limits.max_text_bytes;
        if self.text.len() + self.pending.len() > limit {
            return Err(ParseError::TooMuchText { limit });
        }
        Ok(())
    }

    fn decode(&mut self) {
        if !self.pending.is_empty() {
            let pending = std::mem::take(&mut self.pending);
            let (text, _) = self.encoding.decode_without_bom_handling(&pending);
            self.text.push_str(&text);
        }
    }

    fn character(&mut self, c: char) -> Result<(), ParseError> {
        self.decode();
        if !self.group().skipped && !self.group().hidden {
            self.text.push(c);
        }
        self.check()
    }

    /// Reads what follows a backslash, and returns the rest.
    fn control<'a>(&mut self, after: &'a [u8]) -> Result<&'a [u8], ParseError> {
        let Some((first, rest)) = after.split_first() else {
            return Ok(after);
        };
        if !first.is_ascii_alphabetic() {
            match first {
                b'\'' => {
                    let code = rest.get(..2).and_then(|code| std::str::from_utf8(code).ok());
                    if let Some(byte) = code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
                        self.byte(byte)?;
                    }
                    return Ok(rest.get(2..).unwrap_or_default());
                }
                b'*' => self.change(|group| group.skipped = true),
                b'~' => self.character('\u{a0}')?,
                b'_' => self.character('-')?,
                b'{' | b'}' | b'\\' => self.byte(*first)?,
                b'\r' | b'\n' => self.paragraph()?,
                _ => {}
            }
            return Ok(rest);
        }
        let letters = after.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let (word, rest) = after.split_at(letters);
        let word = std::str::from_utf8(word).unwrap_or_default();
        let digits = usize::from(rest.first() == Some(&b'-'));
        let digits = digits
            + rest[digits..]
                .iter()
                .take_while(|byte| byte.is_ascii_digit())
                .count();
        let (number, rest) = rest.split_at(digits);
        let number: Option<i32> = std::str::from_utf8(number)
            .ok()
            .and_then(|number| number.parse().ok());
        let rest = rest.strip_prefix(b" ").unwrap_or(rest);
        self.word(word, number)?;
        if word == "bin" {
            let skipped = usize::try_from(number.unwrap_or(0)).unwrap_or(0);
            return Ok(rest.get(skipped..).unwrap_or_default());
        }
        Ok(rest)
    }

    fn word(&mut self, word: &str, number: Option<i32>) -> Result<(), ParseError> {
        match word {
            _ if SKIPPED.contains(&word) => self.change(|group| group.skipped = true),
            _ if self.group().skipped => {}
            "par" | "sect" | "page" => self.paragraph()?,
            "line" | "softline" => self.character('\n')?,
            "tab" => self.character('\t')?,
            "cell" | "nestcell" => {
                self.decode();
                let cell = std::mem::take(&mut self.text);
                self.cells.push(cell.trim().to_owned());
            }
            "row" | "nestrow" => {
                let row = std::mem::take(&mut self.cells).join(" | ");
                self.blocks.push(BlockKind::Prose, None, &row)?;
            }
            "pard" => self.outline = None,
            "outlinelevel" => {
                self.outline = number
                    .and_then(|level| u8::try_from(level).ok())
                    .filter(|level| *level < 9)
            }
            "v" => self.change(|group| group.hidden = number != Some(0)),
            "deleted" => self.change(|group| group.hidden = true),
            "uc" => {
                let bytes = usize::try_from(number.unwrap_or(1)).unwrap_or(1);
                self.change(|group| group.fallback_bytes = bytes.min(8));
            }
            "u" => {
                // Negative numbers are those above 32,767; two of them may be one character.
                let unit = number.unwrap_or(0) as u16;
                self.unicode(unit)?;
                self.after_unicode = self.group().fallback_bytes;
            }
            "ansicpg" => {
                let page = number.unwrap_or(1252);
                let label = match page {
                    932 => "shift_jis".to_owned(),
                    936 => "gbk".to_owned(),
                    949 => "euc-kr".to_owned(),
                    950 => "big5".to_owned(),
                    65001 => "utf-8".to_owned(),
                    page => format!("windows-{page}"),
                };
                self.decode();
                self.encoding = Encoding::for_label(label.as_bytes()).unwrap_or(WINDOWS_1252);
            }
            "emdash" => self.character('—')?,
            "endash" => self.character('–')?,
            "lquote" => self.character('‘')?,
            "rquote" => self.character('’')?,
            "ldblquote" => self.character('“')?,
            "rdblquote" => self.character('”')?,
            "bullet" => self.character('•')?,
            _ => {}
        }
        Ok(())
    }

    fn unicode(&mut self, unit: u16) -> Result<(), ParseError> {
        // The first half of a pair waits as a private character until the second half comes.
        const HALF: u32 = 0xf_0000;
        self.decode();
        let is_second = (0xdc00..=0xdfff).contains(&unit);
        let first = self
            .text
            .chars()
            .next_back()
            .filter(|c| is_second && (*c as u32) >= HALF);
        let first = first.and_then(|c| u16::try_from(c as u32 - HALF).ok());
        if let Some(first) = first {
            let pair = char::decode_utf16([first, unit]).next();
            self.text.pop();
            return self.character(pair.and_then(Result::ok).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        let code = if (0xd800..=0xdbff).contains(&unit) {
            HALF + u32::from(unit)
        } else {
            u32::from(unit)
        };
        self.character(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn paragraph(&mut self) -> Result<(), ParseError> {
        self.decode();
        if !self.cells.is_empty() {
            // A paragraph within a cell.
            self.text.push(' ');
            return Ok(());
        }
        let text = std::mem::take(&mut self.text);
        match self.outline {
            Some(level) => {
                self.blocks.heading(level + 1, &text);
                Ok(())
            }
            None => self.blocks.push(BlockKind::Prose, None, &text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_data::check_blocks;

    fn read(text: &str) -> Parsed {
        parse(text.as_bytes(), &ParseLimits::default()).unwrap()
    }

    #[test]
    fn text_headings_and_tables_are_read() {
        let rtf = r"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}}{\*\generator X;}{\info{\title No}}
\pard\outlinelevel0 Birds\par
\pard A \b robin\b0  sings \'e9t\'e9, \u8364? and \u-10179?\u-8704?.\par {\v hidden}
{\field{\*\fldinst HYPERLINK x}{\fldrslt A link}}\par
\pard\outlinelevel1 Food\par\pard
\trowd Food\cell For\cell\row \trowd seeds\cell robins\cell\row
\{braces\}\line next{\pict\bin4 }}}}\par}";
        check_blocks(
            &read(rtf),
            &[
                ("Birds", "A robin sings été, € and 😀."),
                ("Birds", "A link"),
                ("Birds > Food", "Food | For"),
                ("Birds > Food", "seeds | robins"),
                ("Birds > Food", "{braces} next"),
            ],
        );
        assert_eq!(
            read(r"{\rtf1\ansi\ansicpg936 \'c4\'e3\'ba\'c3}").blocks[0].text,
            "你好"
        );
    }

    #[test]
    fn hostile_text_returns_soon() {
        let limits = ParseLimits::default();
        for piece in [
            "{",
            "}",
            "\\",
            "\\'",
            "\\u-1 ",
            "\\cell ",
            "\\bin99999999 ",
            "a\\par ",
            "{\\*",
        ] {
            let text = format!("{{\\rtf1 {}", piece.repeat(100_000));
            let outcome = parse(text.as_bytes(), &limits).map(|parsed| parsed.blocks.len());
            println!("{piece:?}: {:?}", outcome.map_err(|error| error.code()));
        }
        let deep = parse("{".repeat(10_000).as_bytes(), &limits);
        assert_eq!(deep.unwrap_err().code(), "too_deep");
    }
}
