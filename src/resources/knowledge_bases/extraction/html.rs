//! HTML and XHTML as a browser without styles shows them.

use html5gum::emitters::callback::{Callback, CallbackEmitter, CallbackEvent};
use html5gum::{Emitter, ForwardingEmitter, Span, State, Tokenizer};

use super::lines::Lines;
use super::numbers::{letters, roman};
use crate::base::{Error, Result};

/// Elements that begin and end a line.
const BLOCKS: [&str; 54] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "body",
    "caption",
    "center",
    "dd",
    "details",
    "dialog",
    "dir",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "frameset",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "head",
    "header",
    "hgroup",
    "hr",
    "html",
    "legend",
    "li",
    "listing",
    "main",
    "menu",
    "nav",
    "noframes",
    "ol",
    "optgroup",
    "option",
    "p",
    "plaintext",
    "pre",
    "search",
    "section",
    "select",
    "summary",
    "table",
    "textarea",
    "title",
    "tr",
    "ul",
    "xmp",
];

/// Elements whose text is not shown: code, what stands for something else, and how ruby is pronounced.
const HIDDEN: [&str; 10] =
    ["iframe", "noembed", "noscript", "rp", "rt", "script", "style", "template", "video", "audio"];

/// Elements in which white space is shown as it is.
const PREFORMATTED: [&str; 5] = ["listing", "plaintext", "pre", "textarea", "xmp"];

/// Returns the text of a file: its title, and a line for each block.
pub fn text(html: &str) -> Result<String> {
    let mut lines = Lines::default();
    read(html, true, &mut lines)?;
    lines.finished()
}

/// Adds the text of a document, with its title or without.
pub fn read(html: &str, with_title: bool, lines: &mut Lines) -> Result<()> {
    let content = Content {
        lines,
        name: String::new(),
        attributes: Attributes::default(),
        lists: Vec::new(),
        label: String::new(),
        with_title,
        has_title: false,
        is_ordinary: false,
        hidden: None,
        preformatted: 0,
        is_before_text: false,
    };
    let mut emitter = CallbackEmitter::new(content);
    emitter.naively_switch_states(true);
    // All of it is read before the first error.
    match Tokenizer::new_with_emitter(html, Tags { emitter, is_closed: false }).next() {
        Some(Ok(error)) => Err(error),
        None => lines.end_line(),
    }
}

/// Passes on what the tokenizer finds. A tag that closes itself has no text, as in XHTML, also where
/// HTML would take all that follows for it.
struct Tags<'a> {
    emitter: CallbackEmitter<Content<'a>, Error>,
    is_closed: bool,
}

impl ForwardingEmitter for Tags<'_> {
    type Token = Error;

    fn inner(&mut self) -> &mut impl Emitter<Token = Error> {
        &mut self.emitter
    }

    fn init_start_tag(&mut self) {
        self.is_closed = false;
        self.emitter.init_start_tag();
    }

    fn set_self_closing(&mut self) {
        self.is_closed = true;
        self.emitter.set_self_closing();
    }

    fn emit_current_tag(&mut self) -> Option<State> {
        let next = self.emitter.emit_current_tag();
        let is_ordinary = self.emitter.callback_mut().is_ordinary;
        next.filter(|_| !self.is_closed && !is_ordinary)
    }
}

struct Content<'a> {
    lines: &'a mut Lines,
    /// The name of the tag that is read, and its attributes.
    name: String,
    attributes: Attributes,
    /// The lists that are open.
    lists: Vec<List>,
    /// The number or bullet of an item of which no text was read.
    label: String,
    /// Whether the title is text of the document.
    with_title: bool,
    /// Whether it was read. Others are names of drawings, or written in a text by mistake.
    has_title: bool,
    /// Whether the last start tag was such a title: it does not end at its end tag only.
    is_ordinary: bool,
    /// The element whose text is left out, and how many of its name are open.
    hidden: Option<(String, usize)>,
    /// How many elements are open in which white space is shown.
    preformatted: usize,
    /// Whether nothing came since the last of them began: a line end there is not shown.
    is_before_text: bool,
}

/// What a start tag says about numbers.
#[derive(Default)]
struct Attributes {
    /// The name of the last one.
    name: String,
    start: Option<i32>,
    value: Option<i32>,
    /// The kind of numbers: `1`, `a`, `A`, `i` or `I`.
    kind: Option<char>,
    is_reversed: bool,
}

impl Attributes {
    fn named(&mut self, name: &[u8]) {
        self.name = String::from_utf8_lossy(name).into();
        self.is_reversed |= self.name == "reversed";
    }

    fn set(&mut self, value: &[u8]) {
        let value = String::from_utf8_lossy(value);
        match self.name.as_str() {
            "start" => self.start = value.trim().parse().ok(),
            "value" => self.value = value.trim().parse().ok(),
            "type" => self.kind = value.chars().next().filter(|_| value.len() == 1),
            _ => {}
        }
    }
}

enum List {
    Bullets,
    Numbers {
        /// None if they count down from the number of items, which is not known yet.
        next: Option<i32>,
        step: i32,
        kind: Option<char>,
    },
}

impl List {
    /// Returns what stands before the next item.
    fn label(&mut self, attributes: &Attributes) -> String {
        let List::Numbers { next, step, kind } = self else { return "• ".into() };
        let Some(number) = attributes.value.or(*next) else { return String::new() };
        *next = Some(number.saturating_add(*step));
        let written = match (u32::try_from(number), attributes.kind.or(*kind)) {
            (Ok(number), Some('a')) => letters(number),
            (Ok(number), Some('A')) => letters(number).to_ascii_uppercase(),
            (Ok(number), Some('i')) => roman(number),
            (Ok(number), Some('I')) => roman(number).to_ascii_uppercase(),
            _ => number.to_string(),
        };
        format!("{written}. ")
    }
}

impl Callback<Error, ()> for Content<'_> {
    fn handle_event(&mut self, event: CallbackEvent<'_>, _: Span<()>) -> Option<Error> {
        match event {
            CallbackEvent::OpenStartTag { name } => {
                self.name = String::from_utf8_lossy(name).into();
                self.attributes = Attributes::default();
                Ok(())
            }
            CallbackEvent::AttributeName { name } => {
                self.attributes.named(name);
                Ok(())
            }
            CallbackEvent::AttributeValue { value } => {
                self.attributes.set(value);
                Ok(())
            }
            CallbackEvent::CloseStartTag { self_closing } => {
                let name = std::mem::take(&mut self.name);
                self.start(&name, self_closing)
            }
            CallbackEvent::EndTag { name } => self.end(&String::from_utf8_lossy(name)),
            CallbackEvent::String { value } if self.hidden.is_none() => {
                self.text(&String::from_utf8_lossy(value))
            }
            _ => Ok(()),
        }
        .err()
    }
}

impl Content<'_> {
    fn start(&mut self, name: &str, is_closed: bool) -> Result<()> {
        self.is_ordinary = false;
        self.is_before_text = false;
        if let Some((hidden, open)) = &mut self.hidden {
            // These end where another one begins.
            let ends = matches!(name, "rt" | "rp");
            *open += usize::from(hidden == name && !is_closed && !ends);
            return Ok(());
        }
        let is_title = name == "title" && !std::mem::replace(&mut self.has_title, true);
        let is_hidden = HIDDEN.contains(&name) || is_title && !self.with_title;
        if is_hidden && !is_closed {
            self.hidden = Some((name.into(), 1));
            return Ok(());
        }
        match name {
            "br" => return self.lines.end_paragraph(),
            "table" => return self.lines.start_table(),
            "tr" => return self.lines.start_row(),
            "td" | "th" => {
                if !self.lines.is_in_row() {
                    self.lines.start_row()?;
                }
                return self.lines.start_cell();
            }
            "title" if !is_title => {
                self.is_ordinary = true;
                return Ok(());
            }
            "ul" | "menu" | "dir" if !is_closed => self.lists.push(List::Bullets),
            "ol" if !is_closed => self.lists.push(self.numbers()),
            _ => {}
        }
        if PREFORMATTED.contains(&name) && !is_closed {
            self.preformatted += 1;
            self.is_before_text = true;
        }
        if name == "li" {
            self.lines.end_line()?;
            self.label =
                self.lists.last_mut().unwrap_or(&mut List::Bullets).label(&self.attributes);
            return Ok(());
        }
        if BLOCKS.contains(&name) { self.lines.end_line() } else { Ok(()) }
    }

    fn end(&mut self, name: &str) -> Result<()> {
        if let Some((hidden, open)) = &mut self.hidden {
            let is_ruby = matches!(hidden.as_str(), "rt" | "rp") && name == "ruby";
            *open -= usize::from(hidden == name || is_ruby);
            if *open == 0 {
                self.hidden = None;
            }
            return Ok(());
        }
        match name {
            "table" => return self.lines.end_table(),
            "tr" => return self.lines.end_row(),
            "ul" | "menu" | "dir" | "ol" => {
                self.lists.pop();
                self.label.clear();
            }
            "li" => self.label.clear(),
            _ => {}
        }
        if PREFORMATTED.contains(&name) {
            self.preformatted = self.preformatted.saturating_sub(1);
        }
        if BLOCKS.contains(&name) { self.lines.end_line() } else { Ok(()) }
    }

    /// The list of numbers whose tag was read.
    fn numbers(&self) -> List {
        let Attributes { start, kind, is_reversed, .. } = self.attributes;
        let step = if is_reversed { -1 } else { 1 };
        List::Numbers { next: start.or((!is_reversed).then_some(1)), step, kind }
    }

    fn text(&mut self, text: &str) -> Result<()> {
        if !self.label.is_empty() && text.contains(|c: char| !c.is_ascii_whitespace()) {
            self.lines.flow(&std::mem::take(&mut self.label))?;
        }
        if self.preformatted == 0 {
            return self.lines.flow(text);
        }
        let is_first = std::mem::take(&mut self.is_before_text);
        self.lines.add(text.strip_prefix('\n').filter(|_| is_first).unwrap_or(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_browser_shows_is_read() {
        for (html, read) in [
            (
                "<!doctype html><title>A &amp; B</title><p>one\n two<p>three",
                "A & B\none two\nthree\n",
            ),
            ("<div>a<div>b</div>c</div>d<br>e<br><br>f", "a\nb\nc\nd\ne\n\nf\n"),
            ("<b>a</b>b <i> c</i>&eacute;&#x1F642;&nbsp;&lt;", "ab cé🙂\u{a0}<\n"),
            ("<table><tr><th>A<th>B<tr><td><p>1<p>2<td>3</table>x", "A\tB\n1 2\t3\nx\n"),
            // A table that lays out others.
            ("<table><tr><td>menu<td><table><tr><td>A<td>B</table></table>x", "menu\nA\tB\nx\n"),
            ("<td>a<td>b", "ab\n"),
            ("<ul><li>a<li>b</ul><select><option>c<option>d</select>", "• a\n• b\nc\nd\n"),
            ("<pre>\na\n  b\n</pre>c", "a\n  b\nc\n"),
            ("<ruby>漢<rp>(</rp><rt>kan<rp>)</ruby>字", "漢字\n"),
            // What is not shown.
            (
                "<style>no</style><script>if (a < b) '</p>no'</script><noscript><p>no</noscript>a<!-- no -->",
                "a\n",
            ),
            ("<template>no<template>no</template>no</template>a<iframe>no</iframe>", "a\n"),
            // Tags that close themselves, as in XHTML.
            ("<title/><script src='a'/><style/>a<br/>b", "a\nb\n"),
            // A title in the text is text.
            (
                "<title>a</title>the <title> element <b>c</b><svg><title>d</title></svg>",
                "a\nthe element cd\n",
            ),
            ("a</script></table></tr></p></b>b<", "a\nb<\n"),
        ] {
            assert_eq!(text(html).unwrap(), read, "{html}");
        }
    }

    #[test]
    fn items_of_lists_have_their_numbers_and_bullets() {
        for (html, read) in [
            ("<ol><li>a<li><p>b</p><p>more</p><li></li><li>d</ol>", "1. a\n2. b\nmore\n4. d\n"),
            ("<ol start=8><li>a<li value='20'>b<li>c</ol>", "8. a\n20. b\n21. c\n"),
            ("<ol type=a start=26><li>a<li>b</ol><ol type=I><li>c</ol>", "z. a\naa. b\nI. c\n"),
            ("<ol><li>a<ul><li>b</li></ul></li><li>c</ol><p>d", "1. a\n• b\n2. c\nd\n"),
            ("<ol start=3 reversed><li>a<li>b</ol><ol reversed><li>c</ol>", "3. a\n2. b\nc\n"),
            ("<ol start=-1><li>a<li>b<li>c</ol>", "-1. a\n0. b\n1. c\n"),
            ("<ol start=2147483647><li>a<li>b</ol>", "2147483647. a\n2147483647. b\n"),
            ("<ol><li></ol>a<ul><li></li>b</ul>", "a\nb\n"),
            ("<li>a<ol/><li>b</ol></ol>", "• a\n• b\n"),
            ("<ol><li><pre>\na\n</pre><li><table><tr><td>b<td>c</table></ol>", "1. a\n2. b\tc\n"),
            ("<table><tr><td><ol><li>a<li>b</ol><td>c</table>", "1. a 2. b\tc\n"),
        ] {
            assert_eq!(text(html).unwrap(), read, "{html}");
        }
    }

    #[test]
    fn hostile_documents_are_read_in_time() {
        let many = |part: &str| part.repeat(1024 * 1024 / part.len());
        for part in [
            "<table>",
            "<table><tr><td>a",
            "<div><template>",
            "<a b c=d>",
            "<",
            "&",
            "&amp",
            "<!--",
            "<b",
            "</b>",
            "<pre>\n",
            "<title>",
            "<ruby><rt>",
            "<ol><li>",
            "<ol start=9 value=9 type=i><li>a",
        ] {
            let begin = std::time::Instant::now();
            let _ = text(&many(part));
            assert!(begin.elapsed().as_secs() < 10, "{part}");
        }
    }
}
