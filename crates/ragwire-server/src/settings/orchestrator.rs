//! Settings of an orchestrator outside of this process: which go together, and what the gateway gets.

use std::path::Path;

use http::HeaderName;
use ragwire::wire::WireKind;
use ragwire_rag::models::upstream::{ApiKey, Retry, parse_address};

use super::engines::StoreKind;
use super::{Contradiction, Settings};
use crate::gateway::trace::{TRACEPARENT, TRACESTATE};
use crate::gateway::{GatewayOptions, HttpOptions, ProcessOptions, split};

/// The prefix of an orchestrator that is a program.
const EXEC: &str = "exec:";
/// Headers that the gateway sets itself, and those that belong to one connection.
const RESERVED: [&str; 16] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "idempotency-key",
    "keep-alive",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-ragwire-turn",
];

impl Settings {
    /// Returns what the gateway needs, or `None` without `orchestrator`. Reads no file and starts
    /// nothing.
    ///
    /// # Errors
    ///
    /// A [`Contradiction`] that names the setting and repeats neither address nor token.
    pub fn gateway_options(&self) -> Result<Option<GatewayOptions>, Contradiction> {
        let Some(target) = self.orchestrator.as_deref() else {
            return Ok(None);
        };
        let options = match target.strip_prefix(EXEC) {
            Some(command) => GatewayOptions::Process(self.process_options(command)?),
            None => GatewayOptions::Http(self.http_options(target)?),
        };
        Ok(Some(options))
    }

    fn process_options(&self, command: &str) -> Result<ProcessOptions, Contradiction> {
        for (name, is_set) in [
            ("orchestrator-wire", self.orchestrator_wire.is_some()),
            ("orchestrator-token", self.orchestrator_token.is_some()),
            ("orchestrator-model", self.orchestrator_model.is_some()),
            ("orchestrator-ca", self.orchestrator_ca.is_some()),
        ] {
            if is_set {
                return Err(Contradiction::new(format!(
                    "{name} has no effect with `exec:`, whose lines have one protocol"
                )));
            }
        }
        let command =
            split(command).map_err(|reason| Contradiction::new(format!("orchestrator: {reason}")))?;
        Ok(ProcessOptions {
            command,
            workers: *self.orchestrator_workers,
            first: *self.orchestrator_timeout,
            idle: *self.orchestrator_idle_timeout,
            attempts: self.attempts(),
        })
    }

    fn http_options(&self, target: &str) -> Result<HttpOptions, Contradiction> {
        let uri = parse_address(target.trim()).map_err(|error| {
            Contradiction::new(format!(
                "orchestrator: {error}; or write exec:PROGRAM ARGUMENTS to start one"
            ))
        })?;
        let wire = self.orchestrator_wire.as_deref().map(|name| {
            let kind = name.replace('-', "_").parse::<WireKind>();
            kind.map_err(|error| Contradiction::new(format!("orchestrator-wire `{name}`: {error}")))
        });
        let token = self.orchestrator_token.as_deref().map(ApiKey::new).transpose();
        let token = token.map_err(|error| Contradiction::new(format!("orchestrator-token: {error}")))?;
        let mut retry = Retry::default();
        retry.attempts = self.attempts();
        Ok(HttpOptions {
            uri,
            token,
            authorities: self
                .orchestrator_ca
                .as_deref()
                .map(|path| Path::new(path).to_owned()),
            wire: wire.transpose()?,
            model: self.orchestrator_model.0.clone(),
            first: *self.orchestrator_timeout,
            idle: *self.orchestrator_idle_timeout,
            retry,
        })
    }

    fn attempts(&self) -> u32 {
        u32::try_from(*self.orchestrator_attempts).unwrap_or(u32::MAX)
    }

    /// Returns the headers of requests that the orchestrator gets: those of the allow list, and the
    /// trace context, which also goes on to model servers.
    pub fn passed_headers(&self) -> Vec<HeaderName> {
        let names = self.orchestrator_header.iter();
        let mut names: Vec<HeaderName> = names.filter_map(|name| name.trim().parse().ok()).collect();
        for name in [TRACEPARENT, TRACESTATE] {
            if !names.iter().any(|other| other == name) {
                names.push(HeaderName::from_static(name));
            }
        }
        names
    }
}

/// Rejects settings of an orchestrator that contradict each other or the rest.
pub(super) fn check(settings: &Settings) -> Result<(), Contradiction> {
    if settings.gateway_options()?.is_none() {
        return check_without(settings);
    }
    for (name, is_set) in [
        ("docs", !settings.docs.is_empty()),
        ("llm", settings.llm.is_some()),
        ("llm-url", settings.llm_url.is_some()),
        ("embedder", settings.embedder.is_some()),
        ("embedder-url", settings.embedder_url.is_some()),
        ("reranker", settings.reranker.is_some()),
        ("reranker-url", settings.reranker_url.is_some()),
        ("store", settings.store != StoreKind::Memory),
        ("graph-model", settings.graph_model),
    ] {
        if is_set {
            return Err(Contradiction::new(format!(
                "{name} has no effect with orchestrator, which answers in place of the library"
            )));
        }
    }
    for (name, time) in [
        ("orchestrator-timeout", settings.orchestrator_timeout),
        ("orchestrator-idle-timeout", settings.orchestrator_idle_timeout),
    ] {
        if time >= settings.idle_timeout {
            return Err(Contradiction::new(format!(
                "{name} ({time}) must be less than idle-timeout ({}), so that the failure names the orchestrator",
                settings.idle_timeout
            )));
        }
    }
    check_headers(settings)
}

fn check_without(settings: &Settings) -> Result<(), Contradiction> {
    for (name, is_set) in [
        ("orchestrator-wire", settings.orchestrator_wire.is_some()),
        ("orchestrator-model", settings.orchestrator_model.is_some()),
        ("orchestrator-token", settings.orchestrator_token.is_some()),
        ("orchestrator-ca", settings.orchestrator_ca.is_some()),
        ("orchestrator-header", !settings.orchestrator_header.is_empty()),
    ] {
        if is_set {
            return Err(Contradiction::new(format!(
                "{name} requires orchestrator, which is not set"
            )));
        }
    }
    Ok(())
}

fn check_headers(settings: &Settings) -> Result<(), Contradiction> {
    for name in &settings.orchestrator_header {
        let header: HeaderName = name.trim().parse().map_err(|_| {
            Contradiction::new(format!(
                "orchestrator-header `{name}` is not a header name; write x-tenant"
            ))
        })?;
        if RESERVED.contains(&header.as_str()) {
            return Err(Contradiction::new(format!(
                "orchestrator-header `{header}` cannot be passed: the gateway sets it, or it belongs to one connection"
            )));
        }
        if header == http::header::AUTHORIZATION && settings.orchestrator_token.is_some() {
            return Err(Contradiction::new(
                "orchestrator-header `authorization` and orchestrator-token exclude each other",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::engines::{Address, Label, Secret};
    use crate::settings::values::Span;

    fn with(target: &str) -> Settings {
        Settings {
            orchestrator: Address(Some(target.into())),
            ..Settings::default()
        }
    }

    #[test]
    fn an_orchestrator_is_a_url_or_a_program() {
        let Ok(Some(GatewayOptions::Http(http))) = with("https://a:1/ask").gateway_options() else {
            panic!("a url is an orchestrator");
        };
        assert_eq!(http.uri, "https://a:1/ask");
        assert_eq!(http.retry.attempts, 3);
        let Ok(Some(GatewayOptions::Process(process))) = with("exec:python3 'my rag.py'").gateway_options()
        else {
            panic!("a program is an orchestrator");
        };
        assert_eq!(process.command, ["python3", "my rag.py"]);
        assert!(Settings::default().gateway_options().unwrap().is_none());
    }

    #[test]
    fn contradictions_name_the_setting_and_no_secret() {
        type Change = fn(&mut Settings);
        let cases: &[(&str, Change, &str)] = &[
            ("http://u:s3cret@a/", |_| (), "orchestrator: "),
            ("python3 s3cret.py", |_| (), "orchestrator: "),
            (
                "exec:",
                |_| (),
                "orchestrator: it names no program; write exec:PROGRAM ARGUMENTS",
            ),
            ("http://a", |s| s.docs = vec!["a".into()], "docs has no effect"),
            ("http://a", |s| s.graph_model = true, "graph-model has no effect"),
            (
                "http://a",
                |s| s.orchestrator_wire = Label(Some("x".into())),
                "orchestrator-wire `x`",
            ),
            (
                "exec:a",
                |s| s.orchestrator_wire = Label(Some("sse".into())),
                "orchestrator-wire has no effect",
            ),
            (
                "http://a",
                |s| s.orchestrator_token = Secret(Some("s3cret x".into())),
                "orchestrator-token: ",
            ),
            (
                "http://a",
                |s| s.orchestrator_timeout = Span(*s.idle_timeout),
                "orchestrator-timeout (2m)",
            ),
            (
                "http://a",
                |s| s.orchestrator_header = vec!["a b".into()],
                "orchestrator-header `a b`",
            ),
            (
                "http://a",
                |s| s.orchestrator_header = vec!["Host".into()],
                "orchestrator-header `host`",
            ),
            (
                "http://a",
                |s| {
                    s.orchestrator_header = vec!["authorization".into()];
                    s.orchestrator_token = Secret(Some("s3cret".into()));
                },
                "orchestrator-header `authorization`",
            ),
        ];
        for (target, change, named) in cases {
            let mut settings = with(target);
            change(&mut settings);
            let error = settings.check().unwrap_err().to_string();
            assert!(error.starts_with(named), "{error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
        let mut settings = Settings {
            orchestrator_header: vec!["x-a".into()],
            ..Settings::default()
        };
        assert!(
            settings
                .check()
                .unwrap_err()
                .to_string()
                .starts_with("orchestrator-header requires")
        );
        settings.orchestrator = Address(Some("http://a".into()));
        assert_eq!(settings.check(), Ok(()));
        assert_eq!(settings.passed_headers(), ["x-a", "traceparent", "tracestate"]);
    }
}
