//! The newest turn of a conversation, and turns without a lane.

use super::*;

const RUNS: &[Step] = &[Text("a"), Wait(100_000)];
const ENDS: &[Step] = &[Text("a")];

/// Begins a turn of `owner` in `lane`.
async fn begin(journal: &Journal, owner: &str, lane: &str, steps: &'static [Step]) -> TurnId {
    let mut turn = journaled(journal).lane(lane);
    if !owner.is_empty() {
        turn = turn.owner(owner);
    }
    let turn = turn.start(move |sink| play(steps, sink)).commit().await.unwrap();
    turn.id()
}

async fn latest(journal: &Journal, lane: &str, owner: &str) -> Option<TurnId> {
    journal.latest(lane, owner).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_newest_turn_of_a_conversation_is_found() {
    let journal = in_memory();
    assert_eq!(latest(&journal, "chat", "alice").await, None);
    let first = begin(&journal, "alice", "chat", RUNS).await;
    assert_eq!(latest(&journal, "chat", "alice").await, Some(first));
    let other = begin(&journal, "alice", "other", ENDS).await;
    let bob = begin(&journal, "bob", "chat", RUNS).await;
    let unowned = begin(&journal, "", "chat", ENDS).await;
    let second = begin(&journal, "alice", "chat", ENDS).await;
    settle().await;
    for (lane, owner, turn) in [
        ("chat", "alice", Some(second)),
        ("chat", "bob", Some(bob)),
        ("chat", "", Some(unowned)),
        ("other", "alice", Some(other)),
        ("other", "bob", None),
        ("other", "", None),
        ("", "alice", None),
    ] {
        assert_eq!(latest(&journal, lane, owner).await, turn, "{lane} {owner}");
    }
    // The resumed turn reports whether it has ended.
    assert!(journal.resume(second, "alice", 0).await.unwrap().is_finished());
    assert!(!journal.resume(bob, "bob", 0).await.unwrap().is_finished());
    assert!(journal.stop(bob, "bob").await.unwrap());
    settle().await;
    assert!(journal.resume(bob, "bob", 0).await.unwrap().is_finished());
    // A turn without a lane is in its owner's lane; with `no_lane` it is in none.
    let turn = journaled(&journal).owner("carol").start(|sink| play(ENDS, sink));
    let carol = turn.commit().await.unwrap().id();
    assert_eq!(latest(&journal, "carol", "carol").await, Some(carol));
    let none = journaled(&journal).owner("dave").no_lane();
    drop(none.start(|sink| play(ENDS, sink)).commit().await.unwrap());
    assert_eq!(latest(&journal, "dave", "dave").await, None);
}

#[tokio::test(start_paused = true)]
async fn an_evicted_turn_is_not_found() {
    let keep = Duration::from_secs(60);
    let journal = Journal::in_memory(JournalLimits::default().keep(keep).max_turns(3));
    // The newest turn of the lane ends first. The older one stays and is not found instead of it.
    let older = begin(&journal, "", "a", RUNS).await;
    begin(&journal, "", "a", ENDS).await;
    settle().await;
    tokio::time::sleep(keep).await;
    settle().await;
    assert_eq!(latest(&journal, "a", "").await, None);
    assert!(journal.resume(older, "", 0).await.is_ok());
    // A new turn evicts the oldest one, which does not remove the lane's newest turn.
    for _ in 0..5 {
        let newest = begin(&journal, "", "b", ENDS).await;
        settle().await;
        assert_eq!(latest(&journal, "b", "").await, Some(newest));
    }
    // A turn that was rejected before its response began is not the newest one.
    let newest = latest(&journal, "b", "").await;
    let rejected = journaled(&journal).lane("b").start(|sink| play(&[Fail], sink));
    rejected.commit().await.unwrap_err();
    assert_eq!(latest(&journal, "b", "").await, newest);
}

#[tokio::test(start_paused = true)]
async fn a_turn_without_a_lane_is_not_counted_by_its_owner() {
    let group = TurnGroup::builder().max_active(3).max_per_owner(1).build();
    let start = |turn: TurnBuilder| turn.group(&group).start(|sink| play(RUNS, sink)).commit();
    let owned = || Turn::builder().owner("alice");
    let first = start(owned()).await.unwrap();
    assert_eq!(start(owned()).await.unwrap_err().failure.code(), "too_many");
    let second = start(owned().no_lane()).await.unwrap();
    let third = start(owned().lane("chat")).await.unwrap();
    assert_eq!(group.owners().active, ["alice", "chat"]);
    drop((first, second, third));
}
