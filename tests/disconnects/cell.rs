//! One cell of the matrix and its expectations.

use std::fmt;
use std::time::Duration;

use http_body_util::BodyExt;
use ragwire::turn::{AnswerOutcome, Collected, Journal, JournalLimits, TurnGroup};
use ragwire::{Ndjson, Status, TurnId};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::client::{Client, Fault};
use crate::server::{GRACE, KEEP_ALIVE, OWNER, Policy, STALL, Server, Transport};
use crate::stage::{APPROVE, ASK, PIECE_BYTES, PIECES, Part, State, cast};
use crate::until;

/// A grace period that passes in real time.
const SHORT_GRACE: Duration = Duration::from_millis(300);
/// The maximum number of bytes that an orchestrator can send without a journal while its reader
/// takes nothing: the queue's 48 KiB twice (once filled, once taken), and the buffers of hyper, the
/// kernel and the client's library, which are limited to about 100 KiB here.
const MAX_UNREAD_BYTES: usize = 256 << 10;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) transport: Transport,
    pub(crate) fault: Fault,
    pub(crate) policy: Policy,
    pub(crate) state: State,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policy = match self.policy {
            Policy::Grace(_) => "Grace".into(),
            policy => format!("{policy:?}"),
        };
        let [transport, fault, state] = [
            format!("{:?}", self.transport),
            format!("{:?}", self.fault),
            format!("{:?}", self.state),
        ];
        write!(f, "{transport:9} {fault:17} {policy:9} {state:12}")
    }
}

/// The moment at which the server notices the disconnect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Noticed {
    /// Without any output of the orchestrator, because the system reports it, a filler cannot be
    /// written, or a ping is not answered.
    Quiet,
    /// Once the orchestrator has sent more than the buffers on the way can store.
    Talking,
}

impl Cell {
    /// Returns the expectation.
    fn noticed(&self) -> Noticed {
        use Fault::{BlackHole, Fin, FinAfterExtraByte, HalfClose, Rst, Slow, Stalled};
        use Transport::{Http1, Http2, WebSocket};
        match (self.fault, self.transport) {
            // hyper treats a half-close as an end by default, and so does h2. A WebSocket ends with
            // a frame.
            (Fin | Rst | HalfClose, _) => Noticed::Quiet,
            // hyper does not read an HTTP/1 socket that has sent too much. Only fillers notice the
            // disconnect, and before the commit no fillers are sent.
            (FinAfterExtraByte, Http1) if self.state == State::BeforeCommit => Noticed::Talking,
            (FinAfterExtraByte, _) => Noticed::Quiet,
            // HTTP/1 has no ping, and a filler is only one byte.
            (BlackHole | Stalled | Slow, Http1) => Noticed::Talking,
            (BlackHole, Http2 | WebSocket) => Noticed::Quiet,
            // A stream that is not read does not affect its connection.
            (Stalled, Http2) => Noticed::Talking,
            (Stalled, WebSocket) => Noticed::Quiet,
            // A ping of HTTP/2 has 17 bytes and does not get through in time; a WebSocket's has 2
            // and does.
            (Slow, Http2) => Noticed::Quiet,
            (Slow, WebSocket) => Noticed::Talking,
        }
    }

    /// Returns whether the connection outlives the answer, as with an HTTP/2 stream that is not
    /// read.
    fn connection_stays(&self) -> bool {
        self.transport == Transport::Http2 && self.fault == Fault::Stalled
    }

    /// Plays the cell. Panics if an expectation fails.
    pub(crate) async fn play(self) {
        let server = Server::start(self.transport, TurnGroup::new(2), STALL);
        tokio::task::yield_now().await;
        let tasks = Handle::current().metrics().num_alive_tasks();
        self.disconnect(server).await;
        // The server's only own task is the accept loop.
        let metrics = Handle::current().metrics();
        until("no task is left", || metrics.num_alive_tasks() < tasks).await;
    }

    async fn disconnect(self, mut server: Server) {
        let (mut part, role) = cast(self.state);
        let policy = match self.policy {
            // Advancing the clock would close an HTTP/2 connection that must stay open.
            Policy::Grace(_) if self.connection_stays() => Policy::Grace(SHORT_GRACE),
            policy => policy,
        };
        server.expect(role, policy);
        let mut client = Client::ask(self.transport, server.address).await;
        let id = server.ids.recv().await.unwrap();
        (&mut part.reached).await.unwrap();
        if self.state != State::BeforeCommit {
            client.has_read().await;
        }
        assert_eq!((server.group.active(), server.connections()), (1, 1));
        client.leave(self.fault);

        let quiet = self.noticed() == Noticed::Quiet;
        if quiet && self.state == State::BeforeCommit {
            // A turn whose response has not begun cannot be resumed.
            until("the orchestrator is dropped", || part.is_gone()).await;
            assert_eq!(server.journal.turns(), 0, "the journal stores a turn");
        } else {
            if !quiet && self.transport != Transport::WebSocket {
                // This does not prove that nothing happens, but gives it time to happen.
                tokio::time::sleep(4 * KEEP_ALIVE).await;
                assert!(!part.is_gone(), "dropped while nothing was written");
            }
            self.end(&server, part, id, quiet).await;
        }
        until("the place is released", || server.group.active() == 0).await;
        assert_eq!(server.group.queued(), 0);
        if !self.connection_stays() {
            until("the connection is closed", || server.connections() == 0).await;
        }
        drop(client);
        until("the connection is closed", || server.connections() == 0).await;
        tokio::time::timeout(crate::PATIENCE, server.group.drained())
            .await
            .unwrap();

        advance(JournalLimits::KEEP).await;
        until("nothing is stored", || {
            (server.journal.turns(), server.journal.bytes()) == (0, 0)
        })
        .await;
    }

    /// Checks the end of a turn whose response has begun, or begins after the disconnect.
    async fn end(&self, server: &Server, mut part: Part, id: TurnId, quiet: bool) {
        let journal = &server.journal;
        if !quiet {
            part.talk(&server.group, id).await;
            if self.policy != Policy::NoJournal {
                until("the response begins", || journal.turns() == 1).await;
            }
        }
        match self.policy {
            Policy::NoJournal => {
                until("the orchestrator is dropped", || part.is_gone()).await;
                let unread = part.sent() * PIECE_BYTES;
                assert!(unread <= MAX_UNREAD_BYTES, "{unread} unread bytes");
                assert_eq!(journal.turns(), 0, "the journal stores a turn");
            }
            Policy::Cancel if quiet && self.state == State::Human => {
                until("the connection is closed", || server.connections() == 0).await;
                assert!(!part.is_gone(), "dropped while it waits for a human");
                part.talk(&server.group, id).await;
                until("the orchestrator has sent everything", || part.sent() == PIECES).await;
                assert!(
                    !part.is_gone(),
                    "dropped before the client that answered could resume"
                );
                advance(Duration::from_secs(30)).await;
                until("the orchestrator is dropped", || part.is_gone()).await;
                self.check(journal, id, Status::Stopped, PIECES).await;
            }
            Policy::Cancel => {
                until("the orchestrator is dropped", || part.is_gone()).await;
                self.check(journal, id, Status::Stopped, part.sent()).await;
            }
            Policy::Grace(_) if self.connection_stays() => {
                until("the orchestrator is dropped", || part.is_gone()).await;
                self.check(journal, id, Status::Stopped, part.sent()).await;
            }
            Policy::Grace(_) => {
                until("the connection is closed", || server.connections() == 0).await;
                assert!(!part.is_gone(), "dropped within its grace");
                let mut reader = ResumedReader::resume(journal, id).await;
                if quiet {
                    part.talk(&server.group, id).await;
                }
                until(
                    "the orchestrator has sent everything to the resumed reader",
                    || part.sent() == PIECES,
                )
                .await;
                let read = reader.disconnect().await;
                assert!(!part.is_gone(), "dropped although its grace period begins again");
                advance(GRACE).await;
                until("the orchestrator is dropped", || part.is_gone()).await;
                let lines = self.check(journal, id, Status::Stopped, PIECES).await;
                assert!(lines[1..].concat().starts_with(&read), "not the stored lines");
            }
            Policy::GoOn => {
                if !self.connection_stays() {
                    until("the connection is closed", || server.connections() == 0).await;
                }
                assert!(!part.is_gone(), "dropped although the turn continues");
                let mut reader = ResumedReader::resume(journal, id).await;
                if quiet {
                    part.talk(&server.group, id).await;
                }
                part.finish.take().unwrap().send(()).unwrap();
                let read = reader.read_to_end().await;
                let lines = self.check(journal, id, Status::Completed, PIECES).await;
                assert_eq!(lines[1..].concat(), read, "not the stored lines");
                assert!(
                    part.is_gone(),
                    "the journal has the end, but the orchestrator has not been dropped"
                );
            }
        }
    }

    /// Asserts that the journal has the turn: its frames, its end, and the exact rest for a reader
    /// that resumes. Returns its lines.
    async fn check(&self, journal: &Journal, id: TurnId, status: Status, pieces: usize) -> Vec<String> {
        let turn = journal.resume(id, OWNER, 0).await.unwrap();
        let Collected {
            events, text, end, ..
        } = turn.collect().await.unwrap();
        assert_eq!(end.status, status);
        let names: Vec<_> = events.iter().map(|(event, _)| event.name()).collect();
        let mut expected = Vec::new();
        if self.state != State::BeforeCommit {
            expected.push("search");
        }
        if self.state == State::Human {
            expected.push("input_requested");
            if pieces > 0 {
                expected.push("input_resolved");
            }
        }
        // The journal may have one more frame than the orchestrator has counted.
        if self.state == State::Text {
            assert_eq!(names, expected);
            let xs = text.strip_prefix("Forty-two.").unwrap();
            assert!(xs.bytes().all(|byte| byte == b'x'));
            assert!((pieces * PIECE_BYTES..=(pieces + 1) * PIECE_BYTES).contains(&xs.len()));
        } else {
            let (before, talk) = names.split_at(expected.len().min(names.len()));
            assert_eq!(before, expected);
            assert!(talk.iter().all(|name| *name == "reasoning"), "{talk:?}");
            assert!(
                (pieces..=pieces + 1).contains(&talk.len()),
                "{} of {pieces}",
                talk.len()
            );
            assert_eq!(text, "");
        }

        assert_eq!(
            journal.resume(id, "mallory", 0).await.unwrap_err().code(),
            "unknown_turn"
        );
        let lines = read(journal, id, 0).await;
        let all = lines.len();
        let indexes: Vec<usize> = if all <= 8 {
            (1..=all).collect()
        } else {
            vec![1, all / 2, all - 1, all]
        };
        for from in indexes {
            assert_eq!(read(journal, id, from as u64).await, lines[from..], "from {from}");
        }
        lines
    }
}

/// Advances the clock while all sockets are idle.
async fn advance(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time + Duration::from_secs(1)).await;
    tokio::time::resume();
}

/// Returns the lines of a turn from a frame on, without fillers.
async fn read(journal: &Journal, id: TurnId, from: u64) -> Vec<String> {
    let turn = journal.resume(id, OWNER, from).await.unwrap();
    let mut body = turn.respond(Ndjson::default()).into_body();
    let mut read = Vec::new();
    while let Some(frame) = body.frame().await {
        read.extend_from_slice(&frame.unwrap().into_data().unwrap());
    }
    lines(&read)
}

fn lines(bytes: &[u8]) -> Vec<String> {
    let text = str::from_utf8(bytes).unwrap();
    text.split_inclusive('\n')
        .filter(|line| *line != "\n")
        .map(str::to_owned)
        .collect()
}

/// A reader that has the first frame and resumes.
struct ResumedReader {
    leave: Option<oneshot::Sender<()>>,
    reads: JoinHandle<Vec<u8>>,
}

impl ResumedReader {
    async fn resume(journal: &Journal, id: TurnId) -> Self {
        let turn = journal.resume(id, OWNER, 1).await.unwrap();
        let mut body = turn.respond(Ndjson::default()).into_body();
        let (leave, mut left) = oneshot::channel();
        let reads = tokio::spawn(async move {
            let mut read = Vec::new();
            loop {
                tokio::select! {
                    biased;
                    frame = body.frame() => match frame {
                        Some(frame) => read.extend_from_slice(&frame.unwrap().into_data().unwrap()),
                        None => return read,
                    },
                    _ = &mut left => return read,
                }
            }
        });
        Self {
            leave: Some(leave),
            reads,
        }
    }

    /// Reads to the end.
    async fn read_to_end(&mut self) -> String {
        let read = tokio::time::timeout(crate::PATIENCE, &mut self.reads).await;
        lines(&read.unwrap().unwrap()).concat()
    }

    /// Disconnects again.
    async fn disconnect(&mut self) -> String {
        drop(self.leave.take());
        self.read_to_end().await
    }
}

impl Part {
    /// Makes the orchestrator send. One that waits for a human gets its answer through another
    /// connection.
    async fn talk(&mut self, group: &TurnGroup, id: TurnId) {
        if let Some(turn) = group.get(&id)
            && turn.open_questions().iter().any(|ask| ask.request_id == ASK)
        {
            assert_eq!(turn.answer(ASK, APPROVE), Ok(AnswerOutcome::Accepted));
        }
        // If the disconnect was noticed meanwhile, the orchestrator no longer exists.
        let _ = self.go.take().unwrap().send(());
    }
}
