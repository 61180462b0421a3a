//! Valid histories, and how histories are read from the wires.

use super::*;

#[test]
fn the_histories_of_a_correct_log_pass() {
    for number in 0..SETS {
        let (turn, histories) = readers(&mut Seed::new(number));
        let verdict = judge(&histories, &[Notice::Unavailable]).unwrap();
        let last = turn.last().unwrap();
        assert_eq!(
            verdict.end,
            Some((last.index, last.end.clone().unwrap())),
            "{number}"
        );
        assert_eq!(verdict.frames, turn.len(), "{number}");
        let (audit, others) = histories.split_last().unwrap();
        assert_eq!(retains(others, audit), Ok(()), "{number}");
    }
}

#[test]
fn a_reader_that_asks_for_another_index_has_an_invalid_history() {
    let visits = vec![
        visit(0, vec![frame(0), frame(1)], VisitEnd::Disconnected),
        visit(3, vec![frame(3)], VisitEnd::Disconnected),
    ];
    assert!(matches!(
        judge(&[history("r", visits)], &ALL),
        Err(Violation::InvalidHistory(_))
    ));
    let visits = vec![visit(0, vec![frame(0)], VisitEnd::Refused(503))];
    assert!(matches!(
        judge(&[history("r", visits)], &ALL),
        Err(Violation::InvalidHistory(_))
    ));
}

#[test]
fn both_numbered_wires_give_the_same_frames() {
    let line = ReceivedFrame::from_line(br#"{"index":7,"end":"failed","error":{"code":"lost"}}"#).unwrap();
    let event = ReceivedFrame::from_event("7", br#"{"end":"failed","error":{"code":"lost"}}"#).unwrap();
    assert_eq!(line, event);
    assert_eq!(line.end, Some(End::Failed("lost".into())));
    // An event may have members of any name.
    let event = ReceivedFrame::from_event("8", br#"{"event":"acme","end":"completed"}"#).unwrap();
    assert_eq!(event.end, None);
    for line in [
        "",
        "7",
        "{}",
        "{\"text\":\"a\",\"index\":1}",
        "{\"index\":-1,\"text\":\"a\"}",
    ] {
        assert!(ReceivedFrame::from_line(line.as_bytes()).is_err(), "{line}");
    }
    for id in ["", "-1", "one", "1.5"] {
        assert!(ReceivedFrame::from_event(id, b"{}").is_err(), "{id}");
    }
}
