//! The length of a value as JSON, estimated: strings and numbers are counted, not written.

use std::fmt;

use serde::Serialize;

use super::serializer::{Number, Output, Serializer};

/// A value as JSON is at most this many times as long as its estimate: an escaped byte of a string
/// takes six bytes, and a floating-point number at most three times [`FLOAT_BYTES`].
pub(super) const MAX_GROWTH: usize = 6;

/// The length of a floating-point number. Scores and durations have four to ten digits.
const FLOAT_BYTES: usize = 8;

/// Returns the length of `value` as JSON, without escapes and with [`FLOAT_BYTES`] for each
/// floating-point number. A value that refuses to be serialized counts as far as it went.
pub(crate) fn estimate(value: &impl Serialize) -> usize {
    let mut length = Length(0);
    let _ = value.serialize(Serializer(&mut length));
    length.0
}

struct Length(usize);

impl Length {
    fn integer(&mut self, magnitude: u128, is_negative: bool) {
        let digits = magnitude.checked_ilog10().unwrap_or(0) as usize + 1;
        self.0 += digits + usize::from(is_negative);
    }
}

impl fmt::Write for Length {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

impl Output for Length {
    fn raw(&mut self, text: &str) {
        self.0 += text.len();
    }

    fn fragment(&mut self, text: &str) {
        self.0 += text.len();
    }

    fn name(&mut self, name: &'static str) {
        self.0 += name.len() + r#""""#.len();
    }

    fn number(&mut self, number: Number) -> serde_json::Result<()> {
        match number {
            Number::Unsigned(value) => self.integer(value.into(), false),
            Number::Signed(value) => self.integer(value.unsigned_abs().into(), value < 0),
            Number::WideUnsigned(value) => self.integer(value, false),
            Number::WideSigned(value) => self.integer(value.unsigned_abs(), value < 0),
            Number::Single(_) | Number::Double(_) => self.0 += FLOAT_BYTES,
        }
        Ok(())
    }

    fn position(&self) -> usize {
        self.0
    }

    // Neither is looked for: a name that is a number or a boolean is within the growth.
    fn quote(&mut self, _: usize) -> serde_json::Result<()> {
        Ok(())
    }

    fn unquote(&mut self, _: usize) {}
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::time::Timestamp;

    /// Any value without floating-point numbers and without characters that are escaped.
    fn plain_json() -> impl Strategy<Value = Value> {
        let text = "[a-zA-Zäß€😀 ]{0,12}";
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            text.prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 8, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::vec((text, inner), 0..8)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_estimate_is_exact_without_escapes_and_floats(value in plain_json()) {
            prop_assert_eq!(estimate(&value), serde_json::to_vec(&value).unwrap().len());
        }

        #[test]
        fn the_estimate_is_not_exceeded_by_more_than_its_bound(text in ".{0,40}", number: f64) {
            let value = json!({ &text: [number, &text] });
            let length = crate::json::length(&value).unwrap();
            prop_assert!(length <= estimate(&value) * MAX_GROWTH, "{length}");
        }
    }

    #[test]
    fn every_shape_of_serde_is_counted() {
        #[derive(serde::Serialize)]
        enum Shape {
            Unit,
            Newtype(i8),
            Tuple(u8, char),
            Struct { a: Option<u8>, b: &'static str },
        }
        for shape in [
            Shape::Unit,
            Shape::Newtype(-100),
            Shape::Tuple(200, 'x'),
            Shape::Struct { a: None, b: "c" },
        ] {
            assert_eq!(estimate(&shape), serde_json::to_vec(&shape).unwrap().len());
        }
        let moment = Timestamp::from_micros(1_767_323_045_678_000);
        let value = (u128::MAX, moment, ());
        assert_eq!(estimate(&value), serde_json::to_vec(&value).unwrap().len());
        let numbers = (0_i8, i64::MIN, 0_i128, -1_i128, i128::MIN, i128::MAX);
        assert_eq!(estimate(&numbers), serde_json::to_vec(&numbers).unwrap().len());
        assert_eq!(estimate(&[0.5, 0.123_456]), "[,]".len() + 2 * FLOAT_BYTES);
    }
}
