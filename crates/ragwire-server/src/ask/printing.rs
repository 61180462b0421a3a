//! Prints steps and citations to stderr and text to stdout.

use std::collections::HashMap;
use std::io::{self, Write};

use ragwire::event::{Event, Source, Triple};
use ragwire::{Citation, Snapshot};
use ragwire_rag::graph::entity::name_of;

/// The first of the Unicode control pictures, which are in the order of the control characters.
const PICTURES: u32 = 0x2400;

/// Maximum number of triples printed per explanation. The wires have all of them.
const MAX_TRIPLES: usize = 20;

/// Prints a turn. An event describes the sources, and the citations at the end refer to them.
#[derive(Debug, Default)]
pub(super) struct Printer {
    sources: HashMap<String, Source>,
    /// Printed bytes of the answer.
    text_bytes: usize,
}

impl Printer {
    pub(super) fn event(&mut self, event: &Event) {
        if let Event::Sources(sources) = event {
            let known = sources.sources.iter();
            self.sources
                .extend(known.map(|source| (source.chunk_id.clone(), source.clone())));
        }
        eprintln!("· {}", clean(&step(event)));
        if let Event::GraphExplanation(explanation) = event {
            for Triple { s, p, o, .. } in explanation.triples.iter().take(MAX_TRIPLES) {
                let terms = [s, p, o].map(|term| name_of(term).unwrap_or_else(|| term.clone()));
                eprintln!("    {}", clean(&terms.join(" | ").replace('\n', " ")));
            }
            match explanation.triples.len().saturating_sub(MAX_TRIPLES) {
                0 => {}
                more => eprintln!("    and {more} more"),
            }
        }
    }

    pub(super) fn text(&mut self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(clean(text).as_bytes())?;
        self.text_bytes += text.len();
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
            _ if self.text_bytes > 0 => self.text(&format!("\n\n{message}")),
            _ => self.text(message),
        }
    }

    pub(super) fn citations(&mut self, citations: Vec<Citation>) -> io::Result<()> {
        if self.text_bytes > 0 {
            let mut out = io::stdout().lock();
            out.write_all(b"\n")?;
            out.flush()?;
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
            eprintln!("{}", clean(&line));
        }
        Ok(())
    }
}

/// Describes an event in one line.
fn step(event: &Event) -> String {
    match event {
        Event::Search(search) => {
            let query = search.query.as_deref().unwrap_or_default();
            format!("search ({}): {query}", search.tool)
        }
        Event::Reasoning(reasoning) => reasoning.content.replace('\n', " "),
        Event::Review(review) => {
            let feedback = review.feedback.as_deref().unwrap_or_default();
            format!(
                "review {}: {} {feedback}",
                review.iteration,
                review.verdict.as_str()
            )
        }
        Event::RetrievalResult(result) => format!(
            "{}: {} chunks in {} ms",
            result.tool, result.chunks_found, result.duration_ms
        ),
        Event::CragEvaluation(gate) => {
            let of = gate.correct + gate.ambiguous + gate.incorrect;
            format!(
                "{} of {of} chunks answer, {} may{}",
                gate.correct,
                gate.ambiguous,
                by(gate.judge.as_deref())
            )
        }
        Event::Verification(checked) => format!(
            "{} of {} claims are supported{}",
            checked.claims_supported,
            checked.claims_checked,
            by(checked.judge.as_deref())
        ),
        Event::RerankResult(result) => format!(
            "{}: {} of {} chunks kept",
            result.method, result.output_count, result.input_count
        ),
        Event::Sources(sources) => format!("{} sources", sources.sources.len()),
        Event::GenerationStart(start) => {
            format!("{} writes from {} chunks", start.model, start.context_chunks)
        }
        Event::GraphExplanation(explanation) => {
            let (id, count) = (&explanation.explain_id, explanation.triples.len());
            format!("graph explanation {id}: {count} triples")
        }
        Event::ToolCall(call) => format!("{} is called", call.tool),
        Event::ToolResult(result) => format!("{} is done", result.tool),
        Event::CacheHit(hit) => format!("answered before: {}", hit.original_query),
        Event::Queued(queued) => format!("queued: position {}, {} ahead", queued.position, queued.ahead),
        event => event.name().replace('_', " "),
    }
}

/// Returns the judge in parentheses, if the event has one.
fn by(judge: Option<&str>) -> String {
    judge.map(|judge| format!(" ({judge})")).unwrap_or_default()
}

/// Replaces control characters, with which text of documents and models could control the terminal,
/// by their pictures, or by U+FFFD. The framed wire does the same with its two separators.
pub(super) fn clean(text: &str) -> String {
    let shown = |letter: char| match letter {
        '\n' | '\t' => letter,
        '\0'..='\x1f' => char::from_u32(PICTURES + u32::from(letter)).unwrap_or(char::REPLACEMENT_CHARACTER),
        '\x7f' => '\u{2421}',
        letter if letter.is_control() => char::REPLACEMENT_CHARACTER,
        letter => letter,
    };
    text.chars().map(shown).collect()
}
