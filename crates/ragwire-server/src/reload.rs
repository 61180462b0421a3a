//! What SIGHUP reads again: the API keys, and the certificate of the port.

use std::convert::Infallible;
use std::future::pending;
use std::io;

use crate::app::App;
use crate::keys::KeysError;
use crate::settings::Settings;
use crate::signals::Hangups;
use crate::tls::Tls;

/// Returns the signal, if a file is read again. Otherwise it ends the server with its terminal.
pub(crate) fn hangups(settings: &Settings) -> io::Result<Option<Hangups>> {
    let is_used = settings.api_keys.is_some() || settings.tls_cert.is_some();
    is_used.then(Hangups::new).transpose()
}

/// Reads the API keys for the first time.
pub(crate) fn load_keys(app: &App) -> Result<(), KeysError> {
    if let Some(keys) = &app.keys {
        let keys = keys.load()?;
        tracing::info!(keys, "requests need an API key");
    }
    Ok(())
}

/// Reads the API keys again on each SIGHUP. A file with a mistake changes nothing.
pub(crate) async fn follow_keys(app: &App, hangups: Option<Hangups>) -> Infallible {
    let (Some(keys), Some(mut hangups)) = (&app.keys, hangups) else {
        return pending().await;
    };
    loop {
        hangups.next().await;
        match keys.load() {
            Ok(keys) => tracing::info!(keys, "read the API keys again"),
            Err(error) => tracing::error!(%error, "the API keys stay as they were"),
        }
    }
}

/// Reads the certificate again on each SIGHUP. Files with a mistake change nothing.
pub(crate) async fn follow_certificate(tls: Option<Tls>, hangups: Option<Hangups>) -> Infallible {
    let (Some(tls), Some(mut hangups)) = (tls, hangups) else {
        return pending().await;
    };
    loop {
        hangups.next().await;
        match tls.reload() {
            Ok(()) => tracing::info!("read the certificate again"),
            Err(error) => tracing::error!(%error, "the certificate stays as it was"),
        }
    }
}
