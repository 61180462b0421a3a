//! The turn that all benches send: 24 events of 21 to 800 bytes, 5.6 KB in all, 312 texts and 1.6 KB
//! of metadata.

#![allow(dead_code, reason = "each bench uses its own part")]

pub(crate) mod channel;

use ragwire::event::{
    CacheMiss, CragAction, CragClass, CragDetail, CragEvaluation, Event, RetrievalResult, RetrievalStart,
    Review, Search, Verdict,
};
use ragwire::{Citation, End, Metadata};

pub(crate) fn events() -> Vec<Event> {
    (0..6)
        .flat_map(|round| {
            let verdicts = (0..8).map(|chunk| {
                CragDetail::new(format!("0d9f3c52-{round}-{chunk}"), CragClass::Ambiguous).score(0.5)
            });
            [
                if round == 0 {
                    CacheMiss::new().into()
                } else {
                    Search::new("bm25")
                        .query("how does the commit rule decide between a status and a stream")
                        .into()
                },
                RetrievalStart::new("bm25", "commit rule status stream", round).into(),
                RetrievalResult::new("bm25", 8, 3).top_score(7.25).into(),
                if round % 2 == 0 {
                    CragEvaluation::new(2, 8, 1, CragAction::Expand, 0, verdicts.collect())
                        .judge("lexical")
                        .into()
                } else {
                    Review::new(round, Verdict::Rejected)
                        .feedback("the evidence names no status code")
                        .into()
                },
            ]
        })
        .collect()
}

/// Tokens of the length that models produce.
pub(crate) fn texts() -> Vec<&'static str> {
    [
        "The", " first", " frame", " decides", ",", " and", " nothing", " after", " it", " can", " fail",
        ".", " So",
    ]
    .into_iter()
    .cycle()
    .take(312)
    .collect()
}

pub(crate) fn metadata() -> Metadata {
    let quote =
        "Headers are sent when the first frame is there; until then a failure is a status. ".repeat(2);
    let citations = (0..6)
        .map(|number| {
            Citation::new("0d9f3c52", format!("0d9f3c52-{number}"), quote.trim(), "bm25")
                .page_number(number)
                .score(7.25)
        })
        .collect();
    Metadata::default()
        .citations(citations)
        .mode("hybrid")
        .tools_used(["bm25_search", "review"])
}

pub(crate) fn end() -> End {
    End::completed(metadata())
}
