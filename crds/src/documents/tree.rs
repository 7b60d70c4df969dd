//! From text to trees whose nodes know their place, with bounds on depth and on what aliases expand to.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, options};
use serde_json::{Map, Value};

use super::{MAX_DOCUMENTS, scalar};
use crate::validate::{printable, quoted};

/// Deepest nesting, since the walks over trees recurse; the deepest that our objects need is a pod's spec within a pool.
const MAX_DEPTH: usize = 48;

/// What a node weighs beside its text: about the memory that it takes.
const NODE_WEIGHT: usize = 64;

/// Weight that all documents together may have once aliases are expanded.
const MAX_WEIGHT: usize = 64 << 20;

/// A place in the text, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) line: usize,
    pub(super) column: usize,
}

/// A value and its place.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) mark: Mark,
    kind: Kind,
    /// Levels below, counting this one.
    height: usize,
    /// Of all nodes and texts, this one included.
    weight: usize,
}

/// Why the rest of the text could not be read.
pub(super) struct Broken {
    pub(super) mark: Mark,
    /// The document's number, from 1.
    pub(super) document: usize,
    pub(super) message: String,
}

#[derive(Clone, Debug)]
enum Kind {
    Scalar(Value),
    Sequence(Vec<Node>),
    Mapping(Vec<Entry>),
}

#[derive(Clone, Debug)]
struct Entry {
    key: String,
    mark: Mark,
    value: Node,
}

/// A collection that is still open.
struct Frame {
    mark: Mark,
    anchor: usize,
    items: Vec<Node>,
    /// `Some` for a mapping.
    mapping: Option<Mapping>,
}

#[derive(Default)]
struct Mapping {
    entries: Vec<Entry>,
    /// Line of each key.
    seen: HashMap<String, usize>,
    /// A key that waits for its value; no name stands for `<<`.
    key: Option<(Option<String>, Mark)>,
    /// Values of `<<`.
    merges: Vec<Node>,
}

/// Builds trees from a parser's events.
#[derive(Default)]
struct Composer {
    open: Vec<Frame>,
    anchors: HashMap<usize, Node>,
    documents: Vec<Node>,
    started: usize,
    weight: usize,
}

/// The trees of all documents that are not empty, up to the first error.
pub(super) fn read(text: &str) -> (Vec<Node>, Option<Broken>) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut composer = Composer::default();
    let broken = match json_values(text) {
        Some(values) => values.into_iter().find_map(|(line, value)| composer.read(value, line).err()),
        None => composer.read(text, 0).err(),
    };
    (composer.documents, broken)
}

/// A stream of JSON objects, each with the number of lines before it; `None` if the text is anything else.
fn json_values(text: &str) -> Option<Vec<(usize, &str)>> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>();
    let (mut values, mut start, mut line) = (Vec::new(), 0, 0);
    while let Some(value) = stream.next() {
        value.ok()?;
        let value = text.get(start..stream.byte_offset())?;
        values.push((line, value));
        line += value.matches('\n').count();
        start = stream.byte_offset();
    }
    Some(values)
}

impl Composer {
    /// Reads `text`, which begins after `line` lines of the file.
    fn read(&mut self, text: &str, line: usize) -> Result<(), Broken> {
        let options = options! { flow_nesting_limit: MAX_DEPTH, block_nesting_limit: MAX_DEPTH };
        for next in Parser::new_from_str_with_options(text, options) {
            let result = match next {
                Ok((event, span)) => self.event(event, mark(&span, line)),
                Err(error) => Err(syntax(&error, line)),
            };
            result.map_err(|(mark, message)| Broken { mark, message, document: self.started.max(1) })?;
        }
        Ok(())
    }

    fn event(&mut self, event: Event<'_>, mark: Mark) -> Result<(), (Mark, String)> {
        match event {
            Event::DocumentStart(..) => {
                self.started += 1;
                self.anchors.clear();
                if self.documents.len() >= MAX_DOCUMENTS {
                    return Err((mark, format!("more than {MAX_DOCUMENTS} documents: split the file")));
                }
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain;
                if let Some(mapping) = self.waiting_for_key() {
                    let merge = plain && tag.is_none() && text == "<<";
                    mapping.take_key(text.into_owned(), mark, merge)?;
                    self.weight += NODE_WEIGHT;
                    return self.check_weight(mark);
                }
                let tag =
                    tag.map(|tag| tag.core_suffix().map_or_else(|| Err(tag.original()), |core| Ok(core.to_owned())));
                let tag = tag.transpose().map_err(|tag| (mark, unknown_tag(&tag)))?;
                let weight = NODE_WEIGHT + text.len();
                self.weight += weight;
                let value = scalar::resolve(&text, plain, tag.as_deref()).map_err(|message| (mark, message))?;
                self.add(Node { mark, kind: Kind::Scalar(value), height: 1, weight }, anchor)
            }
            Event::Alias(id) => {
                let Some(node) = self.anchors.get(&id) else {
                    return Err((mark, "an alias must not refer to a list or mapping that it is part of".to_owned()));
                };
                self.weight += node.weight;
                self.check_weight(mark)?;
                let node = Node { mark, ..node.clone() };
                self.add(node, 0)
            }
            Event::SequenceStart(_, anchor, tag) => self.open(mark, anchor, None, tag.map(|tag| tag.original()), "seq"),
            Event::MappingStart(_, anchor, tag) => {
                self.open(mark, anchor, Some(Mapping::default()), tag.map(|tag| tag.original()), "map")
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(frame) = self.open.pop() else { return Ok(()) };
                let anchor = frame.anchor;
                let node = frame.close()?;
                self.add(node, anchor)
            }
            _ => Ok(()),
        }
    }

    fn open(
        &mut self,
        mark: Mark,
        anchor: usize,
        mapping: Option<Mapping>,
        tag: Option<String>,
        core: &str,
    ) -> Result<(), (Mark, String)> {
        if self.waiting_for_key().is_some() {
            return Err((mark, "a key must be a string, not a list or mapping".to_owned()));
        }
        if let Some(tag) = tag.filter(|tag| *tag != format!("!!{core}")) {
            return Err((mark, unknown_tag(&tag)));
        }
        if self.open.len() >= MAX_DEPTH {
            return Err((mark, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.weight += NODE_WEIGHT;
        self.open.push(Frame { mark, anchor, items: Vec::new(), mapping });
        Ok(())
    }

    /// Puts a finished node where it belongs.
    fn add(&mut self, node: Node, anchor: usize) -> Result<(), (Mark, String)> {
        let mark = node.mark;
        if anchor != 0 {
            self.weight += node.weight;
            self.anchors.insert(anchor, node.clone());
        }
        self.check_weight(mark)?;
        if self.open.len() + node.height > MAX_DEPTH {
            return Err((mark, format!("nested deeper than {MAX_DEPTH} levels once aliases are expanded")));
        }
        if self.waiting_for_key().is_some() {
            return Err((mark, "a key must be a string, not an alias".to_owned()));
        }
        match self.open.last_mut() {
            None if matches!(node.kind, Kind::Scalar(Value::Null)) => {}
            None => self.documents.push(node),
            Some(Frame { mapping: Some(mapping), .. }) => mapping.take_value(node),
            Some(frame) => frame.items.push(node),
        }
        Ok(())
    }

    fn check_weight(&self, mark: Mark) -> Result<(), (Mark, String)> {
        if self.weight > MAX_WEIGHT {
            return Err((mark, "too many values, or too many once aliases are expanded: split the file".to_owned()));
        }
        Ok(())
    }

    fn waiting_for_key(&mut self) -> Option<&mut Mapping> {
        self.open.last_mut()?.mapping.as_mut().filter(|mapping| mapping.key.is_none())
    }
}

impl Mapping {
    fn take_key(&mut self, key: String, mark: Mark, merge: bool) -> Result<(), (Mark, String)> {
        if !merge && let Some(line) = self.seen.insert(key.clone(), mark.line) {
            return Err((mark, format!("the key {} stands twice, first at line {line}", quoted(&key))));
        }
        self.key = Some(((!merge).then_some(key), mark));
        Ok(())
    }

    fn take_value(&mut self, value: Node) {
        match self.key.take() {
            Some((Some(key), mark)) => self.entries.push(Entry { key, mark, value }),
            Some((None, _)) => self.merges.push(value),
            None => {}
        }
    }

    /// What `<<` brings in: keys that are not there yet.
    fn merge(&mut self, node: Node) -> Result<(), (Mark, String)> {
        match node.kind {
            Kind::Mapping(entries) => {
                for entry in entries {
                    if !self.seen.contains_key(&entry.key) {
                        self.seen.insert(entry.key.clone(), entry.mark.line);
                        self.entries.push(entry);
                    }
                }
                Ok(())
            }
            Kind::Sequence(nodes) => nodes.into_iter().try_for_each(|node| match node.kind {
                Kind::Mapping(_) => self.merge(node),
                _ => Err((node.mark, "<< must merge mappings".to_owned())),
            }),
            Kind::Scalar(_) => Err((node.mark, "<< must merge a mapping or a list of mappings".to_owned())),
        }
    }
}

impl Frame {
    fn close(self) -> Result<Node, (Mark, String)> {
        let kind = match self.mapping {
            None => Kind::Sequence(self.items),
            Some(mut mapping) => {
                for node in std::mem::take(&mut mapping.merges) {
                    mapping.merge(node)?;
                }
                Kind::Mapping(mapping.entries)
            }
        };
        let (height, weight) = match &kind {
            Kind::Scalar(_) => (0, 0),
            Kind::Sequence(items) => measure(items.iter().map(|item| (item, 0))),
            Kind::Mapping(entries) => measure(entries.iter().map(|entry| (&entry.value, entry.key.len()))),
        };
        Ok(Node { mark: self.mark, kind, height: height + 1, weight: weight + NODE_WEIGHT })
    }
}

impl Node {
    /// The value without places.
    pub(super) fn to_value(&self) -> Value {
        match &self.kind {
            Kind::Scalar(value) => value.clone(),
            Kind::Sequence(items) => items.iter().map(Self::to_value).collect(),
            Kind::Mapping(entries) => {
                Value::Object(entries.iter().map(|e| (e.key.clone(), e.value.to_value())).collect::<Map<_, _>>())
            }
        }
    }

    /// The items of a `kind: List`, as `kubectl get -o yaml` prints it; otherwise the node itself.
    pub(super) fn into_items(self) -> Vec<Self> {
        let is = |key: &str, value: &str| matches!(self.get(key), Some(Entry { value: Node { kind: Kind::Scalar(v), .. }, .. }) if v == value);
        let list = is("apiVersion", "v1") && is("kind", "List");
        if !list || !matches!(self.get("items"), Some(Entry { value: Node { kind: Kind::Sequence(_), .. }, .. })) {
            return vec![self];
        }
        let Kind::Mapping(entries) = self.kind else { return Vec::new() };
        match entries.into_iter().find(|entry| entry.key == "items").map(|entry| entry.value.kind) {
            Some(Kind::Sequence(items)) => items,
            _ => Vec::new(),
        }
    }

    /// The place of the field at `path`, or of the nearest one around it.
    pub(super) fn locate(&self, path: &str) -> Mark {
        let (mut node, mut mark) = (self, self.mark);
        for step in path.split(['.', '[']).filter(|step| !step.is_empty()) {
            match (&node.kind, step.strip_suffix(']').and_then(|index| index.parse::<usize>().ok())) {
                (Kind::Sequence(items), Some(index)) => match items.get(index) {
                    Some(item) => (node, mark) = (item, item.mark),
                    None => return mark,
                },
                (Kind::Mapping(_), None) => match node.get(step) {
                    // A scalar's own place is where the mistake is; a collection begins at its key.
                    Some(Entry { value: value @ Node { kind: Kind::Scalar(Value::Null), .. }, mark: key, .. }) => {
                        (node, mark) = (value, *key)
                    }
                    Some(Entry { value: value @ Node { kind: Kind::Scalar(_), .. }, .. }) => {
                        (node, mark) = (value, value.mark)
                    }
                    Some(Entry { value, mark: key, .. }) => (node, mark) = (value, *key),
                    None => return mark,
                },
                _ => return mark,
            }
        }
        mark
    }

    fn get(&self, key: &str) -> Option<&Entry> {
        match &self.kind {
            Kind::Mapping(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }
}

/// Largest height and sum of weights, each with its key's bytes.
fn measure<'a>(nodes: impl Iterator<Item = (&'a Node, usize)>) -> (usize, usize) {
    nodes.fold((0, 0), |(height, weight), (node, key)| (height.max(node.height), weight + node.weight + key))
}

fn mark(span: &Span, line: usize) -> Mark {
    Mark { line: span.start.line() + line, column: span.start.col() + 1 }
}

fn syntax(error: &ScanError, line: usize) -> (Mark, String) {
    let mark = Mark { line: error.marker().line() + line, column: error.marker().col() + 1 };
    (mark, format!("not valid YAML: {}", printable(&error.info(), 200)))
}

fn unknown_tag(tag: &str) -> String {
    format!("the tag {} is not supported: write the value without it", quoted(tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Long rules and descriptions are folded over lines: reading them back must give the very text.
    #[test]
    fn the_definitions_files_read_back_as_the_definitions() {
        for definition in crate::schema::definitions() {
            let path = std::path::Path::new("yaml").join(definition.file);
            let (trees, broken) = read(&std::fs::read_to_string(path).unwrap());
            assert!(broken.is_none() && trees.len() == 1);
            assert_eq!(trees[0].to_value(), definition.crd, "{}", definition.kind);
        }
    }

    #[test]
    fn places_of_fields_and_of_what_is_missing() {
        let (trees, _) = read("a:\n  b: 1\n  c:\n  - x\n  - y: [2,\n      3]\nd:\n");
        let cases = [
            ("", (1, 1)),
            ("a", (1, 1)),
            ("a.b", (2, 6)),
            ("a.missing", (1, 1)),
            ("a.missing.below", (1, 1)),
            ("a.c", (3, 3)),
            ("a.c[0]", (4, 5)),
            ("a.c[1].y", (5, 5)),
            ("a.c[1].y[1]", (6, 7)),
            ("a.c[7]", (3, 3)),
            ("d", (7, 1)),
            ("d.e", (7, 1)),
            ("a[0]", (1, 1)),
        ];
        for (path, (line, column)) in cases {
            assert_eq!(trees[0].locate(path), Mark { line, column }, "{path}");
        }
    }
}
