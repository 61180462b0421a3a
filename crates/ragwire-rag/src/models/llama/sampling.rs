//! Chooses the next token with llama.cpp's samplers, and applies the grammar separately.
//!
//! llama.cpp's own `llama_sampler_sample` aborts the process if a grammar leaves no token or if the
//! logits are not numbers. This module takes the same steps one by one and reports both as errors.
//!
//! It does not know sequences or batches; the caller must have decoded the position whose logits it
//! reads.

use std::sync::Arc;

use argminmax::NaNArgMinMax;
use llama_cpp_2::DecodeError;
use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::sampling::LlamaSampler;
use llama_cpp_2::token::LlamaToken;
use llama_cpp_2::token::data::LlamaTokenData;
use llama_cpp_2::token::data_array::LlamaTokenDataArray;

use super::shape;
use crate::models::{ModelError, Prompt, Sampling};

/// Number of tokens that a repeat penalty considers, including those of the prompt.
const PENALTY_TOKENS: usize = 64;
/// Highest temperature: above it, every token is equally likely.
pub const MAX_TEMPERATURE: f32 = 10.0;
/// Highest repeat penalty: above it, only tokens that never occurred remain.
pub const MAX_REPEAT_PENALTY: f32 = 10.0;
/// Number of stop texts of a prompt at most.
pub const MAX_STOPS: usize = 16;
/// Length in bytes of the longest stop text, which is also the most text that it can hold back.
pub const MAX_STOP_BYTES: usize = 256;

/// The seed for which llama.cpp chooses a new random one each time.
const RANDOM_SEED: u32 = u32::MAX;

/// Why a generation failed, for logs.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("llama.cpp could not decode")]
    Decode(#[source] Arc<DecodeError>),
    #[error("a logit of the model is not a number")]
    NotNumbers,
    #[error("the grammar leaves no token of this vocabulary")]
    DeadEnd,
    #[error("the grammar rejected a token that it had allowed")]
    Grammar,
    #[error("the model's thread panicked: {0}")]
    Panicked(String),
    #[error("no source of randomness is available")]
    NoRandomness,
}

impl From<Fault> for ModelError {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault.into())
    }
}

/// The tokens of a vocabulary that are never chosen.
#[derive(Debug)]
pub(super) struct Never {
    /// The tokens that the model's file suppresses.
    always: Vec<LlamaToken>,
    /// Control tokens that do not end an answer: a grammar would accept them by their spelling, but
    /// they are not shown.
    under_grammar: Vec<LlamaToken>,
}

impl Never {
    pub(super) fn new(model: &LlamaModel) -> Self {
        let vocab = model.vocab();
        let is_hidden = |token: &LlamaToken| vocab.is_control(*token) && !vocab.is_eog(*token);
        Self {
            always: vocab.suppress_tokens().to_vec(),
            under_grammar: vocab.tokens().filter(is_hidden).collect(),
        }
    }
}

impl Never {
    fn has(&self, token: LlamaToken, under_grammar: bool) -> bool {
        self.always.contains(&token) || (under_grammar && self.under_grammar.contains(&token))
    }
}

/// The checked sampling settings of a prompt, with their samplers.
#[derive(Debug)]
pub(super) struct Chooser {
    samplers: LlamaSampler,
    grammar: Option<LlamaSampler>,
    /// Whether the samplers only take the likeliest token.
    takes_likeliest: bool,
}

/// The result of a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Token(LlamaToken),
    /// The model ends its answer here.
    End,
}

/// Checks that the settings of a prompt are in range.
pub(super) fn check(prompt: &Prompt) -> Result<(), ModelError> {
    let bad = |what: String| Err(ModelError::BadPrompt(what));
    let Sampling {
        temperature,
        top_k,
        top_p,
        min_p,
        repeat_penalty,
        ..
    } = prompt.sampling;
    if !(0.0..=MAX_TEMPERATURE).contains(&temperature) {
        return bad(format!("temperature must be 0 to {MAX_TEMPERATURE}"));
    }
    if i32::try_from(top_k).is_err() {
        return bad("top_k is too large".to_owned());
    }
    if !(top_p > 0.0 && top_p <= 1.0) {
        return bad("top_p must be more than 0 and at most 1".to_owned());
    }
    if !(0.0..=1.0).contains(&min_p) {
        return bad("min_p must be 0 to 1".to_owned());
    }
    if !(repeat_penalty > 0.0 && repeat_penalty <= MAX_REPEAT_PENALTY) {
        return bad(format!(
            "repeat_penalty must be more than 0 and at most {MAX_REPEAT_PENALTY}"
        ));
    }
    if prompt.max_tokens == 0 {
        return bad("max_tokens must be at least 1".to_owned());
    }
    if prompt.stop.len() > MAX_STOPS {
        return bad(format!("at most {MAX_STOPS} stop texts are allowed"));
    }
    if prompt
        .stop
        .iter()
        .any(|stop| stop.is_empty() || stop.len() > MAX_STOP_BYTES)
    {
        return bad(format!("a stop text must have 1 to {MAX_STOP_BYTES} bytes"));
    }
    Ok(())
}

impl Chooser {
    /// Creates a chooser for a prompt whose settings were [checked](check) and which begins with
    /// `tokens`.
    pub(super) fn new(
        model: &LlamaModel,
        prompt: &Prompt,
        tokens: &[LlamaToken],
    ) -> Result<Self, ModelError> {
        let grammar = shape::grammar(&prompt.shape)?
            .map(|grammar| LlamaSampler::grammar(model, &grammar, shape::ROOT))
            .transpose()
            .map_err(|_| ModelError::BadShape("llama.cpp does not support its grammar".to_owned()))?;
        let sampling = prompt.sampling;
        let mut samplers = Vec::new();
        if sampling.repeat_penalty != 1.0 {
            #[expect(
                clippy::cast_possible_wrap,
                clippy::cast_possible_truncation,
                reason = "64 is small"
            )]
            let last = PENALTY_TOKENS as i32;
            samplers.push(LlamaSampler::penalties(
                model.n_vocab(),
                last,
                sampling.repeat_penalty,
                0.0,
                0.0,
            ));
        }
        if sampling.temperature == 0.0 {
            samplers.push(LlamaSampler::greedy());
        } else {
            // The order in which llama.cpp itself applies them.
            let top_k = i32::try_from(sampling.top_k).unwrap_or(0);
            if top_k > 0 {
                samplers.push(LlamaSampler::top_k(top_k));
            }
            if sampling.top_p < 1.0 {
                samplers.push(LlamaSampler::top_p(sampling.top_p, 1));
            }
            if sampling.min_p > 0.0 {
                samplers.push(LlamaSampler::min_p(sampling.min_p, 1));
            }
            samplers.push(LlamaSampler::temp(sampling.temperature));
            let seed = sampling.seed.map_or_else(random_seed, Ok)?;
            samplers.push(LlamaSampler::dist(if seed == RANDOM_SEED {
                RANDOM_SEED - 1
            } else {
                seed
            }));
        }
        let mut samplers = LlamaSampler::chain(samplers, true);
        for &token in &tokens[tokens.len().saturating_sub(PENALTY_TOKENS)..] {
            samplers.try_accept(token).map_err(|_| Fault::Grammar)?;
        }
        Ok(Self {
            samplers,
            grammar,
            takes_likeliest: sampling.temperature == 0.0 && sampling.repeat_penalty == 1.0,
        })
    }

    /// Chooses by the logits at `index` of the last batch. That batch must have requested them;
    /// otherwise llama.cpp aborts.
    pub(super) fn choose(
        &mut self,
        model: &LlamaModel,
        context: &LlamaContext<'_>,
        index: i32,
        never: &Never,
        candidates: &mut LlamaTokenDataArray,
    ) -> Result<Choice, Fault> {
        let under_grammar = self.grammar.is_some();
        let logits = context.get_logits_ith(index);
        let mut chosen = None;
        if self.takes_likeliest {
            chosen = likeliest(logits)?.filter(|&token| !never.has(token, under_grammar));
        }
        if chosen.is_none() {
            fill(candidates, logits, never, under_grammar)?;
            candidates.apply_sampler(&mut self.samplers);
            chosen = selected(candidates);
        }
        if let Some(grammar) = &mut self.grammar {
            // Checking one token against the grammar is cheap, checking a whole vocabulary is not.
            // Mostly the first choice is allowed.
            let allowed = chosen.is_some_and(|token| {
                let mut alone = LlamaTokenDataArray::new(vec![LlamaTokenData::new(token, 1.0, 0.0)], false);
                alone.apply_sampler(grammar);
                alone.data[0].logit() > f32::NEG_INFINITY
            });
            if !allowed {
                fill(candidates, logits, never, under_grammar)?;
                candidates.apply_sampler(grammar);
                candidates
                    .data
                    .retain(|candidate| candidate.logit() > f32::NEG_INFINITY);
                if candidates.data.is_empty() {
                    return Err(Fault::DeadEnd);
                }
                candidates.apply_sampler(&mut self.samplers);
                chosen = selected(candidates);
            }
        }
        let token = chosen.ok_or(Fault::DeadEnd)?;
        if model.vocab().is_eog(token) {
            // The grammar does not get this token: llama.cpp aborts if the grammar rejects it.
            return Ok(Choice::End);
        }
        self.samplers.try_accept(token).map_err(|_| Fault::Grammar)?;
        if let Some(grammar) = &mut self.grammar {
            grammar.try_accept(token).map_err(|_| Fault::Grammar)?;
        }
        Ok(Choice::Token(token))
    }
}

fn random_seed() -> Result<u32, ModelError> {
    getrandom::u32().map_err(|_| Fault::NoRandomness.into())
}

/// Returns the chosen token, if it can occur at all.
fn selected(candidates: &LlamaTokenDataArray) -> Option<LlamaToken> {
    let chosen = candidates.data.get(candidates.selected?)?;
    (chosen.logit() > f32::NEG_INFINITY).then(|| chosen.id())
}

/// Returns the first of the likeliest tokens, like llama.cpp's greedy sampler but without building
/// a list of all tokens. With a large vocabulary, building that list takes longer than a step on an
/// accelerator.
fn likeliest(logits: &[f32]) -> Result<Option<LlamaToken>, Fault> {
    // llama.cpp has no model without tokens, but `nanargmax` panics on an empty slice.
    if logits.is_empty() {
        return Ok(None);
    }
    // The first that is not a number, otherwise the first of the largest.
    let token = logits.nanargmax();
    let most = logits[token];
    if most.is_nan() || most == f32::INFINITY {
        return Err(Fault::NotNumbers);
    }
    let token = i32::try_from(token).ok().filter(|_| most > f32::NEG_INFINITY);
    Ok(token.map(LlamaToken))
}

/// Lists every token of the vocabulary with its logit. llama.cpp's sorting and drawing are
/// undefined for values that are not numbers.
fn fill(
    candidates: &mut LlamaTokenDataArray,
    logits: &[f32],
    never: &Never,
    under_grammar: bool,
) -> Result<(), Fault> {
    if logits
        .iter()
        .any(|logit| logit.is_nan() || *logit == f32::INFINITY)
    {
        return Err(Fault::NotNumbers);
    }
    candidates.data.clear();
    let all = (0..).zip(logits);
    candidates
        .data
        .extend(all.map(|(token, &logit)| LlamaTokenData::new(LlamaToken(token), logit, 0.0)));
    candidates.selected = None;
    candidates.sorted = false;
    let hidden = if under_grammar {
        never.under_grammar.as_slice()
    } else {
        &[]
    };
    for token in never.always.iter().chain(hidden) {
        let candidate = usize::try_from(token.0)
            .ok()
            .and_then(|index| candidates.data.get_mut(index));
        if let Some(candidate) = candidate {
            candidate.set_logit(f32::NEG_INFINITY);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The reference implementation: compares the logits one by one.
    fn plainly(logits: &[f32]) -> Option<LlamaToken> {
        let mut best: Option<(LlamaToken, f32)> = None;
        for (token, &logit) in (0..).zip(logits) {
            if logit > best.map_or(f32::NEG_INFINITY, |(_, most)| most) {
                best = Some((LlamaToken(token), logit));
            }
        }
        best.map(|(token, _)| token)
    }

    proptest! {
        #[test]
        fn the_first_of_the_likeliest_is_found(
            // Few different values, so that many are equal.
            logits in prop::collection::vec((-3_i8..3).prop_map(|value| if value == -3 { f32::NEG_INFINITY } else { value.into() }), 0..3_000),
            largest in any::<prop::sample::Index>(),
        ) {
            prop_assert_eq!(likeliest(&logits).unwrap(), plainly(&logits));
            let mut logits = logits;
            logits.push(0.0);
            let at = largest.index(logits.len());
            logits[at] = 9.0;
            prop_assert_eq!(likeliest(&logits).unwrap(), Some(LlamaToken(i32::try_from(at).unwrap())));
        }

        #[test]
        fn a_logit_that_is_not_a_number_is_an_error(length in 1_usize..3_000, at in any::<prop::sample::Index>(), is_nan: bool) {
            let mut logits = vec![0.0; length];
            logits[at.index(length)] = if is_nan { f32::NAN } else { f32::INFINITY };
            prop_assert!(matches!(likeliest(&logits), Err(Fault::NotNumbers)));
        }
    }

    #[test]
    fn without_possible_tokens_none_is_likeliest() {
        assert_eq!(likeliest(&[]).unwrap(), None);
        assert_eq!(likeliest(&[f32::NEG_INFINITY; 40]).unwrap(), None);
    }
}
