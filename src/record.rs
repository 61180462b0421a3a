//! The macro behind every plain record of the vocabulary: one table row gives the struct, its constructor
//! and its setters, so that a field is written down once.

/// The Rust type of a field: a single token, or `[T]` for a list of `T`.
macro_rules! field_type {
    ([$item:ident]) => { Vec<$item> };
    ($ty:ident) => { $ty };
}

/// How a field is taken by constructors and setters: strings and JSON as anything that becomes one, the rest as it is.
macro_rules! field_argument {
    (String) => { impl Into<String> };
    (Value) => { impl Into<Value> };
    ([$item:ident]) => { Vec<$item> };
    ($ty:ident) => { $ty };
}

/// `record! { /// docs  Name { required: Type; optional: Type } }`: required fields are the arguments of `new`, optional
/// ones are `Option` fields with a setter each and are left out of the JSON when absent.
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
            /// Takes the fields that are always there, in the order of the struct.
            #[allow(clippy::new_without_default, reason = "an empty event is still said on purpose")]
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

/// Whether an optional field stays out of the JSON. A number that is none (NaN, infinite) counts as absent,
/// and so does `null`: JSON would spell both `null`, which several clients refuse.
pub(crate) fn absent<T: Optional>(field: &Option<T>) -> bool {
    field.as_ref().is_none_or(|value| !value.has_json())
}

/// Says whether a value has a JSON form of its own.
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
