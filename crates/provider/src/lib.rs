#![doc = include_str!("../README.md")]

mod answer;
mod client;
mod clock;
mod conversation;
mod failure;
mod heuristic;
mod parameters;
mod provider;
mod retry;
mod transport;
mod wire;
mod write;

pub use answer::{Answer, Retry, Stop};
pub use belljar_domain::{Effort, Temperature};
pub use client::{Client, InvalidBasePath, Limits, Upstream};
pub use clock::{Clock, WallClock};
pub use conversation::{
    BadArguments, Block, Conversation, Input, InvalidConversation, Message, Opaque, Part, Role,
    Tool, ToolCall, ToolResult,
};
pub use failure::Failure;
pub use heuristic::Heuristic;
pub use parameters::{AppliedParameters, Deviation, UnsupportedParameter, check_parameters};
pub use provider::{AnswerError, Answering, Delta, Form, OnDelta, Options, Provider, ToolChoice};
pub use retry::Retries;
pub use transport::{Credential, Transport, TransportError, UnfitCredential};
pub use wire::{Lifetime, Version};
