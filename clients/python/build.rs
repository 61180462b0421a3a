//! Takes the documentation of the classes from their stub, so that `help()` and editors show the
//! same text, and neither is a copy.
//!
//! Writes one file per class and method: the signature as `inspect` reads it, the docstring, and the
//! signature with its types. A signature of overloads is left to PyO3, which knows the real one.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// Beside this file in the repository, and at the top of the source distribution.
const STUBS: [&str; 2] = ["python/ragwire/_ragwire.pyi", "../../python/ragwire/_ragwire.pyi"];
const QUOTES: &str = "\"\"\"";
const INDENT: &str = "    ";

fn main() {
    let stub = STUBS
        .iter()
        .find(|path| Path::new(path).exists())
        .expect("the stub `_ragwire.pyi` exists");
    println!("cargo::rerun-if-changed={stub}");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let text = fs::read_to_string(stub).expect("the stub is readable");
    let lines: Vec<&str> = text.lines().collect();
    let mut at = 0;
    while at < lines.len() {
        let name = lines[at].strip_prefix("class ").map(name);
        at += 1;
        if let Some(class) = name {
            at = write_class(class, &lines, at, &out);
        }
    }
}

/// Returns the identifier at the beginning of a declaration.
fn name(declaration: &str) -> &str {
    declaration
        .split(|c: char| c != '_' && !c.is_alphanumeric())
        .next()
        .unwrap_or_default()
}

/// Writes a class, whose body begins at line `at`, and its methods. Returns the line after it.
fn write_class(class: &str, lines: &[&str], mut at: usize, out: &Path) -> usize {
    let (doc, after) = docstring(lines, at, INDENT);
    at = after;
    let mut created = None;
    let mut decorators = Vec::new();
    while at < lines.len() && (lines[at].is_empty() || lines[at].starts_with(INDENT)) {
        let line = lines[at].strip_prefix(INDENT).unwrap_or_default();
        if let Some(decorator) = line.strip_prefix('@') {
            decorators.push(decorator);
            at += 1;
        } else if line.starts_with("def ") {
            let (method, after) = Method::read(lines, at);
            let (doc, after) = docstring(lines, after, "        ");
            at = after;
            if method.name == "__new__" {
                created = Some(method);
            } else if let Some(doc) = doc {
                let file = out.join(format!("{class}.{}", method.name));
                fs::write(file, method.documented(method.name, &decorators, &doc))
                    .expect("OUT_DIR is writable");
            }
            decorators.clear();
        } else {
            at += 1;
        }
    }
    if let Some(doc) = doc {
        let text = match created {
            Some(method) => method.documented(class, &["staticmethod"], &doc),
            None => doc,
        };
        fs::write(out.join(class), text).expect("OUT_DIR is writable");
    }
    at
}

/// Returns the docstring that begins at line `at`, without its indentation, and the line after it.
fn docstring(lines: &[&str], at: usize, indent: &str) -> (Option<String>, usize) {
    let first = lines.get(at).and_then(|line| line.strip_prefix(indent));
    let Some(first) = first.and_then(|line| line.strip_prefix(QUOTES)) else {
        return (None, at);
    };
    if let Some(only) = first.strip_suffix(QUOTES) {
        return (Some(only.to_owned()), at + 1);
    }
    let length = lines[at + 1..]
        .iter()
        .position(|line| line.trim() == QUOTES)
        .expect("a docstring ends with quotes on their own line");
    let mut doc = first.to_owned();
    for line in &lines[at + 1..=at + length] {
        doc.push('\n');
        doc.push_str(line.strip_prefix(indent).unwrap_or_default());
    }
    (Some(doc), at + length + 2)
}

/// The declaration of a method.
struct Method<'a> {
    name: &'a str,
    /// As it is in the stub, without `def` and the indentation.
    declaration: String,
}

impl<'a> Method<'a> {
    /// Reads the declaration at line `at`. Returns it and the line after it.
    fn read(lines: &[&'a str], at: usize) -> (Self, usize) {
        let first = lines[at].trim_start().strip_prefix("def ").unwrap_or_default();
        let length = lines[at..]
            .iter()
            .position(|line| line.ends_with(": ...") || line.ends_with(':'))
            .expect("a declaration ends");
        let mut declaration = first.to_owned();
        for line in &lines[at + 1..=at + length] {
            declaration.push('\n');
            declaration.push_str(line.strip_prefix(INDENT).unwrap_or_default());
        }
        let name = name(first);
        let declaration = declaration.trim_end_matches([' ', '.', ':']).to_owned();
        (Self { name, declaration }, at + length + 1)
    }

    /// Returns the text for `help()`.
    fn documented(&self, name: &str, decorators: &[&str], doc: &str) -> String {
        let has = |decorator| decorators.contains(&decorator);
        let mut text = String::new();
        if !has("overload") && !has("property") {
            text = format!("{name}({})\n--\n\n", self.parameters(has("staticmethod")));
        }
        let mut typed = self.declaration.replacen(self.name, name, 1);
        if has("property") {
            typed = typed.replacen("(self) ->", ":", 1);
        }
        for first in ["self, ", "self"] {
            typed = typed.replacen(&format!("({first}"), "(", 1);
        }
        typed = typed.replacen("\n    cls,", "", 1).replacen("\n    self,", "", 1);
        text + doc + "\n\nTypes:\n" + INDENT + &typed.replace('\n', &format!("\n{INDENT}"))
    }

    /// Returns the parameters without their types.
    fn parameters(&self, is_static: bool) -> String {
        let open = self.declaration.find('(').expect("a declaration has parameters");
        let mut parameters = split(&self.declaration[open + 1..]);
        if parameters.first().is_some_and(|first| *first == "cls") {
            parameters.remove(0);
        }
        let parameters = parameters.into_iter().map(|parameter| {
            let (head, default) = parameter.split_once(" = ").unwrap_or((parameter, ""));
            let name = head.split(':').next().unwrap_or_default().trim();
            match default {
                "" => name.to_owned(),
                default => format!("{name}={}", number(default)),
            }
        });
        let parameters: Vec<String> = parameters.collect();
        let joined = parameters.join(", ");
        if is_static {
            joined
        } else {
            joined.replacen("self", "$self", 1)
        }
    }
}

/// Splits parameters at the commas that are in no brackets, up to the closing one.
fn split(parameters: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, c) in parameters.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' if depth == 0 => {
                parts.push(parameters[start..at].trim());
                break;
            }
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(parameters[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Writes a shift as its result, because `inspect` does not compute it.
fn number(default: &str) -> String {
    let Some((value, bits)) = default.split_once(" << ") else {
        return default.to_owned();
    };
    let parse = |text: &str| text.parse::<u64>().expect("a shift has two numbers");
    (parse(value) << parse(bits)).to_string()
}
