//! An orchestrator behind TLS: whom the gateway trusts, and what the operator reads when it does not.

use std::path::PathBuf;
use std::sync::Arc;

use ragwire_server::gateway::{Gateway, GatewayError};
use ragwire_server::settings::Settings;
use ragwire_server::settings::engines::{Address, Label};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, date_time_ymd,
};
use rustls::pki_types::PrivateKeyDer;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::double::{Double, Step, chunk, head, last};
use super::{Log, gateway, told};

fn answered() -> Vec<Step> {
    vec![
        head("application/x-ndjson"),
        chunk("{\"text\":\"Yes.\"}\n{\"end\":\"completed\"}\n"),
        last(),
        Step::Keep,
    ]
}

/// An authority of our own.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// A file with its certificate.
    file: PathBuf,
    _folder: tempfile::TempDir,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        std::fs::write(&file, params.self_signed(&key).unwrap().pem()).unwrap();
        Self {
            issuer: Issuer::new(params, key),
            file,
            _folder: folder,
        }
    }

    /// A server with a certificate of this authority.
    fn acceptor(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> TlsAcceptor {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}

fn trust(settings: &mut Settings, authority: &Authority) {
    settings.orchestrator_ca = Label(Some(authority.file.to_str().unwrap().to_owned()));
}

#[tokio::test]
async fn an_authority_in_a_file_is_trusted() {
    let authority = Authority::new("ours");
    let double = Double::start_secure(vec![answered()], authority.acceptor("127.0.0.1", |_| ())).await;
    let server = gateway(&double.url, |settings| trust(settings, &authority));
    for _ in 0..2 {
        assert_eq!(told(&server.frames("Why?").await), ("Yes.".into(), None));
    }
    // A handshake is expensive.
    assert_eq!((double.opened(), double.seen().len()), (1, 2));
}

/// A certificate that is not trusted ends the turn before the question is sent, in each wire's own
/// way and with one code. The log says what is wrong with it.
#[tokio::test]
async fn a_bad_certificate_is_a_failure_with_a_code_and_a_reason() {
    let (authority, other) = (Authority::new("ours"), Authority::new("theirs"));
    let good = |_: &mut CertificateParams| ();
    let expired = |params: &mut CertificateParams| params.not_after = date_time_ymd(2001, 1, 1);
    for (case, acceptor, trusted, reason) in [
        (
            "no file",
            authority.acceptor("127.0.0.1", good),
            None,
            "UnknownIssuer",
        ),
        (
            "another authority",
            authority.acceptor("127.0.0.1", good),
            Some(&other),
            "UnknownIssuer",
        ),
        (
            "another name",
            authority.acceptor("rag.example", good),
            Some(&authority),
            "not valid for name",
        ),
        (
            "expired",
            authority.acceptor("127.0.0.1", expired),
            Some(&authority),
            "expired",
        ),
    ] {
        let log = Log::start();
        let double = Double::start_secure(vec![answered()], acceptor).await;
        let server = gateway(&double.url, |settings| {
            if let Some(trusted) = trusted {
                trust(settings, trusted);
            }
        });
        let reply = server.ask("/v1/turns", "Why?").await;
        assert_eq!(
            (reply.status.as_u16(), &*reply.code()),
            (502, "upstream_unreachable"),
            "{case}"
        );
        assert_eq!(double.seen().len(), 0, "{case}");
        let log = log.text();
        assert!(log.contains("invalid peer certificate"), "{case}: {log}");
        assert!(
            log.to_lowercase().contains(&reason.to_lowercase()),
            "{case}: {log}"
        );
    }
    // A wire that has answered before it knows: the failure is its last event.
    let double = Double::start_secure(vec![answered()], authority.acceptor("127.0.0.1", good)).await;
    let server = gateway(&double.url, |_| ());
    let reply = server.post("/api/query/stream", &json!({"query": "Why?"})).await;
    assert_eq!(reply.status, 200);
    let body = String::from_utf8_lossy(&reply.body).into_owned();
    assert!(body.contains("UPSTREAM_UNREACHABLE"), "{body}");
}

#[tokio::test]
async fn a_server_without_tls_is_unreachable_over_https() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let refused = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            let _ = socket.write_all(refused).await;
        }
    });
    let server = gateway(&format!("https://{address}/ask"), |_| ());
    let reply = server.ask("/v1/turns", "Why?").await;
    assert_eq!(
        (reply.status.as_u16(), &*reply.code()),
        (502, "upstream_unreachable")
    );
}

#[tokio::test]
async fn a_file_without_certificates_is_reported_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    let start = || {
        let settings = Settings {
            orchestrator: Address(Some("https://127.0.0.1:1/ask".into())),
            orchestrator_ca: Label(Some(file.to_str().unwrap().to_owned())),
            ..Settings::default()
        };
        Gateway::start(settings.gateway_options().unwrap().unwrap())
    };
    assert!(matches!(start(), Err(GatewayError::Authorities(_))));
    std::fs::write(&file, "not a certificate").unwrap();
    let error = start().unwrap_err().to_string();
    assert!(
        error.starts_with("the root certificates are not valid"),
        "{error}"
    );
}
