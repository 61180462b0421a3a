//! Frames that are missing, repeated, out of order or changed.

use super::*;

#[test]
fn a_frame_left_out_is_found() {
    assert_found(
        3,
        |visit, at| {
            // A visit without its last frame is only shorter: another test covers that.
            let inner = at > 0 && at + 1 < visit.frames.len();
            if inner {
                visit.frames.remove(at);
            }
            inner
        },
        |found, name| matches!(found, Violation::Gap { reader, .. } if reader == name),
    );
    assert_found(
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
    assert_found(
        2,
        |visit, at| {
            let again = visit.frames[at].clone();
            let is_end = again.end.is_some();
            visit.frames.insert(at + 1, again);
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
    assert_found(
        3,
        |visit, at| {
            let inner = at + 1 < visit.frames.len();
            if inner {
                visit.frames.swap(at, at + 1);
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
    assert_found(
        1,
        |visit, at| {
            let seen = &mut visit.frames[at];
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
    assert_found(
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
fn a_jump_over_lost_frames_is_found() {
    // What Redis does by itself after a trim or a restart: the reader gets the later entries
    // without a notice.
    assert_found(
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
