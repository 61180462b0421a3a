//! Five hundred concurrent clients over real sockets. Measures counts, not times.

use std::net::SocketAddr;

use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::*;

const CLIENTS: usize = 500;
const ACTIVE: usize = 8;
const QUEUED: usize = 100;
/// Longer than any step takes on a busy machine. No test that passes waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// The server's counters.
#[derive(Debug, Default)]
struct Counted {
    running: AtomicUsize,
    most: AtomicUsize,
    started: AtomicUsize,
}

/// Serves turns that run until the gate opens.
async fn serve(group: TurnGroup, gate: Arc<Semaphore>, counted: Arc<Counted>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let start = move || {
        let (gate, counted) = (Arc::clone(&gate), Arc::clone(&counted));
        Turn::builder().group(&group).start(move |sink: Sink| async move {
            let running = counted.running.fetch_add(1, Ordering::SeqCst) + 1;
            counted.most.fetch_max(running, Ordering::SeqCst);
            counted.started.fetch_add(1, Ordering::SeqCst);
            sink.send(Search::new("bm25")).await?;
            drop(gate.acquire().await);
            sink.send("a").await?;
            counted.running.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, SendError>(Metadata::default())
        })
    };
    #[expect(clippy::disallowed_methods, reason = "servers and clients here are tasks")]
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let start = start.clone();
            let service = hyper::service::service_fn(move |_| {
                let turn = start();
                async move {
                    Ok::<_, Infallible>(match turn.commit().await {
                        Ok(turn) => turn.respond(Framed::default()),
                        Err(rejected) => rejected.respond(),
                    })
                }
            });
            let connection = hyper::server::conn::http1::Builder::new();
            tokio::spawn(connection.serve_connection(TokioIo::new(socket), service));
        }
    });
    address
}

/// Sends a request, reports the response's head, and reads the rest.
async fn ask(address: SocketAddr, heads: Arc<Semaphore>) -> (StatusCode, HeaderMap, String) {
    let socket = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket))
        .await
        .unwrap();
    let request = Request::builder()
        .header("host", "test")
        .body(Empty::<bytes::Bytes>::new())
        .unwrap();
    let whole = async {
        let (head, body) = sender.send_request(request).await.unwrap().into_parts();
        heads.add_permits(1);
        let body = body.collect().await.unwrap().to_bytes();
        drop(sender);
        (head.status, head.headers, plain(&body))
    };
    tokio::join!(whole, async { connection.await.unwrap() }).0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_at_once() {
    let group = TurnGroup::builder().max_active(ACTIVE).max_queued(QUEUED).build();
    let (gate, heads) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let counted = Arc::new(Counted::default());
    let address = serve(group.clone(), Arc::clone(&gate), Arc::clone(&counted)).await;
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        clients.spawn(ask(address, Arc::clone(&heads)));
    }
    // All of them have an answer or its beginning, so no further turn is admitted or refused.
    let all = heads.acquire_many(u32::try_from(CLIENTS).unwrap());
    drop(tokio::time::timeout(PATIENCE, all).await.unwrap());
    assert_eq!((group.active(), group.queued()), (ACTIVE, QUEUED));
    assert_eq!(
        counted.started.load(Ordering::SeqCst),
        ACTIVE,
        "who waits costs nothing"
    );
    gate.close();
    let answers = tokio::time::timeout(PATIENCE, clients.join_all()).await.unwrap();

    let (served, refused): (Vec<_>, Vec<_>) = answers
        .into_iter()
        .partition(|(status, ..)| *status == StatusCode::OK);
    assert_eq!(
        (served.len(), refused.len()),
        (ACTIVE + QUEUED, CLIENTS - ACTIVE - QUEUED)
    );
    for (status, headers, body) in refused {
        assert_eq!(
            (status.as_u16(), &headers["retry-after"]),
            (503, &"5".parse().unwrap())
        );
        assert!(body.starts_with("{\"error\":{\"code\":\"busy\","), "{body}");
    }
    let mut positions = Vec::new();
    for (_, _, body) in served {
        let (progress, rest) = body.split_once('\x1d').unwrap();
        let (text, trailer) = rest.split_once('\x1e').unwrap();
        let trailer: serde_json::Value = serde_json::from_str(trailer).unwrap();
        let stats = &trailer["queue_stats"];
        let position = stats["queue_position"].as_u64().unwrap();
        assert_eq!((text, trailer.get("status")), ("a", None));
        assert_eq!(stats["was_queued"], position > 0);
        assert!(progress.ends_with(SEARCH));
        let told = progress.lines().next().unwrap();
        assert_eq!(told.starts_with("{\"event\":\"queued\","), position > 0, "{told}");
        positions.push(position);
    }
    positions.sort_unstable();
    let expected: Vec<u64> = std::iter::repeat_n(0, ACTIVE).chain(1..=QUEUED as u64).collect();
    assert_eq!(positions, expected);
    tokio::time::timeout(PATIENCE, group.drained()).await.unwrap();
    assert_eq!((group.active(), group.queued()), (0, 0));
    assert_eq!(counted.started.load(Ordering::SeqCst), ACTIVE + QUEUED);
    assert!(counted.most.load(Ordering::SeqCst) <= ACTIVE);
}
