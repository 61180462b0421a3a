//! HTTPS as an operator uses it: started, read again while it runs, and refused with a reason.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::run;
use crate::served::{Served, program};

/// A folder with an authority, and the certificate and the key of a server.
struct Folder {
    folder: tempfile::TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Folder {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let made = Self {
            folder: tempfile::tempdir().unwrap(),
            authority,
        };
        fs::write(made.path("ca.pem"), made.authority.pem()).unwrap();
        made.renew();
        made
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Writes another certificate and key, and returns the certificate.
    fn renew(&self) -> CertificateDer<'static> {
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(names).unwrap();
        let cert = params.signed_by(&key, &*self.authority).unwrap();
        fs::write(self.path("cert.pem"), cert.pem()).unwrap();
        fs::write(self.path("key.pem"), key.serialize_pem()).unwrap();
        cert.der().clone()
    }

    fn serve(&self, more: &[&str]) -> Served {
        let (cert, key) = (self.text("cert.pem"), self.text("key.pem"));
        let flags = [&["--tls-cert", &cert, "--tls-key", &key][..], more].concat();
        Served::start(&self.path("data"), &flags)
    }

    /// Connects and sends a request; returns the socket and the certificate of the server.
    fn connect(
        &self,
        server: &Served,
        alpn: &[&[u8]],
    ) -> (StreamOwned<ClientConnection, TcpStream>, CertificateDer<'static>) {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_file(self.path("ca.pem")).unwrap();
        roots.add(authority).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap();
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        let name = ServerName::try_from("localhost").unwrap();
        let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut socket = plain(server);
        while connection.is_handshaking() {
            connection.complete_io(&mut socket).unwrap();
        }
        let cert = connection.peer_certificates().unwrap()[0].clone().into_owned();
        (StreamOwned::new(connection, socket), cert)
    }
}

fn plain(server: &Served) -> TcpStream {
    TcpStream::connect(server.address.trim_start_matches("https://")).unwrap()
}

const REQUEST: &[u8] = b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

/// Reads to the end, whether or not the server says that it is one.
fn rest(mut socket: impl Read) -> String {
    let mut reply = Vec::new();
    let _ = socket.read_to_end(&mut reply);
    String::from_utf8_lossy(&reply).into_owned()
}

#[test]
fn a_server_speaks_https_and_its_certificate_is_renewed_while_it_runs() {
    let folder = Folder::new();
    let server = folder.serve(&[]);
    assert!(
        server.address.starts_with("https://127.0.0.1:"),
        "{}",
        server.address
    );
    let ca = folder.text("ca.pem");
    let ask = |arguments: &[&str]| run(program(&["ask", "--server", &server.address]).args(arguments));
    let (code, _, said) = ask(&["fault:text"]);
    assert!(code != 0 && said.contains("UnknownIssuer"), "{said}");
    let (code, _, said) = ask(&["--ca", &ca, "fault:no-events"]);
    assert_eq!(code, 0, "{said}");
    let service = ["--service", "document-rag", "--streaming", "fault:no-events"];
    let (code, text, said) = ask(&[&["--ca", &ca][..], &service].concat());
    assert_eq!((code, text.trim_end()), (0, "Yes, it is."), "{said}");
    let (code, _, said) = ask(&service);
    assert!(code != 0 && said.contains("UnknownIssuer"), "{said}");

    let (socket, first) = folder.connect(&server, &[b"h2", b"http/1.1"]);
    assert_eq!(socket.conn.alpn_protocol(), Some(&b"h2"[..]));
    let (socket, again) = folder.connect(&server, &[b"http/1.1"]);
    assert_eq!(socket.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
    assert_eq!(first, again);

    // An answer that runs meanwhile is not cut.
    let mut asking = program(&[
        "ask",
        "--server",
        &server.address,
        "--ca",
        &ca,
        "fault:paced 20 100 x",
    ])
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    let mut byte = [0];
    asking.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
    let renewed = folder.renew();
    server.signal("HUP");
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let (mut socket, cert) = folder.connect(&server, &[]);
        socket.write_all(REQUEST).unwrap();
        assert!(rest(socket).starts_with("HTTP/1.1 200 "));
        if cert == renewed {
            break;
        }
        assert!(cert == first && Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(20));
    }
    let answered = asking.wait_with_output().unwrap();
    assert!(answered.status.success(), "{answered:?}");

    // A mistake changes nothing.
    fs::write(folder.path("key.pem"), "nonsense").unwrap();
    server.signal("HUP");
    let is_reported =
        |line: &String| line.contains("the certificate stays as it was") && line.contains("key.pem");
    while !server.log().iter().any(is_reported) {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(folder.connect(&server, &[]).1, renewed);
}

#[test]
fn a_client_without_a_handshake_is_closed_and_delays_no_other() {
    let folder = Folder::new();
    let server = folder.serve(&["--header-timeout", "1s"]);
    let silent = plain(&server);
    let mut http = plain(&server);
    http.write_all(REQUEST).unwrap();
    assert!(!rest(http).contains("HTTP/1.1"), "an answer without encryption");
    let (mut socket, _) = folder.connect(&server, &[]);
    socket.write_all(REQUEST).unwrap();
    assert!(rest(socket).starts_with("HTTP/1.1 200 "));
    assert_eq!(rest(silent), "");
}

#[test]
fn files_that_cannot_be_used_are_an_error_at_start() {
    let folder = Folder::new();
    let other = Folder::new();
    let start = |cert: &Path, key: &Path| {
        let mut command = program(&["--listen", "127.0.0.1:0", "--data"]);
        command.arg(folder.path("data")).arg("--tls-cert").arg(cert);
        run(command.arg("--tls-key").arg(key))
    };
    let (cert, key) = (folder.path("cert.pem"), folder.path("key.pem"));
    for (cert, key, said) in [
        (&folder.path("nowhere.pem"), &key, "nowhere.pem: No such file"),
        (&key, &key, "key.pem: the file has no certificate in PEM format"),
        (
            &cert,
            &cert,
            "cert.pem: the file has no unencrypted private key in PEM format",
        ),
        (&cert, &other.path("key.pem"), "keys may not be consistent"),
    ] {
        let (code, _, stderr) = start(cert, key);
        assert!(code == 1 && stderr.contains(said), "{stderr}");
    }
    let (code, _, stderr) = run(program(&["--tls-cert"]).arg(&cert));
    assert!(code == 2 && stderr.contains("set both or neither"), "{stderr}");
}
