//! Turns over real sockets: hyper with HTTP/1 and HTTP/2, and axum. Handshakes prove the order; the
//! clock only gives upper bounds.
#![allow(clippy::disallowed_methods, reason = "servers and clients here are tasks")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use ragwire::event::Search;
use ragwire::http::TurnBody;
use ragwire::turn::{BoxError, Pending, TurnBuilder, TurnGroup};
use ragwire::{Framed, Metadata, SendError, Sink, Timeouts, Turn};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Barrier, Notify, oneshot};

use super::plain;

/// Longer than any step takes on a busy machine. No test that passes waits for it.
const PATIENCE: Duration = Duration::from_secs(30);

// ---- servers and clients ----

#[derive(Clone, Copy, Debug, PartialEq)]
enum Server {
    Hyper1,
    Hyper2,
    Axum,
}
use Server::{Axum, Hyper1, Hyper2};

/// Creates the turn for a path.
type App = Arc<dyn Fn(&str) -> Pending + Send + Sync>;

async fn respond(turn: Pending) -> Response<TurnBody> {
    match turn.commit().await {
        Ok(turn) => turn.respond(Framed::default()),
        Err(rejected) => rejected.respond(),
    }
}

impl Server {
    async fn serve(self, app: impl Fn(&str) -> Pending + Send + Sync + 'static) -> SocketAddr {
        let app: App = Arc::new(app);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        if self == Axum {
            let handler = move |path: Uri| async move {
                let turn = app(path.path()).commit().await?;
                Ok::<_, ragwire::Rejected>(turn.respond(Framed::default()).map(axum::body::Body::new))
            };
            let router = axum::Router::new().fallback(handler);
            tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
            return address;
        }
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let app = Arc::clone(&app);
                let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                    let turn = app(request.uri().path());
                    async move { Ok::<_, Infallible>(respond(turn).await) }
                });
                let socket = TokioIo::new(socket);
                tokio::spawn(async move {
                    // A disconnect is not an error in these tests.
                    let _ = match self {
                        Hyper2 => {
                            hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                                .serve_connection(socket, service)
                                .await
                        }
                        _ => {
                            hyper::server::conn::http1::Builder::new()
                                .serve_connection(socket, service)
                                .await
                        }
                    };
                });
            }
        });
        address
    }

    /// Opens a connection.
    async fn connect(self, address: SocketAddr) -> Client {
        let socket = TokioIo::new(TcpStream::connect(address).await.unwrap());
        if self == Hyper2 {
            let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), socket)
                .await
                .unwrap();
            tokio::spawn(connection);
            Client::Two(sender)
        } else {
            let (sender, connection) = hyper::client::conn::http1::handshake(socket).await.unwrap();
            tokio::spawn(connection);
            Client::One(sender)
        }
    }
}

enum Client {
    One(hyper::client::conn::http1::SendRequest<Empty<Bytes>>),
    Two(hyper::client::conn::http2::SendRequest<Empty<Bytes>>),
}

impl Client {
    /// Waits until the connection accepts another request.
    async fn ready(&mut self) {
        match self {
            Self::One(sender) => sender.ready().await.unwrap(),
            Self::Two(sender) => sender.ready().await.unwrap(),
        }
    }

    fn get(
        &mut self,
        address: SocketAddr,
        path: &str,
    ) -> BoxFuture<'static, hyper::Result<Response<Incoming>>> {
        let request = Request::builder()
            .method(Method::GET)
            .uri(format!("http://{address}{path}"))
            .header("host", address.to_string())
            .body(Empty::new())
            .unwrap();
        match self {
            Self::One(sender) => Box::pin(sender.send_request(request)),
            Self::Two(sender) => Box::pin(sender.send_request(request)),
        }
    }
}

async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("this should have happened long ago")
}

async fn text(body: Incoming) -> String {
    plain(&body.collect().await.unwrap().to_bytes())
}

/// Returns all headers except the date, which hyper sets, and the turn's ID, which is checked.
fn headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let mut named: Vec<_> = headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .filter(|(name, value)| {
            assert!(name != "x-ragwire-turn" || is_id(value), "{value}");
            !["date", "x-ragwire-turn"].contains(&name.as_str())
        })
        .collect();
    named.sort();
    named
}

fn is_id(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

const SEARCH: &str = "{\"event\":\"search\",\"tool\":\"bm25\"}\n";
const DONE: &str = "\x1e{\"citations\":[],\"tools_used\":[\"bm25\"]}";
const SORRY: &str = "I hit an internal error while gathering evidence. Please retry.";
const FAILED: &str = "\x1e{\"citations\":[],\"tools_used\":[\"chat_failed\"],\"status\":\"failed\",\"error\":{\"code\":\"chat_failed\",\"message\":\"I hit an internal error while gathering evidence. Please retry.\",\"recoverable\":true}}";

fn done() -> Metadata {
    Metadata::default().tools_used(["bm25"])
}

/// Performs the parts of the path: `/event/text/fail`.
async fn play(path: String, sink: Sink) -> Result<Metadata, BoxError> {
    for part in path.split('/') {
        match part {
            "event" => sink.send(Search::new("bm25")).await?,
            "text" => sink.send("Hi").await?,
            "wait" => tokio::time::sleep(Duration::from_millis(20)).await,
            "long" => tokio::time::sleep(PATIENCE).await,
            "fail" => return Err("/etc/secret: no such key".into()),
            "panic" => panic!("the path says so"),
            _ => {}
        }
    }
    Ok(done())
}

// ---- what a client sees ----

#[tokio::test(flavor = "multi_thread")]
async fn every_outcome_byte_for_byte() {
    let stream = |length: &[(&'static str, &'static str)]| {
        let mut headers = vec![
            ("cache-control", "no-cache, no-transform"),
            ("content-type", "text/plain; charset=utf-8"),
            ("x-accel-buffering", "no"),
        ];
        headers.extend(length);
        headers.sort_unstable();
        headers
    };
    for server in [Hyper1, Hyper2, Axum] {
        let group = TurnGroup::new(0);
        let address = server
            .serve(move |path| {
                let path = path.to_owned();
                let turn = match path.as_str() {
                    "/busy" => Turn::builder().group(&group),
                    _ => Turn::builder().timeouts(Timeouts::default().idle(Duration::from_millis(300))),
                };
                turn.start(|sink| play(path, sink))
            })
            .await;
        let mut client = server.connect(address).await;
        for (path, body) in [
            ("/wait", format!("\x1d{DONE}")),
            ("/event/text", format!("{SEARCH}\x1dHi{DONE}")),
            ("/event/wait/text/wait/text", format!("{SEARCH}\x1dHiHi{DONE}")),
            ("/event/wait/fail", format!("{SEARCH}\x1d{SORRY}{FAILED}")),
            (
                "/event/text/wait/fail",
                format!("{SEARCH}\x1dHi\n\n{SORRY}{FAILED}"),
            ),
            ("/event/wait/panic", format!("{SEARCH}\x1d{SORRY}{FAILED}")),
            ("/text/wait/panic", format!("\x1dHi\n\n{SORRY}{FAILED}")),
        ] {
            soon(client.ready()).await;
            let response = soon(client.get(address, path)).await.unwrap();
            assert_eq!(response.status(), StatusCode::OK, "{server:?} {path}");
            let chunked: &[_] = if server == Hyper2 {
                &[]
            } else {
                &[("transfer-encoding", "chunked")]
            };
            let sent = headers(response.headers());
            let sent: Vec<_> = sent
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .collect();
            assert_eq!(sent, stream(chunked), "{server:?} {path}");
            assert!(response.headers().contains_key("x-ragwire-turn"));
            assert_eq!(soon(text(response.into_body())).await, body, "{server:?} {path}");
        }
        for (path, status, retry, code, message) in [
            ("/fail", 500, None, "chat_failed", SORRY),
            ("/wait/fail", 500, None, "chat_failed", SORRY),
            ("/panic", 500, None, "chat_failed", SORRY),
            (
                "/long",
                504,
                None,
                "timeout",
                "The answer took too long. Please retry.",
            ),
            (
                "/busy",
                503,
                Some("5"),
                "busy",
                "Too many questions are being answered. Please retry in a moment.",
            ),
        ] {
            soon(client.ready()).await;
            let response = soon(client.get(address, path)).await.unwrap();
            assert_eq!(response.status().as_u16(), status, "{server:?} {path}");
            let sent = headers(response.headers());
            let body = soon(text(response.into_body())).await;
            let (before, id) = body.rsplit_once("\"request_id\":\"").unwrap();
            assert_eq!(
                before,
                format!("{{\"error\":{{\"code\":\"{code}\",\"message\":\"{message}\",\"recoverable\":true,"),
                "{server:?} {path}"
            );
            assert!(is_id(id.strip_suffix("\"}}").unwrap()), "{body}");
            let mut expected = vec![
                ("cache-control".to_owned(), "no-store".to_owned()),
                ("content-length".into(), body.len().to_string()),
                ("content-type".into(), "application/json".into()),
            ];
            expected.extend(retry.map(|after| ("retry-after".into(), after.into())));
            assert_eq!(sent, expected, "{server:?} {path}");
        }
    }
}

/// The orchestrator waits until the client has received the first event.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_event_is_the_first_byte() {
    for server in [Hyper1, Hyper2, Axum] {
        let seen = Arc::new(Notify::new());
        let wait = Arc::clone(&seen);
        let address = server
            .serve(move |_| {
                let wait = Arc::clone(&wait);
                Turn::start(|sink: Sink| async move {
                    sink.send(Search::new("bm25")).await?;
                    wait.notified().await;
                    sink.send("a").await?;
                    wait.notified().await;
                    Ok::<_, SendError>(done())
                })
            })
            .await;
        let mut client = server.connect(address).await;
        let mut body = soon(client.get(address, "/")).await.unwrap().into_body();
        for expected in [SEARCH, "\x1da", DONE] {
            let chunk = soon(body.frame()).await.unwrap().unwrap().into_data().unwrap();
            assert_eq!(plain(&chunk), expected, "{server:?}");
            seen.notify_one();
        }
        assert!(
            soon(body.frame())
                .await
                .is_none_or(|frame| frame.unwrap().into_data().unwrap().is_empty())
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_turns_at_once() {
    const PER_SERVER: [(Server, usize, usize); 3] = [(Hyper1, 150, 1), (Axum, 150, 1), (Hyper2, 7, 100)];
    // No client gets text before all have an event, so all turns run at the same time.
    let all = Arc::new(Barrier::new(1000));
    let mut turns = Vec::new();
    for (server, connections, each) in PER_SERVER {
        let all = Arc::clone(&all);
        let address = server
            .serve(move |path| {
                let (all, name) = (Arc::clone(&all), path.to_owned());
                Turn::start(|sink: Sink| async move {
                    sink.send(Search::new(name.clone())).await?;
                    all.wait().await;
                    for n in 0..50 {
                        sink.send(format!("{name}:{n} ")).await?;
                        tokio::task::yield_now().await;
                    }
                    Ok::<_, SendError>(done())
                })
            })
            .await;
        for connection in 0..connections {
            turns.push(tokio::spawn(async move {
                let mut client = server.connect(address).await;
                let answers = (0..each).map(|turn| {
                    let path = format!("/{server:?}-{connection}-{turn}");
                    let response = client.get(address, &path);
                    async move {
                        let body = text(response.await.unwrap().into_body()).await;
                        let words: String = (0..50).map(|n| format!("{path}:{n} ")).collect();
                        assert_eq!(
                            body,
                            format!("{{\"event\":\"search\",\"tool\":\"{path}\"}}\n\x1d{words}{DONE}")
                        );
                    }
                });
                join_all(answers.collect::<Vec<_>>()).await.len()
            }));
        }
    }
    let answered: usize = soon(join_all(turns)).await.into_iter().map(Result::unwrap).sum();
    assert_eq!(answered, 1000);
}

// ---- disconnects ----

/// Reports when the orchestrator is dropped.
struct Gone(Option<oneshot::Sender<()>>);

impl Drop for Gone {
    fn drop(&mut self) {
        let _ = self.0.take().map(|gone| gone.send(()));
    }
}

/// Starts a server whose orchestrator sends one event and waits forever. Also returns the signal
/// that the orchestrator was dropped.
async fn endless(server: Server, timeouts: Timeouts) -> (SocketAddr, oneshot::Receiver<()>) {
    let (sender, gone) = oneshot::channel();
    let sender = std::sync::Mutex::new(Some(sender));
    let address = server
        .serve(move |_| {
            let gone = Gone(sender.lock().unwrap().take());
            Turn::builder().timeouts(timeouts).start(|sink: Sink| async move {
                let _gone = gone;
                sink.send(Search::new("bm25")).await?;
                std::future::pending::<Result<Metadata, SendError>>().await
            })
        })
        .await;
    (address, gone)
}

#[derive(Clone, Copy, Debug)]
enum Leave {
    Fin,
    Rst,
    /// Sends a byte after the request: hyper then does not notice the FIN until it writes.
    FinAfterExtraByte,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_client_stops_the_orchestrator() {
    let quiet = Timeouts::default().keep_alive(None);
    let lively = Timeouts::default().keep_alive(Duration::from_millis(200));
    for (server, leave, timeouts, within) in [
        (Hyper1, Leave::Fin, quiet, 100),
        (Hyper1, Leave::Rst, quiet, 100),
        (Axum, Leave::Fin, quiet, 100),
        (Axum, Leave::Rst, quiet, 100),
        (Hyper1, Leave::FinAfterExtraByte, lively, 400),
        (Axum, Leave::FinAfterExtraByte, lively, 400),
    ] {
        let (address, gone) = endless(server, timeouts).await;
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket
            .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            .await
            .unwrap();
        if matches!(leave, Leave::FinAfterExtraByte) {
            socket.write_all(b"G").await.unwrap();
        }
        let (mut received, mut buffer) = (Vec::new(), [0; 4096]);
        while !received.ends_with(b"\"}\n\r\n") {
            let read = soon(socket.read(&mut buffer)).await.unwrap();
            assert_ne!(read, 0);
            received.extend_from_slice(&buffer[..read]);
        }
        if matches!(leave, Leave::Rst) {
            socket.set_zero_linger().unwrap();
        }
        let left = std::time::Instant::now();
        drop(socket);
        soon(gone).await.unwrap();
        let took = left.elapsed();
        println!("{server:?} {leave:?}: {took:?}");
        // Half a second more for a busy machine.
        assert!(
            took < Duration::from_millis(within + 500),
            "{server:?} {leave:?} took {took:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_http2_stream_stops_the_orchestrator() {
    let (address, gone) = endless(Hyper2, Timeouts::default().keep_alive(None)).await;
    let mut client = Hyper2.connect(address).await;
    let mut body = soon(client.get(address, "/")).await.unwrap().into_body();
    soon(body.frame()).await.unwrap().unwrap();
    let left = std::time::Instant::now();
    drop(body);
    soon(gone).await.unwrap();
    println!("Hyper2 reset: {:?}", left.elapsed());
    assert!(
        left.elapsed() < Duration::from_millis(600),
        "{:?}",
        left.elapsed()
    );
}

/// The client keeps the connection but reads nothing: the orchestrator waits and is finally
/// dropped.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_reads_is_bounded_and_cut() {
    for server in [Hyper1, Axum] {
        let (sender, mut gone) = oneshot::channel();
        let sender = std::sync::Mutex::new(Some(sender));
        let pieces = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&pieces);
        let address = server
            .serve(move |_| {
                let gone = Gone(sender.lock().unwrap().take());
                let counter = Arc::clone(&counter);
                let stall = Timeouts::default().write_stall(Duration::from_secs(2));
                TurnBuilder::default()
                    .timeouts(stall)
                    .start(|sink: Sink| async move {
                        let _gone = gone;
                        loop {
                            sink.send("x".repeat(1024)).await?;
                            counter.fetch_add(1, Ordering::SeqCst);
                        }
                        #[expect(unreachable_code, reason = "names the type of the result")]
                        Ok::<_, SendError>(Metadata::default())
                    })
            })
            .await;
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket
            .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            .await
            .unwrap();
        // The orchestrator waits: nothing is sent for a while, and it is not dropped.
        let mut before = 0;
        soon(async {
            loop {
                tokio::time::sleep(Duration::from_millis(300)).await;
                let now = pieces.load(Ordering::SeqCst);
                if now > 0 && now == before {
                    break;
                }
                before = now;
            }
        })
        .await;
        assert!(gone.try_recv().is_err(), "not yet");
        println!("{server:?}: {before} KiB went into sockets and buffers");
        // Linux grows both socket buffers to several megabytes; the queue adds 48 KiB.
        assert!(before < 16 * 1024, "{before} KiB");
        soon(&mut gone).await.unwrap();
        drop(socket);
    }
}
