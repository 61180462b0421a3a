//! A command line as words, with the quotes of a shell and nothing else of it: no variables, no
//! globs, no pipes.

/// Splits a command line into its program and arguments. Single quotes keep everything, double
/// quotes keep all but `\"` and `\\`, and a backslash outside of quotes keeps the next character.
///
/// # Errors
///
/// A sentence that says what is missing.
pub fn split(line: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next().ok_or("a quote is not closed")? {
                        end if end == letter => break,
                        '\\' if letter == '"' => match letters.next() {
                            Some(escaped @ ('"' | '\\')) => word.push(escaped),
                            Some(other) => word.extend(['\\', other]),
                            None => return Err("a quote is not closed"),
                        },
                        other => word.push(other),
                    }
                }
            }
            '\\' => {
                let next = letters.next().ok_or("a backslash has nothing behind it")?;
                word.get_or_insert_default().push(next);
            }
            letter if letter.is_whitespace() => words.extend(word.take()),
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    if words.first().is_none_or(String::is_empty) {
        return Err("it names no program; write exec:PROGRAM ARGUMENTS");
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn words_are_those_of_a_shell() {
        for (line, words) in [
            ("python3 my_rag.py", &["python3", "my_rag.py"][..]),
            ("  a\tb \n", &["a", "b"]),
            (r#"'a b' "c d"e f\ g"#, &["a b", "c de", "f g"]),
            (r#""\"\\\n" '\' "" "#, &[r#""\\n"#, r"\", ""]),
            ("$HOME *", &["$HOME", "*"]),
        ] {
            assert_eq!(split(line).unwrap(), words, "{line}");
        }
        for line in ["", "  ", "''", "a 'b", "a \"b\\", "a \\"] {
            assert!(split(line).is_err(), "{line}");
        }
    }
}
