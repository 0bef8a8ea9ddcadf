//! The agents that think, and the form in which each hands its message in.

use serde_json::{Value, json};

use crate::category::Category;
use crate::message::CodeArtifact;

/// An agent that thinks. The Executor only does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    Planner,
    Coder,
    Debugger,
}

impl Role {
    pub const ALL: [Self; 3] = [Self::Planner, Self::Coder, Self::Debugger];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Planner => "planner",
            Self::Coder => "coder",
            Self::Debugger => "debugger",
        }
    }

    /// The tool that hands the role's message in. It is the only one that the role has.
    pub fn tool(self) -> &'static str {
        match self {
            Self::Planner => "submit_plan",
            Self::Coder => "submit_code",
            Self::Debugger => "submit_diagnosis",
        }
    }

    /// The role whose tool this is.
    pub fn of_tool(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.tool() == name)
    }

    pub fn description(self) -> &'static str {
        match self {
            Self::Planner => "Hand in the plan. The Coder sees the plan and nothing else.",
            Self::Coder => {
                "Hand in the program, complete, with the commands that install and run it."
            }
            Self::Debugger => "Hand in the cause of the failure and a program that is different.",
        }
    }

    /// JSON Schema of the role's message.
    pub fn schema(self) -> Value {
        match self {
            Self::Planner => plan(),
            Self::Coder => code(),
            Self::Debugger => diagnosis(),
        }
    }
}

fn object(properties: Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn text(about: &str) -> Value {
    json!({ "type": "string", "description": about })
}

fn texts(about: &str) -> Value {
    json!({ "type": "array", "items": { "type": "string" }, "description": about })
}

fn plan() -> Value {
    let properties = json!({
        "language": { "type": "string", "enum": ["python", "javascript"] },
        "dependencies": texts("Packages outside of the standard library."),
        "task": text("What the program does, as a specification. Do not repeat the request."),
        "steps": texts("The steps of the program, in order."),
        "inputs": texts("Names of the data files that it reads."),
        "output": { "type": "string", "enum": ["text", "file"] },
    });
    object(properties, &["language", "task", "output"])
}

fn code() -> Value {
    let seconds = |about: &str| {
        json!({
            "type": "integer", "minimum": 1, "maximum": CodeArtifact::MAX_SECONDS,
            "description": about,
        })
    };
    let properties = json!({
        "filename": text("Name of the file, without directories, such as main.py."),
        "code": text("All of the program."),
        "install_command": {
            "type": ["string", "null"],
            "description": "Command that installs packages; null if none are needed.",
        },
        "run_command": text("Command that runs the program, such as python main.py."),
        "install_seconds": seconds("Time limit of the installation."),
        "run_seconds": seconds("Time limit of the program."),
        "memory_bytes": { "type": "integer", "minimum": 1, "description": "Memory that it needs." },
    });
    object(properties, &["filename", "code", "run_command"])
}

fn diagnosis() -> Value {
    let categories = Category::ALL.map(Category::as_str);
    let properties = json!({
        "category": { "type": "string", "enum": categories },
        "cause": text("The root cause, in one or two sentences."),
        "artifact": code(),
    });
    object(properties, &["category", "cause", "artifact"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{read_code, read_diagnosis, read_plan};

    /// A message with every property of its schema, each of a fitting type.
    fn filled(schema: &Value) -> Value {
        match schema["type"].as_str().unwrap_or("string") {
            "object" => {
                let properties = schema["properties"].as_object().unwrap();
                properties.iter().map(|(name, of)| (name.clone(), filled(of))).collect()
            }
            "array" => json!(["a"]),
            "integer" => json!(100_000_000_u64.min(schema["maximum"].as_u64().unwrap_or(u64::MAX))),
            _ => schema["enum"].get(0).cloned().unwrap_or_else(|| json!("main.py")),
        }
    }

    /// The schema that a model is shown and the types that read its message say the same.
    #[test]
    fn schemas_are_those_of_the_messages() {
        for role in Role::ALL {
            let schema = role.schema();
            let read = |message: &Value| match role {
                Role::Planner => read_plan(message, "").map(drop),
                Role::Coder => read_code(message).map(drop),
                Role::Debugger => read_diagnosis(message).map(drop),
            };
            let whole = filled(&schema);
            read(&whole).unwrap();
            for name in schema["properties"].as_object().unwrap().keys() {
                let mut without = whole.clone();
                without.as_object_mut().unwrap().remove(name);
                let is_required = schema["required"].as_array().unwrap().contains(&json!(name));
                assert_eq!(read(&without).is_err(), is_required, "{role:?} without {name}");
            }
            let mut more = whole;
            more["more"] = json!(1);
            assert!(read(&more).is_err(), "{role:?}");
            assert_eq!(Role::of_tool(role.tool()), Some(role));
        }
        assert_eq!(Role::of_tool("finish"), None);
    }
}
