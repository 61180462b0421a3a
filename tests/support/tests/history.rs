//! The judge itself: histories of an honest log pass, and each way of spoiling one is found and named.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use ragwire_test_support::history::{
    End, Ended, History, Seen, Told, Verdict, Violation, Visit, judge, keeps,
};
use ragwire_test_support::seed::Seed;

/// So many random sets of histories for each question.
const SETS: u64 = 300;
const ALL: [Told; 5] = [
    Told::Unknown,
    Told::Lost,
    Told::Gone,
    Told::Ahead,
    Told::Unavailable,
];

fn frame(index: u64) -> Seen {
    Seen::from_line(format!("{{\"index\":{index},\"text\":\"word{index}\"}}").as_bytes()).unwrap()
}

fn end(index: u64, end: &str) -> Seen {
    Seen::from_line(format!("{{\"index\":{index},\"end\":\"{end}\"}}").as_bytes()).unwrap()
}

fn failed(index: u64, code: &str) -> Seen {
    let line = format!("{{\"index\":{index},\"end\":\"failed\",\"error\":{{\"code\":\"{code}\"}}}}");
    Seen::from_line(line.as_bytes()).unwrap()
}

fn visit(from: u64, frames: Vec<Seen>, ended: Ended) -> Visit {
    Visit { from, frames, ended }
}

fn history(reader: &str, visits: Vec<Visit>) -> History {
    History {
        reader: reader.to_owned(),
        visits,
    }
}

/// A turn of some frames and its end.
fn turn(seed: &mut Seed) -> Vec<Seen> {
    let length = 4 + seed.below(12);
    let mut frames: Vec<_> = (0..length).map(frame).collect();
    frames.push(match seed.below(3) {
        0 => end(length, "completed"),
        1 => end(length, "stopped"),
        _ => failed(length, "chat_failed"),
    });
    frames
}

/// A reader of that turn that comes back at random places, after refusals too, and sees it through.
fn reader(name: &str, turn: &[Seen], seed: &mut Seed) -> History {
    let mut visits = Vec::new();
    let mut at = seed.below(turn.len() as u64 + 1) as usize;
    // Half of them read all of it.
    at *= seed.below(2) as usize;
    loop {
        let from = at as u64;
        match seed.below(6) {
            0 => visits.push(visit(from, Vec::new(), Ended::Refused(503))),
            1 => visits.push(visit(from, Vec::new(), Ended::Cut)),
            2 => visits.push(visit(from, vec![failed(from, "unavailable")], Ended::Whole)),
            _ if at == turn.len() => {
                visits.push(visit(from, Vec::new(), Ended::Nothing));
                return history(name, visits);
            }
            3 => {
                visits.push(visit(from, turn[at..].to_vec(), Ended::Whole));
                return history(name, visits);
            }
            _ => {
                let until = at + seed.below((turn.len() - at) as u64) as usize;
                visits.push(visit(from, turn[at..until].to_vec(), Ended::Cut));
                at = until;
            }
        }
    }
}

fn readers(seed: &mut Seed) -> (Vec<Seen>, Vec<History>) {
    let turn = turn(seed);
    let mut histories: Vec<_> = (0..1 + seed.below(4))
        .map(|number| reader(&format!("r{number}"), &turn, seed))
        .collect();
    // Two who saw everything, so that each frame can be compared.
    for name in ["too", "all"] {
        histories.push(history(name, vec![visit(0, turn.clone(), Ended::Whole)]));
    }
    (turn, histories)
}

#[test]
fn whatever_an_honest_log_gives_passes() {
    for number in 0..SETS {
        let (turn, histories) = readers(&mut Seed::new(number));
        let verdict = judge(&histories, &[Told::Unavailable]).unwrap();
        let last = turn.last().unwrap();
        assert_eq!(
            verdict.end,
            Some((last.index, last.end.clone().unwrap())),
            "{number}"
        );
        assert_eq!(verdict.frames, turn.len(), "{number}");
        let (audit, others) = histories.split_last().unwrap();
        assert_eq!(keeps(others, audit), Ok(()), "{number}");
    }
}

/// Somewhere in the histories a visit with so many frames or more: the number of its reader and its own. None where there is none.
fn pick(histories: &[History], frames: usize, seed: &mut Seed) -> Option<(usize, usize)> {
    let mut fitting = Vec::new();
    for (reader, history) in histories.iter().enumerate() {
        for (number, visit) in history.visits.iter().enumerate() {
            let own = visit
                .frames
                .iter()
                .filter(|seen| **seen != failed(seen.index, "unavailable"));
            if own.count() >= frames {
                fitting.push((reader, number));
            }
        }
    }
    let place = seed.below(fitting.len().max(1) as u64) as usize;
    fitting.get(place).copied()
}

/// Spoils one visit of random histories, and says what the judge has to find.
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
        let place = seed.below(visit.frames.len().max(1) as u64) as usize;
        if !spoil(visit, place) {
            continue;
        }
        spoiled += 1;
        let found = judge(&histories, &[Told::Unavailable]).unwrap_err();
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
            // Without its last frame a visit is only shorter: that is the next case.
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
    // What rmcp did: the replay begins with the frame that the reader has.
    for number in 0..SETS {
        let turn = turn(&mut Seed::new(number));
        let visits = vec![
            visit(0, turn[..2].to_vec(), Ended::Cut),
            visit(2, turn[1..].to_vec(), Ended::Whole),
        ];
        let found = judge(&[history("r", visits)], &[]).unwrap_err();
        let (asked, given) = (2, 1);
        assert_eq!(
            found,
            Violation::WrongStart {
                reader: "r".into(),
                asked,
                given
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
            // A word about a loss is nobody's frame.
            *seen != failed(seen.index, "unavailable")
                && !seen
                    .bytes
                    .starts_with(b"{\"end\":\"failed\",\"error\":{\"code\":\"un")
        },
        |found, name| matches!(found, Violation::Differs { one, other, .. } if one == name || other == name),
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
                    *seen = Seen::from_line(line.as_bytes()).unwrap();
                }
            }
            visit.frames[0].end.is_none()
        },
        |found, name| matches!(found, Violation::Differs { one, other, .. } if one == name || other == name),
    );
}

#[test]
fn a_jump_over_what_was_lost_is_found() {
    // What Redis does by itself after a trim or a restart: the reader gets the later entries and no word.
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
            Ended::Whole,
        ));
        assert_eq!(
            judge(&later_visit, &ALL),
            Err(Violation::AfterEnd {
                reader: name.clone(),
                index: after
            })
        );
        // The same place, another kind of end.
        let last = turn.last().unwrap();
        let other = match &last.end {
            Some(End::Stopped) => end(last.index, "completed"),
            _ => end(last.index, "stopped"),
        };
        histories.push(history(
            "other",
            vec![visit(last.index, vec![other], Ended::Whole)],
        ));
        assert!(
            matches!(judge(&histories, &ALL), Err(Violation::Differs { index, .. }) if index == last.index)
        );
    }
}

#[test]
fn a_frame_beyond_somebody_elses_end_is_found() {
    let early = history(
        "early",
        vec![visit(0, vec![frame(0), end(1, "completed")], Ended::Whole)],
    );
    let late = history(
        "late",
        vec![visit(2, vec![frame(2), end(3, "completed")], Ended::Whole)],
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
fn an_answer_that_only_looks_whole_is_found() {
    spoiled(
        2,
        |visit, _| {
            let is_whole = visit.ended == Ended::Whole && visit.frames.len() > 1;
            visit.frames.pop();
            is_whole
        },
        |found, name| matches!(found, Violation::NoEnd { reader } if reader == name),
    );
    let empty = history("r", vec![visit(0, Vec::new(), Ended::Whole)]);
    assert_eq!(
        judge(&[empty], &ALL),
        Err(Violation::NoEnd { reader: "r".into() })
    );
}

#[test]
fn nothing_left_is_believed_only_behind_the_end() {
    for number in 0..SETS {
        let mut seed = Seed::new(number);
        let (turn, mut histories) = readers(&mut seed);
        let from = seed.below(turn.len() as u64);
        histories.push(history("r", vec![visit(from, Vec::new(), Ended::Nothing)]));
        let reader = "r".to_owned();
        assert_eq!(
            judge(&histories, &ALL),
            Err(Violation::SilentLoss {
                reader: reader.clone(),
                from
            })
        );
        // A log that has lost its end must not say so either.
        let visits = vec![
            visit(0, turn[..3].to_vec(), Ended::Cut),
            visit(3, Vec::new(), Ended::Nothing),
        ];
        assert_eq!(
            judge(&[history("r", visits)], &ALL),
            Err(Violation::SilentLoss { reader, from: 3 })
        );
    }
}

#[test]
fn whoever_breaks_off_without_a_word_is_found() {
    for number in 0..SETS {
        let mut seed = Seed::new(number);
        let (turn, mut histories) = readers(&mut seed);
        let until = seed.below(turn.len() as u64) as usize;
        let visits = vec![visit(0, turn[..until].to_vec(), Ended::Cut)];
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
fn a_loss_is_told_only_where_there_may_be_one_and_for_good() {
    let words = [
        (Ended::Refused(404), None, Told::Unknown),
        (Ended::Refused(409), None, Told::Lost),
        (Ended::Refused(410), None, Told::Gone),
        (Ended::Refused(416), None, Told::Ahead),
        (Ended::Refused(503), None, Told::Unavailable),
        (Ended::Whole, Some("lost"), Told::Lost),
        (Ended::Whole, Some("gone"), Told::Gone),
        (Ended::Whole, Some("unavailable"), Told::Unavailable),
    ];
    for (ended, code, told) in words {
        let turn = [frame(0), frame(1), end(2, "completed")];
        let told_at_two = visit(2, code.map(|code| failed(2, code)).into_iter().collect(), ended);
        let visits = vec![visit(0, turn[..2].to_vec(), Ended::Cut), told_at_two];
        let told_last = vec![history("r", visits)];
        let verdict = judge(&told_last, &[told]).unwrap();
        let expected = Verdict {
            end: None,
            frames: 2,
            told: vec![("r".into(), told)],
        };
        assert_eq!(verdict, expected);
        let others: Vec<_> = ALL.into_iter().filter(|other| *other != told).collect();
        assert_eq!(
            judge(&told_last, &others),
            Err(Violation::Undue {
                reader: "r".into(),
                told
            })
        );
        // And then the frame comes after all.
        let mut revived = told_last.clone();
        revived[0].visits.push(visit(2, turn[2..].to_vec(), Ended::Whole));
        let verdict = judge(&revived, &[told]);
        if matches!(told, Told::Lost | Told::Gone) {
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
        let visits = vec![visit(0, Vec::new(), Ended::Refused(status))];
        assert_eq!(
            judge(&[history("r", visits)], &ALL),
            Err(Violation::Status {
                reader: "r".into(),
                status
            })
        );
    }
}

#[test]
fn an_end_in_the_place_of_a_dead_host_is_the_same_for_all_unless_the_log_may_forget() {
    let whole = history(
        "whole",
        vec![visit(
            0,
            vec![frame(0), frame(1), end(2, "completed")],
            Ended::Whole,
        )],
    );
    let fenced = history(
        "fenced",
        vec![visit(0, vec![frame(0), failed(1, "interrupted")], Ended::Whole)],
    );
    let verdict = judge(std::slice::from_ref(&fenced), &[]).unwrap();
    assert_eq!(verdict.end, Some((1, End::Failed("interrupted".into()))));
    assert!(matches!(
        judge(&[whole.clone(), fenced.clone()], &[Told::Lost]),
        Err(Violation::Differs { index: 1, .. })
    ));
    let verdict = judge(&[whole, fenced], &[Told::Interrupted]).unwrap();
    assert_eq!(verdict.told, [("fenced".to_owned(), Told::Interrupted)]);
    assert_eq!(verdict.end, Some((2, End::Completed)));
}

#[test]
fn a_snapshot_stands_for_frames_only_where_some_may_be_dropped() {
    let snapshot = |index: u64| {
        let line = format!("{{\"index\":{index},\"snapshot\":{{\"events\":[],\"text\":\"word0 word1\"}}}}");
        Seen::from_line(line.as_bytes()).unwrap()
    };
    let whole = history(
        "whole",
        vec![visit(
            0,
            vec![frame(0), frame(1), frame(2), end(3, "completed")],
            Ended::Whole,
        )],
    );
    let late = history(
        "late",
        vec![visit(
            0,
            vec![snapshot(1), frame(2), end(3, "completed")],
            Ended::Whole,
        )],
    );
    let both = [whole.clone(), late];
    assert_eq!(
        judge(&both, &[]),
        Err(Violation::Undue {
            reader: "late".into(),
            told: Told::Snapshot
        })
    );
    let verdict = judge(&both, &[Told::Snapshot]).unwrap();
    assert_eq!((verdict.end, verdict.frames), (Some((3, End::Completed)), 4));
    let gap = history(
        "gap",
        vec![visit(0, vec![snapshot(1), end(3, "completed")], Ended::Whole)],
    );
    assert_eq!(
        judge(&[whole.clone(), gap], &[Told::Snapshot]),
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
            Ended::Whole,
        )],
    );
    assert_eq!(
        judge(&[whole, again], &[Told::Snapshot]),
        Err(Violation::Repeated {
            reader: "again".into(),
            index: 0
        })
    );
}

#[test]
fn a_frame_that_somebody_was_given_and_nobody_has_any_more_is_found() {
    for number in 0..SETS {
        let mut seed = Seed::new(number);
        let (turn, mut histories) = readers(&mut seed);
        histories.truncate(histories.len() - 2);
        let all = history("r", vec![visit(0, turn[..turn.len() - 1].to_vec(), Ended::Cut)]);
        histories.push(all);
        let kept = seed.below(turn.len() as u64 - 1);
        let mut frames = turn[..kept as usize].to_vec();
        frames.push(failed(kept, "lost"));
        let last = history("last", vec![visit(0, frames, Ended::Whole)]);
        let found = keeps(&histories, &last).unwrap_err();
        assert!(
            matches!(found, Violation::Vanished { index, .. } if index == kept),
            "{number}: {found}"
        );
    }
}

#[test]
fn a_reader_that_asks_for_something_else_is_no_record() {
    let visits = vec![
        visit(0, vec![frame(0), frame(1)], Ended::Cut),
        visit(3, vec![frame(3)], Ended::Cut),
    ];
    assert!(matches!(
        judge(&[history("r", visits)], &ALL),
        Err(Violation::BadRecord(_))
    ));
    let visits = vec![visit(0, vec![frame(0)], Ended::Refused(503))];
    assert!(matches!(
        judge(&[history("r", visits)], &ALL),
        Err(Violation::BadRecord(_))
    ));
}

#[test]
fn both_numbered_wires_give_the_same_frames() {
    let line = Seen::from_line(br#"{"index":7,"end":"failed","error":{"code":"lost"}}"#).unwrap();
    let event = Seen::from_event("7", br#"{"end":"failed","error":{"code":"lost"}}"#).unwrap();
    assert_eq!(line, event);
    assert_eq!(line.end, Some(End::Failed("lost".into())));
    // An event may have members of any name.
    let event = Seen::from_event("8", br#"{"event":"acme","end":"completed"}"#).unwrap();
    assert_eq!(event.end, None);
    for line in [
        "",
        "7",
        "{}",
        "{\"text\":\"a\",\"index\":1}",
        "{\"index\":-1,\"text\":\"a\"}",
    ] {
        assert!(Seen::from_line(line.as_bytes()).is_err(), "{line}");
    }
    for id in ["", "-1", "one", "1.5"] {
        assert!(Seen::from_event(id, b"{}").is_err(), "{id}");
    }
}
