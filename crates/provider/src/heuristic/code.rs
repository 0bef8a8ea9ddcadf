//! The Python that is written. Each piece stands alone, because a call may be a
//! fresh process; parameters come as JSON, so that no word of a question is code.

use serde_json::{Value, json};

use super::plan::Plan;
use super::question::Question;
use super::time::{Period, Unit};
use crate::conversation::ToolCall;

/// What the first line of a piece says, to be recognised by.
const MARK: &str = "# belljar heuristic: ";

pub(super) const LOOK: &str = "look";
pub(super) const AGGREGATE: &str = "aggregate";
pub(super) const WRITE: &str = "write";

/// Of a series, which is read as a whole.
const MOST_TIMES: u64 = 60;

const LOAD_PY: &str = include_str!("load.py");
const LOOK_PY: &str = include_str!("look.py");
const AGGREGATE_PY: &str = include_str!("aggregate.py");

/// Which piece a call runs, if it is one of these.
pub(super) fn step(call: &ToolCall) -> Option<&'static str> {
    if call.name != "execute_python" {
        return None;
    }
    let input: Value = call.input.parse().ok()?;
    let code = input.as_object()?.values().find_map(Value::as_str)?;
    let mark = code.lines().next()?.strip_prefix(MARK)?;
    [LOOK, AGGREGATE, WRITE].into_iter().find(|step| *step == mark)
}

pub(super) fn look(question: &Question) -> String {
    piece(LOOK, &json!({ "words": question.words }), &[LOAD_PY, LOOK_PY])
}

pub(super) fn aggregate(question: &Question, plan: &Plan) -> String {
    let join = plan
        .join
        .as_ref()
        .map(|join| json!({ "name": join.name, "left": join.left, "right": join.right }));
    let filters = plan.filters.iter();
    let filters =
        filters.map(|it| json!({ "column": it.column, "values": it.values, "not": it.is_not }));
    let limits = plan.limits.iter().map(
        |it| json!({ "column": it.column, "operator": it.operator.word(), "numbers": it.numbers }),
    );
    let period = plan.period.as_ref().map(|period| match period {
        Period::Days { from, to } => json!({ "from": from, "to": to }),
        Period::Last { count, unit } => json!({ "last": count, "unit": unit.word() }),
    });
    // Times stand in their own order, unless one of them is asked for.
    let is_series = plan.unit.is_some() && !question.is_superlative;
    let ask = json!({
        "date": plan.date,
        "period": period,
        "unit": plan.unit.map(Unit::word),
        "series": is_series,
        "rows": plan.has_rows,
        "dataset": plan.dataset,
        "measure": plan.measure.word(),
        "measures": plan.measures(),
        "limits": limits.collect::<Vec<_>>(),
        "rank": plan.rank,
        "number": plan.number,
        "second": plan.second,
        "where": filters.collect::<Vec<_>>(),
        "groups": plan.groups,
        "join": join,
        "names": question.wants_names && !is_series,
        "ascending": question.is_ascending,
        "most": if is_series { MOST_TIMES } else { question.most },
    });
    piece(AGGREGATE, &ask, &[LOAD_PY, AGGREGATE_PY])
}

pub(super) fn write(text: &str) -> String {
    let code = "with open(\"result.md\", \"w\", encoding=\"utf-8\") as file:\n    \
                file.write(ASK[\"text\"])\nprint(\"wrote result.md\")\n";
    piece(WRITE, &json!({ "text": text }), &[code])
}

fn piece(step: &str, ask: &Value, parts: &[&str]) -> String {
    // A JSON string is a Python string, too.
    let literal = Value::from(ask.to_string());
    format!("{MARK}{step}\nimport json\n\nASK = json.loads({literal})\n{}", parts.join("\n\n"))
}
