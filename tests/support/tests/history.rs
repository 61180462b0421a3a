//! The consistency check itself: the histories of a correct log pass, and every kind of corruption is
//! found and named.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use ragwire_test_support::history::{
    End, History, Notice, ReceivedFrame, Verdict, Violation, Visit, VisitEnd, judge, retains,
};
use ragwire_test_support::seed::Seed;

/// Random sets of histories per test.
const SETS: u64 = 300;
const ALL: [Notice; 5] = [
    Notice::Unknown,
    Notice::Lost,
    Notice::Gone,
    Notice::Ahead,
    Notice::Unavailable,
];

fn frame(index: u64) -> ReceivedFrame {
    ReceivedFrame::from_line(format!("{{\"index\":{index},\"text\":\"word{index}\"}}").as_bytes()).unwrap()
}

fn end(index: u64, end: &str) -> ReceivedFrame {
    ReceivedFrame::from_line(format!("{{\"index\":{index},\"end\":\"{end}\"}}").as_bytes()).unwrap()
}

fn failed(index: u64, code: &str) -> ReceivedFrame {
    let line = format!("{{\"index\":{index},\"end\":\"failed\",\"error\":{{\"code\":\"{code}\"}}}}");
    ReceivedFrame::from_line(line.as_bytes()).unwrap()
}

fn visit(from: u64, frames: Vec<ReceivedFrame>, ended: VisitEnd) -> Visit {
    Visit { from, frames, ended }
}

fn history(reader: &str, visits: Vec<Visit>) -> History {
    History {
        reader: reader.to_owned(),
        visits,
    }
}

/// Generates a turn of some frames and its end.
fn turn(seed: &mut Seed) -> Vec<ReceivedFrame> {
    let length = 4 + seed.below(12);
    let mut frames: Vec<_> = (0..length).map(frame).collect();
    frames.push(match seed.below(3) {
        0 => end(length, "completed"),
        1 => end(length, "stopped"),
        _ => failed(length, "chat_failed"),
    });
    frames
}

/// Generates a reader of that turn that reconnects at random indexes, also after refusals, and reads to
/// the end.
fn reader(name: &str, turn: &[ReceivedFrame], seed: &mut Seed) -> History {
    let mut visits = Vec::new();
    let mut at = seed.below(turn.len() as u64 + 1) as usize;
    // Half of them read the whole turn.
    at *= seed.below(2) as usize;
    loop {
        let from = at as u64;
        match seed.below(6) {
            0 => visits.push(visit(from, Vec::new(), VisitEnd::Refused(503))),
            1 => visits.push(visit(from, Vec::new(), VisitEnd::Disconnected)),
            2 => visits.push(visit(from, vec![failed(from, "unavailable")], VisitEnd::Complete)),
            _ if at == turn.len() => {
                visits.push(visit(from, Vec::new(), VisitEnd::NothingLeft));
                return history(name, visits);
            }
            3 => {
                visits.push(visit(from, turn[at..].to_vec(), VisitEnd::Complete));
                return history(name, visits);
            }
            _ => {
                let until = at + seed.below((turn.len() - at) as u64) as usize;
                visits.push(visit(from, turn[at..until].to_vec(), VisitEnd::Disconnected));
                at = until;
            }
        }
    }
}

fn readers(seed: &mut Seed) -> (Vec<ReceivedFrame>, Vec<History>) {
    let turn = turn(seed);
    let mut histories: Vec<_> = (0..1 + seed.below(4))
        .map(|number| reader(&format!("r{number}"), &turn, seed))
        .collect();
    // Two readers receive everything, so that each frame can be compared.
    for name in ["too", "all"] {
        histories.push(history(name, vec![visit(0, turn.clone(), VisitEnd::Complete)]));
    }
    (turn, histories)
}

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

/// Picks a random visit with at least `frames` frames; returns the indexes of its reader and of the visit.
fn pick(histories: &[History], frames: usize, seed: &mut Seed) -> Option<(usize, usize)> {
    let mut fitting = Vec::new();
    for (reader, history) in histories.iter().enumerate() {
        for (number, visit) in history.visits.iter().enumerate() {
            let received = visit
                .frames
                .iter()
                .filter(|seen| **seen != failed(seen.index, "unavailable"));
            if received.count() >= frames {
                fitting.push((reader, number));
            }
        }
    }
    let pick = seed.below(fitting.len().max(1) as u64) as usize;
    fitting.get(pick).copied()
}

/// Corrupts one visit of random histories and asserts the violation that is found.
fn spoiled(
    frames: usize,
    spoil: impl Fn(&mut Visit, usize) -> bool,
    is_found: impl Fn(&Violation, &str) -> bool,
) {
    let mut spoiled = 0;
    for number in 0..SETS {
        let mut seed = Seed::new(number);
        let (_, mut histories) = readers(&mut seed);
        let Some((reader, at)) = pick(&histories, frames, &mut seed) else {
            continue;
        };
        let visit = &mut histories[reader].visits[at];
        let pick = seed.below(visit.frames.len().max(1) as u64) as usize;
        if !spoil(visit, pick) {
            continue;
        }
        spoiled += 1;
        let found = judge(&histories, &[Notice::Unavailable]).unwrap_err();
        let name = histories[reader].reader.clone();
        assert!(is_found(&found, &name), "set {number}, {name}: {found}");
    }
    assert!(spoiled > SETS / 10, "only {spoiled} sets were spoiled");
}

#[test]
fn a_frame_left_out_is_found() {
    spoiled(
        3,
        |visit, place| {
            // A visit without its last frame is only shorter: another test covers that.
            let inner = place > 0 && place + 1 < visit.frames.len();
            if inner {
                visit.frames.remove(place);
            }
            inner
        },
        |found, name| matches!(found, Violation::Gap { reader, .. } if reader == name),
    );
    spoiled(
        2,
        |visit, _| {
            visit.frames.remove(0);
            true
        },
        |found, name| matches!(found, Violation::WrongStart { reader, .. } if reader == name),
    );
}

#[test]
fn a_frame_given_twice_is_found_in_one_stream_and_over_two() {
    spoiled(
        2,
        |visit, place| {
            let again = visit.frames[place].clone();
            let is_end = again.end.is_some();
            visit.frames.insert(place + 1, again);
            !is_end
        },
        |found, name| matches!(found, Violation::Repeated { reader, .. } if reader == name),
    );
    // A defect of real replays: they begin with the last frame that the reader has.
    for number in 0..SETS {
        let turn = turn(&mut Seed::new(number));
        let visits = vec![
            visit(0, turn[..2].to_vec(), VisitEnd::Disconnected),
            visit(2, turn[1..].to_vec(), VisitEnd::Complete),
        ];
        let found = judge(&[history("r", visits)], &[]).unwrap_err();
        let (requested, received) = (2, 1);
        assert_eq!(
            found,
            Violation::WrongStart {
                reader: "r".into(),
                requested,
                received
            }
        );
    }
}

#[test]
fn frames_out_of_order_are_found() {
    spoiled(
        3,
        |visit, place| {
            let inner = place + 1 < visit.frames.len();
            if inner {
                visit.frames.swap(place, place + 1);
            }
            inner
        },
        |found, name| {
            matches!(found, Violation::Gap { reader, .. } | Violation::WrongStart { reader, .. }
                | Violation::AfterEnd { reader, .. } if reader == name)
        },
    );
}

#[test]
fn one_changed_byte_is_found() {
    spoiled(
        1,
        |visit, place| {
            let seen = &mut visit.frames[place];
            let last = seen.bytes.len() - 3;
            seen.bytes[last] ^= 1;
            // A notice is not a frame of the turn.
            *seen != failed(seen.index, "unavailable")
                && !seen
                    .bytes
                    .starts_with(b"{\"end\":\"failed\",\"error\":{\"code\":\"un")
        },
        |found, name| matches!(found, Violation::Difference { one, other, .. } if one == name || other == name),
    );
}

#[test]
fn another_turns_frames_are_found() {
    spoiled(
        1,
        |visit, _| {
            for seen in &mut visit.frames {
                let index = seen.index;
                if seen.end.is_none() {
                    let line = format!("{{\"index\":{index},\"text\":\"another{index}\"}}");
                    *seen = ReceivedFrame::from_line(line.as_bytes()).unwrap();
                }
            }
            visit.frames[0].end.is_none()
        },
        |found, name| matches!(found, Violation::Difference { one, other, .. } if one == name || other == name),
    );
}

#[test]
fn a_jump_over_what_was_lost_is_found() {
    // What Redis does by itself after a trim or a restart: the reader gets the later entries without a
    // notice.
    spoiled(
        1,
        |visit, _| {
            for seen in &mut visit.frames {
                seen.index += 2;
            }
            visit.frames[0].bytes.starts_with(b"{\"text\"")
        },
        |found, name| matches!(found, Violation::WrongStart { reader, .. } if reader == name),
    );
}

#[test]
fn a_second_end_and_frames_after_the_end_are_found() {
    for number in 0..SETS {
        let mut seed = Seed::new(number);
        let (turn, mut histories) = readers(&mut seed);
        let after = turn.len() as u64;
        let at = histories.len() - 1;
        let name = "all".to_owned();
        let mut same_stream = histories.clone();
        same_stream[at].visits[0].frames.push(end(after, "completed"));
        assert_eq!(
            judge(&same_stream, &ALL),
            Err(Violation::AfterEnd {
                reader: name.clone(),
                index: after
            })
        );
        let mut later_visit = histories.clone();
        later_visit[at].visits.push(visit(
            after,
            vec![frame(after), end(after + 1, "completed")],
            VisitEnd::Complete,
        ));
        assert_eq!(
            judge(&later_visit, &ALL),
            Err(Violation::AfterEnd {
                reader: name.clone(),
                index: after
            })
        );
        // The same index, another kind of end.
        let last = turn.last().unwrap();
        let other = match &last.end {
            Some(End::Stopped) => end(last.index, "completed"),
            _ => end(last.index, "stopped"),
        };
        histories.push(history(
            "other",
            vec![visit(last.index, vec![other], VisitEnd::Complete)],
        ));
        assert!(
            matches!(judge(&histories, &ALL), Err(Violation::Difference { index, .. }) if index == last.index)
        );
    }
}

#[test]
fn a_frame_after_another_readers_end_is_found() {
    let early = history(
        "early",
        vec![visit(0, vec![frame(0), end(1, "completed")], VisitEnd::Complete)],
    );
    let late = history(
        "late",
        vec![visit(2, vec![frame(2), end(3, "completed")], VisitEnd::Complete)],
    );
    assert_eq!(
        judge(&[early, late], &ALL),
        Err(Violation::BeyondEnd {
            reader: "late".into(),
            index: 2,
            end: 1
        })
    );
}

#[test]
fn a_complete_response_without_an_end_is_found() {
    spoiled(
        2,
        |visit, _| {
            let is_whole = visit.ended == VisitEnd::Complete && visit.frames.len() > 1;
            visit.frames.pop();
            is_whole
        },
        |found, name| matches!(found, Violation::NoEnd { reader } if reader == name),
    );
    let empty = history("r", vec![visit(0, Vec::new(), VisitEnd::Complete)]);
    assert_eq!(
        judge(&[empty], &ALL),
        Err(Violation::NoEnd { reader: "r".into() })
    );
}

#[test]
fn nothing_left_is_accepted_only_after_the_end() {
    for number in 0..SETS {
        let mut seed = Seed::new(number);
        let (turn, mut histories) = readers(&mut seed);
        let from = seed.below(turn.len() as u64);
        histories.push(history("r", vec![visit(from, Vec::new(), VisitEnd::NothingLeft)]));
        let reader = "r".to_owned();
        assert_eq!(
            judge(&histories, &ALL),
            Err(Violation::SilentLoss {
                reader: reader.clone(),
                from
            })
        );
        // A log that has lost its end must not report it either.
        let visits = vec![
            visit(0, turn[..3].to_vec(), VisitEnd::Disconnected),
            visit(3, Vec::new(), VisitEnd::NothingLeft),
        ];
        assert_eq!(
            judge(&[history("r", visits)], &ALL),
            Err(Violation::SilentLoss { reader, from: 3 })
        );
    }
}

#[test]
fn a_history_without_an_end_or_a_notice_is_found() {
    for number in 0..SETS {
        let mut seed = Seed::new(number);
        let (turn, mut histories) = readers(&mut seed);
        let until = seed.below(turn.len() as u64) as usize;
        let visits = vec![visit(0, turn[..until].to_vec(), VisitEnd::Disconnected)];
        histories.push(history("r", visits));
        let reader = "r".to_owned();
        assert_eq!(
            judge(&histories, &ALL),
            Err(Violation::Unfinished {
                reader: reader.clone()
            })
        );
        histories.pop();
        histories.push(history("r", Vec::new()));
        assert_eq!(judge(&histories, &ALL), Err(Violation::Unfinished { reader }));
    }
}

#[test]
fn a_loss_is_reported_only_where_it_is_allowed_and_for_good() {
    let words = [
        (VisitEnd::Refused(404), None, Notice::Unknown),
        (VisitEnd::Refused(409), None, Notice::Lost),
        (VisitEnd::Refused(410), None, Notice::Gone),
        (VisitEnd::Refused(416), None, Notice::Ahead),
        (VisitEnd::Refused(503), None, Notice::Unavailable),
        (VisitEnd::Complete, Some("lost"), Notice::Lost),
        (VisitEnd::Complete, Some("gone"), Notice::Gone),
        (VisitEnd::Complete, Some("unavailable"), Notice::Unavailable),
    ];
    for (ended, code, notice) in words {
        let turn = [frame(0), frame(1), end(2, "completed")];
        let notice_at_two = visit(2, code.map(|code| failed(2, code)).into_iter().collect(), ended);
        let visits = vec![
            visit(0, turn[..2].to_vec(), VisitEnd::Disconnected),
            notice_at_two,
        ];
        let notice_last = vec![history("r", visits)];
        let verdict = judge(&notice_last, &[notice]).unwrap();
        let expected = Verdict {
            end: None,
            frames: 2,
            notices: vec![("r".into(), notice)],
        };
        assert_eq!(verdict, expected);
        let others: Vec<_> = ALL.into_iter().filter(|other| *other != notice).collect();
        assert_eq!(
            judge(&notice_last, &others),
            Err(Violation::UnexpectedNotice {
                reader: "r".into(),
                notice
            })
        );
        // Then the frame arrives after all.
        let mut revived = notice_last.clone();
        revived[0]
            .visits
            .push(visit(2, turn[2..].to_vec(), VisitEnd::Complete));
        let verdict = judge(&revived, &[notice]);
        if matches!(notice, Notice::Lost | Notice::Gone) {
            assert_eq!(
                verdict,
                Err(Violation::Revived {
                    reader: "r".into(),
                    index: 2
                })
            );
        } else {
            assert_eq!(verdict.unwrap().end, Some((2, End::Completed)));
        }
    }
    for status in [200, 204, 400, 500, 502] {
        let visits = vec![visit(0, Vec::new(), VisitEnd::Refused(status))];
        assert_eq!(
            judge(&[history("r", visits)], &ALL),
            Err(Violation::UnexpectedStatus {
                reader: "r".into(),
                status
            })
        );
    }
}

#[test]
fn interrupted_is_the_same_end_for_all_readers_unless_the_log_can_lose_frames() {
    let whole = history(
        "whole",
        vec![visit(
            0,
            vec![frame(0), frame(1), end(2, "completed")],
            VisitEnd::Complete,
        )],
    );
    let fenced = history(
        "fenced",
        vec![visit(
            0,
            vec![frame(0), failed(1, "interrupted")],
            VisitEnd::Complete,
        )],
    );
    let verdict = judge(std::slice::from_ref(&fenced), &[]).unwrap();
    assert_eq!(verdict.end, Some((1, End::Failed("interrupted".into()))));
    assert!(matches!(
        judge(&[whole.clone(), fenced.clone()], &[Notice::Lost]),
        Err(Violation::Difference { index: 1, .. })
    ));
    let verdict = judge(&[whole, fenced], &[Notice::Interrupted]).unwrap();
    assert_eq!(verdict.notices, [("fenced".to_owned(), Notice::Interrupted)]);
    assert_eq!(verdict.end, Some((2, End::Completed)));
}

#[test]
fn a_snapshot_replaces_frames_only_where_it_is_allowed() {
    let snapshot = |index: u64| {
        let line = format!("{{\"index\":{index},\"snapshot\":{{\"events\":[],\"text\":\"word0 word1\"}}}}");
        ReceivedFrame::from_line(line.as_bytes()).unwrap()
    };
    let whole = history(
        "whole",
        vec![visit(
            0,
            vec![frame(0), frame(1), frame(2), end(3, "completed")],
            VisitEnd::Complete,
        )],
    );
    let late = history(
        "late",
        vec![visit(
            0,
            vec![snapshot(1), frame(2), end(3, "completed")],
            VisitEnd::Complete,
        )],
    );
    let both = [whole.clone(), late];
    assert_eq!(
        judge(&both, &[]),
        Err(Violation::UnexpectedNotice {
            reader: "late".into(),
            notice: Notice::Snapshot
        })
    );
    let verdict = judge(&both, &[Notice::Snapshot]).unwrap();
    assert_eq!((verdict.end, verdict.frames), (Some((3, End::Completed)), 4));
    let gap = history(
        "gap",
        vec![visit(
            0,
            vec![snapshot(1), end(3, "completed")],
            VisitEnd::Complete,
        )],
    );
    assert_eq!(
        judge(&[whole.clone(), gap], &[Notice::Snapshot]),
        Err(Violation::Gap {
            reader: "gap".into(),
            missing: 2
        })
    );
    let again = history(
        "again",
        vec![visit(
            0,
            vec![frame(0), frame(1), snapshot(0), frame(2)],
            VisitEnd::Complete,
        )],
    );
    assert_eq!(
        judge(&[whole, again], &[Notice::Snapshot]),
        Err(Violation::Repeated {
            reader: "again".into(),
            index: 0
        })
    );
}

#[test]
fn a_received_frame_that_is_no_longer_stored_is_found() {
    for number in 0..SETS {
        let mut seed = Seed::new(number);
        let (turn, mut histories) = readers(&mut seed);
        histories.truncate(histories.len() - 2);
        let all = history(
            "r",
            vec![visit(0, turn[..turn.len() - 1].to_vec(), VisitEnd::Disconnected)],
        );
        histories.push(all);
        let kept = seed.below(turn.len() as u64 - 1);
        let mut frames = turn[..kept as usize].to_vec();
        frames.push(failed(kept, "lost"));
        let last = history("last", vec![visit(0, frames, VisitEnd::Complete)]);
        let found = retains(&histories, &last).unwrap_err();
        assert!(
            matches!(found, Violation::Vanished { index, .. } if index == kept),
            "{number}: {found}"
        );
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
