//! Which parameters of another protocol change nothing, for the check of a request and for its
//! schema.

use serde_json::{Map, Value, json};
use utoipa::openapi::schema::{AdditionalProperties, Object, Schema};

use crate::openapi::schema_of;

/// The values with which a parameter changes nothing. `null` always is one.
#[derive(Debug)]
pub(crate) enum Ignored {
    /// All.
    All,
    /// Whole numbers.
    Integers,
    /// These.
    Values(Vec<Value>),
}

impl Ignored {
    /// One value: the one that the parameter has without being set.
    pub(crate) fn only(value: impl Into<Value>) -> Self {
        Self::Values(vec![value.into()])
    }

    fn has(&self, value: &Value) -> bool {
        value.is_null()
            || match self {
                Self::All => true,
                Self::Integers => value.as_f64().is_some_and(|number| number.fract() == 0.0),
                Self::Values(values) => values.iter().any(|one| is_same(one, value)),
            }
    }

    fn schema(&self) -> Schema {
        schema_of(&match self {
            Self::All => json!({}),
            Self::Integers => json!({"type": ["integer", "null"]}),
            Self::Values(values) => {
                let values: Vec<&Value> = values.iter().chain([&Value::Null]).collect();
                json!({"enum": values})
            }
        })
    }
}

/// Compares values of JSON, where `1` and `1.0` are the same.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

/// Parameters that change nothing with certain values.
#[derive(Debug)]
pub(crate) struct Parameters {
    named: Vec<(&'static str, Ignored)>,
    others: Ignored,
}

impl Parameters {
    /// Creates the list. Parameters that it does not name change nothing with the values `others`.
    pub(crate) fn new(named: impl IntoIterator<Item = (&'static str, Ignored)>, others: Ignored) -> Self {
        Self {
            named: named.into_iter().collect(),
            others,
        }
    }

    /// Returns the name of the first parameter that changes something and that `honours` does not
    /// know.
    pub(crate) fn unsupported<'a>(
        &self,
        parameters: &'a Map<String, Value>,
        honours: impl Fn(&str) -> bool,
    ) -> Option<&'a str> {
        let is_supported = |(name, value): &(&String, &Value)| self.ignores(name, value) || honours(name);
        let (name, _) = parameters.iter().find(|parameter| !is_supported(parameter))?;
        Some(name)
    }

    fn ignores(&self, name: &str, value: &Value) -> bool {
        let named = self.named.iter().find(|(other, _)| *other == name);
        named.map_or(&self.others, |(_, ignored)| ignored).has(value)
    }

    /// Adds the parameters to the schema of an object, beside those that are honoured.
    pub(crate) fn describe(&self, object: &mut Object, honoured: &[(&str, Schema)]) {
        let honoured = honoured.iter().map(|(name, schema)| (*name, schema.clone()));
        let ignored = self.named.iter().map(|(name, ignored)| (*name, ignored.schema()));
        for (name, schema) in honoured.chain(ignored) {
            let property = object.properties.entry(name.to_owned());
            property.or_insert_with(|| schema.into());
        }
        let others = AdditionalProperties::RefOr(self.others.schema().into());
        object.additional_properties = Some(Box::new(others));
    }
}
