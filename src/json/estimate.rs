//! The length of a value as JSON, estimated: strings and numbers are counted, not written.

use std::fmt::{self, Write as _};

use serde::ser::{self, Serialize};
use serde_json::{Error, Result};

/// A value as JSON is at most this many times as long as its estimate: an escaped byte of a string
/// takes six bytes, and a floating-point number at most three times [`FLOAT_BYTES`].
pub(super) const MAX_GROWTH: usize = 6;

/// The length of a floating-point number. Scores and durations have four to ten digits.
const FLOAT_BYTES: usize = 8;

/// Returns the length of `value` as JSON, without escapes and with [`FLOAT_BYTES`] for each
/// floating-point number. A value that refuses to be serialized counts as far as it went.
pub(crate) fn estimate(value: &impl Serialize) -> usize {
    let mut length = Length(0);
    let _ = value.serialize(&mut length);
    length.0
}

struct Length(usize);

impl Length {
    fn add(&mut self, bytes: usize) -> Result<()> {
        self.0 += bytes;
        Ok(())
    }

    fn integer(&mut self, magnitude: u128, is_negative: bool) -> Result<()> {
        let digits = magnitude.checked_ilog10().unwrap_or(0) as usize + 1;
        self.add(digits + usize::from(is_negative))
    }

    fn string(&mut self, text: &str) -> Result<()> {
        self.add(text.len() + r#""""#.len())
    }

    /// Begins a list or an object.
    fn begin(&mut self) -> Result<Elements<'_>> {
        self.add("[]".len())?;
        Ok(Elements {
            length: self,
            has_elements: false,
        })
    }

    /// Begins `{"variant":…`, whose value follows.
    fn begin_variant(&mut self, variant: &str) -> Result<()> {
        self.add("{:}".len())?;
        self.string(variant)
    }
}

/// The elements of a list, or the members of an object.
struct Elements<'a> {
    length: &'a mut Length,
    has_elements: bool,
}

impl Elements<'_> {
    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.length.0 += usize::from(self.has_elements);
        self.has_elements = true;
        value.serialize(&mut *self.length)
    }

    fn member<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<()> {
        self.element(name)?;
        self.length.0 += ":".len();
        value.serialize(&mut *self.length)
    }
}

macro_rules! integers {
    ($($method:ident: $type:ty),*) => { $(
        fn $method(self, value: $type) -> Result<()> {
            self.integer(u128::from(value), false)
        }
    )* };
}

macro_rules! signed_integers {
    ($($method:ident: $type:ty),*) => { $(
        fn $method(self, value: $type) -> Result<()> {
            self.integer(value.unsigned_abs().into(), value < 0)
        }
    )* };
}

impl<'a> ser::Serializer for &'a mut Length {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Elements<'a>;
    type SerializeTuple = Elements<'a>;
    type SerializeTupleStruct = Elements<'a>;
    type SerializeTupleVariant = Elements<'a>;
    type SerializeMap = Elements<'a>;
    type SerializeStruct = Elements<'a>;
    type SerializeStructVariant = Elements<'a>;

    integers!(serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_u128: u128);
    signed_integers!(serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128);

    fn serialize_bool(self, value: bool) -> Result<()> {
        self.add(if value { "true" } else { "false" }.len())
    }

    fn serialize_f32(self, _: f32) -> Result<()> {
        self.add(FLOAT_BYTES)
    }

    fn serialize_f64(self, _: f64) -> Result<()> {
        self.add(FLOAT_BYTES)
    }

    fn serialize_char(self, value: char) -> Result<()> {
        self.add(value.len_utf8() + r#""""#.len())
    }

    fn serialize_str(self, value: &str) -> Result<()> {
        self.string(value)
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<()> {
        // A list of numbers of at most three digits.
        self.add("[]".len() + value.len() * "255,".len())
    }

    fn serialize_none(self) -> Result<()> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<()> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<()> {
        self.add("null".len())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<()> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<()> {
        self.string(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<()> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<()> {
        self.begin_variant(variant)?;
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Elements<'a>> {
        self.begin()
    }

    fn serialize_tuple(self, _: usize) -> Result<Elements<'a>> {
        self.begin()
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Elements<'a>> {
        self.begin()
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Elements<'a>> {
        self.begin_variant(variant)?;
        self.begin()
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Elements<'a>> {
        self.begin()
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Elements<'a>> {
        self.begin()
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Elements<'a>> {
        self.begin_variant(variant)?;
        self.begin()
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> Result<()> {
        struct Written<'a>(&'a mut Length);
        impl fmt::Write for Written<'_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0.0 += text.len();
                Ok(())
            }
        }
        self.add(r#""""#.len())?;
        write!(Written(self), "{value}").map_err(ser::Error::custom)
    }
}

macro_rules! lists {
    ($($trait:ident :: $method:ident),*) => { $(
        impl ser::$trait for Elements<'_> {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
                self.element(value)
            }

            fn end(self) -> Result<()> {
                Ok(())
            }
        }
    )* };
}

lists!(
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field
);

macro_rules! objects {
    ($($trait:ident),*) => { $(
        impl ser::$trait for Elements<'_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<()> {
                self.member(name, value)
            }

            fn end(self) -> Result<()> {
                Ok(())
            }
        }
    )* };
}

objects!(SerializeStruct, SerializeStructVariant);

impl ser::SerializeMap for Elements<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<()> {
        self.element(key)?;
        self.length.add(":".len())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        value.serialize(&mut *self.length)
    }

    fn end(self) -> Result<()> {
        Ok(())
    }
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
    }
}
