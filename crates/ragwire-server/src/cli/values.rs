//! The kinds of values that settings have. Each is read from the same text on the command line, in the environment and in the
//! file, and none can be so large that arithmetic with it overflows; only a [`Room`] and a [`Grace`] can be zero.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use http::HeaderName;
use ragwire::turn::Durability;
use serde::de::{Error, Visitor};

/// Longest time that may be configured: a year.
const MAX_SPAN: Duration = Duration::from_secs(366 * 24 * 3600);
/// Largest count: tokio's semaphores and our tables are far from their limits there.
const MAX_COUNT: usize = 1_000_000;
/// Largest size in bytes: 1 TiB.
const MAX_BYTES: u64 = 1 << 40;

/// A length of time: `10s`, `500ms`, `2m`, `24h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

/// A length of time, or none: `30s`, `0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grace(pub Duration);

/// The name of a header, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header(pub Option<HeaderName>);

/// The address of a Redis server, or none. It is kept out of everything that is printed, since a password may stand in it; and so it takes
/// any text and leaves it to [`Settings::check`](super::settings::Settings::check) whether it is an address: who reads flags and files
/// repeats what it refuses.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RedisUrl(pub Option<String>);

/// How much of what is in a Redis server has to survive its crash: `none`, `every-second`, `always`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Survives(pub Durability);

/// A name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(pub String);

/// A number of things, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count(pub usize);

/// A number of things, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Room(pub usize);

/// A number of bytes: `8KiB`, `32MiB`, `4096`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub usize);

/// Why a value was refused, in words for whoever wrote it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadValue(String);

impl BadValue {
    /// With these words.
    pub fn new(words: String) -> Self {
        Self(words)
    }
}

impl FromStr for Span {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let signed: jiff::SignedDuration = text.trim().parse().map_err(|_| {
            BadValue(format!(
                "`{text}` is no length of time; write 10s, 500ms, 2m or 24h"
            ))
        })?;
        match Duration::try_from(signed) {
            Ok(span) if !span.is_zero() && span <= MAX_SPAN => Ok(Self(span)),
            _ => Err(BadValue(format!(
                "`{text}` is out of range: more than zero, at most a year"
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

impl FromStr for Header {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        HeaderName::try_from(text.trim())
            .map(|name| Self(Some(name)))
            .map_err(|_| BadValue(format!("`{text}` is no name of a header; write x-user")))
    }
}

/// A text that is kept out of everything that is printed, or none. It takes any text: who reads flags and files repeats what it refuses.
macro_rules! hidden {
    ($($Name:ident)*) => { $(
        impl std::str::FromStr for $Name {
            type Err = $crate::cli::values::BadValue;

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

impl FromStr for Survives {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        Ok(Self(match text.trim() {
            "none" => Durability::None,
            "every-second" => Durability::EverySecond,
            "always" => Durability::Always,
            _ => {
                return Err(BadValue(format!(
                    "`{text}` is none of none, every-second, always"
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
                "`{text}` is no count: a whole number from 1 to {MAX_COUNT}"
            ))),
        }
    }
}

impl FromStr for Room {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        match text.trim().parse() {
            Ok(room) if room <= MAX_COUNT => Ok(Self(room)),
            _ => Err(BadValue(format!(
                "`{text}` is no count: a whole number from 0 to {MAX_COUNT}"
            ))),
        }
    }
}

impl FromStr for Size {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let size: bytesize::ByteSize = text.trim().parse().map_err(|_| {
            BadValue(format!(
                "`{text}` is no number of bytes; write 4096, 8KiB or 32MiB"
            ))
        })?;
        match usize::try_from(size.as_u64()) {
            Ok(bytes) if (1..=MAX_BYTES).contains(&size.as_u64()) => Ok(Self(bytes)),
            _ => Err(BadValue(format!(
                "`{text}` is out of range: more than zero, at most 1 TiB"
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

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or("none", HeaderName::as_str).fmt(f)
    }
}

impl fmt::Display for Survives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Durability::Always => "always",
            Durability::EverySecond => "every-second",
            Durability::None | Durability::Unknown => "none",
        }
        .fmt(f)
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

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(usize, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match UNITS.iter().find(|(unit, _)| self.0.is_multiple_of(*unit)) {
            Some((unit, name)) => write!(f, "{}{name}", self.0 / unit),
            None => self.0.fmt(f),
        }
    }
}

/// In a file a value may be a number or a string; both are read as their text is.
pub(super) struct AsText<T>(pub(super) std::marker::PhantomData<T>);

impl<T: FromStr<Err = BadValue>> Visitor<'_> for AsText<T> {
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

macro_rules! deserialize {
    ($($Name:ident)*) => { $(
        impl<'de> serde::Deserialize<'de> for $Name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any($crate::cli::values::AsText(std::marker::PhantomData))
            }
        }
    )* };
}

pub(super) use deserialize;

deserialize! { Span Grace Count Room Size Header RedisUrl Survives Name }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_shown_alike() {
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
        for text in ["none", "every-second", "always"] {
            assert_eq!(text.parse::<Survives>().unwrap().to_string(), text);
        }
        assert_eq!("7".parse::<Count>().unwrap(), Count(7));
        for room in [0, 7] {
            assert_eq!(room.to_string().parse::<Room>().unwrap(), Room(room));
        }
    }

    #[test]
    fn an_address_is_never_shown() {
        let url: RedisUrl = "redis://:s3cret@127.0.0.1".parse().unwrap();
        assert_eq!(format!("{url} {url:?}"), "(not shown) (not shown)");
        assert_eq!(RedisUrl::default().to_string(), "none");
    }

    #[test]
    fn zero_negative_and_huge_values_are_refused() {
        for text in ["0s", "-1s", "10", "", "soon", "9223372036854775807h", "1e400s"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
            assert_eq!(text.parse::<Grace>().is_ok(), text == "0s", "{text}");
        }
        for text in ["", "everysec", "Always", "unknown"] {
            assert!(text.parse::<Survives>().is_err(), "{text}");
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
            assert_eq!(text.parse::<Room>().is_ok(), text == "0", "{text}");
        }
        for text in ["0", "-1", "", "many", "2TiB", "18446744073709551616"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }
}
