//! GGUF files (version 3) as llama.cpp reads them, for models that a test generates.
//!
//! It writes what the caller requests, also files that no loader accepts: the caller chooses the
//! keys and the names of the tensors. Random tensors are generated while they are written, so a
//! model may be larger than the memory.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::seed::Seed;

const VERSION: u32 = 3;
/// The alignment of tensors, unless the file sets another one.
const ALIGNMENT: u64 = 32;

/// The value of a metadata key.
#[derive(Clone, Debug)]
pub enum Value {
    /// An unsigned integer.
    U32(u32),
    /// A signed integer.
    I32(i32),
    /// A floating-point number.
    F32(f32),
    /// A boolean.
    Bool(bool),
    /// A string.
    Text(String),
    /// An array of strings.
    Texts(Vec<String>),
    /// An array of signed integers.
    I32s(Vec<i32>),
    /// An array of floating-point numbers.
    F32s(Vec<f32>),
}

impl Value {
    /// Returns its `GGUF_TYPE_*`; for an array, that of its elements.
    fn kind(&self) -> u32 {
        match self {
            Self::U32(_) => 4,
            Self::I32(_) | Self::I32s(_) => 5,
            Self::F32(_) | Self::F32s(_) => 6,
            Self::Bool(_) => 7,
            Self::Text(_) | Self::Texts(_) => 8,
        }
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let array = |out: &mut dyn Write, length: usize| {
            out.write_all(&9_u32.to_le_bytes())?;
            out.write_all(&self.kind().to_le_bytes())?;
            out.write_all(&(length as u64).to_le_bytes())
        };
        match self {
            Self::Texts(texts) => array(out, texts.len())?,
            Self::I32s(numbers) => array(out, numbers.len())?,
            Self::F32s(numbers) => array(out, numbers.len())?,
            _ => out.write_all(&self.kind().to_le_bytes())?,
        }
        match self {
            Self::U32(number) => out.write_all(&number.to_le_bytes()),
            Self::I32(number) => out.write_all(&number.to_le_bytes()),
            Self::F32(number) => out.write_all(&number.to_le_bytes()),
            Self::Bool(yes) => out.write_all(&[u8::from(*yes)]),
            Self::Text(text) => write_text(out, text),
            Self::Texts(texts) => texts.iter().try_for_each(|text| write_text(out, text)),
            Self::I32s(numbers) => numbers
                .iter()
                .try_for_each(|number| out.write_all(&number.to_le_bytes())),
            Self::F32s(numbers) => numbers
                .iter()
                .try_for_each(|number| out.write_all(&number.to_le_bytes())),
        }
    }
}

/// The format in which a random tensor is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 32 bits per number.
    F32,
    /// 16 bits per number.
    F16,
    /// 8 bits per number and a factor of 16 bits for every 32 numbers. The length of a row is a
    /// multiple of 32.
    Q8,
}

impl Kind {
    /// Returns its `GGML_TYPE_*`.
    fn number(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Q8 => 8,
        }
    }

    fn bytes(self, values: u64) -> u64 {
        match self {
            Self::F32 => values * 4,
            Self::F16 => values * 2,
            Self::Q8 => values / 32 * 34,
        }
    }

    /// Writes up to 32 numbers, the size of a Q8 block.
    fn write(self, block: &[f32], out: &mut impl Write) -> io::Result<()> {
        match self {
            Self::F32 => block
                .iter()
                .try_for_each(|value| out.write_all(&value.to_le_bytes())),
            Self::F16 => block
                .iter()
                .try_for_each(|value| out.write_all(&half(*value).to_le_bytes())),
            Self::Q8 => {
                let largest = block
                    .iter()
                    .fold(0.0_f32, |largest, value| largest.max(value.abs()));
                let factor = largest / 127.0;
                out.write_all(&half(factor).to_le_bytes())?;
                let inverse = if factor > 0.0 { 1.0 / factor } else { 0.0 };
                block
                    .iter()
                    .try_for_each(|value| out.write_all(&((value * inverse).round() as i8).to_le_bytes()))
            }
        }
    }
}

/// Converts to half precision, rounded towards zero. A value that is too small becomes 0.
fn half(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let exponent = ((bits >> 23) & 0xff) as i32 - 127 + 15;
    match exponent {
        ..=0 => sign,
        31.. => sign | 0x7bff,
        _ => sign | (exponent as u16) << 10 | ((bits >> 13) & 0x3ff) as u16,
    }
}

#[derive(Clone, Debug)]
enum Data {
    Values(Vec<f32>),
    Random {
        kind: Kind,
        scale: f32,
        seed: u64,
        /// The rows that are 0.
        zeros: std::collections::BTreeSet<usize>,
    },
}

impl Data {
    fn kind(&self) -> Kind {
        match self {
            Self::Values(_) => Kind::F32,
            Self::Random { kind, .. } => *kind,
        }
    }

    fn write(&self, shape: &[usize], out: &mut impl Write) -> io::Result<()> {
        let (kind, scale, seed, zeros) = match self {
            Self::Values(values) => return Kind::F32.write(values, out),
            Self::Random {
                kind,
                scale,
                seed,
                zeros,
            } => (*kind, *scale, *seed, zeros),
        };
        let mut seed = Seed::new(seed);
        // A uniform distribution with the same variance: fast, and good enough for llama.cpp.
        let mut next = || (seed.number() >> 40) as f32 / (1_u64 << 24) as f32 * 2.0 - 1.0;
        let width = shape[0];
        let mut row = vec![0.0; width];
        for index in 0..shape.iter().skip(1).product::<usize>() {
            row.fill_with(|| next() * scale * 3.0_f32.sqrt());
            if zeros.contains(&index) {
                row.fill(0.0);
            }
            row.chunks(32).try_for_each(|block| kind.write(block, out))?;
        }
        Ok(())
    }
}

/// The content of a GGUF file.
#[derive(Clone, Debug, Default)]
pub struct Gguf {
    meta: Vec<(String, Value)>,
    tensors: Vec<Tensor>,
}

#[derive(Clone, Debug)]
struct Tensor {
    name: String,
    shape: Vec<usize>,
    data: Data,
}

impl Gguf {
    /// Sets the value of a key.
    pub fn meta(&mut self, key: &str, value: Value) -> &mut Self {
        self.meta.push((key.to_owned(), value));
        self
    }

    /// Adds a tensor of f32. Its shape begins with the innermost length: for a matrix, the input
    /// size and then the output size.
    pub fn tensor(&mut self, name: &str, shape: &[usize], values: Vec<f32>) -> &mut Self {
        assert_eq!(
            shape.iter().product::<usize>(),
            values.len(),
            "{name} has as many values as its shape"
        );
        self.tensors.push(Tensor {
            name: name.to_owned(),
            shape: shape.to_vec(),
            data: Data::Values(values),
        });
        self
    }

    /// Adds a tensor of random numbers with the mean 0 and the standard deviation `scale`. The same
    /// seed gives the same numbers. The rows in `zeros` are 0.
    pub fn random(
        &mut self,
        name: &str,
        shape: &[usize],
        kind: Kind,
        scale: f32,
        seed: u64,
        zeros: impl IntoIterator<Item = usize>,
    ) -> &mut Self {
        assert!(
            kind != Kind::Q8 || shape[0].is_multiple_of(32),
            "{name} has whole blocks"
        );
        self.tensors.push(Tensor {
            name: name.to_owned(),
            shape: shape.to_vec(),
            data: Data::Random {
                kind,
                scale,
                seed,
                zeros: zeros.into_iter().collect(),
            },
        });
        self
    }

    /// Writes the file.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut out = CountingWriter {
            out: BufWriter::new(File::create(path)?),
            bytes: 0,
        };
        out.write_all(b"GGUF")?;
        out.write_all(&VERSION.to_le_bytes())?;
        out.write_all(&(self.tensors.len() as u64).to_le_bytes())?;
        out.write_all(&(self.meta.len() as u64).to_le_bytes())?;
        for (key, value) in &self.meta {
            write_text(&mut out, key)?;
            value.write(&mut out)?;
        }
        let mut offset = 0_u64;
        for tensor in &self.tensors {
            write_text(&mut out, &tensor.name)?;
            out.write_all(&(tensor.shape.len() as u32).to_le_bytes())?;
            for length in &tensor.shape {
                out.write_all(&(*length as u64).to_le_bytes())?;
            }
            out.write_all(&tensor.data.kind().number().to_le_bytes())?;
            out.write_all(&offset.to_le_bytes())?;
            let values = tensor.shape.iter().product::<usize>() as u64;
            offset += tensor.data.kind().bytes(values).next_multiple_of(ALIGNMENT);
        }
        for tensor in &self.tensors {
            out.align()?;
            tensor.data.write(&tensor.shape, &mut out)?;
        }
        out.align()?;
        out.flush()
    }
}

fn write_text(out: &mut dyn Write, text: &str) -> io::Result<()> {
    out.write_all(&(text.len() as u64).to_le_bytes())?;
    out.write_all(text.as_bytes())
}

/// A writer that counts its bytes.
struct CountingWriter<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> CountingWriter<W> {
    fn align(&mut self) -> io::Result<()> {
        let padding = self.bytes.next_multiple_of(ALIGNMENT) - self.bytes;
        self.write_all(&[0; ALIGNMENT as usize][..padding as usize])
    }
}

impl<W: Write> Write for CountingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
