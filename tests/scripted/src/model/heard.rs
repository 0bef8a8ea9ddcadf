//! What a conversation holds so far, whatever its dialect.

use serde_json::Value;

use super::dialect::Dialect;

#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// How often the model has answered.
    pub(crate) answers: usize,
    /// Texts of the tool results, in order.
    pub(crate) results: Vec<String>,
    /// What the user said last.
    pub(crate) user: String,
    is_answering: bool,
}

impl Heard {
    pub(crate) fn read(dialect: Dialect, body: &Value) -> Self {
        let mut heard = Self::default();
        let key = if dialect == Dialect::Responses { "input" } else { "messages" };
        if let Some(text) = body[key].as_str() {
            heard.user = text.to_owned();
        }
        for item in body[key].as_array().into_iter().flatten() {
            match dialect {
                Dialect::Messages => heard.message(item),
                Dialect::Responses => heard.item(item),
                Dialect::Chat => heard.line(item),
            }
        }
        heard
    }

    fn answer(&mut self) {
        if !std::mem::replace(&mut self.is_answering, true) {
            self.answers += 1;
        }
    }

    fn told(&mut self, text: String) {
        self.is_answering = false;
        self.user = text;
    }

    fn result(&mut self, text: String) {
        self.is_answering = false;
        self.results.push(text);
    }

    fn message(&mut self, message: &Value) {
        if message["role"] == "assistant" {
            return self.answer();
        }
        let blocks = message["content"].as_array();
        for block in blocks.into_iter().flatten().filter(|block| block["type"] == "tool_result") {
            self.result(text(&block["content"]));
        }
        if message["role"] == "user" {
            let said = text(&message["content"]);
            self.is_answering = false;
            if !said.is_empty() {
                self.told(said);
            }
        }
    }

    fn item(&mut self, item: &Value) {
        match item["type"].as_str() {
            Some("function_call_output" | "custom_tool_call_output") => {
                self.result(text(&item["output"]));
            }
            Some("function_call" | "custom_tool_call" | "reasoning") => self.answer(),
            _ if item["role"] == "assistant" => self.answer(),
            _ if item["role"] == "user" => self.told(text(&item["content"])),
            _ => {}
        }
    }

    fn line(&mut self, message: &Value) {
        match message["role"].as_str() {
            Some("assistant") => self.answer(),
            Some("tool") => self.result(text(&message["content"])),
            Some("user") => self.told(text(&message["content"])),
            _ => {}
        }
    }
}

/// A text, or the texts of a list of parts.
fn text(content: &Value) -> String {
    if let Some(text) = content.as_str() {
        return text.to_owned();
    }
    let parts = content.as_array().into_iter().flatten();
    parts.filter_map(|part| part["text"].as_str()).collect()
}
