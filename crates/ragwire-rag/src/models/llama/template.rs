//! From messages to tokens, with the model's chat template.
//!
//! The text of the template may contain control tokens. The content of a message must not: it could
//! close its message and open another. Therefore the template is rendered with marks in place of
//! the contents, and the contents are tokenized as plain text. The prompt is tokenized in one
//! piece, as in the model's training, if that gives the same control tokens as the template alone.
//!
//! This module does not know sampling or sequences.

use llama_cpp_2::model::{LlamaChatMessage, LlamaChatTemplate, LlamaModel};
use llama_cpp_2::token::LlamaToken;
use llama_cpp_2::token_type::LlamaTokenAttr;

use super::LoadError;
use crate::models::{ChatMessage, ModelError, Role};

/// The template for a model without one, by llama.cpp's name.
const DEFAULT_TEMPLATE: &str = "chatml";
/// Number of messages of a prompt at most.
pub const MAX_MESSAGES: usize = 1_024;

/// Begins and ends a mark. Templates do not contain it.
const MARK_BEGIN: char = '\u{2}';
const MARK_END: char = '\u{3}';
/// White space beside a mark, which a template that trims its contents removes. Templates do not
/// contain it.
const PAD: char = '\u{b}';

/// A model's chat template.
pub(super) struct Template {
    template: LlamaChatTemplate,
    /// Length in bytes of the longest token.
    longest: usize,
}

/// A part of a rendered prompt.
enum Part<'a> {
    /// A text of the template.
    Template(&'a str),
    /// The content of a message.
    Content(&'a str),
}

impl Template {
    /// Chooses `own` if the options have one, otherwise the model's template, otherwise `chatml`.
    pub(super) fn new(model: &LlamaModel, own: Option<&str>) -> Result<Self, LoadError> {
        let template = match own {
            Some(own) => LlamaChatTemplate::new(own).map_err(|_| LoadError::Template)?,
            None => match model.chat_template(None) {
                Ok(template) => template,
                Err(_) => LlamaChatTemplate::new(DEFAULT_TEMPLATE).map_err(|_| LoadError::Template)?,
            },
        };
        let vocab = model.vocab();
        let longest = vocab
            .tokens()
            .map(|token| vocab.token_to_piece(token, true, None).len())
            .max();
        let this = Self {
            template,
            longest: longest.unwrap_or(1).max(1),
        };
        let probe = [ChatMessage::new(Role::User, "?")];
        this.render(model, &probe).map_err(|_| LoadError::Template)?;
        Ok(this)
    }

    /// Returns the tokens of a conversation, up to where the assistant's answer begins. If there
    /// are certainly more than `most`, they are not computed and the inner error is a lower bound
    /// of their number.
    pub(super) fn tokens(
        &self,
        model: &LlamaModel,
        messages: &[ChatMessage],
        most: u32,
    ) -> Result<Result<Vec<LlamaToken>, u32>, ModelError> {
        if messages.is_empty() || messages.len() > MAX_MESSAGES {
            return Err(ModelError::BadPrompt(format!(
                "it must have 1 to {MAX_MESSAGES} messages"
            )));
        }
        // Tokenizing takes time for every byte, so a text that is certainly too long is not
        // tokenized.
        let bytes = messages.iter().fold(0_usize, |bytes, message| {
            bytes.saturating_add(trim_end(trim_start(&message.content)).len())
        });
        let least = u32::try_from(bytes / self.longest).unwrap_or(u32::MAX);
        if least > most {
            return Ok(Err(least));
        }
        let rendered = self.render(model, messages)?;
        let parts = parts(&rendered, messages)?;
        let tokens = tokenize(model, &parts);
        if tokens.is_empty() {
            return Err(ModelError::BadPrompt("it has no tokens".to_owned()));
        }
        Ok(Ok(tokens))
    }

    /// Renders the template with a mark for each content.
    fn render(&self, model: &LlamaModel, messages: &[ChatMessage]) -> Result<String, ModelError> {
        let message = |(index, message): (usize, &ChatMessage)| {
            let mark = format!("{PAD}{MARK_BEGIN}{index}{MARK_END}{PAD}");
            LlamaChatMessage::new(message.role.as_str().to_owned(), mark)
        };
        let marked = messages
            .iter()
            .enumerate()
            .map(message)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| ModelError::Failed(error.into()))?;
        model
            .apply_chat_template(&self.template, &marked, true)
            .map_err(|error| ModelError::Failed(error.into()))
    }
}

/// Splits the rendered template into its texts and the contents of messages, in order.
fn parts<'a>(rendered: &'a str, messages: &'a [ChatMessage]) -> Result<Vec<Part<'a>>, ModelError> {
    let mut parts = Vec::with_capacity(2 * messages.len() + 1);
    let mut seen = vec![false; messages.len()];
    let mut rest = rendered;
    while let Some((before, after)) = rest.split_once(MARK_BEGIN) {
        let broken = || ModelError::Unsupported("its chat template changes the contents of messages");
        let (index, after) = after.split_once(MARK_END).ok_or_else(broken)?;
        let index = index.parse::<usize>().map_err(|_| broken())?;
        let message = messages.get(index).ok_or_else(broken)?;
        seen[index] = true;
        // If the padding is missing, the template trims.
        let (before, content) = match before.strip_suffix(PAD) {
            Some(before) => (before, message.content.as_str()),
            None => (before, trim_start(&message.content)),
        };
        let (after, content) = match after.strip_prefix(PAD) {
            Some(after) => (after, content),
            None => (after, trim_end(content)),
        };
        parts.push(Part::Template(before));
        parts.push(Part::Content(content));
        rest = after;
    }
    parts.push(Part::Template(rest));
    if seen.contains(&false) {
        return Err(ModelError::Unsupported("its chat template omits a message"));
    }
    Ok(parts)
}

/// Like C++'s `isspace`, which templates use for trimming.
fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\u{b}' | '\u{c}' | '\r')
}

fn trim_start(text: &str) -> &str {
    text.trim_start_matches(is_space)
}

fn trim_end(text: &str) -> &str {
    text.trim_end_matches(is_space)
}

fn tokenize(model: &LlamaModel, parts: &[Part<'_>]) -> Vec<LlamaToken> {
    let vocab = model.vocab();
    // Tokens that open and close messages: control tokens, and the other tokens with which the
    // template spells its marks.
    let mut marks = Vec::new();
    for part in parts {
        if let Part::Template(text) = part {
            for token in vocab.tokenize(text.as_bytes(), false, true) {
                let attributes = vocab.attr(token);
                if attributes.contains(LlamaTokenAttr::UserDefined) && !marks.contains(&token) {
                    marks.push(token);
                }
            }
        }
    }
    let is_mark =
        |token: &LlamaToken| vocab.is_control(*token) || vocab.is_eog(*token) || marks.contains(token);
    // A vocabulary's spelling of the unknown token is not text either.
    let is_special =
        |token: &&LlamaToken| is_mark(token) || vocab.attr(**token).contains(LlamaTokenAttr::Unknown);

    let mut apart = Vec::new();
    let mut whole = String::new();
    for part in parts {
        match part {
            Part::Template(text) => {
                vocab.tokenize_into(text.as_bytes(), &mut apart, false, true);
                whole.push_str(text);
            }
            Part::Content(text) => {
                plain(
                    text,
                    &|text, tokens| vocab.tokenize_into(text.as_bytes(), tokens, false, false),
                    &is_mark,
                    &mut apart,
                );
                whole.push_str(text);
            }
        }
    }
    let whole = vocab.tokenize(whole.as_bytes(), false, true);
    let same = whole
        .iter()
        .filter(is_special)
        .eq(apart.iter().filter(is_special));
    let prompt = if same { whole } else { apart };

    let bos = vocab.bos();
    let mut tokens = Vec::with_capacity(prompt.len() + 1);
    if vocab.should_add_bos() && bos.0 >= 0 && prompt.first() != Some(&bos) {
        tokens.push(bos);
    }
    tokens.extend(prompt);
    tokens
}

/// Tokenizes a text so that none of its tokens is a mark. A SentencePiece model merges characters
/// to any token of its vocabulary, including marks; a text that contains one is halved until no
/// mark results.
fn plain<'a>(
    text: &'a str,
    tokenize: &dyn Fn(&'a str, &mut Vec<LlamaToken>),
    is_mark: &dyn Fn(&LlamaToken) -> bool,
    tokens: &mut Vec<LlamaToken>,
) {
    // The halves that are still to be tokenized, last first.
    let mut waiting = vec![text];
    while let Some(text) = waiting.pop() {
        let before = tokens.len();
        tokenize(text, tokens);
        if !tokens[before..].iter().any(is_mark) {
            continue;
        }
        tokens.truncate(before);
        let middle = text.ceil_char_boundary(text.len().div_ceil(2).max(1));
        // A single character that is a mark by itself is dropped.
        if middle < text.len() {
            let (first, second) = text.split_at(middle);
            waiting.push(second);
            waiting.push(first);
        } else if let Some((last, _)) = text.char_indices().next_back().filter(|&(last, _)| last > 0) {
            let (first, second) = text.split_at(last);
            waiting.push(second);
            waiting.push(first);
        }
    }
}
