//! Ends that are missing, repeated or contradictory.

use super::*;

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
    assert_found(
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
