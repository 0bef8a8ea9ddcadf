//! How many tokens an answer took, by kinds that never overlap.

use belljar_domain::network::Charge;
use serde::{Deserialize, Serialize};

use crate::json::Value;

/// Tokens of one answer. OpenAI counts what came from its cache, and what the
/// model thought, inside of other numbers; here each token is counted once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    pub input: u64,
    pub cache_read: u64,
    /// Written for five minutes, or for as long as the provider does unasked.
    pub cache_write_5m: u64,
    pub cache_write_1h: u64,
    pub output: u64,
    pub reasoning: u64,
}

impl Usage {
    /// The whole prompt, however it was read.
    pub fn prompt(&self) -> u64 {
        [self.cache_read, self.cache_write_5m, self.cache_write_1h]
            .into_iter()
            .fold(self.input, u64::saturating_add)
    }

    /// All that was generated.
    pub fn generated(&self) -> u64 {
        self.output.saturating_add(self.reasoning)
    }

    pub fn tokens(&self) -> u64 {
        self.prompt().saturating_add(self.generated())
    }

    /// For a row of the log.
    pub fn charge(&self, model: &str, nano_dollars: u64, assumed: bool) -> Charge {
        Charge {
            model: model.to_owned(),
            input: self.input,
            cache_read: self.cache_read,
            cache_write: self.cache_write_5m.saturating_add(self.cache_write_1h),
            output: self.generated(),
            nano_dollars,
            assumed,
            estimated: false,
        }
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write_5m: self.cache_write_5m.saturating_add(other.cache_write_5m),
            cache_write_1h: self.cache_write_1h.saturating_add(other.cache_write_1h),
            output: self.output.saturating_add(other.output),
            reasoning: self.reasoning.saturating_add(other.reasoning),
        }
    }

    /// Responses and Chat Completions: the same numbers under two sets of names.
    pub fn of_openai(usage: Value<'_>) -> Option<Self> {
        let either = |names: [&str; 2]| names.into_iter().find_map(|name| usage.get(name));
        let count = |value: Option<Value<'_>>| value.and_then(|value| value.u64());
        let prompt = count(either(["input_tokens", "prompt_tokens"]))?;
        let generated = count(either(["output_tokens", "completion_tokens"])).unwrap_or(0);
        let within = |details: Option<Value<'_>>, name: &str| {
            count(details.and_then(|details| details.get(name)))
        };
        let details = either(["input_tokens_details", "prompt_tokens_details"]);
        let cache_read = within(details, "cached_tokens")
            .or_else(|| count(usage.get("prompt_cache_hit_tokens")))
            .unwrap_or(0)
            .min(prompt);
        let cache_write = within(details, "cache_write_tokens")
            .or_else(|| within(details, "cache_creation_tokens"))
            .unwrap_or(0)
            .min(prompt - cache_read);
        let details = either(["output_tokens_details", "completion_tokens_details"]);
        let thought = within(details, "reasoning_tokens").unwrap_or(0);
        let total = count(usage.get("total_tokens")).unwrap_or(0);
        // Some upstreams count thoughts beside the answer instead of inside.
        let beside = total.saturating_sub(prompt.saturating_add(generated));
        let (output, reasoning) = if beside > 0 {
            (generated, beside)
        } else {
            (generated.saturating_sub(thought), thought.min(generated))
        };
        Some(Self {
            input: prompt - cache_read - cache_write,
            cache_read,
            cache_write_5m: cache_write,
            cache_write_1h: 0,
            output,
            reasoning,
        })
    }
}

/// What Anthropic has said so far: each event repeats some of the numbers, and
/// they only grow.
#[derive(Debug, Clone, Copy, Default)]
pub struct AnthropicCounts {
    input: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
    cache_write_5m: Option<u64>,
    cache_write_1h: Option<u64>,
    output: Option<u64>,
    thought: Option<u64>,
    /// Several passes for one answer; the numbers beside them are of the last one.
    passes: Option<Usage>,
}

impl AnthropicCounts {
    /// Takes the `usage` of one more event.
    pub fn merge(&mut self, usage: Value<'_>) {
        let keep = |into: &mut Option<u64>, path: &[&str]| {
            if let Some(count) = usage.at(path).and_then(|value| value.u64()) {
                *into = Some(into.unwrap_or(0).max(count));
            }
        };
        keep(&mut self.input, &["input_tokens"]);
        keep(&mut self.cache_read, &["cache_read_input_tokens"]);
        keep(&mut self.cache_write, &["cache_creation_input_tokens"]);
        keep(&mut self.cache_write_5m, &["cache_creation", "ephemeral_5m_input_tokens"]);
        keep(&mut self.cache_write_1h, &["cache_creation", "ephemeral_1h_input_tokens"]);
        keep(&mut self.output, &["output_tokens"]);
        keep(&mut self.thought, &["output_tokens_details", "thinking_tokens"]);
        let passes = usage.get("iterations").map(|passes| {
            passes.items().fold(Usage::default(), |sum, pass| {
                let mut counts = Self::default();
                counts.merge(pass);
                sum.plus(counts.usage().unwrap_or_default())
            })
        });
        self.passes = passes.or(self.passes);
    }

    /// All of it, once the prompt's length was said.
    pub fn usage(&self) -> Option<Usage> {
        let output = self.output.unwrap_or(0);
        let reasoning = self.thought.unwrap_or(0).min(output);
        let long = self.cache_write_1h.unwrap_or(0);
        let short = self.cache_write_5m.unwrap_or(0);
        let written = self.cache_write.unwrap_or(0).max(short.saturating_add(long));
        let last = Usage {
            input: self.input?,
            cache_read: self.cache_read.unwrap_or(0),
            // What is not said to stay longer is written for five minutes.
            cache_write_5m: written - long,
            cache_write_1h: long,
            output: output - reasoning,
            reasoning,
        };
        match self.passes {
            Some(passes) if passes.tokens() > last.tokens() => Some(passes),
            _ => Some(last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Reader;

    fn openai(text: &str) -> Option<Usage> {
        Usage::of_openai(Reader::new().read(text.as_bytes()).unwrap())
    }

    fn anthropic(texts: &[&str]) -> Option<Usage> {
        let mut counts = AnthropicCounts::default();
        for text in texts {
            counts.merge(Reader::new().read(text.as_bytes()).unwrap());
        }
        counts.usage()
    }

    #[test]
    fn each_token_is_counted_once() {
        let want = Usage {
            input: 600,
            cache_read: 300,
            cache_write_5m: 100,
            cache_write_1h: 0,
            output: 30,
            reasoning: 20,
        };
        for text in [
            r#"{"input_tokens":1000,"input_tokens_details":{"cached_tokens":300,"cache_write_tokens":100},"output_tokens":50,"output_tokens_details":{"reasoning_tokens":20},"total_tokens":1050}"#,
            r#"{"prompt_tokens":1000,"prompt_tokens_details":{"cached_tokens":300,"cache_creation_tokens":100},"completion_tokens":50,"completion_tokens_details":{"reasoning_tokens":20}}"#,
            r#"{"prompt_tokens":1000,"prompt_tokens_details":{"cached_tokens":300,"cache_write_tokens":100},"completion_tokens":30,"completion_tokens_details":{"reasoning_tokens":20},"total_tokens":1050}"#,
        ] {
            assert_eq!(openai(text), Some(want), "{text}");
        }
        assert_eq!(want.tokens(), 1050);
        assert_eq!(openai("null"), None);
        assert_eq!(openai("{}"), None);
        let odd = r#"{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":9},"completion_tokens":1}"#;
        assert_eq!(openai(odd).unwrap().prompt(), 5);
    }

    #[test]
    fn anthropic_writes_are_told_apart() {
        let start = r#"{"input_tokens":10,"cache_creation_input_tokens":300,"cache_read_input_tokens":40,"cache_creation":{"ephemeral_5m_input_tokens":100,"ephemeral_1h_input_tokens":200},"output_tokens":1}"#;
        let delta = r#"{"output_tokens":90,"input_tokens":10,"cache_creation_input_tokens":300,"output_tokens_details":{"thinking_tokens":50}}"#;
        let want = Usage {
            input: 10,
            cache_read: 40,
            cache_write_5m: 100,
            cache_write_1h: 200,
            output: 40,
            reasoning: 50,
        };
        assert_eq!(anthropic(&[start, delta]), Some(want));
        let short = r#"{"input_tokens":10,"cache_creation_input_tokens":300,"output_tokens":5}"#;
        assert_eq!(anthropic(&[short]).unwrap().cache_write_5m, 300);
        assert_eq!(anthropic(&[r#"{"output_tokens":5,"input_tokens":null}"#]), None);
    }

    #[test]
    fn every_pass_over_the_prompt_counts() {
        let usage = r#"{"input_tokens":10,"output_tokens":5,"iterations":[{"type":"compaction","input_tokens":1000,"output_tokens":100},{"type":"message","input_tokens":10,"output_tokens":5}]}"#;
        let usage = anthropic(&[usage]).unwrap();
        assert_eq!((usage.input, usage.output), (1010, 105));
    }
}
