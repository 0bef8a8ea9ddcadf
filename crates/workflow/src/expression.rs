//! References to data, and comparisons of them. There is no other language.
//!
//! ```text
//! inputs.NAME            an input; of a value also inputs.NAME.field[0]
//! steps.NAME.answer      a run's answer, or a call's standard output, as text
//! steps.NAME.value       the same, read as JSON: steps.NAME.value.rows[0].n
//! steps.NAME.files['f']  a file that the step made
//! steps.NAME.outcome     `done`, `failed` or `skipped`
//! item, index            in a step with for_each: item.field, and the item's number
//! ```
//!
//! Of a step with `for_each`, `answer`, `value` and `outcome` are lists, and `files` are all files
//! of this name. A condition is `REFERENCE OP (REFERENCE | JSON)` with `==`, `!=`, `<`, `<=`, `>`
//! or `>=`.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

/// A reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expression {
    Input(String, Vec<Part>),
    Answer(String),
    Value(String, Vec<Part>),
    File(String, String),
    Outcome(String),
    Item(Vec<Part>),
    Index,
}

/// A part of a path into a JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    Field(String),
    Index(usize),
}

/// A text that is neither a reference nor a condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not valid: {why}")]
pub struct InvalidExpression {
    text: String,
    why: &'static str,
}

/// A comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    pub left: Expression,
    pub operator: Operator,
    pub right: Operand,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    Equal,
    Unequal,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    Reference(Expression),
    Literal(Value),
}

impl Expression {
    /// The step that it refers to.
    pub fn step(&self) -> Option<&str> {
        match self {
            Self::Answer(step)
            | Self::Value(step, _)
            | Self::File(step, _)
            | Self::Outcome(step) => Some(step),
            Self::Input(..) | Self::Item(_) | Self::Index => None,
        }
    }

    /// Returns true if it reads how a step ended, and nothing that it made.
    pub fn is_outcome(&self) -> bool {
        matches!(self, Self::Outcome(_))
    }

    /// Returns true if it needs an item of `for_each`.
    pub fn is_of_item(&self) -> bool {
        matches!(self, Self::Item(_) | Self::Index)
    }
}

impl Condition {
    /// The steps that it refers to.
    pub fn steps(&self) -> impl Iterator<Item = &str> {
        self.references().filter_map(Expression::step)
    }

    pub fn references(&self) -> impl Iterator<Item = &Expression> {
        let right = match &self.right {
            Operand::Reference(expression) => Some(expression),
            Operand::Literal(_) => None,
        };
        std::iter::once(&self.left).chain(right)
    }
}

/// Splits `NAME`, `.NAME`, `[0]` and `['name']` off the beginning, one after the other.
fn parts(text: &str) -> Result<Vec<Part>, &'static str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let (part, after) = match inside.chars().next() {
                Some(quote @ ('\'' | '"')) => {
                    let (name, after) = inside[1..].split_once(quote).ok_or("a quote is open")?;
                    let after = after.strip_prefix(']').ok_or("a `]` is missing")?;
                    (Part::Field(name.to_owned()), after)
                }
                _ => {
                    let (number, after) = inside.split_once(']').ok_or("a `]` is missing")?;
                    let number = number.trim().parse().map_err(|_| "an index is not a number")?;
                    (Part::Index(number), after)
                }
            };
            parts.push(part);
            rest = after;
            continue;
        }
        let named = match rest.strip_prefix('.') {
            Some(named) => named,
            None if parts.is_empty() => rest,
            None => return Err("a `.` is missing"),
        };
        let end = named.find(['.', '[']).unwrap_or(named.len());
        let (name, after) = named.split_at(end);
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_name) {
            return Err("a name has letters, digits, `_` and `-`; write others as ['…']");
        }
        parts.push(Part::Field(name.to_owned()));
        rest = after;
    }
    Ok(parts)
}

fn field(part: Option<Part>) -> Result<String, &'static str> {
    match part {
        Some(Part::Field(name)) => Ok(name),
        _ => Err("a name is missing"),
    }
}

const ROOTS: &str = "it begins with `inputs.`, `steps.`, `item` or `index`";
const OUTPUTS: &str = "a step has `answer`, `value`, `files['…']` and `outcome`";

fn expression(text: &str) -> Result<Expression, &'static str> {
    let mut parts = parts(text)?.into_iter();
    let root = field(parts.next()).map_err(|_| ROOTS)?;
    let expression = match root.as_str() {
        "inputs" => Expression::Input(field(parts.next())?, parts.by_ref().collect()),
        "item" => Expression::Item(parts.by_ref().collect()),
        "index" => Expression::Index,
        "steps" => {
            let step = field(parts.next())?;
            match field(parts.next()).map_err(|_| OUTPUTS)?.as_str() {
                "answer" => Expression::Answer(step),
                "value" => Expression::Value(step, parts.by_ref().collect()),
                "outcome" => Expression::Outcome(step),
                "files" => Expression::File(step, field(parts.next())?),
                _ => return Err(OUTPUTS),
            }
        }
        _ => return Err(ROOTS),
    };
    match parts.next() {
        None => Ok(expression),
        Some(_) => Err("something follows that has no parts; read JSON with `value`"),
    }
}

impl FromStr for Expression {
    type Err = InvalidExpression;

    fn from_str(text: &str) -> Result<Self, InvalidExpression> {
        let invalid = |why| InvalidExpression { text: text.to_owned(), why };
        expression(text.trim()).map_err(invalid)
    }
}

const OPERATORS: [(&str, Operator); 6] = [
    ("==", Operator::Equal),
    ("!=", Operator::Unequal),
    ("<=", Operator::AtMost),
    (">=", Operator::AtLeast),
    ("<", Operator::Less),
    (">", Operator::Greater),
];

/// The first operator that is not within quotes.
fn operator(text: &str) -> Option<(usize, &'static str, Operator)> {
    let mut quote = None;
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            (None, _) => {
                let found = OPERATORS.iter().find(|(sign, _)| text[at..].starts_with(sign));
                if let Some((sign, operator)) = found {
                    return Some((at, sign, *operator));
                }
            }
            (Some(_), _) => {}
        }
    }
    None
}

impl FromStr for Condition {
    type Err = InvalidExpression;

    fn from_str(text: &str) -> Result<Self, InvalidExpression> {
        let why = "a condition compares with ==, !=, <, <=, > or >=";
        let invalid = |why| InvalidExpression { text: text.to_owned(), why };
        let (at, sign, operator) = operator(text).ok_or_else(|| invalid(why))?;
        let (left, right) = (text[..at].parse::<Expression>()?, text[at + sign.len()..].trim());
        let right = match serde_json::from_str(right) {
            Ok(literal) => Operand::Literal(literal),
            Err(_) => match right.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
                Some(quoted) => Operand::Literal(quoted.into()),
                None => Operand::Reference(right.parse()?),
            },
        };
        Ok(Self { left, operator, right })
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, "['{name}']"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// Follows a path into a value.
pub(crate) fn follow<'v>(value: &'v Value, path: &[Part]) -> Result<&'v Value, String> {
    path.iter().try_fold(value, |value, part| {
        let found = match part {
            Part::Field(name) => value.get(name),
            Part::Index(index) => value.get(index),
        };
        found.ok_or_else(|| format!("there is nothing at {part}"))
    })
}

impl Operator {
    /// Compares two values. Only numbers and texts have an order.
    pub(crate) fn holds(self, left: &Value, right: &Value) -> Result<bool, String> {
        let numbers = (left.as_f64(), right.as_f64());
        let order = match (numbers, left.as_str(), right.as_str()) {
            ((Some(left), Some(right)), ..) => left.partial_cmp(&right),
            (_, Some(left), Some(right)) => Some(left.cmp(right)),
            _ => None,
        };
        let is_equal = order.map_or_else(|| left == right, std::cmp::Ordering::is_eq);
        match (self, order) {
            (Self::Equal, _) => Ok(is_equal),
            (Self::Unequal, _) => Ok(!is_equal),
            (Self::Less, Some(order)) => Ok(order.is_lt()),
            (Self::AtMost, Some(order)) => Ok(order.is_le()),
            (Self::Greater, Some(order)) => Ok(order.is_gt()),
            (Self::AtLeast, Some(order)) => Ok(order.is_ge()),
            (_, None) => Err("only two numbers or two texts have an order".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_are_read() {
        let read = |text: &str| text.parse::<Expression>();
        assert_eq!(read("inputs.sales"), Ok(Expression::Input("sales".into(), vec![])));
        assert_eq!(read("steps.a-b.answer"), Ok(Expression::Answer("a-b".into())));
        let file = Expression::File("clean".into(), "out [1].csv".into());
        assert_eq!(read("steps.clean.files['out [1].csv']"), Ok(file));
        let path = vec![Part::Field("rows".into()), Part::Index(0), Part::Field("n".into())];
        assert_eq!(
            read("steps.c.value.rows[0].n"),
            Ok(Expression::Value("c".into(), path.clone()))
        );
        assert_eq!(read("item.rows[0]['n']"), Ok(Expression::Item(path)));
        for bad in [
            "",
            "step.a.answer",
            "steps.a",
            "steps.a.anwser",
            "steps.a.answer.x",
            "steps.a.files",
            "inputs",
            "item[x]",
            "item['x",
            "steps..answer",
            "item.a b",
            "index.x",
            "[0]",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn conditions_compare_what_has_an_order() {
        let holds = |text: &str, left: &Value| {
            let condition: Condition = text.parse().unwrap();
            let Operand::Literal(right) = condition.right else { panic!("{text}") };
            condition.operator.holds(left, &right)
        };
        assert_eq!(holds("item > 10", &json!(10.5)), Ok(true));
        assert_eq!(holds("item <= 10", &json!(10)), Ok(true));
        assert_eq!(holds("item == 'yes'", &json!("yes")), Ok(true));
        assert_eq!(holds("item != \"a<b\"", &json!("a<b")), Ok(false));
        assert_eq!(holds("item == 1", &json!(1.0)), Ok(true));
        assert_eq!(holds("item == null", &json!(null)), Ok(true));
        assert!(holds("item < true", &json!(false)).is_err());
        assert!("item".parse::<Condition>().is_err());
        assert!("item == steps.a.x".parse::<Condition>().is_err());
    }
}
