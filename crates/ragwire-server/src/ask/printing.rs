//! Prints steps and citations to stderr and text to stdout, or everything as one JSON object.

use std::collections::HashMap;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::ProgressBar;
use ragwire::event::{Event, Source, Triple};
use ragwire::{Citation, Metadata, Snapshot, Status};
use ragwire_rag::graph::entity::name_of;
use serde_json::{Map, Value, json};

use super::AskError;
use super::steps::describe;

/// The first of the Unicode control pictures, which are in the order of the control characters.
const PICTURES: u32 = 0x2400;
/// Maximum number of triples printed per explanation. The wires have all of them.
const MAX_TRIPLES: usize = 20;
/// The period of the spinner; slower looks stuck, faster costs a terminal over ssh.
const SPINNER: Duration = Duration::from_millis(100);

/// Prints a turn. An event describes the sources, and the citations at the end refer to them.
#[derive(Debug)]
pub(super) struct Printer {
    sources: HashMap<String, Source>,
    /// Printed bytes of the answer.
    text_bytes: usize,
    /// Whether anything was printed.
    has_printed: bool,
    /// Whether stdout and stderr are one terminal with the cursor within a line of the answer.
    is_within_line: bool,
    terminal: Terminal,
    /// The spinner while the first text is awaited, on a terminal.
    spinner: ProgressBar,
    /// What `--json` prints at the end.
    object: Option<Object>,
}

/// What stderr can show.
#[derive(Debug)]
struct Terminal {
    is_shared: bool,
    has_colour: bool,
}

#[derive(Debug, Default)]
struct Object {
    answer: String,
    events: Vec<Value>,
    citations: Vec<Citation>,
    /// Why and of which parts of the server the answer is without, from the metadata.
    remarks: Map<String, Value>,
}

impl Printer {
    pub(super) fn new(json: bool) -> Self {
        let is_terminal = io::stderr().is_terminal() && !json;
        let spinner = if is_terminal {
            ProgressBar::new_spinner()
        } else {
            ProgressBar::hidden()
        };
        spinner.enable_steady_tick(SPINNER);
        Self {
            sources: HashMap::new(),
            text_bytes: 0,
            has_printed: false,
            is_within_line: false,
            terminal: Terminal {
                is_shared: is_terminal && io::stdout().is_terminal(),
                // https://no-color.org: any value but the empty one.
                has_colour: is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
            },
            spinner,
            object: json.then(Object::default),
        }
    }

    /// Writes a line to stderr. A closed stderr does not end the program: the answer goes to stdout.
    fn step(&mut self, line: impl Display) {
        self.has_printed = true;
        let line_feed = if std::mem::take(&mut self.is_within_line) {
            "\n"
        } else {
            ""
        };
        let (dim, reset) = if self.terminal.has_colour {
            ("\x1b[2m", "\x1b[0m")
        } else {
            ("", "")
        };
        self.spinner.suspend(|| {
            let _ = writeln!(io::stderr(), "{line_feed}{dim}{line}{reset}");
        });
    }

    pub(super) fn event(&mut self, event: &Event) {
        if let Event::Sources(sources) = event {
            let known = sources.sources.iter();
            self.sources
                .extend(known.map(|source| (source.chunk_id.clone(), source.clone())));
        }
        if let Some(object) = &mut self.object {
            object.events.extend(serde_json::to_value(event).ok());
            return;
        }
        if let Some(step) = describe(event) {
            self.step(format_args!("· {}", clean(&step)));
        }
        if let Event::GraphExplanation(explanation) = event {
            for Triple { s, p, o, .. } in explanation.triples.iter().take(MAX_TRIPLES) {
                let terms = [s, p, o].map(|term| name_of(term).unwrap_or_else(|| term.clone()));
                self.step(format_args!(
                    "    {}",
                    clean(&terms.join(" | ").replace('\n', " "))
                ));
            }
            match explanation.triples.len().saturating_sub(MAX_TRIPLES) {
                0 => {}
                more => self.step(format_args!("    and {more} more")),
            }
        }
    }

    pub(super) fn text(&mut self, text: &str) -> io::Result<()> {
        self.text_bytes += text.len();
        if let Some(object) = &mut self.object {
            object.answer.push_str(text);
            return Ok(());
        }
        if text.is_empty() {
            return Ok(());
        }
        self.has_printed = true;
        self.spinner.finish_and_clear();
        self.is_within_line = self.terminal.is_shared && !text.ends_with('\n');
        let mut out = io::stdout().lock();
        out.write_all(clean(text).as_bytes())?;
        // Each piece is visible at once, even if stdout is a pipe.
        out.flush()
    }

    /// Prints the rest of a snapshot. The printed text is always its beginning.
    pub(super) fn snapshot(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        for (event, _) in &snapshot.events {
            self.event(event);
        }
        match snapshot.text.get(self.text_bytes..) {
            None | Some("") => Ok(()),
            Some(rest) => self.text(rest),
        }
    }

    /// Prints the message of a failure, like a wire that appends it to the text.
    pub(super) fn failure(&mut self, message: &str) -> io::Result<()> {
        match message {
            "" => Ok(()),
            // The object has a member for the message.
            _ if self.object.is_some() => Ok(()),
            _ if self.text_bytes > 0 => self.text(&format!("\n\n{message}")),
            _ => self.text(message),
        }
    }

    /// Says that the answer was cut short, and keeps that for `--json`, as well as which parts of
    /// the server failed. A reader has seen the failures in the events.
    pub(super) fn remarks(&mut self, metadata: &Metadata) {
        if let Some(object) = &mut self.object {
            let names = ["fallback", "fallback_parts", "finish_reason"];
            let found = names.map(|name| Some((name.to_owned(), metadata.extra.get(name)?.clone())));
            object.remarks.extend(found.into_iter().flatten());
        } else if metadata.is_cut_short() {
            self.step("· the answer was cut short: the model reached its limit, or repeated itself");
        }
    }

    pub(super) fn citations(&mut self, citations: Vec<Citation>) -> io::Result<()> {
        if let Some(object) = &mut self.object {
            object.citations = citations;
            return Ok(());
        }
        if self.text_bytes > 0 {
            let mut out = io::stdout().lock();
            out.write_all(b"\n")?;
            out.flush()?;
            self.is_within_line = false;
        }
        for (index, citation) in citations.into_iter().enumerate() {
            let source = self.sources.get(&citation.chunk_id);
            let title = source.and_then(|source| source.title.clone());
            let mut line = format!("[{}] {}", index + 1, title.unwrap_or(citation.document_id));
            if let Some(page) = citation.page_number {
                line.push_str(&format!(", page {page}"));
            }
            if let Some(heading) = source.and_then(|source| source.heading.as_deref()) {
                line.push_str(&format!(", {heading}"));
            }
            line.push_str(&format!(": \"{}\"", citation.supporting_quote.replace('\n', " ")));
            self.step(clean(&line));
        }
        Ok(())
    }

    /// Prints how the turn ended, and the object of `--json`.
    pub(super) fn finish(mut self, ended: &Result<Status, AskError>) {
        self.spinner.finish_and_clear();
        let Some(object) = self.object.take() else {
            match ended {
                Ok(Status::Completed) => {}
                Ok(Status::Failed(failure)) => {
                    let message = clean(&failure.message);
                    self.last(format_args!("the turn failed: {message} ({})", failure.code()));
                }
                Ok(Status::Stopped) => self.last("the turn was stopped"),
                Err(error) => self.last(format_args!("error: {}", clean(&error.to_string()))),
            }
            return;
        };
        let (status, error) = match ended {
            Ok(Status::Completed) => ("completed", Value::Null),
            Ok(Status::Failed(failure)) => {
                let error = json!({ "code": failure.code(), "message": failure.message });
                ("failed", error)
            }
            Ok(Status::Stopped) => ("stopped", Value::Null),
            Err(error) => (
                "error",
                json!({ "code": error.code(), "message": error.to_string() }),
            ),
        };
        let mut shown = json!({
            "status": status,
            "error": error,
            "answer": object.answer,
            "citations": object.citations,
            "events": object.events,
        });
        if let Some(shown) = shown.as_object_mut() {
            shown.extend(object.remarks);
        }
        // A reader that has left wants nothing more.
        let _ = writeln!(io::stdout(), "{shown}");
    }

    /// Writes the last line, apart from what was printed before.
    fn last(&mut self, line: impl Display) {
        let before = if self.has_printed { "\n" } else { "" };
        self.is_within_line = false;
        let _ = writeln!(io::stderr(), "{before}{line}");
    }
}

/// Replaces control characters, with which text of documents and models could control the terminal,
/// by their pictures, or by U+FFFD. The framed wire does the same with its two separators.
pub(crate) fn clean(text: &str) -> String {
    let shown = |letter: char| match letter {
        '\n' | '\t' => letter,
        '\0'..='\x1f' => char::from_u32(PICTURES + u32::from(letter)).unwrap_or(char::REPLACEMENT_CHARACTER),
        '\x7f' => '\u{2421}',
        letter if letter.is_control() => char::REPLACEMENT_CHARACTER,
        letter => letter,
    };
    text.chars().map(shown).collect()
}
