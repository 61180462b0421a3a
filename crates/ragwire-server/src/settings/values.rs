//! The types of setting values.
//!
//! Each type parses the same text on the command line, in the environment and in the settings file,
//! and dereferences to the plain value. Upper bounds keep later arithmetic from overflowing. Only
//! [`CountOrZero`] and [`Grace`] accept zero.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use http::HeaderName;
use ragwire::turn::Durability;
use ragwire_endpoints::ClientShare;
use serde::de::{Error, Visitor};

/// Upper bound of a [`Span`]: a leap year.
const MAX_SPAN: Duration = Duration::from_secs(366 * 24 * 3600);
/// Upper bound of a [`Count`], far below the limits of tokio's semaphores and of our tables.
const MAX_COUNT: usize = 1_000_000;
/// Upper bound of a [`Size`]: 1 TiB.
const MAX_BYTES: u64 = 1 << 40;

/// A duration longer than zero: `10s`, `500ms`, `2m`, `24h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

/// A duration that may be zero: `30s`, `0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grace(pub Duration);

/// An address to listen on: `127.0.0.1:8787`, `[::1]:8787`, or a port of this machine alone: `8787`,
/// `:8787`, `localhost:8787`.
///
/// A port without an address is one on loopback, because a server without a login must not be open
/// to the network by accident; `0.0.0.0:8787` opens it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen(pub SocketAddr);

/// An optional header name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header(pub Option<HeaderName>);

/// An optional Redis URL, which is never printed because it may contain a password.
///
/// Parsing accepts any text, because parse errors of flags and files quote the value.
/// [`Settings::check`](super::Settings::check) validates the URL instead.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RedisUrl(pub Option<String>);

/// The durability required of a Redis server: `none`, `every-second`, `always`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedisDurability(pub Durability);

/// A free-form name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(pub String);

/// A whole number from 1 to 1,000,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count(pub usize);

/// A whole number from 0 to 1,000,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CountOrZero(pub usize);

/// A share from 1 to 100 percent: `50`, `50%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percent(pub ClientShare);

/// A number of bytes from 1 to 1 TiB: `8KiB`, `32MiB`, `4096`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub usize);

/// An optional file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File(pub Option<PathBuf>);

/// An optional folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folder(pub Option<PathBuf>);

/// The format of the log: `text`, `json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// A line for people.
    Text,
    /// A JSON object per line.
    Json,
}

/// A value that does not parse. The message is written for the user who set the value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadValue(String);

impl BadValue {
    /// Creates an error with this message.
    pub fn new(message: String) -> Self {
        Self(message)
    }
}

/// Parses the value of a switch such as `--graph=false`.
pub(crate) fn switch(text: &str) -> Result<bool, BadValue> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" | "y" | "t" => Ok(true),
        "false" | "no" | "off" | "0" | "n" | "f" => Ok(false),
        _ => Err(BadValue(format!(
            "`{text}` is neither true nor false; write one of them"
        ))),
    }
}

impl FromStr for Span {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let signed: jiff::SignedDuration = text
            .trim()
            .parse()
            .map_err(|_| BadValue(format!("`{text}` is not a duration; write 10s, 500ms, 2m or 24h")))?;
        match Duration::try_from(signed) {
            Ok(span) if !span.is_zero() && span <= MAX_SPAN => Ok(Self(span)),
            _ => Err(BadValue(format!(
                "`{text}` is out of range: write more than zero and at most a year"
            ))),
        }
    }
}

impl FromStr for Grace {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        match text.trim() {
            "0" | "0s" => Ok(Self(Duration::ZERO)),
            _ => text.parse().map(|Span(span)| Self(span)),
        }
    }
}

impl FromStr for Listen {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let text = text.trim();
        if let Ok(address) = text.parse() {
            return Ok(Self(address));
        }
        let port = text
            .strip_prefix("localhost:")
            .or_else(|| text.strip_prefix(':'))
            .unwrap_or(text);
        if let Ok(port) = port.parse() {
            return Ok(Self(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            let whole = SocketAddr::new(address, 8787);
            return Err(BadValue(format!("`{text}` has no port; write {whole}")));
        }
        Err(BadValue(format!(
            "`{text}` is not an address with a port up to 65535; write 8787 for this machine alone, or 0.0.0.0:8787 \
             for the network"
        )))
    }
}

impl FromStr for Header {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        HeaderName::try_from(text.trim())
            .map(|name| Self(Some(name)))
            .map_err(|_| BadValue(format!("`{text}` is not a header name; write x-user")))
    }
}

/// Implements parsing and printing for an optional text that must not be printed.
///
/// Parsing accepts any text, because parse errors of flags and files quote the value.
macro_rules! hidden {
    ($($Name:ident)*) => { $(
        impl std::str::FromStr for $Name {
            type Err = $crate::settings::values::BadValue;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Ok(Self(Some(text.trim().to_owned())))
            }
        }

        impl std::fmt::Debug for $Name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }

        impl std::fmt::Display for $Name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self.0.as_ref().map_or("none", |_| "(not shown)"), f)
            }
        }
    )* };
}
pub(super) use hidden;

hidden! { RedisUrl }

impl FromStr for File {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        match text {
            "" => Err(BadValue("the file has no name; write its path".to_owned())),
            file => Ok(Self(Some(file.into()))),
        }
    }
}

impl FromStr for Folder {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        match text {
            "" => Err(BadValue("the folder has no name; write its path".to_owned())),
            folder => Ok(Self(Some(folder.into()))),
        }
    }
}

impl FromStr for LogFormat {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        match text.trim() {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(BadValue(format!(
                "unknown value `{text}`: write one of text, json"
            ))),
        }
    }
}

impl<'de> serde::Deserialize<'de> for LogFormat {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor(std::marker::PhantomData))
    }
}

impl FromStr for RedisDurability {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        Ok(Self(match text.trim() {
            "none" => Durability::None,
            "every-second" => Durability::EverySecond,
            "always" => Durability::Always,
            _ => {
                return Err(BadValue(format!(
                    "unknown durability `{text}`: write none, every-second or always"
                )));
            }
        }))
    }
}

impl FromStr for Name {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        Ok(Self(text.to_owned()))
    }
}

impl FromStr for Count {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        match text.trim().parse() {
            Ok(count) if (1..=MAX_COUNT).contains(&count) => Ok(Self(count)),
            _ => Err(BadValue(format!(
                "`{text}` is not a whole number from 1 to {MAX_COUNT}"
            ))),
        }
    }
}

impl FromStr for CountOrZero {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        match text.trim().parse() {
            Ok(count) if count <= MAX_COUNT => Ok(Self(count)),
            _ => Err(BadValue(format!(
                "`{text}` is not a whole number from 0 to {MAX_COUNT}"
            ))),
        }
    }
}

impl FromStr for Percent {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let number = text.trim().trim_end_matches('%');
        match number.parse() {
            Ok(percent @ 1..=100) => Ok(Self(ClientShare::percent(percent))),
            _ => Err(BadValue(format!("`{text}` is not a share from 1 to 100 percent"))),
        }
    }
}

impl FromStr for Size {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let size: bytesize::ByteSize = text.trim().parse().map_err(|_| {
            BadValue(format!(
                "`{text}` is not a size in bytes; write 4096, 8KiB or 32MiB"
            ))
        })?;
        match usize::try_from(size.as_u64()) {
            Ok(bytes) if (1..=MAX_BYTES).contains(&size.as_u64()) => Ok(Self(bytes)),
            _ => Err(BadValue(format!(
                "`{text}` is out of range: write more than zero and at most 1 TiB"
            ))),
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.as_secs(), self.0.subsec_millis()) {
            (secs, 0) if secs % 3600 == 0 => write!(f, "{}h", secs / 3600),
            (secs, 0) if secs % 60 == 0 => write!(f, "{}m", secs / 60),
            (secs, 0) => write!(f, "{secs}s"),
            _ => write!(f, "{}ms", self.0.as_millis()),
        }
    }
}

impl fmt::Display for Grace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Duration::ZERO => f.write_str("0"),
            after => Span(after).fmt(f),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or("none", HeaderName::as_str).fmt(f)
    }
}

impl fmt::Display for RedisDurability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Durability::Always => "always",
            Durability::EverySecond => "every-second",
            Durability::None | Durability::Unknown => "none",
        }
        .fmt(f)
    }
}

impl fmt::Display for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(file) => file.display().fmt(f),
            None => f.write_str("none"),
        }
    }
}

impl fmt::Display for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(folder) => folder.display().fmt(f),
            None => f.write_str("none"),
        }
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::Json => "json",
        })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for CountOrZero {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // As written: 20MB is no whole number of KiB, and 1TB is 976562500 of them.
        const UNITS: [(u64, &str); 8] = [
            (1 << 40, "TiB"),
            (1_000_000_000_000, "TB"),
            (1 << 30, "GiB"),
            (1_000_000_000, "GB"),
            (1 << 20, "MiB"),
            (1_000_000, "MB"),
            (1 << 10, "KiB"),
            (1_000, "kB"),
        ];
        let bytes = self.0 as u64;
        match UNITS.iter().find(|(unit, _)| bytes.is_multiple_of(*unit)) {
            Some((unit, name)) => write!(f, "{}{name}", bytes / unit),
            None => bytes.fmt(f),
        }
    }
}

/// Reads a value of the settings file, a number or a string, by parsing its text.
pub(super) struct TextVisitor<T>(pub(super) std::marker::PhantomData<T>);

impl<T: FromStr<Err = BadValue>> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or a string")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

/// Lets values be read from the settings file, and dereferenced to what they wrap.
macro_rules! values {
    ($($Name:ident($Inner:ty))*) => { $(
        impl<'de> serde::Deserialize<'de> for $Name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let visitor = $crate::settings::values::TextVisitor(std::marker::PhantomData);
                deserializer.deserialize_any(visitor)
            }
        }

        impl std::ops::Deref for $Name {
            type Target = $Inner;

            fn deref(&self) -> &$Inner {
                &self.0
            }
        }
    )* };
}
pub(super) use values;

values! {
    Span(Duration)
    Grace(Duration)
    Count(usize)
    CountOrZero(usize)
    Size(usize)
    Percent(ClientShare)
    Listen(SocketAddr)
    Header(Option<HeaderName>)
    RedisUrl(Option<String>)
    RedisDurability(Durability)
    File(Option<PathBuf>)
    Folder(Option<PathBuf>)
    Name(String)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_print_as_they_parse() {
        for text in ["10s", "500ms", "2m", "24h", "90s"] {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
        }
        for text in ["0", "500ms", "30s"] {
            assert_eq!(text.parse::<Grace>().unwrap().to_string(), text);
        }
        assert_eq!("0s".parse::<Grace>().unwrap(), Grace(Duration::ZERO));
        assert_eq!("X-User".parse::<Header>().unwrap().to_string(), "x-user");
        for text in ["4096", "8KiB", "32MiB", "1GiB", "1000"] {
            let size: Size = text.parse().unwrap();
            assert_eq!(size.to_string().parse::<Size>().unwrap(), size);
        }
        for text in ["text", "json"] {
            assert_eq!(text.parse::<LogFormat>().unwrap().to_string(), text);
        }
        for text in ["none", "every-second", "always"] {
            assert_eq!(text.parse::<RedisDurability>().unwrap().to_string(), text);
        }
        for (text, address) in [
            ("8080", "127.0.0.1:8080"),
            (":8080", "127.0.0.1:8080"),
            ("localhost:8080", "127.0.0.1:8080"),
            ("0.0.0.0:8080", "0.0.0.0:8080"),
            ("[::1]:8080", "[::1]:8080"),
        ] {
            assert_eq!(text.parse::<Listen>().unwrap().to_string(), address, "{text}");
        }
        for text in ["", "70000", "here", "here:80", "1.2.3.4", "http://127.0.0.1:8080"] {
            assert!(text.parse::<Listen>().is_err(), "{text}");
        }
        for text in ["1%", "50%", "100%"] {
            assert_eq!(text.parse::<Percent>().unwrap().to_string(), text);
            assert_eq!(
                text[..text.len() - 1].parse::<Percent>().unwrap().to_string(),
                text
            );
        }
        for text in ["", "%", "0", "101", "256", "-1", "1.5"] {
            assert!(text.parse::<Percent>().is_err(), "{text}");
        }
        assert_eq!("7".parse::<Count>().unwrap(), Count(7));
        for count in [0, 7] {
            let parsed = count.to_string().parse::<CountOrZero>();
            assert_eq!(parsed.unwrap(), CountOrZero(count));
        }
    }

    #[test]
    fn a_redis_url_is_never_printed() {
        let url: RedisUrl = "redis://:s3cret@127.0.0.1".parse().unwrap();
        assert_eq!(format!("{url} {url:?}"), "(not shown) (not shown)");
        assert_eq!(RedisUrl::default().to_string(), "none");
    }

    #[test]
    fn zero_negative_and_huge_values_do_not_parse() {
        for text in ["0s", "-1s", "10", "", "soon", "9223372036854775807h", "1e400s"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
            assert_eq!(text.parse::<Grace>().is_ok(), text == "0s", "{text}");
        }
        for text in ["", "everysec", "Always", "unknown"] {
            assert!(text.parse::<RedisDurability>().is_err(), "{text}");
        }
        for text in ["", "x user", "x:user", "\u{e9}"] {
            assert!(text.parse::<Header>().is_err(), "{text}");
        }
        for text in [
            "0",
            "-1",
            "1.5",
            "",
            "18446744073709551616",
            "9223372036854775808",
        ] {
            assert!(text.parse::<Count>().is_err(), "{text}");
            assert_eq!(text.parse::<CountOrZero>().is_ok(), text == "0", "{text}");
        }
        for text in ["0", "-1", "", "many", "2TiB", "18446744073709551616"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }
}
