//! What a tap has learnt.

use crate::usage::Usage;

/// Few bytes of text are more than one token; hardly any token is shorter than
/// this on average.
const BYTES_A_TOKEN: u64 = 3;

/// What has been seen of one answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// The last numbers that the upstream gave. Final if `is_complete`.
    pub usage: Option<Usage>,
    /// The answer has come to its own end, with its usage.
    pub is_complete: bool,
    /// Why the model stopped, in the dialect's words.
    pub stop: Option<String>,
    /// As the upstream calls it.
    pub model: Option<String>,
    /// The answer's own id.
    pub id: Option<String>,
    /// As much as was to be kept.
    pub text: String,
    pub tool_calls: Vec<ToolCall>,
    pub error: Option<UpstreamError>,
    /// How many bytes of text, thoughts and arguments came by.
    pub generated_bytes: u64,
    /// The model thought without showing it: bytes say too little.
    pub has_hidden: bool,
    /// Events that could not be read, or an answer too large to be.
    pub unreadable: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    /// As much as was to be kept.
    pub arguments: String,
    pub argument_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamError {
    /// The provider's word for it.
    pub kind: String,
    /// May quote what was sent: look for credentials before showing it.
    pub message: String,
}

impl Report {
    /// What was generated, guessed from bytes.
    pub fn estimated_output(&self) -> u64 {
        self.generated_bytes.div_ceil(BYTES_A_TOKEN)
    }

    /// What to charge, and whether that is assumed rather than told.
    ///
    /// | The answer | is charged |
    /// |---|---|
    /// | came to its end | as the upstream says |
    /// | was an error before anything was generated | nothing |
    /// | was cut after its prompt's usage | that, and the more of told and seen output |
    /// | was cut, and thoughts were hidden | that, and all output that was reserved |
    /// | was cut without any usage, or not understood | all that was reserved |
    ///
    /// `reserved` is the prompt and the output that were set aside.
    pub fn settle(&self, reserved: Usage) -> (Usage, bool) {
        match self.usage {
            Some(usage) if self.is_complete => (usage, false),
            Some(mut usage) => {
                let seen = self.estimated_output();
                if self.has_hidden {
                    usage.output = usage.output.max(reserved.generated());
                } else if usage.generated() < seen {
                    usage.output = seen.saturating_sub(usage.reasoning);
                }
                (usage, true)
            }
            None if self.error.is_some() && self.generated_bytes == 0 && self.unreadable == 0 => {
                (Usage::default(), false)
            }
            None => (reserved, true),
        }
    }
}
