//! Single fields: refused, removed, set.

use super::{Change, Refused, Rules};
use crate::dialect::Dialect;
use crate::json::{Edits, Kind, Misspelled, ObjectEdit, Value};
use crate::request::{Invalid, Request};

/// Fields with which proxies and libraries choose another upstream, key, header,
/// model or callback. The upstream may be one of those proxies.
const REDIRECTS: [&str; 32] = [
    "api_base",
    "base_url",
    "api_key",
    "api_type",
    "api_version",
    "endpoint",
    "extra_headers",
    "extra_body",
    "extra_query",
    "headers",
    "default_headers",
    "custom_llm_provider",
    "organization",
    "project",
    "deployment_id",
    "proxy",
    "proxies",
    "webhook",
    "webhook_url",
    "callback",
    "callbacks",
    "callback_url",
    "success_callback",
    "failure_callback",
    "model_list",
    "user_config",
    "fallbacks",
    "models",
    "route",
    "provider",
    "plugins",
    "mock_response",
];
const REDIRECT_FRONTS: [&str; 4] = ["litellm_", "aws_", "azure_", "vertex_"];

/// Fields that are read before anything is pinned, and so cannot be.
pub(super) const READ_FIRST: [&str; 9] = [
    "model",
    "stream",
    "stream_options",
    "max_tokens",
    "max_output_tokens",
    "max_completion_tokens",
    "n",
    "messages",
    "input",
];

/// The others that are read here. Spelled in another case, they and those above
/// would be unknown here and perhaps not at the upstream.
const READ: [&str; 15] = [
    "system",
    "tools",
    "tool_choice",
    "store",
    "background",
    "previous_response_id",
    "conversation",
    "prompt",
    "mcp_servers",
    "container",
    "web_search_options",
    "speed",
    "service_tier",
    "inference_geo",
    "thinking",
];

/// What runs at the provider, besides tools.
const REMOTE: [&str; 3] = ["mcp_servers", "container", "web_search_options"];

/// What the provider keeps between requests, for anyone with the same key.
const STORED: [&str; 3] = ["previous_response_id", "conversation", "prompt"];

/// Tiers that cost what the table says, or less.
const USUAL_TIERS: [&str; 5] = ["auto", "default", "flex", "standard", "standard_only"];

/// Nothing that would go elsewhere, or needs what is not offered.
pub(super) fn refuse(request: &Request<'_>, rules: &Rules) -> Result<(), Refused> {
    let body = request.body;
    for (key, _) in body.members() {
        let mut read = READ_FIRST.into_iter().chain(READ);
        if let Some(field) = read.find(|field| key.is_like(field) && !key.is(field)) {
            return Err(Invalid::from(Misspelled(field)).into());
        }
        let is_front = |key: &str| {
            let key = key.to_ascii_lowercase();
            REDIRECT_FRONTS.iter().any(|front| key.starts_with(front))
        };
        if REDIRECTS.iter().any(|field| key.is_like(field))
            || key.str().is_some_and(|key| is_front(&key))
        {
            return Err(Refused::Redirect(key.str().unwrap_or_default().into_owned()));
        }
    }
    let present = |field: &str| body.get(field).filter(|value| !value.is_null());
    if present("background").is_some_and(|value| value.bool() != Some(false)) {
        return Err(Refused::NotOffered("background"));
    }
    if request.dialect == Dialect::OpenAiResponses
        && let Some(field) = STORED.into_iter().find(|field| present(field).is_some())
    {
        return Err(Refused::Stored(field));
    }
    // Where a model runs is not changed behind anyone's back, and it has a price.
    if present("inference_geo").is_some() && !rules.pinned.contains_key("inference_geo") {
        return Err(Refused::NotOffered("inference_geo"));
    }
    Ok(())
}

/// Takes out what runs at the provider or has another price.
pub(super) fn remove(
    request: &Request<'_>,
    rules: &Rules,
    top: &mut ObjectEdit<'_>,
    changes: &mut Vec<Change>,
) {
    let present = |field: &str| {
        request
            .body
            .get(field)
            .filter(|value| !value.is_null() && !rules.pinned.contains_key(field))
    };
    let mut take = |field: &'static str| {
        top.remove(field);
        changes.push(Change::FieldRemoved(field));
    };
    for field in REMOTE {
        let is_empty =
            |value: Value<'_>| value.kind() == Kind::Array && value.items().next().is_none();
        if present(field).is_some_and(|value| !is_empty(value)) {
            take(field);
        }
    }
    if present("speed").is_some_and(|speed| !speed.is("standard")) {
        take("speed");
    }
    let is_usual = |tier: Value<'_>| USUAL_TIERS.iter().any(|usual| tier.is(usual));
    if present("service_tier").is_some_and(|tier| !is_usual(tier)) {
        take("service_tier");
    }
}

/// Bounds what may be generated; tells the bound.
pub(super) fn cap_output(
    request: &Request<'_>,
    rules: &Rules,
    top: &mut ObjectEdit<'_>,
    edits: &mut Edits,
    changes: &mut Vec<Change>,
) -> Result<u64, Refused> {
    let cap = rules.max_output;
    let Some((_, asked)) = request.max_output else {
        let usual = request.dialect.max_output_field();
        top.set(rules.max_output_field.as_deref().unwrap_or(usual), cap.to_string());
        changes.push(Change::MaxOutput { from: None, to: cap });
        return Ok(cap);
    };
    if asked <= cap {
        return Ok(asked);
    }
    for field in request.dialect.max_output_fields() {
        if request.body.get(field).and_then(|value| value.u64()).is_some_and(|most| most > cap) {
            top.set(field, cap.to_string());
        }
    }
    changes.push(Change::MaxOutput { from: Some(asked), to: cap });

    let thinking = request.body.at(&["thinking", "budget_tokens"]);
    if let Some((value, budget)) = thinking.and_then(|value| Some((value, value.u64()?)))
        && budget >= cap
        && !rules.pinned.contains_key("thinking")
    {
        // The provider refuses a budget that leaves no answer, or one below 1024.
        let lowered = cap / 2;
        if lowered < 1024 {
            return Err(Refused::TooFewForThinking(cap));
        }
        edits.replace(value.span(), lowered.to_string());
        changes.push(Change::ThinkingLowered { from: budget, to: lowered });
    }
    Ok(cap)
}

/// Answers are not kept at the provider. In Responses, silence means that they are.
pub(super) fn forbid_storing(
    request: &Request<'_>,
    top: &mut ObjectEdit<'_>,
    changes: &mut Vec<Change>,
) {
    let said = request.body.get("store").filter(|value| !value.is_null());
    let is_stored = match request.dialect {
        Dialect::AnthropicMessages => false,
        Dialect::OpenAiResponses => said.and_then(|value| value.bool()) != Some(false),
        Dialect::OpenAiChat => said.is_some_and(|value| value.bool() != Some(false)),
    };
    if is_stored {
        top.set("store", "false");
        changes.push(Change::NotStored);
    }
}

/// A streamed Chat tells its usage only when asked. Whether the client had not.
pub(super) fn ask_for_usage(
    request: &Request<'_>,
    top: &mut ObjectEdit<'_>,
    edits: &mut Edits,
) -> Result<bool, Refused> {
    match request.body.get("stream_options") {
        Some(options) if options.kind() == Kind::Object => {
            let said = options.spelled("include_usage").map_err(Invalid::from)?;
            if said.and_then(|value| value.bool()) == Some(true) {
                return Ok(false);
            }
            let mut inner = ObjectEdit::new(options);
            inner.set("include_usage", "true");
            inner.finish(edits);
        }
        Some(options) if !options.is_null() => {
            return Err(Invalid::Field("stream_options").into());
        }
        _ => top.set("stream_options", r#"{"include_usage":true}"#),
    }
    Ok(true)
}

pub(super) fn pin(
    request: &Request<'_>,
    rules: &Rules,
    top: &mut ObjectEdit<'_>,
    changes: &mut Vec<Change>,
) {
    for (field, value) in &rules.pinned {
        let value = value.to_string();
        if request.body.get(field).is_none_or(|asked| asked.raw() != value.as_bytes()) {
            changes.push(Change::Pinned(field.clone()));
        }
        top.set(field, value);
    }
}
