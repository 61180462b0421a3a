//! JSON schemas as grammars that llama.cpp can follow.
//!
//! llama.cpp follows nested schemas and grammars on the C++ stack, and repeats whatever may be
//! empty in every possible way, which takes seconds for a token. Schemas that are too deep, too
//! long or contain such a repetition are refused before llama.cpp reads them.

use serde_json::Value;

use crate::models::{ModelError, Shape};

/// Length in bytes of the longest grammar that a schema may become: each rule is followed at every
/// token.
const MAX_GRAMMAR_BYTES: usize = 64 * 1024;
/// Length in bytes of the longest JSON schema.
const MAX_SCHEMA_BYTES: usize = 64 * 1024;
/// Depth to which a schema may be nested.
const MAX_SHAPE_DEPTH: usize = 64;
/// The start symbol of a grammar.
pub(super) const ROOT: &str = "root";

/// Returns the grammar of a shape; `None` for any text.
pub(super) fn grammar(shape: &Shape) -> Result<Option<String>, ModelError> {
    match shape {
        Shape::Text => Ok(None),
        Shape::Json(schema) => of_schema(schema).map(Some),
    }
}

fn of_schema(schema: &Value) -> Result<String, ModelError> {
    let bad = |reason: &str| ModelError::BadShape(reason.to_owned());
    let contents = Contents::of(schema);
    // serde_json and llama.cpp both follow the nesting on the stack.
    if contents.depth > MAX_SHAPE_DEPTH {
        return Err(bad("the schema is nested too deeply"));
    }
    if contents
        .patterns
        .iter()
        .any(|pattern| repeats_repetition(pattern))
    {
        return Err(bad("a pattern repeats what may be empty or repeated"));
    }
    let text = schema.to_string();
    if text.len() > MAX_SCHEMA_BYTES {
        return Err(bad("the schema is too long"));
    }
    let grammar = llama_cpp_2::json_schema_to_grammar(&text)
        .map_err(|_| bad("it is not a json schema that llama.cpp supports"))?;
    if grammar.len() > MAX_GRAMMAR_BYTES {
        return Err(bad("the grammar of the schema is too long"));
    }
    Ok(grammar)
}

/// The parts of a schema that are checked.
#[derive(Default)]
struct Contents<'a> {
    depth: usize,
    /// The values of `pattern`.
    patterns: Vec<&'a str>,
}

impl<'a> Contents<'a> {
    /// Reads a schema without recursion.
    fn of(schema: &'a Value) -> Self {
        let mut contents = Self::default();
        let mut open = vec![(schema, 1)];
        while let Some((value, depth)) = open.pop() {
            contents.depth = contents.depth.max(depth);
            match value {
                Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
                Value::Object(members) => {
                    contents
                        .patterns
                        .extend(members.get("pattern").and_then(Value::as_str));
                    open.extend(members.values().map(|member| (member, depth + 1)));
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        contents
    }
}

/// Returns `true` if a regular expression repeats a group that contains a repetition or an
/// alternative, or repeats a repetition: any of them may be empty.
fn repeats_repetition(pattern: &str) -> bool {
    // For each open group, whether it may be empty or contains a repetition.
    let mut groups = vec![false];
    let (mut closed, mut quantified, mut in_set) = (false, false, false);
    let mut characters = pattern.chars().peekable();
    while let Some(character) = characters.next() {
        let (was_closed, was_quantified) = (closed, quantified);
        (closed, quantified) = (false, false);
        match character {
            '\\' => {
                characters.next();
            }
            ']' => in_set = false,
            _ if in_set => {}
            '[' => in_set = true,
            '(' => groups.push(characters.peek() == Some(&')')),
            ')' => {
                closed = groups.pop().unwrap_or(true);
                if groups.is_empty() {
                    groups.push(false);
                }
                // The enclosing groups contain everything that this group contains.
                if let Some(outer) = groups.last_mut() {
                    *outer |= closed;
                }
            }
            '*' | '+' | '{' if was_closed || was_quantified => return true,
            '*' | '+' | '{' | '?' => {
                quantified = true;
                if character == '{' {
                    for inside in characters.by_ref() {
                        if inside == '}' {
                            break;
                        }
                    }
                }
                if let Some(group) = groups.last_mut() {
                    *group = true;
                }
            }
            '|' => {
                if let Some(group) = groups.last_mut() {
                    *group = true;
                }
            }
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_of_repetitions_are_recognized() {
        for (pattern, repeats) in [
            ("^[a-e]{40}$", false),
            ("^a*b+c?$", false),
            ("^(ab)*$", false),
            ("^(a|b)?$", false),
            ("^\\(a*\\)*$", false),
            ("^[(a*)]*$", false),
            ("^(a*)*$", true),
            ("^((a?){40}){40}$", true),
            ("^(a|)*$", true),
            ("^()*$", true),
            ("^a**$", true),
            ("^((a*)b)+$", true),
        ] {
            assert_eq!(repeats_repetition(pattern), repeats, "{pattern}");
        }
    }
}
