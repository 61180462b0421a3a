//! Serialises values as compact JSON to anything that takes text and numbers: a buffer, or a count of
//! bytes. serde_json's serialiser looks for characters to escape byte by byte, which was a third of the
//! instructions of a wire with much text.

use std::fmt;

use serde::ser::{self, Serialize};
use serde_json::{Error, Result};

/// What takes the parts of a value as JSON.
pub(super) trait Output: fmt::Write {
    /// Takes punctuation, or a literal such as `true`.
    fn raw(&mut self, text: &str);

    /// Takes a part of a string, without quotation marks and before it is escaped.
    fn fragment(&mut self, text: &str);

    /// Takes a string that our own code names a member or a variant by: nothing in it is escaped.
    fn name(&mut self, name: &'static str);

    fn number(&mut self, number: Number) -> Result<()>;

    /// Returns where the next part begins.
    fn position(&self) -> usize;

    /// Makes what was written since `from` the name of a member: a number or a boolean gets quotation
    /// marks, anything else but a string is an error.
    fn quote(&mut self, from: usize) -> Result<()>;

    /// Removes the quotation marks of the string that was written since `from`.
    fn unquote(&mut self, from: usize);
}

/// A number, as serde passes it on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Unsigned(u64),
    Signed(i64),
    WideUnsigned(u128),
    WideSigned(i128),
    Single(f32),
    Double(f64),
}

/// The type that serde_json passes its numbers as if its feature `arbitrary_precision` is on, which any
/// program may do: a struct whose only member is a string of digits.
pub(super) const EXACT_NUMBER: &str = "$serde_json::private::Number";

/// A serializer over an output.
pub(super) struct Serializer<'a, O>(pub(super) &'a mut O);

impl<'a, O: Output> Serializer<'a, O> {
    fn raw(self, text: &str) -> Result<()> {
        self.0.raw(text);
        Ok(())
    }

    fn string(self, text: &str) -> Result<()> {
        self.0.raw("\"");
        self.0.fragment(text);
        self.0.raw("\"");
        Ok(())
    }

    /// Begins a list or an object.
    fn begin(self, opening: &str, closing: &'static str) -> Elements<'a, O> {
        self.0.raw(opening);
        Elements {
            output: self.0,
            has_elements: false,
            closing,
            digits_from: None,
        }
    }

    /// Writes `{"variant":`, which a value and `}` follow.
    fn begin_variant(&mut self, variant: &'static str) {
        self.0.raw("{");
        self.0.name(variant);
        self.0.raw(":");
    }
}

/// The elements of a list, or the members of an object.
pub(super) struct Elements<'a, O> {
    output: &'a mut O,
    has_elements: bool,
    closing: &'static str,
    /// The position where an [`EXACT_NUMBER`] begins, if these are its members.
    digits_from: Option<usize>,
}

impl<O: Output> Elements<'_, O> {
    fn separate(&mut self) {
        if self.has_elements {
            self.output.raw(",");
        }
        self.has_elements = true;
    }

    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.separate();
        value.serialize(Serializer(self.output))
    }

    fn member<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<()> {
        if self.digits_from.is_none() {
            self.separate();
            self.output.name(name);
            self.output.raw(":");
        }
        value.serialize(Serializer(self.output))
    }

    fn finish(self) -> Result<()> {
        match self.digits_from {
            Some(from) => self.output.unquote(from),
            None => self.output.raw(self.closing),
        }
        Ok(())
    }
}

macro_rules! numbers {
    ($($method:ident: $type:ty => $number:ident),*) => { $(
        fn $method(self, value: $type) -> Result<()> {
            self.0.number(Number::$number(value.into()))
        }
    )* };
}

impl<'a, O: Output> ser::Serializer for Serializer<'a, O> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Elements<'a, O>;
    type SerializeTuple = Elements<'a, O>;
    type SerializeTupleStruct = Elements<'a, O>;
    type SerializeTupleVariant = Elements<'a, O>;
    type SerializeMap = Elements<'a, O>;
    type SerializeStruct = Elements<'a, O>;
    type SerializeStructVariant = Elements<'a, O>;

    numbers!(
        serialize_u8: u8 => Unsigned,
        serialize_u16: u16 => Unsigned,
        serialize_u32: u32 => Unsigned,
        serialize_u64: u64 => Unsigned,
        serialize_u128: u128 => WideUnsigned,
        serialize_i8: i8 => Signed,
        serialize_i16: i16 => Signed,
        serialize_i32: i32 => Signed,
        serialize_i64: i64 => Signed,
        serialize_i128: i128 => WideSigned,
        serialize_f32: f32 => Single,
        serialize_f64: f64 => Double
    );

    fn serialize_bool(self, value: bool) -> Result<()> {
        self.raw(if value { "true" } else { "false" })
    }

    fn serialize_char(self, value: char) -> Result<()> {
        self.string(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<()> {
        self.string(value)
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<()> {
        self.collect_seq(value)
    }

    fn serialize_none(self) -> Result<()> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<()> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<()> {
        self.raw("null")
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<()> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<()> {
        self.0.name(variant);
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<()> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        mut self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<()> {
        self.begin_variant(variant);
        value.serialize(Serializer(&mut *self.0))?;
        self.raw("}")
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Elements<'a, O>> {
        Ok(self.begin("[", "]"))
    }

    fn serialize_tuple(self, _: usize) -> Result<Elements<'a, O>> {
        Ok(self.begin("[", "]"))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Elements<'a, O>> {
        Ok(self.begin("[", "]"))
    }

    fn serialize_tuple_variant(
        mut self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Elements<'a, O>> {
        self.begin_variant(variant);
        Ok(self.begin("[", "]}"))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Elements<'a, O>> {
        Ok(self.begin("{", "}"))
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Elements<'a, O>> {
        if name == EXACT_NUMBER {
            let digits_from = Some(self.0.position());
            return Ok(Elements {
                digits_from,
                ..self.begin("", "")
            });
        }
        Ok(self.begin("{", "}"))
    }

    fn serialize_struct_variant(
        mut self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Elements<'a, O>> {
        self.begin_variant(variant);
        Ok(self.begin("{", "}}"))
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> Result<()> {
        self.0.raw("\"");
        write!(self.0, "{value}").map_err(ser::Error::custom)?;
        self.raw("\"")
    }
}

macro_rules! lists {
    ($($trait:ident :: $method:ident),*) => { $(
        impl<O: Output> ser::$trait for Elements<'_, O> {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
                self.element(value)
            }

            fn end(self) -> Result<()> {
                self.finish()
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
        impl<O: Output> ser::$trait for Elements<'_, O> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<()> {
                self.member(name, value)
            }

            fn end(self) -> Result<()> {
                self.finish()
            }
        }
    )* };
}

objects!(SerializeStruct, SerializeStructVariant);

impl<O: Output> ser::SerializeMap for Elements<'_, O> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<()> {
        self.separate();
        let from = self.output.position();
        key.serialize(Serializer(self.output))?;
        self.output.quote(from)?;
        self.output.raw(":");
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        value.serialize(Serializer(self.output))
    }

    fn end(self) -> Result<()> {
        self.finish()
    }
}
