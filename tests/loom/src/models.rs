//! The models. Each one runs in every interleaving with at most three preemptions. A thread that
//! would wait forever is an error.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use loom::future::block_on;
use loom::thread;

use crate::event::Search;
use crate::failure::Failure;
use crate::frame::End;
use crate::metadata::Metadata;
use crate::time::Timestamp;
use crate::turn::human::open::{AnswerError, AnswerOutcome, AnswerSource, OpenQuestion};
use crate::turn::limits::QueueLimits;
use crate::turn::queue::{Closed, CommitOn, Queue, Refused};
use crate::wire::Wire;
use crate::wire::framed::Framed;

const EVENT: &str = "{\"event\":\"search\",\"tool\":\"t\",\"timestamp\":\"1970-01-01T00:00:00Z\"}\n";
const DONE: &str = "\x1e{\"citations\":[],\"tools_used\":[]}";
const STOPPED: &str = "\x1e{\"citations\":[],\"tools_used\":[],\"status\":\"stopped\"}";
const FAILED: &str = "no\x1e{\"citations\":[],\"tools_used\":[\"chat_failed\"],\"status\":\"failed\",\"error\":{\"code\":\"x\",\"message\":\"no\",\"recoverable\":true}}";

fn failed() -> End {
    End::failed(Failure::new("x", "no"))
}

fn check(model: impl Fn(Arc<Queue>) + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let limits = QueueLimits::default().max_frames(1);
        model(Arc::new(Queue::new(limits, false, Instant::now())));
    });
}

fn push(queue: &Queue) -> Result<(), Refused> {
    queue
        .push_event(
            &mut Search::new("t").into(),
            Timestamp::from_micros(0),
            Instant::now,
        )
        .map(|_| ())
}

/// Sends like a sink: waits once whenever the queue is full.
fn send(queue: &Queue) -> Result<(), Closed> {
    loop {
        match push(queue) {
            Ok(()) => return Ok(()),
            Err(Refused::Closed(closed)) => return Err(closed),
            Err(Refused::Full) => {}
            Err(Refused::Invalid(error)) => panic!("{error}"),
        }
        let mut waited = false;
        block_on(poll_fn(|cx| {
            if waited || !queue.wait_for_room(cx) {
                return Poll::Ready(());
            }
            waited = true;
            Poll::Pending
        }));
    }
}

/// Reads to the end like a body.
fn read(queue: &Queue) -> String {
    let mut bytes = Vec::new();
    while let Some(chunk) = block_on(poll_fn(|cx| queue.poll_bytes(cx, Instant::now()))) {
        bytes.extend_from_slice(&chunk);
    }
    String::from_utf8(bytes).unwrap()
}

fn attach(queue: &Queue) {
    queue.attach(Framed::default().encoder(), Instant::now());
}

/// The first event and a failure race for the status. The result is either a stream with both or no
/// stream.
#[test]
fn commit_is_one_moment() {
    check(|queue| {
        let sender = thread::spawn({
            let queue = Arc::clone(&queue);
            move || push(&queue).is_ok()
        });
        let failing = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.finish(failed())
        });
        let committed = block_on(poll_fn(|cx| queue.poll_commit(cx, CommitOn::Frame, false)));
        let sent = sender.join().unwrap();
        assert!(failing.join().unwrap());
        assert_eq!(committed.is_ok(), sent);
        if sent {
            attach(&queue);
            assert_eq!(read(&queue), format!("{EVENT}\x1d{FAILED}"));
        }
    });
}

/// The wire is chosen while the producer sends and ends: nothing is lost, repeated or out of order.
#[test]
fn everything_arrives_in_order() {
    check(|queue| {
        let producer = thread::spawn({
            let queue = Arc::clone(&queue);
            move || {
                send(&queue).unwrap();
                send(&queue).unwrap();
                assert!(queue.finish(End::completed(Metadata::default())));
            }
        });
        block_on(poll_fn(|cx| queue.poll_commit(cx, CommitOn::Frame, false))).unwrap();
        attach(&queue);
        assert_eq!(read(&queue), format!("{EVENT}{EVENT}\x1d{DONE}"));
        producer.join().unwrap();
    });
}

/// A sender that waits for room wakes on every event that ends the wait, and gets the reason.
#[test]
fn a_blocked_sender_wakes() {
    type Act = fn(&Queue);
    for (act, expected) in [
        (
            (|queue| assert!(queue.finish(failed()))) as Act,
            Err(Closed::Ended),
        ),
        (
            |queue| queue.request_end(End::stopped()).unwrap(),
            Err(Closed::Ended),
        ),
        (|queue| queue.decide(), Err(Closed::Ended)),
        (|queue| queue.disconnect(), Err(Closed::Disconnected)),
        (
            |queue| drop(block_on(poll_fn(|cx| queue.poll_bytes(cx, Instant::now())))),
            Ok(()),
        ),
    ] {
        check(move |queue| {
            attach(&queue);
            push(&queue).unwrap();
            let blocked = thread::spawn({
                let queue = Arc::clone(&queue);
                move || send(&queue)
            });
            act(&queue);
            assert_eq!(blocked.join().unwrap(), expected);
        });
    }
}

/// Senders get the first of an end and a disconnect, and the reason never changes afterwards.
#[test]
fn the_first_reason_stays() {
    check(|queue| {
        let producer = thread::spawn({
            let queue = Arc::clone(&queue);
            move || {
                queue.finish(failed());
                queue.closed()
            }
        });
        queue.disconnect();
        let seen = queue.closed();
        assert!(seen.is_some());
        assert_eq!(producer.join().unwrap(), seen);
        assert_eq!(queue.closed(), seen);
    });
}

/// Of two ends exactly one is published.
#[test]
fn the_second_end_is_ignored() {
    check(|queue| {
        attach(&queue);
        let first = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.finish(failed())
        });
        let second = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.finish(End::completed(Metadata::default()))
        });
        let read = read(&queue);
        match (first.join().unwrap(), second.join().unwrap()) {
            (true, false) => assert_eq!(read, format!("\x1d{FAILED}")),
            (false, true) => assert_eq!(read, format!("\x1d{DONE}")),
            both => panic!("{both:?}"),
        }
    });
}

/// A stop reaches a sleeping producer, and its end reaches the reader, even if the reader
/// disconnects at the same time.
#[test]
fn a_stop_ends_the_turn() {
    for leaves in [false, true] {
        check(move |queue| {
            attach(&queue);
            let producer = thread::spawn({
                let queue = Arc::clone(&queue);
                move || {
                    let end = block_on(poll_fn(|cx| queue.poll_cancelled(cx)));
                    assert!(queue.finish(end));
                }
            });
            let stopper = thread::spawn({
                let queue = Arc::clone(&queue);
                move || queue.request_end(End::stopped())
            });
            if leaves {
                queue.disconnect();
            } else {
                assert_eq!(read(&queue), format!("\x1d{STOPPED}"));
            }
            producer.join().unwrap();
            let stopped = stopper.join().unwrap();
            assert!(stopped.is_ok() || leaves);
        });
    }
}

/// Two answers race with a question that may expire: at most one is accepted, and that one is
/// returned.
#[test]
fn of_two_answers_one_is_taken() {
    for waits in [false, true] {
        check(move |queue| {
            let question = OpenQuestion {
                request_id: "r".into(),
                kind: "text".into(),
                prompt: String::new(),
                options: Vec::new(),
            };
            queue.questions.open(question, false).unwrap();
            let answering = [1, 2].map(|answer| {
                let queue = Arc::clone(&queue);
                thread::spawn(move || {
                    queue
                        .questions
                        .answer("r", answer.into(), AnswerSource::Human, false)
                })
            });
            if waits {
                // Woken by the first of them, never without a reason.
                block_on(poll_fn(|cx| queue.questions.poll_answered("r", cx)));
            }
            let given = queue.questions.close("r");
            let answered = answering.map(|thread| thread.join().unwrap());
            match given.and_then(|given| given.as_u64()) {
                Some(1) => assert_eq!(
                    answered,
                    [Ok(AnswerOutcome::Accepted), Err(AnswerError::Different)]
                ),
                Some(2) => assert_eq!(
                    answered,
                    [Err(AnswerError::Different), Ok(AnswerOutcome::Accepted)]
                ),
                _ => {
                    assert!(!waits);
                    assert_eq!(answered, [Err(AnswerError::Late); 2]);
                }
            }
            assert!(!queue.questions.is_waiting());
        });
    }
}
