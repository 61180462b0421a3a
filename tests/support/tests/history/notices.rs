//! Notices and snapshots are accepted only where the test allows them.

use super::*;

#[test]
fn a_loss_is_reported_only_where_it_is_allowed_and_for_good() {
    let cases = [
        (VisitEnd::Refused(404), None, Notice::Unknown),
        (VisitEnd::Refused(409), None, Notice::Lost),
        (VisitEnd::Refused(410), None, Notice::Gone),
        (VisitEnd::Refused(416), None, Notice::Ahead),
        (VisitEnd::Refused(503), None, Notice::Unavailable),
        (VisitEnd::Complete, Some("lost"), Notice::Lost),
        (VisitEnd::Complete, Some("gone"), Notice::Gone),
        (VisitEnd::Complete, Some("unavailable"), Notice::Unavailable),
    ];
    for (ended, code, notice) in cases {
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
