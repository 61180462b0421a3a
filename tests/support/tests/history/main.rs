//! Tests of the consistency check: the histories of a correct log pass, and every kind of
//! corruption is found and named.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod ends;
mod frames;
mod notices;
mod valid;

use ragwire_test_support::history::{
    End, History, Notice, ReceivedFrame, Verdict, Violation, Visit, VisitEnd, judge, retains,
};
use ragwire_test_support::seed::Seed;

/// The number of random sets of histories per test.
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

/// Generates a reader of that turn that reconnects at random indexes, also after refusals, and
/// reads to the end.
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

/// Picks a random visit with at least `frames` frames; returns the indexes of its reader and of the
/// visit.
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

/// Corrupts one visit in each set of random histories and asserts which violation is found.
fn assert_found(
    frames: usize,
    corrupt: impl Fn(&mut Visit, usize) -> bool,
    is_found: impl Fn(&Violation, &str) -> bool,
) {
    let mut corrupted = 0;
    for number in 0..SETS {
        let mut seed = Seed::new(number);
        let (_, mut histories) = readers(&mut seed);
        let Some((reader, at)) = pick(&histories, frames, &mut seed) else {
            continue;
        };
        let visit = &mut histories[reader].visits[at];
        let pick = seed.below(visit.frames.len().max(1) as u64) as usize;
        if !corrupt(visit, pick) {
            continue;
        }
        corrupted += 1;
        let found = judge(&histories, &[Notice::Unavailable]).unwrap_err();
        let name = histories[reader].reader.clone();
        assert!(is_found(&found, &name), "set {number}, {name}: {found}");
    }
    assert!(corrupted > SETS / 10, "only {corrupted} sets were corrupted");
}
