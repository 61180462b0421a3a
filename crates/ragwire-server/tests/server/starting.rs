//! A server whose documents are not read yet.

use std::sync::Arc;

use ragwire_server::readiness::{Readiness, Stage};
use ragwire_server::serve::{Listening, Server, Shutdown};
use ragwire_server::settings::engines::Address;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::support::{Running, start};

/// A connection that is open before the documents are read also gets the routes.
#[tokio::test]
async fn an_open_connection_sees_the_start_and_its_end() {
    let full = start(|_| {}).await;
    let readiness = Readiness::new();
    let mut settings = full.app.settings.clone();
    settings.listen.0.set_port(0);
    let listening = Listening::bind(&settings).unwrap();
    let address = listening.address();
    let (server, opener) = Server::starting(listening, settings, readiness.clone());
    let (stop, stopped) = oneshot::channel::<()>();
    let mut tasks = JoinSet::new();
    tasks.spawn(server.run(
        async {
            let _ = stopped.await;
        },
        std::future::pending(),
    ));
    let socket = TcpStream::connect(address).await.unwrap();
    let io = hyper_util::rt::TokioIo::new(socket);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    let mut connections = JoinSet::new();
    connections.spawn(connection);
    let mut get = async |path: &str| {
        let request = http::Request::get(path)
            .header("host", address.to_string())
            .body(http_body_util::Empty::<bytes::Bytes>::new())
            .unwrap();
        let response = sender.send_request(request).await.unwrap();
        let status = response.status().as_u16();
        let body = http_body_util::BodyExt::collect(response.into_body())
            .await
            .unwrap();
        let body: Value = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
        (status, body)
    };
    readiness.set(Stage::Reading {
        done: 120,
        total: 3022,
    });
    let message = "Reading documents: 120 of 3,022";
    let report =
        json!({"status": "starting", "stage": "reading", "done": 120, "total": 3022, "message": message});
    assert_eq!(get("/readyz").await, (503, report));
    let health = json!({"status": "starting", "documents": 0, "chunks": 0, "active_turns": 0, "model": null, "message": message});
    assert_eq!(get("/healthz").await, (503, health));
    assert_eq!(get("/livez").await, (200, json!({"status": "ok"})));
    assert_eq!(get("/page/ready.js").await.0, 200);
    let (status, refused) = get("/v1/documents").await;
    assert_eq!((status, &refused["error"]["code"]), (503, &json!("starting")));
    assert_eq!(
        refused["error"]["message"],
        json!("The server is starting. Reading documents: 120 of 3,022.")
    );

    opener.open(Arc::clone(&full.app));
    assert_eq!(get("/v1/documents").await.0, 200);
    assert_eq!(get("/readyz").await.0, 200, "the readiness of the app itself");
    stop.send(()).unwrap();
    assert_eq!(tasks.join_next().await.unwrap().unwrap(), Shutdown::Drained);
    full.stop().await;
}

/// Returns the state for load balancers.
async fn ready(server: &Running) -> (u16, Value) {
    let reply = server.get("/readyz").await;
    (reply.status.as_u16(), reply.json())
}

#[tokio::test]
async fn readiness_names_a_server_that_cannot_be_reached() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let open = listener.local_addr().unwrap().port();
    let port = ragwire_test_support::ports::free_port();
    let url = |port| Address(Some(format!("http://127.0.0.1:{port}/v1")));

    let server = start(|_| {}).await;
    let report = json!({"status": "ready", "stage": "ready", "message": "Ready", "checks": {"disk": "ok"}});
    assert_eq!(ready(&server).await, (200, report));
    // Quotes take the place of a model.
    let server = start(|settings| {
        settings.llm_url = url(port);
        settings.embedder_url = url(open);
    })
    .await;
    let checks = json!({"disk": "ok", "embedder": "ok", "model": "unreachable"});
    let report = json!({"status": "ready", "stage": "ready", "message": "Ready", "checks": checks});
    assert_eq!(ready(&server).await, (200, report));
    // Nothing takes the place of the store.
    let server = start(|settings| settings.qdrant_url = url(port)).await;
    let message = "A server that this one needs cannot be reached";
    let checks = json!({"disk": "ok", "store": "unreachable"});
    let report = json!({"status": "unavailable", "stage": "ready", "message": message, "checks": checks});
    assert_eq!(ready(&server).await, (503, report));
}

#[tokio::test]
async fn a_server_that_still_starts_stops_at_once() {
    let full = start(|_| {}).await;
    let mut settings = full.app.settings.clone();
    settings.listen.0.set_port(0);
    let listening = Listening::bind(&settings).unwrap();
    let (server, _opener) = Server::starting(listening, settings, Readiness::new());
    let shutdown = server.run(std::future::ready(()), std::future::pending()).await;
    assert_eq!(shutdown, Shutdown::Drained);
    full.stop().await;
}
