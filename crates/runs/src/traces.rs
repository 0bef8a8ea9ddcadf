//! Spans of runs, as OpenTelemetry has them: with `gen_ai.*` attributes, and nothing of what is
//! said in a run.

use belljar_agent::{Observer, RunSpan, RunTrace, Signal, SpanIds, SpanKind};
use belljar_journal::Address;
use belljar_telemetry::{Context, KnownSpan, Value, record_known};
use time::OffsetDateTime;

/// Longer texts of providers and models are cut.
const MAX_TEXT: usize = 200;

/// Records spans and nothing else: for a command without metrics.
#[derive(Debug, Clone, Copy, Default)]
pub struct TraceRecorder;

impl Observer for TraceRecorder {
    fn observe(&self, _: &Address, _: &Signal) {}

    fn trace(&self, run: &Address, span: &RunSpan) {
        record_known(known(run, span));
    }
}

/// The same span in the words of OpenTelemetry's conventions.
pub(crate) fn known(run: &Address, span: &RunSpan) -> KnownSpan {
    let mut fields: Vec<(&'static str, Value)> = vec![
        ("tenant", run.tenant.as_str().into()),
        ("run", Value::Text(run.run.to_string())),
        ("gen_ai.conversation.id", Value::Text(run.run.to_string())),
    ];
    let (mut links, mut is_client) = (Vec::new(), false);
    let name = match &span.what {
        SpanKind::Run { model, outcome, made_by, parent_run } => {
            fields.push(("gen_ai.operation.name", "invoke_agent".into()));
            fields.push(("gen_ai.agent.name", "belljar".into()));
            fields.push(("gen_ai.request.model", cut(model)));
            fields.push(("outcome", (*outcome).into()));
            links.extend(made_by.as_deref().and_then(Context::parse));
            let forked = parent_run.as_ref().map(|parent| RunTrace::of(parent, made_by.as_deref()));
            links.extend(forked.map(|parent| context(parent.run())));
            "invoke_agent belljar".to_owned()
        }
        SpanKind::Turn { turn } => {
            fields.push(("turn", u64::from(*turn).into()));
            "turn".to_owned()
        }
        SpanKind::Request { turn, model, provider, finish, tokens, id } => {
            is_client = true;
            let input = [tokens.input, tokens.cache_read, tokens.cache_write];
            let input = input.into_iter().fold(0, u64::saturating_add);
            fields.push(("turn", u64::from(*turn).into()));
            fields.push(("gen_ai.operation.name", "chat".into()));
            fields.push(("gen_ai.provider.name", (*provider).into()));
            // The name before version 1.37 of the conventions, which many backends show.
            fields.push(("gen_ai.system", (*provider).into()));
            fields.push(("gen_ai.request.model", cut(model)));
            if let Some(finish) = finish {
                let reasons = vec![finish.chars().take(MAX_TEXT).collect()];
                fields.push(("gen_ai.response.finish_reasons", Value::List(reasons)));
                fields.push(("gen_ai.usage.input_tokens", input.into()));
                fields.push(("gen_ai.usage.output_tokens", tokens.output.into()));
                fields.push(("gen_ai.usage.cache_read.input_tokens", tokens.cache_read.into()));
                let written = tokens.cache_write.into();
                fields.push(("gen_ai.usage.cache_creation.input_tokens", written));
            }
            fields.extend(id.as_deref().map(|id| ("gen_ai.response.id", cut(id))));
            format!("chat {}", model.chars().take(MAX_TEXT).collect::<String>())
        }
        SpanKind::Call { turn, tool, id, exit } => {
            fields.push(("turn", u64::from(*turn).into()));
            fields.push(("gen_ai.operation.name", "execute_tool".into()));
            fields.push(("gen_ai.tool.name", (*tool).into()));
            fields.push(("gen_ai.tool.type", "function".into()));
            fields.push(("gen_ai.tool.call.id", cut(id)));
            fields.extend(exit.map(|exit| ("process.exit.code", Value::Int(exit.into()))));
            format!("execute_tool {tool}")
        }
    };
    fields.extend(span.error.map(|error| ("error", error.into())));
    KnownSpan {
        name,
        context: context(span.ids),
        parent: span.parent.map(context),
        links,
        is_client,
        start: nanos(span.begin),
        end: nanos(span.end),
        fields,
    }
}

fn context(ids: SpanIds) -> Context {
    Context::known(ids.trace, ids.span, ids.is_sampled)
}

fn cut(text: &str) -> Value {
    Value::Text(text.chars().take(MAX_TEXT).collect())
}

fn nanos(at: OffsetDateTime) -> u64 {
    u64::try_from(at.unix_timestamp_nanos()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use belljar_domain::{RunId, Sequence};
    use belljar_journal::event::Tokens;

    use super::*;

    fn span(what: SpanKind) -> KnownSpan {
        let run = Address { tenant: "acme".into(), run: RunId::from_bits([7; 16]) };
        let trace = RunTrace::of(&run.run, None);
        let (begin, end) = (OffsetDateTime::UNIX_EPOCH, OffsetDateTime::UNIX_EPOCH);
        let (ids, parent) = (trace.request(Sequence(3)), Some(trace.turn(1)));
        known(&run, &RunSpan { ids, parent, begin, end, what, error: Some("overloaded") })
    }

    /// O1: a request to the model has the attributes of OpenTelemetry's conventions.
    #[test]
    fn a_request_to_the_model_has_the_attributes_of_the_conventions() {
        let span = span(SpanKind::Request {
            turn: 1,
            model: "m-1".into(),
            provider: "anthropic",
            finish: Some("end_turn".into()),
            tokens: Tokens { input: 5, cache_read: 30, cache_write: 200, output: 9 },
            id: None,
        });
        assert_eq!((span.name.as_str(), span.is_client), ("chat m-1", true));
        let of = |name: &str| span.fields.iter().find(|(known, _)| *known == name);
        let is = |name: &'static str, value: Value| assert_eq!(of(name), Some(&(name, value)));
        is("gen_ai.operation.name", "chat".into());
        is("gen_ai.provider.name", "anthropic".into());
        is("gen_ai.request.model", "m-1".into());
        // Tokens from the cache are input as well.
        is("gen_ai.usage.input_tokens", 235.into());
        is("gen_ai.usage.output_tokens", 9.into());
        is("gen_ai.response.finish_reasons", Value::List(vec!["end_turn".to_owned()]));
        is("error", "overloaded".into());
        is("tenant", "acme".into());
    }

    #[test]
    fn a_run_is_linked_to_its_request_and_to_the_run_before() {
        let made_by = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let span = span(SpanKind::Run {
            model: "m".into(),
            outcome: "answered",
            made_by: Some(made_by.into()),
            parent_run: Some(RunId::from_bits([8; 16])),
        });
        let before = RunTrace::of(&RunId::from_bits([8; 16]), None).run();
        assert_eq!(span.links, [Context::parse(made_by).unwrap(), context(before)]);
    }
}
