//! TLS of the port (`--tls-cert`, `--tls-key`), with a certificate that can be read again.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::settings::Settings;
use crate::version::Version;

/// What a client and the server agree on during the handshake.
const PROTOCOLS: [&[u8]; 2] = [b"h2", HTTP1];
/// The name of HTTP/1.1 there (RFC 7301).
const HTTP1: &[u8] = b"http/1.1";

/// A certificate or a key that cannot be used. Its message has nothing of the key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{setting} {}: {reason}", file.display())]
    Unreadable {
        /// The setting that names the file.
        setting: &'static str,
        /// The file.
        file: PathBuf,
        /// The cause.
        reason: io::Error,
    },
    /// A file does not have what it should have.
    #[error("{setting} {}: the file has no {missing} in PEM format", file.display())]
    Missing {
        /// The setting that names the file.
        setting: &'static str,
        /// The file.
        file: PathBuf,
        /// What it lacks.
        missing: &'static str,
    },
    /// The certificate and the key do not belong together, or are of an unknown kind.
    #[error("tls-cert {} and tls-key {}: {reason}", cert.display(), key.display())]
    Unusable {
        /// The file of the certificate.
        cert: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// The cause.
        reason: rustls::Error,
    },
}

/// The certificate of a server, which can be read again while it runs. Clones share it.
#[derive(Clone)]
pub struct Tls {
    files: Arc<Files>,
    current: Arc<Current>,
    acceptor: TlsAcceptor,
}

struct Files {
    cert: PathBuf,
    key: PathBuf,
}

/// The certificate that new connections get.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let current = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(&current))
    }
}

impl Tls {
    /// Reads the certificate and the key that the settings name. Returns `None` without them.
    ///
    /// # Errors
    ///
    /// [`TlsError`]
    pub fn load(settings: &Settings) -> Result<Option<Self>, TlsError> {
        let (Some(cert), Some(key)) = (settings.tls_cert.as_deref(), settings.tls_key.as_deref()) else {
            return Ok(None);
        };
        let files = Files {
            cert: cert.to_owned(),
            key: key.to_owned(),
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let current = Arc::new(Current(RwLock::new(Arc::new(files.read(&provider)?))));
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(|reason| files.unusable(reason))?;
        let mut config = config
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&current) as _);
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        Ok(Some(Self {
            files: Arc::new(files),
            current,
            acceptor: TlsAcceptor::from(Arc::new(config)),
        }))
    }

    /// Reads the files again. Connections that are open keep their certificate; after an error new
    /// ones get the same certificate as before.
    ///
    /// # Errors
    ///
    /// [`TlsError`]
    pub fn reload(&self) -> Result<(), TlsError> {
        let certified = self.files.read(self.acceptor.config().crypto_provider())?;
        *self.current.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(certified);
        Ok(())
    }

    /// Does the handshake with a client, and returns the version of HTTP that was agreed on.
    ///
    /// # Errors
    ///
    /// Fails if the client speaks no TLS, has no version or algorithm in common, or disconnects.
    pub(crate) async fn accept<S>(&self, socket: S) -> io::Result<(Version, TlsStream<S>)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let socket = self.acceptor.accept(socket).await?;
        let version = match socket.get_ref().1.alpn_protocol() {
            Some(HTTP1) => Version::Http1,
            Some(_) | None => Version::Either,
        };
        Ok((version, socket))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("cert", &self.files.cert)
            .finish_non_exhaustive()
    }
}

impl Files {
    fn read(&self, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
        let (cert, key) = (read("tls-cert", &self.cert)?, read("tls-key", &self.key)?);
        let chain = certificates(&cert).filter(|chain| !chain.is_empty());
        let chain = chain.ok_or_else(|| missing("tls-cert", &self.cert, "certificate"))?;
        let key = PrivateKeyDer::from_pem_slice(&key)
            .map_err(|_| missing("tls-key", &self.key, "unencrypted private key"))?;
        CertifiedKey::from_der(chain, key, provider).map_err(|reason| self.unusable(reason))
    }

    fn unusable(&self, reason: rustls::Error) -> TlsError {
        TlsError::Unusable {
            cert: self.cert.clone(),
            key: self.key.clone(),
            reason,
        }
    }
}

/// Reads the certificates of a PEM file; `None` if it is damaged.
pub(crate) fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().ok()
}

fn read(setting: &'static str, file: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(file).map_err(|reason| TlsError::Unreadable {
        setting,
        file: file.to_owned(),
        reason,
    })
}

fn missing(setting: &'static str, file: &Path, missing: &'static str) -> TlsError {
    TlsError::Missing {
        setting,
        file: file.to_owned(),
        missing,
    }
}
