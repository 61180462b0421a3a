//! What an answer has to look like, as a grammar that llama.cpp can be trusted with.
//!
//! llama.cpp's own check of a grammar misses left recursion behind rules that can be empty, on which it loops without end or aborts the
//! process, follows brackets on the C++ stack, and prints what it refuses to stderr. So each grammar is read here first: the syntax of GBNF
//! (llama.cpp, `grammars/README.md`) without its token elements (`<…>`).
//!
//! It knows no model.

use std::collections::HashMap;
use std::iter::Peekable;
use std::str::Chars;

use serde_json::Value;

use crate::models::{ModelError, Shape};

/// Most bytes of a grammar, its own or the one made of a schema: each rule is walked through at every token.
pub const MAX_GRAMMAR_BYTES: usize = 64 * 1024;
/// Most bytes of a JSON schema.
pub const MAX_SCHEMA_BYTES: usize = 64 * 1024;
/// Most brackets within each other, in a grammar and in a schema.
pub const MAX_SHAPE_DEPTH: usize = 64;
/// Most repetitions that a grammar may count (`{n}`), as llama.cpp allows.
const MAX_REPETITIONS: u32 = 2_000;
/// Repeating what may be empty says nothing more, and makes llama.cpp follow every way of doing so: seconds for a token.
const EMPTY_REPEATED: &str = "what is repeated may be empty";
/// The start symbol.
pub(super) const ROOT: &str = "root";

/// The grammar of a shape; none for any text.
pub(super) fn grammar(shape: &Shape) -> Result<Option<String>, ModelError> {
    let grammar = match shape {
        Shape::Text => return Ok(None),
        Shape::Gbnf(grammar) => grammar.clone(),
        Shape::Json(schema) => of_schema(schema)?,
    };
    check(&grammar).map_err(ModelError::BadShape)?;
    Ok(Some(grammar))
}

fn of_schema(schema: &Value) -> Result<String, ModelError> {
    // serde_json and llama.cpp both follow it on the stack.
    if depth(schema) > MAX_SHAPE_DEPTH {
        return Err(ModelError::BadShape("the schema is nested too deeply".to_owned()));
    }
    let text = schema.to_string();
    if text.len() > MAX_SCHEMA_BYTES {
        return Err(ModelError::BadShape("the schema is too long".to_owned()));
    }
    llama_cpp_2::json_schema_to_grammar(&text)
        .map_err(|_| ModelError::BadShape("it is no json schema that can be followed".to_owned()))
}

/// How deeply a value is nested, found without recursion.
fn depth(value: &Value) -> usize {
    let mut deepest = 0;
    let mut open = vec![(value, 1)];
    while let Some((value, depth)) = open.pop() {
        deepest = deepest.max(depth);
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(members) => open.extend(members.values().map(|member| (member, depth + 1))),
            _ => {}
        }
    }
    deepest
}

/// What may stand in a sequence, as far as it matters for where a rule can begin.
enum Item {
    /// Characters that have to come.
    Character,
    /// Another rule.
    Rule(usize),
    /// What may be left out: of it only where it can begin counts.
    Optional(Box<Self>),
}

/// A rule: the sequences it may be.
type Alternatives = Vec<Vec<Item>>;

#[derive(Default)]
struct Rules {
    names: HashMap<String, usize>,
    /// `None` until it is defined.
    rules: Vec<Option<Alternatives>>,
    /// Rules that are repeated somewhere.
    repeated: Vec<usize>,
}

impl Rules {
    fn named(&mut self, name: String) -> usize {
        let next = self.rules.len();
        let index = *self.names.entry(name).or_insert(next);
        if index == next {
            self.rules.push(None);
        }
        index
    }

    /// Which rules can be the empty text.
    fn empty(&self) -> Vec<bool> {
        let mut empty = vec![false; self.rules.len()];
        loop {
            let mut changed = false;
            for (index, rule) in self.rules.iter().enumerate() {
                if !empty[index]
                    && rule
                        .iter()
                        .flatten()
                        .any(|sequence| sequence.iter().all(|item| can_be_empty(item, &empty)))
                {
                    empty[index] = true;
                    changed = true;
                }
            }
            if !changed {
                return empty;
            }
        }
    }

    /// Whether some rule can begin with itself.
    fn is_left_recursive(&self, empty: &[bool]) -> bool {
        let begins = self
            .rules
            .iter()
            .map(|rule| {
                let mut first = Vec::new();
                for sequence in rule.iter().flatten() {
                    for item in sequence {
                        first.extend(rule_of(item));
                        if !can_be_empty(item, empty) {
                            break;
                        }
                    }
                }
                first
            })
            .collect::<Vec<_>>();
        // Rules that begin with nothing open are taken away until none is left; what stays is in a circle or leads into one.
        let mut waiting = begins.iter().map(Vec::len).collect::<Vec<_>>();
        let mut led_to_by = vec![Vec::new(); begins.len()];
        for (rule, firsts) in begins.iter().enumerate() {
            for &first in firsts {
                led_to_by[first].push(rule);
            }
        }
        let mut done = (0..begins.len())
            .filter(|&rule| waiting[rule] == 0)
            .collect::<Vec<_>>();
        let mut taken = 0;
        while let Some(rule) = done.pop() {
            taken += 1;
            for &other in &led_to_by[rule] {
                waiting[other] -= 1;
                if waiting[other] == 0 {
                    done.push(other);
                }
            }
        }
        taken < begins.len()
    }
}

fn rule_of(item: &Item) -> Option<usize> {
    match item {
        Item::Character => None,
        Item::Rule(rule) => Some(*rule),
        Item::Optional(item) => rule_of(item),
    }
}

fn can_be_empty(item: &Item, empty: &[bool]) -> bool {
    match item {
        Item::Character => false,
        Item::Rule(rule) => empty[*rule],
        Item::Optional(_) => true,
    }
}

/// Whether llama.cpp can be given the grammar.
fn check(grammar: &str) -> Result<(), String> {
    if grammar.len() > MAX_GRAMMAR_BYTES {
        return Err("the grammar is too long".to_owned());
    }
    if grammar.contains('\0') {
        return Err("a grammar has no NUL".to_owned());
    }
    let mut parser = Parser {
        rest: grammar.chars().peekable(),
        line: 1,
        rules: Rules::default(),
    };
    parser
        .grammar()
        .map_err(|what| format!("line {}: {what}", parser.line))?;
    let rules = parser.rules;
    if let Some((name, _)) = rules
        .names
        .iter()
        .find(|&(_, &index)| rules.rules[index].is_none())
    {
        return Err(format!("the rule {name} is not defined"));
    }
    if !rules.names.contains_key(ROOT) {
        return Err("there is no rule root".to_owned());
    }
    let empty = rules.empty();
    if rules.repeated.iter().any(|&rule| empty[rule]) {
        return Err(EMPTY_REPEATED.to_owned());
    }
    if rules.is_left_recursive(&empty) {
        return Err("a rule begins with itself".to_owned());
    }
    Ok(())
}

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    line: u32,
    rules: Rules,
}

impl Parser<'_> {
    fn grammar(&mut self) -> Result<(), &'static str> {
        self.space(true);
        while self.rest.peek().is_some() {
            let name = self.name().ok_or("expected the name of a rule")?;
            self.space(false);
            if !(self.take(':') && self.take(':') && self.take('=')) {
                return Err("expected ::=");
            }
            self.space(true);
            let index = self.rules.named(name);
            let alternatives = self.alternatives(0)?;
            if self.rules.rules[index].replace(alternatives).is_some() {
                return Err("the rule is defined twice");
            }
            match self.next() {
                None | Some('\n') => {}
                Some('\r') => {
                    self.take('\n');
                }
                Some(_) => return Err("expected the end of the line"),
            }
            self.space(true);
        }
        Ok(())
    }

    fn alternatives(&mut self, depth: usize) -> Result<Alternatives, &'static str> {
        if depth > MAX_SHAPE_DEPTH {
            return Err("brackets are nested too deeply");
        }
        let mut alternatives = vec![self.sequence(depth)?];
        while self.take('|') {
            self.space(true);
            alternatives.push(self.sequence(depth)?);
        }
        Ok(alternatives)
    }

    fn sequence(&mut self, depth: usize) -> Result<Vec<Item>, &'static str> {
        let nested = depth > 0;
        let mut items: Vec<Item> = Vec::new();
        // Whether the last item may be repeated: an empty one and one that is repeated already may not.
        while let Some(&character) = self.rest.peek() {
            match character {
                '"' => {
                    self.next();
                    if self.literal()? {
                        items.push(Item::Character);
                    } else if self.is_repeated() {
                        return Err("nothing to repeat");
                    }
                }
                '[' => {
                    self.next();
                    self.characters()?;
                    items.push(Item::Character);
                }
                '.' => {
                    self.next();
                    items.push(Item::Character);
                }
                '(' => {
                    self.next();
                    self.space(true);
                    let inner = self.alternatives(depth + 1)?;
                    if !self.take(')') {
                        return Err("expected )");
                    }
                    let index = self.rules.rules.len();
                    self.rules.rules.push(Some(inner));
                    items.push(Item::Rule(index));
                }
                '*' | '?' | '+' | '{' => {
                    self.next();
                    let repeated = items.pop().ok_or("nothing to repeat")?;
                    let least = match character {
                        '+' => 1,
                        '{' => self.counted()?,
                        _ => 0,
                    };
                    match &repeated {
                        _ if character == '?' => {}
                        Item::Character => {}
                        Item::Rule(rule) => self.rules.repeated.push(*rule),
                        Item::Optional(_) => return Err(EMPTY_REPEATED),
                    }
                    items.push(if least > 0 {
                        repeated
                    } else {
                        Item::Optional(Box::new(repeated))
                    });
                }
                '<' | '!' => return Err("tokens are not followed here, only characters"),
                _ => {
                    let Some(name) = self.name() else { break };
                    let index = self.rules.named(name);
                    items.push(Item::Rule(index));
                }
            }
            self.space(nested);
        }
        Ok(items)
    }

    /// A literal after its quote; whether there is anything in it.
    fn literal(&mut self) -> Result<bool, &'static str> {
        let mut any = false;
        loop {
            match self.next().ok_or("a quote is not closed")? {
                '"' => return Ok(any),
                '\\' => self.escape()?,
                _ => {}
            }
            any = true;
        }
    }

    /// A set of characters after its bracket.
    fn characters(&mut self) -> Result<(), &'static str> {
        self.take('^');
        let mut any = false;
        loop {
            match self.next().ok_or("a bracket is not closed")? {
                ']' if any => return Ok(()),
                ']' => return Err("a set of characters is empty"),
                '\\' => self.escape()?,
                _ => {}
            }
            any = true;
        }
    }

    fn escape(&mut self) -> Result<(), &'static str> {
        let digits = match self.next() {
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            Some('t' | 'r' | 'n' | '\\' | '"' | '[' | ']' | '-') => 0,
            _ => return Err("no such escape"),
        };
        for _ in 0..digits {
            if !self.next().is_some_and(|digit| digit.is_ascii_hexdigit()) {
                return Err("expected a hexadecimal digit");
            }
        }
        Ok(())
    }

    /// The least count of `{n}`, `{n,}` or `{n,m}` after its bracket.
    fn counted(&mut self) -> Result<u32, &'static str> {
        self.space(true);
        let least = self.number()?;
        if self.take(',') {
            self.space(true);
            if self.rest.peek().is_some_and(char::is_ascii_digit) && self.number()? < least {
                return Err("counts are the wrong way round");
            }
        }
        if !self.take('}') {
            return Err("expected }");
        }
        Ok(least)
    }

    fn number(&mut self) -> Result<u32, &'static str> {
        let mut digits = String::new();
        while let Some(digit) = self.rest.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        let number = digits.parse().map_err(|_| "expected a number")?;
        if number > MAX_REPETITIONS {
            return Err("too many repetitions");
        }
        self.space(true);
        Ok(number)
    }

    fn name(&mut self) -> Option<String> {
        let mut name = String::new();
        while let Some(character) = self
            .rest
            .next_if(|&character| character.is_ascii_alphanumeric() || character == '-')
        {
            name.push(character);
        }
        (!name.is_empty()).then_some(name)
    }

    /// Spaces and comments; line ends only within brackets and between rules.
    fn space(&mut self, line_ends: bool) {
        while let Some(&character) = self.rest.peek() {
            match character {
                ' ' | '\t' => {}
                '#' => {
                    while self
                        .rest
                        .next_if(|&character| character != '\r' && character != '\n')
                        .is_some()
                    {}
                }
                '\r' | '\n' if line_ends => {}
                _ => return,
            }
            if character != '#' {
                self.next();
            }
        }
    }

    fn is_repeated(&mut self) -> bool {
        self.space(false);
        matches!(self.rest.peek(), Some('*' | '+' | '?' | '{'))
    }

    fn take(&mut self, wanted: char) -> bool {
        self.rest.next_if_eq(&wanted).is_some()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.rest.next();
        self.line += u32::from(next == Some('\n'));
        next
    }
}
