//! Frames and entry IDs survive encoding and decoding.

use super::*;
use crate::event::Search;
use crate::failure::Failure;
use crate::frame::End;
use crate::metadata::Metadata;

#[test]
fn a_frame_survives_encoding() {
    let long = "\u{1}\"\u{1d}\u{2028}\u{1f600}".repeat(50_000);
    let event = Search::new("bm25").query(&long).into();
    let metadata = Metadata::default().with("note", long.as_str());
    for frame in [
        Frame::Text("\u{1}".repeat(4096)),
        Frame::Event {
            event,
            timestamp: None,
        },
        Frame::End(End::completed(metadata)),
        Frame::End(End::stopped()),
        Frame::End(End::failed(Failure::new("cut", long.clone()))),
    ] {
        for index in [0, 7, u64::from(u32::MAX)] {
            let line = line(index, &Record::frame(frame.clone()));
            assert_eq!(record(index, &line).unwrap().to_frame(), frame);
            assert!(record(index + 1, &line).is_none(), "it has another index");
            assert!(record(index, &line[..line.len() / 2]).is_none(), "it is cut");
        }
    }
    assert!(record(0, b"\n").is_none());
}

#[test]
fn an_entry_id_contains_epoch_and_index() {
    for (epoch, index, id) in [(1, 0, "1-1"), (2, 41, "2-42")] {
        assert_eq!(entry_id(epoch, index), id);
        assert_eq!(parse_entry_id(id), Some((epoch, index)));
    }
    for id in ["", "1", "1-0", "-1", "a-1", "1-a", "1-1-1"] {
        assert_eq!(parse_entry_id(id), None, "{id}");
    }
}
