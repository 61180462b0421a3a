//! Embedders for tests. Each word is a direction, so texts that share words are near each other;
//! nothing is learned or random.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::models::{Boxed, Embed, ModelError, Side, normalize};

/// Number of dimensions: enough that the words of a test rarely share a direction.
pub(crate) const DIMENSIONS: usize = 256;

/// An embedder that adds up the directions of words.
#[derive(Debug, Default)]
pub(crate) struct Words {
    /// The side and number of texts of each call.
    pub(crate) calls: Mutex<Vec<(Side, usize)>>,
    next: AtomicUsize,
    without_tokens: bool,
    synonyms: BTreeMap<&'static str, &'static str>,
    fault: Option<(usize, Fault)>,
    poison: Option<&'static str>,
    name: Option<&'static str>,
    identity: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Fails,
    LosesOne,
    Unavailable,
}

impl Words {
    /// Fails the call with this number, counted from 0.
    pub(crate) fn failing_at(mut self, call: usize) -> Self {
        self.fault = Some((call, Fault::Fails));
        self
    }

    /// Is unavailable from this call on.
    pub(crate) fn away_from(mut self, call: usize) -> Self {
        self.fault = Some((call, Fault::Unavailable));
        self
    }

    /// Returns one vector too few in the call with this number.
    pub(crate) fn losing_one_at(mut self, call: usize) -> Self {
        self.fault = Some((call, Fault::LosesOne));
        self
    }

    /// Fails every call with a text that contains this word.
    pub(crate) fn poisoned_by(mut self, word: &'static str) -> Self {
        self.poison = Some(word);
        self
    }

    pub(crate) fn named(mut self, name: &'static str) -> Self {
        self.name = Some(name);
        self
    }

    /// Adds what its vectors depend on besides its name.
    pub(crate) fn identified(mut self, identity: &'static str) -> Self {
        self.identity = identity;
        self
    }

    pub(crate) fn without_tokens(mut self) -> Self {
        self.without_tokens = true;
        self
    }

    /// Treats two words as the same.
    pub(crate) fn synonym(mut self, word: &'static str, other: &'static str) -> Self {
        self.synonyms.insert(word, other);
        self
    }

    fn words(&self, text: &str) -> Vec<Vec<f32>> {
        let words = text
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty());
        let vector = |word: &str| {
            let word = word.to_lowercase();
            let word = self.synonyms.get(word.as_str()).copied().unwrap_or(&word);
            let step = |hash: u64, byte| hash.wrapping_mul(47) ^ u64::from(byte);
            let hash = word.bytes().fold(5381, step).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut vector = vec![0.0; DIMENSIONS];
            // The constants keep the words of the tests apart.
            vector[(hash >> 56) as usize % DIMENSIONS] = 1.0;
            vector
        };
        words.map(vector).collect()
    }

    fn called<T>(&self, side: Side, texts: &[String], mut vectors: Vec<T>) -> Result<Vec<T>, ModelError> {
        self.calls.lock().unwrap().push((side, texts.len()));
        if self
            .poison
            .is_some_and(|word| texts.iter().any(|text| text.contains(word)))
        {
            return Err(ModelError::Failed("poison".into()));
        }
        let call = self.next.fetch_add(1, Ordering::Relaxed);
        match self.fault {
            Some((from, Fault::Unavailable)) if call >= from => Err(ModelError::Unavailable(None)),
            Some((at, Fault::Fails)) if call == at => Err(ModelError::Failed("a fault".into())),
            Some((at, Fault::LosesOne)) if call == at => {
                vectors.pop();
                Ok(vectors)
            }
            _ => Ok(vectors),
        }
    }
}

impl Embed for Words {
    fn name(&self) -> &str {
        self.name.unwrap_or("words")
    }

    fn dimensions(&self) -> usize {
        DIMENSIONS
    }

    fn identity(&self) -> String {
        format!("{}{}", self.name(), self.identity)
    }

    fn embed(&self, side: Side, texts: Vec<String>) -> Boxed<'_, Result<Vec<Vec<f32>>, ModelError>> {
        let vector = |text: &String| {
            let mut sum = vec![0.0; DIMENSIONS];
            for word in self.words(text) {
                sum.iter_mut().zip(word).for_each(|(sum, value)| *sum += value);
            }
            normalize(&mut sum);
            sum
        };
        let vectors = texts.iter().map(vector).collect();
        Box::pin(std::future::ready(self.called(side, &texts, vectors)))
    }

    fn embed_tokens(
        &self,
        side: Side,
        texts: Vec<String>,
    ) -> Boxed<'_, Result<Vec<Vec<Vec<f32>>>, ModelError>> {
        let vectors = texts.iter().map(|text| self.words(text)).collect();
        let outcome = if self.without_tokens {
            Err(ModelError::Unsupported("no tokens"))
        } else {
            self.called(side, &texts, vectors)
        };
        Box::pin(std::future::ready(outcome))
    }
}
