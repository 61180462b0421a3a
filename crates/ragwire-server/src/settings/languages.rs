//! The languages in which images are read.

use std::fmt;
use std::str::FromStr;

use super::values::{BadValue, values};

/// Optional languages, as tesseract names them: `eng`, `deu+eng`, `script/Latin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Languages(pub Option<String>);

impl FromStr for Languages {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let text = text.trim();
        let is_name = |name: &str| {
            // Not a flag of tesseract, nor a path out of its folder.
            name.starts_with(|first: char| first.is_ascii_alphabetic())
                && name
                    .chars()
                    .all(|letter| letter.is_ascii_alphanumeric() || "_/".contains(letter))
        };
        if text.split('+').all(is_name) {
            return Ok(Self(Some(text.to_owned())));
        }
        Err(BadValue::new(format!(
            "`{text}` is not a list of languages; write eng or deu+eng"
        )))
    }
}

impl fmt::Display for Languages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_deref().unwrap_or("none").fmt(f)
    }
}

values! {
    Languages(Option<String>)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_are_named_as_tesseract_names_them() {
        for text in ["eng", "deu+eng", "chi_sim", "script/Latin"] {
            assert_eq!(text.parse::<Languages>().unwrap().to_string(), text);
        }
        for wrong in ["", "eng+", "-l", "../eng", "eng deu"] {
            let error = wrong.parse::<Languages>().unwrap_err().to_string();
            assert!(error.contains("write eng or deu+eng"), "{error}");
        }
    }
}
