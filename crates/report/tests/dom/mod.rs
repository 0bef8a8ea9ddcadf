//! A document as an HTML parser sees it.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::Write as _;

use html5ever::interface::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::{StrTendril, TendrilSink as _};
use html5ever::{Attribute, ExpandedName, ParseOpts, QualName, ns, parse_document};

#[derive(Debug)]
pub(crate) struct Element {
    /// Tests are short: names live as long as they do.
    pub(crate) name: &'static QualName,
    pub(crate) attributes: Vec<(String, String)>,
    content: Option<usize>,
}

#[derive(Debug)]
pub(crate) enum Data {
    Document,
    Doctype,
    Comment,
    Text(String),
    Element(Element),
}

#[derive(Debug)]
pub(crate) struct Node {
    parent: Option<usize>,
    pub(crate) children: Vec<usize>,
    pub(crate) data: Data,
}

/// The part of an element that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    All,
    Tag,
    None,
}

/// All nodes of a document. The first is the document.
#[derive(Debug)]
pub(crate) struct Dom(pub(crate) Vec<Node>);

pub(crate) fn parse(html: &str) -> Dom {
    let sink = Sink(RefCell::new(Vec::new()));
    sink.add(Data::Document);
    parse_document(sink, ParseOpts::default()).one(html)
}

impl Dom {
    pub(crate) fn elements(&self) -> impl Iterator<Item = (usize, &Element)> {
        self.0.iter().enumerate().filter(|(at, _)| self.is_attached(*at)).filter_map(
            |(at, node)| match &node.data {
                Data::Element(element) => Some((at, element)),
                _ => None,
            },
        )
    }

    /// The parser makes nodes that it puts nowhere.
    pub(crate) fn is_attached(&self, mut at: usize) -> bool {
        while let Some(parent) = self.0[at].parent {
            at = parent;
        }
        at == 0
            || self
                .0
                .iter()
                .any(|node| matches!(&node.data, Data::Element(it) if it.content == Some(at)))
    }

    /// The names of the elements around a node.
    pub(crate) fn path(&self, at: usize) -> String {
        let mut names = Vec::new();
        let mut next = self.0[at].parent;
        while let Some(at) = next {
            if let Data::Element(element) = &self.0[at].data {
                names.push(&*element.name.local);
            }
            next = self.0[at].parent;
        }
        names.reverse();
        names.join("/")
    }

    /// Writes the tree below a node, with as much of each element as `part` says.
    pub(crate) fn write(&self, at: usize, part: &impl Fn(&Element) -> Part) -> String {
        let mut out = String::new();
        match &self.0[at].data {
            // Between elements.
            Data::Text(text) if text.trim().is_empty() => return out,
            Data::Text(text) => write!(out, "{text:?}").unwrap(),
            Data::Element(element) => {
                match part(element) {
                    Part::All => {}
                    Part::Tag => {
                        return format!("<{} {:?}>", element.name.local, element.attributes);
                    }
                    Part::None => return out,
                }
                write!(out, "<{} {:?}>", element.name.local, element.attributes).unwrap();
            }
            other => write!(out, "{other:?}").unwrap(),
        }
        out.push('(');
        for child in &self.0[at].children {
            out.push_str(&self.write(*child, part));
        }
        out + ")"
    }
}

struct Sink(RefCell<Vec<Node>>);

impl Sink {
    fn add(&self, data: Data) -> usize {
        let mut nodes = self.0.borrow_mut();
        nodes.push(Node { parent: None, children: Vec::new(), data });
        nodes.len() - 1
    }

    fn node(&self, child: NodeOrText<usize>) -> usize {
        match child {
            NodeOrText::AppendNode(node) => node,
            NodeOrText::AppendText(text) => self.add(Data::Text(text.to_string())),
        }
    }

    fn detach(&self, at: usize) {
        let mut nodes = self.0.borrow_mut();
        if let Some(parent) = nodes[at].parent.take() {
            nodes[parent].children.retain(|child| *child != at);
        }
    }

    fn insert(&self, parent: usize, index: usize, child: usize) {
        self.detach(child);
        let mut nodes = self.0.borrow_mut();
        nodes[parent].children.insert(index, child);
        nodes[child].parent = Some(parent);
    }

    fn attributes(attributes: Vec<Attribute>) -> Vec<(String, String)> {
        let name = |attribute: &Attribute| match &attribute.name.prefix {
            Some(prefix) => format!("{prefix}:{}", attribute.name.local),
            None => attribute.name.local.to_string(),
        };
        attributes.iter().map(|it| (name(it), it.value.to_string())).collect()
    }
}

impl TreeSink for Sink {
    type Handle = usize;
    type Output = Dom;
    type ElemName<'a> = ExpandedName<'a>;

    fn finish(self) -> Dom {
        Dom(self.0.into_inner())
    }

    fn parse_error(&self, _: Cow<'static, str>) {}

    fn get_document(&self) -> usize {
        0
    }

    fn elem_name(&self, target: &usize) -> ExpandedName<'_> {
        match &self.0.borrow()[*target].data {
            Data::Element(element) => element.name.expanded(),
            other => panic!("{other:?} is no element"),
        }
    }

    fn create_element(&self, name: QualName, all: Vec<Attribute>, _: ElementFlags) -> usize {
        let is_template = name.ns == ns!(html) && &*name.local == "template";
        let content = is_template.then(|| self.add(Data::Document));
        let name: &'static QualName = Box::leak(Box::new(name));
        self.add(Data::Element(Element { name, attributes: Self::attributes(all), content }))
    }

    fn create_comment(&self, _: StrTendril) -> usize {
        self.add(Data::Comment)
    }

    fn create_pi(&self, _: StrTendril, _: StrTendril) -> usize {
        self.add(Data::Comment)
    }

    fn append(&self, parent: &usize, child: NodeOrText<usize>) {
        let child = self.node(child);
        let end = self.0.borrow()[*parent].children.len();
        self.insert(*parent, end, child);
    }

    fn append_before_sibling(&self, sibling: &usize, child: NodeOrText<usize>) {
        let child = self.node(child);
        self.detach(child);
        let (parent, index) = {
            let nodes = self.0.borrow();
            let parent = nodes[*sibling].parent.unwrap();
            (parent, nodes[parent].children.iter().position(|it| it == sibling).unwrap())
        };
        self.insert(parent, index, child);
    }

    fn append_based_on_parent_node(
        &self,
        element: &usize,
        before: &usize,
        child: NodeOrText<usize>,
    ) {
        if self.0.borrow()[*element].parent.is_some() {
            self.append_before_sibling(element, child);
        } else {
            self.append(before, child);
        }
    }

    fn append_doctype_to_document(&self, _: StrTendril, _: StrTendril, _: StrTendril) {
        let doctype = self.add(Data::Doctype);
        self.append(&0, NodeOrText::AppendNode(doctype));
    }

    fn get_template_contents(&self, target: &usize) -> usize {
        match &self.0.borrow()[*target].data {
            Data::Element(Element { content: Some(content), .. }) => *content,
            other => panic!("{other:?} is no template"),
        }
    }

    fn same_node(&self, one: &usize, two: &usize) -> bool {
        one == two
    }

    fn set_quirks_mode(&self, _: QuirksMode) {}

    fn add_attrs_if_missing(&self, target: &usize, all: Vec<Attribute>) {
        if let Data::Element(element) = &mut self.0.borrow_mut()[*target].data {
            for (name, value) in Self::attributes(all) {
                if !element.attributes.iter().any(|(known, _)| *known == name) {
                    element.attributes.push((name, value));
                }
            }
        }
    }

    fn remove_from_parent(&self, target: &usize) {
        self.detach(*target);
    }

    fn reparent_children(&self, node: &usize, new_parent: &usize) {
        let children = self.0.borrow()[*node].children.clone();
        for child in children {
            self.append(new_parent, NodeOrText::AppendNode(child));
        }
    }
}
