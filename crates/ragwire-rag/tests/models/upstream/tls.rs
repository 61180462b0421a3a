//! Tests of `https://`: the crate's own choice of provider and roots, against a server with a
//! certificate generated for the test.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use ragwire_rag::models::upstream::{HttpClient, UpstreamOptions};
use ragwire_rag::models::{LanguageModel, Prompt};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::upstream::{model, once, outcome, read, within};

const GOOD: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\n";

/// Answers a chat, and any other request with the length of its body.
async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.uri().path() == "/length" {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        return Ok(Response::new(Full::from(body.len().to_string())));
    }
    let response = Response::builder().header("content-type", "text/event-stream");
    Ok(response.body(Full::from(GOOD)).unwrap())
}

async fn serve(certificate: CertificateDer<'static>, key: PrivateKeyDer<'static>) -> u16 {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                // A client that does not trust the certificate has disconnected by now.
                if let Ok(socket) = acceptor.accept(socket).await {
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = http
                        .serve_connection(TokioIo::new(socket), service_fn(answer))
                        .await;
                }
            });
        }
    });
    port
}

#[tokio::test]
async fn only_configured_roots_are_trusted() {
    within(async {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let port = serve(made.cert.der().clone(), key).await;
        let pem = made.cert.pem();
        let trusting = |base: &str| once(base).root_certificates(pem.as_bytes()).unwrap();
        let ask = |options: UpstreamOptions| model(options).generate(Prompt::user("Why?"));
        let secure = format!("https://127.0.0.1:{port}/v1");
        let (pieces, end) = read(ask(trusting(&secure))).await;
        assert_eq!((pieces.concat().as_str(), outcome(&end).as_str()), ("Hi", "stop"));
        let unreachable = "model_unavailable upstream_unreachable";
        for (name, options, expected) in [
            ("not signed by a usual root", once(&secure), unreachable),
            (
                "another name",
                trusting(&format!("https://localhost:{port}/v1")),
                unreachable,
            ),
            (
                "no tls",
                once(&format!("http://127.0.0.1:{port}/v1")),
                "model_failed upstream_unreadable",
            ),
        ] {
            let (_, end) = read(ask(options)).await;
            assert_eq!(outcome(&end), expected, "{name}");
        }
    })
    .await;
}

/// TLS accepts bytes that its socket does not take yet.
#[tokio::test]
async fn a_long_request_arrives_whole() {
    within(async {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let port = serve(made.cert.der().clone(), key).await;
        let client = HttpClient::new(Duration::from_secs(5), Some(made.cert.pem().as_bytes())).unwrap();
        for length in [0, 1, 16 * 1024, 5_000_001] {
            let request = Request::post(format!("https://127.0.0.1:{port}/length"));
            let request = request.body(Bytes::from(vec![b'x'; length])).unwrap();
            let mut body = client.send(request).await.unwrap().into_body();
            let answered = body.data().await.unwrap().unwrap();
            assert_eq!(answered, length.to_string());
        }
    })
    .await;
}
