//! Schemas of the OpenAPI document that are inferred from serialized values, so that they cannot
//! differ from what the server sends. The packages that define these values do not know OpenAPI.
//!
//! Hidden: only for the packages of this workspace.

use serde_json::Value;
use utoipa::openapi::schema::{
    AllOfBuilder, ArrayBuilder, KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type,
};
use utoipa::openapi::{Ref, RefOr};

/// What a sample cannot show of the member at a path. `""` is the value itself, `/choices/*/index`
/// a member of the objects in an array.
#[derive(Debug)]
pub struct Note {
    pub path: &'static str,
    pub form: Form,
    pub description: &'static str,
}

/// Where the schema of a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// At the member.
    Inline,
    /// Among the components, under this name. A string becomes an enumeration of the sampled
    /// values.
    Component(&'static str),
    /// Among the components, where another type defines it.
    Defined(&'static str),
}

/// Creates a note without a component.
pub const fn note(path: &'static str, description: &'static str) -> Note {
    Note {
        path,
        form: Form::Inline,
        description,
    }
}

/// Creates a note that names a component.
pub const fn component(path: &'static str, name: &'static str, description: &'static str) -> Note {
    Note {
        path,
        form: Form::Component(name),
        description,
    }
}

/// Creates a note that refers to a component of another type.
pub const fn defined(path: &'static str, name: &'static str) -> Note {
    Note {
        path,
        form: Form::Defined(name),
        description: "",
    }
}

/// The named schemas that a schema refers to.
pub type Components = Vec<(String, RefOr<Schema>)>;

/// Returns the schema of a value, and the components that it refers to. All samples match it:
/// members that all of them have are required, and an object without notes on its members may have
/// any. A whole number above 32 bits marks a member that is 64 bits wide.
pub fn infer(samples: &[Value], notes: &[Note]) -> (RefOr<Schema>, Components) {
    let mut components = Components::new();
    let samples: Vec<&Value> = samples.iter().collect();
    let schema = schema(&samples, "", notes, &mut components);
    (schema, components)
}

fn schema(samples: &[&Value], path: &str, notes: &[Note], components: &mut Components) -> RefOr<Schema> {
    let note = notes.iter().find(|note| note.path == path);
    let form = note.map_or(Form::Inline, |note| note.form);
    if let Form::Defined(name) = form {
        return Ref::from_schema_name(name).into();
    }
    let text = note.map(|note| note.description).filter(|text| !text.is_empty());
    let object = ObjectBuilder::new().description(text);
    let inferred: Schema = match samples.first() {
        Some(Value::Object(_)) => members(samples, path, notes, components, object).into(),
        Some(Value::Array(_)) => {
            let items: Vec<&Value> = samples
                .iter()
                .filter_map(|value| value.as_array())
                .flatten()
                .collect();
            let items = schema(&items, &format!("{path}/*"), notes, components);
            ArrayBuilder::new().items(items).description(text).into()
        }
        Some(Value::String(_)) => {
            let object = object.schema_type(Type::String);
            let mut values: Vec<Value> = samples.iter().map(|value| (*value).clone()).collect();
            values.dedup();
            match form {
                Form::Component(_) => object.enum_values(Some(values)).into(),
                Form::Inline | Form::Defined(_) => object.into(),
            }
        }
        Some(Value::Bool(_)) => object.schema_type(Type::Boolean).into(),
        Some(Value::Number(_)) => {
            let whole: Option<Vec<u64>> = samples.iter().map(|value| value.as_u64()).collect();
            let (kind, format, least) = match whole.map(|numbers| numbers.into_iter().max()) {
                Some(Some(most)) if most > u64::from(u32::MAX) => {
                    (Type::Integer, KnownFormat::Int64, Some(0))
                }
                Some(_) => (Type::Integer, KnownFormat::Int32, Some(0)),
                None => (Type::Number, KnownFormat::Double, None),
            };
            let format = Some(SchemaFormat::KnownFormat(format));
            object.schema_type(kind).format(format).minimum(least).into()
        }
        // Nothing is known: any value.
        Some(Value::Null) | None => Schema::AllOf(AllOfBuilder::new().description(text).build()),
    };
    match form {
        Form::Component(name) if !path.is_empty() => {
            components.push((name.to_owned(), inferred.into()));
            Ref::from_schema_name(name).into()
        }
        Form::Component(_) | Form::Inline | Form::Defined(_) => inferred.into(),
    }
}

fn members(
    samples: &[&Value],
    path: &str,
    notes: &[Note],
    components: &mut Components,
    mut object: ObjectBuilder,
) -> ObjectBuilder {
    object = object.schema_type(Type::Object);
    let is_named = notes
        .iter()
        .any(|note| note.path == path && note.form != Form::Inline);
    let below = format!("{path}/");
    if !path.is_empty() && !is_named && !notes.iter().any(|note| note.path.starts_with(&below)) {
        return object;
    }
    let mut names: Vec<&String> = Vec::new();
    for name in samples
        .iter()
        .filter_map(|value| value.as_object())
        .flat_map(|members| members.keys())
    {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    for name in names {
        let values: Vec<&Value> = samples.iter().filter_map(|value| value.get(name)).collect();
        object = object.property(
            name,
            schema(&values, &format!("{path}/{name}"), notes, components),
        );
        if values.len() == samples.len() {
            object = object.required(name);
        }
    }
    object
}

/// Implements the schema of a type by samples of its values.
#[doc(hidden)]
#[macro_export]
macro_rules! sampled_schemas {
    ($($Name:ident, $samples:ident, $notes:expr;)*) => { $(
        pub(crate) struct $Name;

        impl ::utoipa::PartialSchema for $Name {
            fn schema() -> ::utoipa::openapi::RefOr<::utoipa::openapi::Schema> {
                $crate::openapi::samples::infer(&$samples(), $notes).0
            }
        }

        impl ::utoipa::ToSchema for $Name {
            fn name() -> ::std::borrow::Cow<'static, str> {
                stringify!($Name).into()
            }

            fn schemas(schemas: &mut $crate::openapi::samples::Components) {
                schemas.extend($crate::openapi::samples::infer(&$samples(), $notes).1);
            }
        }
    )*
        /// Returns the samples and the notes of all types.
        #[cfg(test)]
        fn sampled() -> Vec<(&'static str, Vec<::serde_json::Value>, &'static [$crate::openapi::samples::Note])> {
            vec![$({
                const NOTES: &[$crate::openapi::samples::Note] = $notes;
                (stringify!($Name), $samples(), NOTES)
            },)*]
        }
    };
}

/// Returns whether `value` has a member at `path`.
pub fn has(value: &Value, path: &str) -> bool {
    let Some(path) = path.strip_prefix('/') else {
        return true;
    };
    let end = path.find('/').unwrap_or(path.len());
    match &path[..end] {
        "*" => value
            .as_array()
            .is_some_and(|items| items.iter().any(|item| has(item, &path[end..]))),
        name => value.get(name).is_some_and(|member| has(member, &path[end..])),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_is_inferred_from_samples() {
        let samples = [
            json!({"id": "a", "kind": "x", "size": 5, "at": 1.5, "list": [], "free": {"a": 1}}),
            json!({"id": "b", "kind": "y", "size": 1_u64 << 40, "at": 2.5, "list": [{"n": 1}], "done": true}),
        ];
        let notes = [
            component("", "Thing", "A thing."),
            note("/id", "Its ID."),
            component("/kind", "Kind", "Its kind."),
            component("/list/*", "Item", "An item."),
            note("/list", "Its items."),
        ];
        let (schema, components) = infer(&samples, &notes);
        let expected = json!({
            "type": "object",
            "description": "A thing.",
            "required": ["id", "kind", "size", "at", "list"],
            "properties": {
                "id": {"type": "string", "description": "Its ID."},
                "kind": {"$ref": "#/components/schemas/Kind"},
                "size": {"type": "integer", "format": "int64", "minimum": 0},
                "at": {"type": "number", "format": "double"},
                "list": {
                    "type": "array",
                    "items": {"$ref": "#/components/schemas/Item"},
                    "description": "Its items.",
                },
                "free": {"type": "object"},
                "done": {"type": "boolean"},
            },
        });
        assert_eq!(serde_json::to_value(schema).unwrap(), expected);
        let components: serde_json::Map<String, Value> = components
            .into_iter()
            .map(|(name, schema)| (name, serde_json::to_value(schema).unwrap()))
            .collect();
        let expected = json!({
            "Kind": {"type": "string", "description": "Its kind.", "enum": ["x", "y"]},
            "Item": {
                "type": "object",
                "description": "An item.",
                "required": ["n"],
                "properties": {"n": {"type": "integer", "format": "int32", "minimum": 0}},
            },
        });
        assert_eq!(Value::Object(components), expected);
    }
}
