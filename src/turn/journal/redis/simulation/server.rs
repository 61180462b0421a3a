//! A Redis server in memory: the commands that the journal sends, on the runtime's clock. It runs
//! the journal's scripts in Lua 5.1, as Redis does, so no script is written twice.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::lua;

pub(super) type Bytes = Vec<u8>;
type EntryId = (u64, u64);
type Stream = BTreeMap<EntryId, Vec<Bytes>>;

/// The answer to one command.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reply {
    Ok,
    Queued,
    Nil,
    Number(i64),
    Text(Bytes),
    List(Vec<Self>),
    Error(String),
    /// A blocking read that finds nothing: ask again when data has changed, until then.
    Blocked(Instant),
}

#[derive(Clone)]
enum Value {
    Text(Bytes),
    Hash(BTreeMap<Bytes, Bytes>),
    /// The entries and the ID of the newest one ever added.
    Stream(Stream, EntryId),
}

#[derive(Clone)]
struct Stored {
    value: Value,
    expires: Option<Instant>,
}

#[derive(Clone)]
pub(super) struct Server {
    keys: BTreeMap<Bytes, Stored>,
    /// The loaded scripts by their SHA-1.
    pub(super) scripts: BTreeMap<String, String>,
    /// Whether it answers reads and refuses writes, as a replica does.
    pub(super) is_read_only: bool,
    started: Instant,
}

impl Server {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            keys: BTreeMap::new(),
            scripts: BTreeMap::new(),
            is_read_only: false,
            started: now,
        }
    }

    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// Returns the keys that have not expired.
    pub(super) fn keys(&mut self, now: Instant) -> Vec<String> {
        self.expire(now);
        let names = self.keys.keys();
        names
            .map(|key| String::from_utf8_lossy(key).into_owned())
            .collect()
    }

    /// Returns the keys that would stay for ever.
    pub(super) fn without_expiry(&self) -> Vec<String> {
        let forever = self.keys.iter().filter(|(_, stored)| stored.expires.is_none());
        forever
            .map(|(key, _)| String::from_utf8_lossy(key).into_owned())
            .collect()
    }

    /// Returns the turns that have ended although their host holds a lease.
    pub(super) fn ended_with_lease(&mut self, now: Instant) -> Vec<String> {
        self.expire(now);
        let leases = self.keys(now).into_iter().filter(|key| key.ends_with(":lease"));
        leases
            .filter(|lease| self.is_over(lease.trim_end_matches("}:lease")))
            .collect()
    }

    /// Returns whether the turn whose key contains `part` has ended.
    pub(super) fn is_over(&self, part: &str) -> bool {
        let mut turns = self.keys.iter().filter_map(|(key, stored)| match &stored.value {
            Value::Hash(hash) if String::from_utf8_lossy(key).contains(part) => Some(hash),
            _ => None,
        });
        turns.any(|hash| hash.get(&b"over"[..]).is_some_and(|over| over == b"1"))
    }

    /// Returns the length of the longest stream whose key contains `part`.
    pub(super) fn longest(&self, part: &str) -> usize {
        let lengths = self.keys.iter().filter_map(|(key, stored)| match &stored.value {
            Value::Stream(entries, _) if String::from_utf8_lossy(key).contains(part) => Some(entries.len()),
            _ => None,
        });
        lengths.max().unwrap_or(0)
    }

    fn expire(&mut self, now: Instant) {
        self.keys
            .retain(|_, stored| stored.expires.is_none_or(|at| at > now));
    }

    pub(super) fn execute(&mut self, now: Instant, command: &[Bytes]) -> Reply {
        self.expire(now);
        let name = String::from_utf8_lossy(&command[0]).to_ascii_uppercase();
        self.run(now, &name, &command[1..]).unwrap_or_else(Reply::Error)
    }

    fn run(&mut self, now: Instant, name: &str, args: &[Bytes]) -> Result<Reply, String> {
        if self.is_read_only && WRITES.contains(&name) {
            return Err("READONLY You can't write against a read only replica.".to_owned());
        }
        let key = args.first().cloned().unwrap_or_default();
        Ok(match name {
            "CLIENT" => Reply::Ok,
            "INFO" => Reply::Text(
                b"redis_version:7.0.15\r\nrole:master\r\naof_enabled:1\r\nmaxmemory:0\r\n".to_vec(),
            ),
            "CONFIG" => Reply::List(vec![text("appendfsync"), text("always")]),
            "SCRIPT" => {
                let source = String::from_utf8_lossy(&args[1]).into_owned();
                let hash = redis::Script::new(&source).get_hash().to_owned();
                self.scripts.insert(hash.clone(), source);
                text(&hash)
            }
            "EVALSHA" => {
                let hash = String::from_utf8_lossy(&args[0]).into_owned();
                let source = self.scripts.get(&hash).cloned();
                let source = source.ok_or("NOSCRIPT No matching script. Please use EVAL.")?;
                let (keys, rest) = args[2..].split_at(number(&args[1]) as usize);
                lua::run(&hash, &source, keys, rest, |command| self.execute(now, command))?
            }
            "EXISTS" => Reply::Number(self.keys.contains_key(&key).into()),
            "DEL" => Reply::Number(self.keys.remove(&key).is_some().into()),
            "GET" => match self.keys.get(&key) {
                Some(Stored {
                    value: Value::Text(value),
                    ..
                }) => Reply::Text(value.clone()),
                Some(_) => return Err(WRONG_TYPE.to_owned()),
                None => Reply::Nil,
            },
            "SET" => {
                let expires = match args.get(2).map(Vec::as_slice) {
                    Some(b"PX") => Some(now + Duration::from_millis(positive(&args[3])?)),
                    _ => None,
                };
                let value = Value::Text(args[1].clone());
                self.keys.insert(key, Stored { value, expires });
                Reply::Ok
            }
            "PEXPIRE" => {
                let at = now + Duration::from_millis(positive(&args[1])?);
                let stored = self.keys.get_mut(&key);
                Reply::Number(stored.map(|stored| stored.expires = Some(at)).is_some().into())
            }
            "PTTL" => Reply::Number(match self.keys.get(&key).map(|stored| stored.expires) {
                None => -2,
                Some(None) => -1,
                Some(Some(at)) => at.duration_since(now).as_millis() as i64,
            }),
            "HSET" => {
                let hash = self.hash(&key)?;
                for pair in args[1..].chunks(2) {
                    hash.insert(pair[0].clone(), pair[1].clone());
                }
                Reply::Number(1)
            }
            "HGET" => self.fields(&key, &args[1..])?.remove(0),
            "HMGET" => Reply::List(self.fields(&key, &args[1..])?),
            "XLEN" => Reply::Number(self.stream(&key)?.map_or(0, |(entries, _)| entries.len() as i64)),
            "XADD" => self.add(now, &key, &args[1..])?,
            "XTRIM" => {
                let first = entry_id(&args[3]);
                if let Some((entries, _)) = self.stream(&key)? {
                    *entries = entries.split_off(&first);
                }
                Reply::Number(0)
            }
            "XRANGE" => {
                let (first, most) = (entry_id(&args[1]), number(&args[4]) as usize);
                let found = self.stream(&key)?;
                let found = found.map(|(entries, _)| entries.range(first..).take(most).map(entry).collect());
                Reply::List(found.unwrap_or_default())
            }
            // Only from the newest entry on.
            "XREVRANGE" => {
                let most = number(&args[4]) as usize;
                let found = self.stream(&key)?;
                let found = found.map(|(entries, _)| entries.iter().rev().take(most).map(entry).collect());
                Reply::List(found.unwrap_or_default())
            }
            "XREAD" => self.read(now, args)?,
            _ => return Err(format!("ERR unknown command '{name}'")),
        })
    }

    fn hash(&mut self, key: &Bytes) -> Result<&mut BTreeMap<Bytes, Bytes>, String> {
        let stored = self.keys.entry(key.clone()).or_insert_with(|| Stored {
            value: Value::Hash(BTreeMap::new()),
            expires: None,
        });
        match &mut stored.value {
            Value::Hash(hash) => Ok(hash),
            Value::Text(_) | Value::Stream(..) => Err(WRONG_TYPE.to_owned()),
        }
    }

    fn fields(&mut self, key: &Bytes, names: &[Bytes]) -> Result<Vec<Reply>, String> {
        if !self.keys.contains_key(key) {
            return Ok(vec![Reply::Nil; names.len()]);
        }
        let hash = self.hash(key)?;
        let field = |name| {
            hash.get(name)
                .map_or(Reply::Nil, |value| Reply::Text(value.clone()))
        };
        Ok(names.iter().map(field).collect())
    }

    fn stream(&mut self, key: &Bytes) -> Result<Option<(&mut Stream, &mut EntryId)>, String> {
        match self.keys.get_mut(key).map(|stored| &mut stored.value) {
            Some(Value::Stream(entries, last)) => Ok(Some((entries, last))),
            Some(_) => Err(WRONG_TYPE.to_owned()),
            None => Ok(None),
        }
    }

    fn add(&mut self, now: Instant, key: &Bytes, args: &[Bytes]) -> Result<Reply, String> {
        let args = match args {
            [option, ..] if *option == b"NOMKSTREAM" && !self.keys.contains_key(key) => {
                return Ok(Reply::Nil);
            }
            [option, rest @ ..] if *option == b"NOMKSTREAM" => rest,
            args => args,
        };
        let (most, args) = match &*args[0] {
            b"MAXLEN" => (number(&args[2]) as usize, &args[3..]),
            _ => (usize::MAX, args),
        };
        let millis = now.duration_since(self.started).as_millis() as u64;
        let stored = self.keys.entry(key.clone()).or_insert_with(|| Stored {
            value: Value::Stream(Stream::new(), (0, 0)),
            expires: None,
        });
        let Value::Stream(entries, last) = &mut stored.value else {
            return Err(WRONG_TYPE.to_owned());
        };
        let id = match &*args[0] {
            b"*" if millis > last.0 => (millis, 0),
            b"*" => (last.0, last.1 + 1),
            id => entry_id(id),
        };
        if id <= *last {
            return Err(
                "ERR The ID specified in XADD is equal or smaller than the target stream top item".into(),
            );
        }
        *last = id;
        entries.insert(id, args[1..].to_vec());
        while entries.len() > most {
            entries.pop_first();
        }
        Ok(text(&format!("{}-{}", id.0, id.1)))
    }

    /// `COUNT n BLOCK ms STREAMS key... id...`
    fn read(&mut self, now: Instant, args: &[Bytes]) -> Result<Reply, String> {
        let most = number(&args[1]) as usize;
        let until = now + Duration::from_millis(number(&args[3]));
        let (keys, ids) = args[5..].split_at((args.len() - 5) / 2);
        let mut found = Vec::new();
        for (key, id) in keys.iter().zip(ids) {
            let (first, second) = entry_id(id);
            let Some((entries, _)) = self.stream(key)? else {
                continue;
            };
            let new: Vec<_> = entries
                .range((first, second + 1)..)
                .take(most)
                .map(entry)
                .collect();
            if !new.is_empty() {
                found.push(Reply::List(vec![Reply::Text(key.clone()), Reply::List(new)]));
            }
        }
        Ok(if found.is_empty() {
            Reply::Blocked(until)
        } else {
            Reply::List(found)
        })
    }
}

/// The commands that change data.
const WRITES: [&str; 6] = ["DEL", "HSET", "PEXPIRE", "SET", "XADD", "XTRIM"];

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

fn entry((id, fields): (&EntryId, &Vec<Bytes>)) -> Reply {
    let fields = fields.iter().map(|field| Reply::Text(field.clone())).collect();
    Reply::List(vec![text(&format!("{}-{}", id.0, id.1)), Reply::List(fields)])
}

fn text(text: &str) -> Reply {
    Reply::Text(text.into())
}

fn number(text: &[u8]) -> u64 {
    let text = std::str::from_utf8(text).unwrap_or_default();
    text.parse().unwrap_or_else(|_| panic!("not a number: {text:?}"))
}

/// Parses a time to live. Redis refuses 0.
fn positive(text: &[u8]) -> Result<u64, String> {
    match number(text) {
        0 => Err("ERR invalid expire time in 'set' command".to_owned()),
        millis => Ok(millis),
    }
}

fn entry_id(text: &[u8]) -> EntryId {
    let text = std::str::from_utf8(text).unwrap_or_default();
    let (first, second) = text.split_once('-').unwrap_or((text, "0"));
    (number(first.as_bytes()), number(second.as_bytes()))
}

impl Reply {
    /// Writes the reply as the protocol does (RESP2).
    pub(super) fn write(&self, out: &mut Bytes) {
        match self {
            Self::Ok => out.extend_from_slice(b"+OK\r\n"),
            Self::Queued => out.extend_from_slice(b"+QUEUED\r\n"),
            Self::Nil | Self::Blocked(_) => out.extend_from_slice(b"*-1\r\n"),
            Self::Number(number) => out.extend_from_slice(format!(":{number}\r\n").as_bytes()),
            Self::Text(text) => {
                out.extend_from_slice(format!("${}\r\n", text.len()).as_bytes());
                out.extend_from_slice(text);
                out.extend_from_slice(b"\r\n");
            }
            Self::List(list) => {
                out.extend_from_slice(format!("*{}\r\n", list.len()).as_bytes());
                list.iter().for_each(|reply| reply.write(out));
            }
            Self::Error(error) => out.extend_from_slice(format!("-{error}\r\n").as_bytes()),
        }
    }
}

/// Takes the first complete command out of `buffer`.
pub(super) fn take_command(buffer: &mut Bytes) -> Option<Vec<Bytes>> {
    let mut at = 0;
    let line = |buffer: &Bytes, mark: u8, at: &mut usize| {
        let end = buffer[*at..].windows(2).position(|pair| pair == b"\r\n")? + *at;
        assert_eq!(buffer[*at], mark, "not a command");
        let count = number(&buffer[*at + 1..end]) as usize;
        *at = end + 2;
        Some(count)
    };
    let count = line(buffer, b'*', &mut at)?;
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let length = line(buffer, b'$', &mut at)?;
        words.push(buffer.get(at..at + length + 2)?[..length].to_vec());
        at += length + 2;
    }
    buffer.drain(..at);
    Some(words)
}

mod tests {
    use super::*;

    fn run(server: &mut Server, now: Instant, script: &str, keys: &[&str], args: &[&str]) -> Reply {
        let words = |words: &[&str]| {
            words
                .iter()
                .map(|word| word.as_bytes().to_vec())
                .collect::<Vec<_>>()
        };
        let Reply::Text(hash) = server.execute(now, &words(&["SCRIPT", "LOAD", script])) else {
            panic!("no hash");
        };
        let hash = String::from_utf8(hash).unwrap();
        let count = keys.len().to_string();
        server.execute(now, &words(&[&["EVALSHA", &hash, &count], keys, args].concat()))
    }

    /// The simulation almost never meets a lease that is renewed in the moment in which a host ends its
    /// turn.
    #[tokio::test(start_paused = true)]
    async fn a_turn_with_a_lease_is_ended_by_no_other_host() {
        let (begin, fence) = (
            include_str!("../keys/lua/begin.lua"),
            concat!(
                include_str!("../keys/lua/next.lua"),
                include_str!("../keys/lua/fence.lua")
            ),
        );
        let (begun, mut server) = (Instant::now(), Server::new(Instant::now()));
        let arguments = ["alice", "host", "0", "id", "60000", "1000"];
        let reply = run(
            &mut server,
            begun,
            begin,
            &["{id}:turn", "{id}:lease", ""],
            &arguments,
        );
        assert_eq!(reply, text("ok"));
        let mut end = |after: u64| {
            let now = begun + Duration::from_millis(after);
            let keys = ["{id}:turn", "{id}:frames", "{id}:lease"];
            run(&mut server, now, fence, &keys, &["1", "0", "the end", "60000"])
        };
        assert_eq!(end(999), Reply::Number(0));
        assert_eq!(end(1000), Reply::Number(1));
        assert_eq!(end(1001), Reply::Number(0), "it has ended");
        assert_eq!((server.is_over("id"), server.longest("frames")), (true, 1));
    }
}
