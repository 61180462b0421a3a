//! What is shown: steps and citations on stderr, text on stdout.

use std::collections::HashMap;
use std::io::{self, Write};

use ragwire::event::{Event, Source, Triple};
use ragwire::{Citation, Snapshot};
use ragwire_rag::graph::entity::name_of;

/// Where Unicode has the pictures of the control characters, in their order.
const PICTURES: u32 = 0x2400;

/// Triples of an explanation that are shown: what somebody reads. The wires have all of them.
const MAX_TRIPLES: usize = 20;

/// Where the passages come from is told by an event; the citations at the end only name them.
#[derive(Debug, Default)]
pub(super) struct Printer {
    sources: HashMap<String, Source>,
    /// How much of the answer is printed.
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
                let told = [s, p, o].map(|term| name_of(term).unwrap_or_else(|| term.clone()));
                eprintln!("    {}", clean(&told.join(" | ").replace('\n', " ")));
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
        // Each piece is seen when it arrives, also where stdout is a pipe.
        out.flush()
    }

    /// What is printed cannot be taken back, but it is how the answer so far begins: only the rest of that is new.
    pub(super) fn snapshot(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        for (event, _) in &snapshot.events {
            self.event(event);
        }
        match snapshot.text.get(self.text_bytes..) {
            None | Some("") => Ok(()),
            Some(rest) => self.text(rest),
        }
    }

    /// The sentence of a failure, as a wire that puts it behind the text does.
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

/// One step in one line.
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
        Event::Queued(queued) => format!("queued: place {}, {} ahead", queued.position, queued.ahead),
        event => event.name().replace('_', " "),
    }
}

/// Who judged, where the event says so.
fn by(judge: Option<&str>) -> String {
    judge.map(|judge| format!(" ({judge})")).unwrap_or_default()
}

/// Text of documents and of models must not steer the terminal: control characters are shown by their pictures, as the framed
/// wire shows the two that it needs for itself, and those without a picture as U+FFFD.
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
