//! Runs scripts as Redis does: in Lua 5.1, with `KEYS`, `ARGV` and `redis.call`.

use std::cell::RefCell;
use std::collections::HashMap;

use mlua::{Function, Lua, Value};

use super::server::{Bytes, Reply};

thread_local! {
    static LUA: Lua = Lua::new();
    /// Compiled scripts by their SHA-1.
    static COMPILED: RefCell<HashMap<String, Function>> = RefCell::default();
}

/// Runs a script, whose commands `execute` answers. The error is an error reply: that of the command
/// that ended the script, as in Redis 7.
pub(super) fn run(
    hash: &str,
    source: &str,
    keys: &[Bytes],
    args: &[Bytes],
    mut execute: impl FnMut(&[Bytes]) -> Reply,
) -> Result<Reply, String> {
    let mut refused = None;
    let result = LUA.with(|lua| {
        let mut run = || -> mlua::Result<Reply> {
            let known = COMPILED.with_borrow(|compiled| compiled.get(hash).cloned());
            let script = match known {
                Some(script) => script,
                None => {
                    let script = lua.load(source).into_function()?;
                    COMPILED.with_borrow_mut(|compiled| compiled.insert(hash.to_owned(), script.clone()));
                    script
                }
            };
            let list = |words: &[Bytes]| -> mlua::Result<_> {
                let strings: mlua::Result<Vec<_>> =
                    words.iter().map(|word| lua.create_string(word)).collect();
                lua.create_sequence_from(strings?)
            };
            lua.globals().set("KEYS", list(keys)?)?;
            lua.globals().set("ARGV", list(args)?)?;
            lua.scope(|scope| {
                let call = scope.create_function_mut(|lua, words: mlua::Variadic<mlua::LuaString>| {
                    let words: Vec<Bytes> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
                    let reply = execute(&words);
                    if let Reply::Error(error) = &reply {
                        refused = Some(error.clone());
                    }
                    to_lua(lua, reply)
                })?;
                let redis = lua.create_table()?;
                redis.set("call", call)?;
                lua.globals().set("redis", redis)?;
                from_lua(&script.call(())?)
            })
        };
        run().map_err(|error| format!("ERR {}", error.to_string().replace(['\r', '\n'], " ")))
    });
    result.map_err(|error| refused.unwrap_or(error))
}

fn to_lua(lua: &Lua, reply: Reply) -> mlua::Result<Value> {
    Ok(match reply {
        Reply::Ok | Reply::Queued => {
            let status = lua.create_table()?;
            status.set("ok", "OK")?;
            Value::Table(status)
        }
        Reply::Nil | Reply::Blocked(_) => Value::Boolean(false),
        Reply::Number(number) => Value::Number(number as f64),
        Reply::Text(text) => Value::String(lua.create_string(text)?),
        Reply::List(list) => {
            let values: mlua::Result<Vec<_>> = list.into_iter().map(|reply| to_lua(lua, reply)).collect();
            Value::Table(lua.create_sequence_from(values?)?)
        }
        Reply::Error(error) => return Err(mlua::Error::runtime(error)),
    })
}

fn from_lua(value: &Value) -> mlua::Result<Reply> {
    Ok(match value {
        Value::Nil | Value::Boolean(false) => Reply::Nil,
        Value::Boolean(true) => Reply::Number(1),
        Value::Integer(number) => Reply::Number(*number),
        // As in Redis, the fraction is lost.
        Value::Number(number) => Reply::Number(*number as i64),
        Value::String(text) => Reply::Text(text.as_bytes().to_vec()),
        // As in Redis, a list ends at its first `nil`.
        Value::Table(list) => {
            let values = list.sequence_values::<Value>().map(|value| from_lua(&value?));
            Reply::List(values.collect::<mlua::Result<_>>()?)
        }
        other => return Err(mlua::Error::runtime(format!("unexpected {}", other.type_name()))),
    })
}
