//! The quotes that answer a question about a document itself, its authors, its date, its summary, and about one of its
//! numbered parts.

use super::segments::{Segment, segments};
use super::{MAX_CLOSEST, QUOTE_BYTES, Quoted};
use crate::search::about::{About, AboutDocument};
use crate::search::numbered::NumberedPart;
use crate::{Hit, LibraryView};

/// What the beginning of a document is taken to cover of a question about it, which it does not repeat.
const ABOUT_COVERAGE: f32 = 0.75;
/// A numbered part, such as a section of a law, is quoted up to this length.
const PART_BYTES: usize = 1_000;

/// Returns the beginning of a part as its quote, if the first hit is the part that is asked for as a whole.
pub(super) fn part_quote(part: &NumberedPart, hits: &[Hit]) -> Option<Quoted> {
    let first = hits.first().filter(|hit| part.is(&hit.chunk))?;
    let segments = segments(&first.chunk);
    let from = segments
        .iter()
        .position(|segment| !segment.is_title())
        .unwrap_or(0);
    let start = segments.get(from)?.start;
    let within = |segment: &&Segment<'_>| segment.end - start <= PART_BYTES;
    let last = segments[from..]
        .iter()
        .take_while(within)
        .last()
        .unwrap_or(&segments[from]);
    Some(Quoted {
        hit: 0,
        range: start..last.end,
        coverage: ABOUT_COVERAGE,
    })
}

/// Returns the quotes that answer a question about a document, from its beginning.
pub(super) fn about_quotes(library: LibraryView<'_>, about: &AboutDocument, hits: &[Hit]) -> Vec<Quoted> {
    let mut quoted = Vec::new();
    for (at, hit) in hits.iter().enumerate() {
        if quoted.len() == MAX_CLOSEST || !about.is_answered_by(library, &hit.chunk) {
            continue;
        }
        let segments = segments(&hit.chunk);
        let tells = |segment: &Segment<'_>| match about.about {
            // A name and an address may be in two sentences of a line.
            About::Authors | About::Date => {
                let line = hit.chunk.text.lines().nth(segment.line).unwrap_or_default();
                about.is_told_by(&hit.chunk, line)
            }
            About::Title | About::Summary | About::Conclusion => !segment.is_title() && !segment.is_caption(),
        };
        let Some(from) = segments.iter().position(tells) else {
            continue;
        };
        let mut to = from;
        while let Some(next) = segments.get(to + 1)
            && next.end - segments[from].start <= QUOTE_BYTES
            && tells(next)
        {
            to += 1;
        }
        quoted.push(Quoted {
            hit: at,
            range: segments[from].start..segments[to].end,
            coverage: ABOUT_COVERAGE,
        });
        match about.about {
            About::Title | About::Summary | About::Conclusion => break,
            About::Authors | About::Date => {}
        }
    }
    quoted
}
