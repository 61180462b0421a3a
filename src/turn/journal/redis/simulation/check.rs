//! What must be true of each run.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use ragwire_test_support::history::{self, End, History, Notice, ReceivedFrame, VisitEnd, retains};
use ragwire_test_support::seed::Seed;
use tokio::time::{Instant, sleep};

use super::world::{Faults, OWNER, Plan, Report, World, Written, is_done};
use crate::turn::journal::redis::messages::MAX_INBOX;
use crate::turn::{ResumeError, TurnId};

/// The size of the largest frame, a text of 4 KiB, as the journal counts it.
const MAX_FRAME_BYTES: usize = 5000;
/// Time for what happens after the last reader: a lease, a retry and a margin of the server's keys.
const AFTERWARDS: Duration = Duration::from_secs(3600);

/// Checks that no host and no inbox exceeds its limits, and that the server has what each turn needs and
/// no more.
pub(super) fn memory(world: &World) {
    for journal in &world.hosts {
        let limits = journal.registry.limits;
        // The mirrors count as well: at most each turn once. A turn keeps its newest frame in any case.
        let most = (limits.max_turn_bytes + MAX_FRAME_BYTES) * world.plan.turns;
        assert!(journal.bytes() <= most, "{} of {most} bytes", journal.bytes());
        let store = journal.store.as_ref().unwrap();
        let subscriptions = store.lock();
        assert!(subscriptions.mirrors.len() <= world.plan.turns);
        // Each stop waits for one reply.
        assert!(subscriptions.calls.len() <= world.plan.turns);
    }
    world.network.server(|server| {
        assert!(server.longest("inbox:") <= MAX_INBOX);
        assert_eq!(server.without_expiry(), Vec::<String>::new());
        assert_eq!(server.ended_with_lease(Instant::now()), Vec::<String>::new());
    });
}

/// Judges what everyone has seen, then lets everything expire.
pub(super) async fn judge(world: &World, report: &mut Report) {
    let written = std::mem::take(&mut world.lock().written);
    for turn in &written {
        report.turns += 1;
        match turn.id {
            Some(id) => judge_turn(world, turn, id, report).await,
            None => report.rejected += 1,
        }
    }
    memory(world);
    sleep(world.plan.keep + AFTERWARDS).await;
    let left = world.network.server(|server| server.keys(Instant::now()));
    assert_eq!(left, Vec::<String>::new(), "{:?}", world.plan);
    for (host, journal) in world.hosts.iter().enumerate() {
        let store = journal.store.as_ref().unwrap();
        assert_eq!(
            (journal.turns(), journal.bytes()),
            (0, 0),
            "host {host}: {:?}",
            world.plan
        );
        assert!(store.lock().calls.is_empty());
        for turn in &written {
            if let (Some(id), true) = (turn.id, world.is_alive(host)) {
                let resumed = journal.resume(id, OWNER, 0).await;
                assert!(matches!(resumed, Err(ResumeError::Unknown(_))), "{resumed:?}");
            }
        }
    }
}

async fn judge_turn(world: &World, turn: &Written, id: TurnId, report: &mut Report) {
    let plan = &world.plan;
    let mut histories = turn.histories.clone();
    let mut random = Seed::new(plan.seed);
    let mut stored = Vec::new();
    if !plan.expires() {
        // The last reader on any host gets the whole turn.
        for host in (0..plan.hosts).filter(|host| world.is_alive(*host)) {
            let last = last_reader(world, id, host, &mut random).await;
            if host != turn.host {
                stored.push(last.clone());
            }
            histories.push(last);
        }
    }
    let allowed = allowed(plan);
    let context = || format!("{plan:?}\n{}", show(turn));
    let verdict = history::judge(&histories, &allowed)
        .unwrap_or_else(|violation| panic!("{violation}\n{}\n{}", context(), show_all(&histories)));
    let frames = frames(&histories, &allowed);
    report.frames += frames.len() as u64;
    report.visits += histories
        .iter()
        .map(|history| history.visits.len() as u64)
        .sum::<u64>();
    report.notices += verdict.notices.len() as u64;

    // A prefix of what was written, and all of it if the turn is complete. A part, if the rest was dropped.
    let mut text = String::new();
    for (index, frame) in &frames {
        if index
            .checked_sub(1)
            .is_some_and(|before| !frames.contains_key(&before))
        {
            assert!(plan.evicts(), "frames before {index} are missing\n{}", context());
            text.clear();
        }
        text.push_str(&text_of(frame));
        assert!(
            turn.text.contains(&text),
            "{text:?}\n{}\n{}",
            context(),
            show_all(&histories)
        );
    }
    if !plan.evicts() {
        assert!(
            turn.text.starts_with(&text),
            "{text:?}\n{}\n{}",
            context(),
            show_all(&histories)
        );
    }
    if verdict
        .end
        .as_ref()
        .is_some_and(|(_, end)| *end == End::Completed)
    {
        assert!(
            turn.text.ends_with(&text),
            "{text:?}\n{}\n{}",
            context(),
            show_all(&histories)
        );
        assert!(
            plan.evicts() || text == turn.text,
            "{text:?}\n{}\n{}",
            context(),
            show_all(&histories)
        );
    }

    let end = verdict.end.map(|(_, end)| end);
    match &end {
        Some(End::Completed) => report.completed += 1,
        Some(End::Stopped) => report.stopped += 1,
        Some(End::Failed(code)) if code == "interrupted" => report.interrupted += 1,
        Some(End::Failed(_)) => report.failed += 1,
        None => {}
    }
    if plan.faults == Faults::Losses || plan.expires() {
        return;
    }
    let Some(end) = end else {
        // Its own host has given the turn up, and no other one is left to end it.
        if stored.is_empty()
            && verdict
                .notices
                .iter()
                .any(|(_, notice)| *notice == Notice::Unavailable)
        {
            return;
        }
        panic!("nobody has an end: {}\n{}", context(), show_all(&histories));
    };
    let is_over = world.network.server(|server| server.is_over(&id.to_string()));
    assert!(
        is_over || stored.is_empty(),
        "the server takes the turn for a running one\n{}",
        context()
    );
    for last in &stored {
        if !plan.evicts() {
            retains(&histories, last).unwrap_or_else(|violation| panic!("{violation}\n{}", context()));
        }
    }
    let interrupted = End::Failed("interrupted".to_owned());
    let is_lost = verdict.notices.iter().any(|(_, notice)| *notice == Notice::Lost);
    assert!(!is_lost || end == interrupted, "frames are lost\n{}", context());
    let ends_by_itself = match plan.faults {
        // Some reader is always there or comes back soon, so nothing but the writer ends the turn.
        Faults::None => true,
        Faults::Refusals => !turn.is_stop_sent,
        Faults::Durable | Faults::Losses => false,
    };
    if ends_by_itself && !turn.is_stopped && !plan.evicts() {
        assert_eq!(Some(&end), turn.end.as_ref(), "{}", context());
    }
    match &turn.end {
        // The writer's end, unless another one was first.
        Some(given) => assert!(
            end == *given || end == interrupted || end == End::Stopped,
            "{end:?}: {}",
            context()
        ),
        None => assert!(
            end == End::Stopped || end == interrupted,
            "{end:?}: {}",
            context()
        ),
    }
    if turn.is_stopped {
        assert!(
            end == End::Stopped || end == interrupted,
            "{end:?}: {}",
            context()
        );
    }
}

/// Reads what is stored of a turn, on one host.
async fn last_reader(world: &World, id: TurnId, host: usize, random: &mut Seed) -> History {
    loop {
        let mut first = 0;
        // A host may drop more than the server: the end takes room as well.
        while let Err(ResumeError::Gone { base }) = world.hosts[host].resume(id, OWNER, first).await {
            first = base;
        }
        let mut last = History::new(format!("last reader on host {host}"));
        while !is_done(&last) {
            let from = last.next().max(first);
            world.resume(&mut last, id, (host, from), random).await;
        }
        // The turn may still drop frames: a late request, or its last ones.
        if last
            .visits
            .last()
            .is_none_or(|visit| visit.ended != VisitEnd::Refused(410))
        {
            return last;
        }
    }
}

/// Returns the notices that a run explains.
fn allowed(plan: &Plan) -> Vec<Notice> {
    let mut allowed = Vec::new();
    if plan.evicts() {
        allowed.extend([Notice::Snapshot, Notice::Gone]);
    }
    if plan.expires() {
        allowed.push(Notice::Unknown);
    }
    // A server that refuses writes for a moment still answers readers, and loses nothing.
    if matches!(plan.faults, Faults::Durable | Faults::Losses) {
        // `judge_turn` checks that a loss is explained: another host has ended the turn.
        allowed.extend([Notice::Unavailable, Notice::Lost]);
    }
    if plan.faults == Faults::Losses {
        allowed.extend([Notice::Unknown, Notice::Interrupted, Notice::Ahead]);
    }
    allowed
}

/// Returns the frames that all readers together have received, by index.
fn frames<'a>(histories: &'a [History], allowed: &[Notice]) -> BTreeMap<u64, &'a ReceivedFrame> {
    let visits = histories.iter().flat_map(|history| &history.visits);
    let frames = visits.flat_map(|visit| &visit.frames);
    let mut notices = vec!["lost", "gone", "unavailable"];
    if allowed.contains(&Notice::Interrupted) {
        notices.push("interrupted");
    }
    let is_notice = |end: &End| matches!(end, End::Failed(code) if notices.contains(&code.as_str()));
    frames
        .filter(|frame| !frame.is_snapshot && !frame.end.as_ref().is_some_and(is_notice))
        .map(|frame| (frame.index, frame))
        .collect()
}

fn text_of(frame: &ReceivedFrame) -> String {
    let value: serde_json::Value = serde_json::from_slice(&frame.bytes).unwrap();
    value["text"].as_str().unwrap_or_default().to_owned()
}

fn show(turn: &Written) -> String {
    let Written {
        id,
        host,
        end,
        is_stopped,
        ends_without_readers,
        ..
    } = turn;
    format!(
        "{id:?} on host {host}, {end:?}, stopped: {is_stopped}, ends without readers: {ends_without_readers}"
    )
}

fn show_all(histories: &[History]) -> String {
    let mut out = String::new();
    for history in histories {
        let _ = writeln!(out, "{}", history.reader);
        for visit in &history.visits {
            let _ = write!(out, "  from {} {:?}:", visit.from, visit.ended);
            for frame in &visit.frames {
                let kind = if frame.is_snapshot { "snapshot" } else { "" };
                let _ = write!(out, " {}{kind}", frame.index);
                if let Some(end) = &frame.end {
                    let _ = write!(out, " {end:?}");
                }
            }
            out.push('\n');
        }
    }
    out
}
