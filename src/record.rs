//! The macro that defines the records of the vocabulary: one row gives the struct, its constructor
//! and its setters, so that each field is written once.

/// The Rust type of a field: a single token, or `[T]` for a list of `T`.
macro_rules! field_type {
    ([$item:ident]) => { Vec<$item> };
    ($ty:ident) => { $ty };
}

/// The argument type of a field: `impl Into` for strings and JSON, the type itself for all others.
macro_rules! field_argument {
    (String) => { impl Into<String> };
    (Value) => { impl Into<Value> };
    ([$item:ident]) => { Vec<$item> };
    ($ty:ident) => { $ty };
}

/// `record! { /// docs  Name { required: Type; optional: Type } }` defines a struct. Required
/// fields are the arguments of `new`. Optional ones are `Option` fields with a setter, and absent
/// ones are not in the JSON.
macro_rules! record {
    ($(
        $(#[$meta:meta])*
        $Name:ident {
            $($(#[$required_meta:meta])* $required:ident : $required_type:tt),* $(,)?
            $(; $($(#[$optional_meta:meta])* $optional:ident : $optional_type:tt),* $(,)?)?
        }
    )*) => { $(
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[non_exhaustive]
        pub struct $Name {
            $($(#[$required_meta])* pub $required: $crate::record::field_type!($required_type),)*
            $($(
                $(#[$optional_meta])*
                #[serde(default, skip_serializing_if = "crate::record::absent")]
                pub $optional: Option<$crate::record::field_type!($optional_type)>,
            )*)?
        }

        impl $Name {
            /// Creates the record from its required fields, in the order of the struct.
            #[allow(clippy::new_without_default, reason = "even an empty event is created on purpose")]
            pub fn new($($required: $crate::record::field_argument!($required_type)),*) -> Self {
                Self {
                    $($required: $required.into(),)*
                    $($($optional: None,)*)?
                }
            }

            $($(
                $(#[$optional_meta])*
                #[must_use]
                pub fn $optional(mut self, $optional: $crate::record::field_argument!($optional_type)) -> Self {
                    self.$optional = Some($optional.into());
                    self
                }
            )*)?
        }
    )* };
}

pub(crate) use {field_argument, field_type, record};

/// Returns `true` if an optional field is not written to the JSON. NaN, infinite numbers and `null`
/// count as absent: JSON would write them as `null`, which several clients reject.
pub(crate) fn absent<T: Optional>(field: &Option<T>) -> bool {
    field.as_ref().is_none_or(|value| !value.has_json())
}

/// A value that may have no JSON form.
pub(crate) trait Optional {
    fn has_json(&self) -> bool {
        true
    }
}

impl Optional for f64 {
    fn has_json(&self) -> bool {
        self.is_finite()
    }
}
impl Optional for String {}
impl Optional for bool {}
impl Optional for u32 {}
impl Optional for u64 {}
impl Optional for serde_json::Value {
    fn has_json(&self) -> bool {
        !self.is_null()
    }
}
impl<T> Optional for Vec<T> {}
