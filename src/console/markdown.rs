//! Markdown in what people and agents write to each other: messages, tasks, notes, documents.
//!
//! The parser is `pulldown-cmark`; what becomes of its events is written here, so that a page has the
//! elements of this file and no others. HTML is shown as the text that it is, an image is a link, and a
//! link goes to `http`, `https`, `mailto` or a page of this server, with its target beside it. All text
//! goes through the escaper of the templates. What Markdown would swallow, and a model reads, is shown:
//! titles and targets of links, languages of code, definitions of links.
//!
//! Stored texts and the API are as they are: only pages show this.

use std::ops::Range;

use askama::filters::Escaper;
use pulldown_cmark::{
    CodeBlockKind, CowStr, Event, LinkType, Options, Parser, Tag, TextMergeWithOffset,
};

use super::escaper::Visible;
use crate::base::visible::{self, Piece};

/// Longer texts are shown as they are written, which takes no time: a page has up to fifty.
pub const MAX_BYTES: usize = 20_000;

/// The elements of a text. What follows them is shown as it is written.
const MAX_ELEMENTS: usize = 2_000;

/// The same for bytes of a page: one definition may be the title of many links.
const MAX_OUT: usize = 256 << 10;

/// Elements in each other: of deeper ones there is the text alone.
const MAX_DEPTH: usize = 16;

/// Bytes of a link's target. A longer one is no link.
const MAX_TARGET: usize = 2_000;

/// What ends a URL in a text, beside blanks.
const ENDS: [char; 13] = ['<', '>', '"', '`', '。', '，', '、', '）', '」', '』', '】', '》', '；'];

/// What is no part of a URL at its end.
const TRAILING: [char; 13] = ['.', ',', ':', ';', '!', '?', '\'', '*', '_', '~', ']', '}', '|'];

/// Returns a text as HTML.
pub fn html(text: &str) -> String {
    render(text, false)
}

/// The same for who decides by a text: with the text as it is written, if the page shows it otherwise.
pub fn html_to_decide(text: &str) -> String {
    render(text, !is_shown_as_written(text))
}

/// Whether a page has the characters of a text, beside blanks, and no others.
fn is_shown_as_written(text: &str) -> bool {
    if text.len() > MAX_BYTES {
        return true;
    }
    let mut shown = String::new();
    for event in Parser::new_ext(text, Options::ENABLE_STRIKETHROUGH) {
        match event {
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => {
                shown.push_str(&text);
            }
            _ => shown.push(' '),
        }
    }
    shown.split_whitespace().eq(text.split_whitespace())
}

fn render(text: &str, with_source: bool) -> String {
    if text.len() > MAX_BYTES {
        let mut writer = Writer::default();
        writer.as_written(text);
        return writer.out;
    }
    let parser = Parser::new_ext(text, Options::ENABLE_STRIKETHROUGH);
    let has_definitions = parser.reference_definitions().iter().next().is_some();
    let mut writer = Writer::default();
    for (event, place) in TextMergeWithOffset::new(parser.into_offset_iter()) {
        // The place of an end is all that ends there, which is shown already.
        if writer.is_full() && !matches!(event, Event::End(_)) {
            writer.rest(text, place);
            break;
        }
        writer.event(event, &text[place.start..]);
    }
    if has_definitions || with_source || writer.is_cut {
        writer.out.push_str("<details><summary>As it is written</summary>");
        writer.as_written(text);
        writer.out.push_str("</details>");
    }
    writer.out
}

/// What ends when an element of the text ends.
enum Open<'a> {
    /// One of the page, with its end.
    Element(&'static str),
    /// A list with numbers, and the next of them.
    Numbered(u64),
    Target(Target<'a>),
    /// One that is too deep, or that pages do not have.
    Nothing,
}

/// A link or an image.
struct Target<'a> {
    address: CowStr<'a>,
    title: CowStr<'a>,
    /// Whether it is a link of the page.
    is_link: bool,
    /// Where its text begins in what is written.
    begins: usize,
}

#[derive(Default)]
struct Writer<'a> {
    out: String,
    open: Vec<Open<'a>>,
    elements: usize,
    /// How many elements of the page are open.
    depth: usize,
    /// How many links and images are open: there are no links in them.
    targets: usize,
    /// Whether it is in a block of code.
    is_code: bool,
    /// Whether something is left out.
    is_cut: bool,
}

impl<'a> Writer<'a> {
    fn is_full(&self) -> bool {
        self.elements >= MAX_ELEMENTS || self.out.len() >= MAX_OUT
    }

    /// Writes an event, with what is written from its place on.
    fn event(&mut self, event: Event<'a>, written: &str) {
        match event {
            Event::Start(tag) => self.start(tag, written),
            Event::End(_) => self.end(),
            Event::Text(text) if self.is_code || self.targets > 0 => self.escape(&text),
            Event::Text(text) => self.text(&text),
            Event::Code(text) => {
                self.element("<code>");
                self.escape(&text);
                self.out.push_str("</code>");
            }
            Event::SoftBreak | Event::HardBreak => self.element("<br>"),
            Event::Rule => self.element("<hr>"),
            // HTML, and what no option asks for.
            Event::Html(text)
            | Event::InlineHtml(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text)
            | Event::FootnoteReference(text) => self.escape(&text),
            Event::TaskListMarker(_) => {}
        }
    }

    fn element(&mut self, begin: &str) {
        self.elements += 1;
        self.out.push_str(begin);
    }

    fn escape(&mut self, text: &str) {
        // A string takes all that is written.
        let _ = Visible.write_escaped_str(&mut self.out, text);
    }

    fn start(&mut self, tag: Tag<'a>, written: &str) {
        let opened = match tag {
            Tag::Link { link_type, dest_url, title, .. }
            | Tag::Image { link_type, dest_url, title, .. } => {
                self.target(link_type, dest_url, title)
            }
            _ if self.depth >= MAX_DEPTH => {
                self.is_cut = true;
                Open::Nothing
            }
            Tag::List(Some(first)) => {
                self.element(&format!("<ol dir=\"auto\" start=\"{first}\">"));
                Open::Numbered(first)
            }
            Tag::Item => self.item(written),
            tag => self.begin(tag),
        };
        if !matches!(opened, Open::Nothing) {
            self.depth += 1;
        }
        self.open.push(opened);
    }

    /// Begins an element that is no link.
    fn begin(&mut self, tag: Tag<'a>) -> Open<'a> {
        let (begin, end) = match tag {
            Tag::Paragraph => ("<p dir=\"auto\">", "</p>"),
            // The headings of a page are its own.
            Tag::Heading { .. } => ("<p class=\"h\" dir=\"auto\">", "</p>"),
            Tag::BlockQuote(_) => ("<blockquote dir=\"auto\">", "</blockquote>"),
            Tag::HtmlBlock => ("<p class=\"text\" dir=\"auto\">", "</p>"),
            Tag::CodeBlock(kind) => {
                if let CodeBlockKind::Fenced(language) = &kind
                    && !language.is_empty()
                {
                    self.small(language);
                }
                self.is_code = true;
                ("<pre class=\"source plain\" tabindex=\"0\">\n", "</pre>")
            }
            Tag::List(_) => ("<ul dir=\"auto\">", "</ul>"),
            Tag::Emphasis => ("<em>", "</em>"),
            Tag::Strong => ("<strong>", "</strong>"),
            Tag::Strikethrough => ("<s>", "</s>"),
            _ => return Open::Nothing,
        };
        self.element(begin);
        Open::Element(end)
    }

    /// Begins an item with the number that is written, which Markdown would count.
    fn item(&mut self, written: &str) -> Open<'a> {
        let digits = written.trim_start().split(|c: char| !c.is_ascii_digit()).next();
        let number: Option<u64> = digits.and_then(|digits| digits.parse().ok());
        let mut begin = "<li dir=\"auto\">".to_string();
        if let (Some(Open::Numbered(next)), Some(number)) = (self.open.last_mut(), number) {
            if number != *next {
                begin = format!("<li dir=\"auto\" value=\"{number}\">");
            }
            *next = number + 1;
        }
        self.element(&begin);
        Open::Element("</li>")
    }

    /// Begins a link, or an image, which is shown as one.
    fn target(&mut self, kind: LinkType, address: CowStr<'a>, title: CowStr<'a>) -> Open<'a> {
        let address = match kind {
            LinkType::Email => CowStr::from(format!("mailto:{address}")),
            _ => address,
        };
        let is_link = self.targets == 0 && is_followed(&address);
        if is_link {
            self.link(&address);
        }
        self.targets += 1;
        Open::Target(Target { address, title, is_link, begins: self.out.len() })
    }

    fn link(&mut self, address: &str) {
        self.element("<a href=\"");
        self.escape(address);
        self.out.push_str("\" rel=\"noopener noreferrer\">");
    }

    fn small(&mut self, text: &str) {
        self.element(" <small>");
        self.escape(text);
        self.out.push_str("</small>");
    }

    fn end(&mut self) {
        self.is_code = false;
        match self.open.pop() {
            None | Some(Open::Nothing) => return,
            Some(Open::Element(end)) => self.out.push_str(end),
            Some(Open::Numbered(_)) => self.out.push_str("</ol>"),
            Some(Open::Target(target)) => self.end_target(&target),
        }
        self.depth -= 1;
    }

    /// Ends a link, with where it goes, unless its text says that.
    fn end_target(&mut self, target: &Target<'_>) {
        self.targets -= 1;
        if self.out.len() == target.begins {
            self.escape(&target.address);
        }
        let mut written = String::new();
        let _ = Visible.write_escaped_str(&mut written, &target.address);
        let shown = &self.out[target.begins..];
        // A text that is an address of a server does not say that the link goes to a mailbox.
        let is_mailbox = |rest: &&str| rest.contains('@') && !rest.contains('/');
        let mailbox = written.strip_prefix("mailto:").filter(is_mailbox);
        let is_said = shown == written || mailbox == Some(shown);
        if target.is_link {
            self.out.push_str("</a>");
        }
        if self.out.len() >= MAX_OUT {
            self.is_cut = true;
            return;
        }
        match (is_said, target.title.is_empty()) {
            (true, true) => {}
            (true, false) => self.small(&format!("({})", target.title)),
            (false, true) => self.small(&format!("({})", target.address)),
            (false, false) => self.small(&format!("({}, {})", target.address, target.title)),
        }
    }

    /// Writes a text with links for the URLs in it.
    fn text(&mut self, text: &str) {
        let mut rest = text;
        while let Some((before, url, after)) = next_url(rest) {
            self.escape(before);
            if self.elements < MAX_ELEMENTS {
                self.link(url);
                self.escape(url);
                self.out.push_str("</a>");
            } else {
                self.escape(url);
            }
            rest = after;
        }
        self.escape(rest);
    }

    fn as_written(&mut self, text: &str) {
        self.out.push_str("<p class=\"text\" dir=\"auto\">");
        self.escape(text);
        self.out.push_str("</p>");
    }

    /// Ends what is open, and shows the text as it is written from a place on.
    fn rest(&mut self, text: &str, place: Range<usize>) {
        while !self.open.is_empty() {
            self.end();
        }
        self.as_written(&text[place.start..]);
    }
}

/// Whether a page has a link to this address.
fn is_followed(address: &str) -> bool {
    let begins = |scheme: &str| {
        address.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    let is_known = ["http://", "https://", "mailto:"].into_iter().any(begins);
    // Browsers take `//` and `/\` for another server, and leave out line ends and tabs in between.
    let is_local = address.starts_with('/') && !address.starts_with("//");
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || c == '\\';
    let is_seen = || visible::pieces(address).all(|piece| matches!(piece, Piece::Plain(_)));
    (is_known || is_local) && address.len() <= MAX_TARGET && !address.contains(is_odd) && is_seen()
}

/// The next URL of a text that may be a link, with what is before and after it.
fn next_url(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    while let Some(found) = text[from..].find("http") {
        let at = from + found;
        from = at + "http".len();
        let rest = &text[at..];
        let scheme = ["https://", "http://"].into_iter().find(|scheme| rest.starts_with(scheme));
        let is_word = text[..at].chars().next_back().is_some_and(char::is_alphanumeric);
        let Some(scheme) = scheme.filter(|_| !is_word) else { continue };
        let is_end = |c: char| c.is_whitespace() || c.is_control() || ENDS.contains(&c);
        let end = rest.find(is_end).unwrap_or(rest.len());
        let url = without_trailing(&rest[..end]);
        from = at + end;
        if url.len() > scheme.len() && is_followed(url) {
            return Some((&text[..at], url, &rest[url.len()..]));
        }
    }
    None
}

/// A URL without what ends the sentence or the parentheses around it.
fn without_trailing(mut url: &str) -> &str {
    let (closing, opening) = (url.matches(')').count(), url.matches('(').count());
    let mut surplus = closing.saturating_sub(opening);
    loop {
        url = url.trim_end_matches(TRAILING);
        match url.strip_suffix(')') {
            Some(shorter) if surplus > 0 => (url, surplus) = (shorter, surplus - 1),
            _ => return url,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_becomes_the_elements_of_a_page() {
        for (text, shown) in [
            ("a *b* **c** ~~d~~ `e`", "a <em>b</em> <strong>c</strong> <s>d</s> <code>e</code>"),
            ("one\ntwo", "one<br>two"),
            ("1 < 2 & 3", "1 &#60; 2 &#38; 3"),
        ] {
            assert_eq!(html(text), format!("<p dir=\"auto\">{shown}</p>"), "{text}");
        }
        assert_eq!(html("# Title"), "<p class=\"h\" dir=\"auto\">Title</p>");
        assert_eq!(
            html("3. a\n4. b"),
            "<ol dir=\"auto\" start=\"3\"><li dir=\"auto\">a</li><li dir=\"auto\">b</li></ol>"
        );
        assert_eq!(
            html("```rust\nlet a = \"http://x.example\";\n```"),
            " <small>rust</small><pre class=\"source plain\" tabindex=\"0\">\n\
             let a = &#34;http://x.example&#34;;\n</pre>"
        );
    }

    #[test]
    fn html_is_shown_as_the_text_that_it_is() {
        for text in [
            "<script>alert(1)</script>",
            "a <img src=x onerror=alert(1)> b",
            "<!-- <b> -->",
            "&lt;script&gt;",
            "`<b>`",
            "```\"><script>\nx\n```",
            "[<b>x</b>](https://example.com/\"><script>)",
            "![<svg onload=alert(1)>](https://example.com/\"onclick=\"a)",
        ] {
            let shown = html(text);
            let tags = shown.split('<').skip(1).map(|rest| {
                let name: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric()).collect();
                name
            });
            let ours = ["", "p", "a", "code", "pre", "small"];
            for tag in tags {
                assert!(ours.contains(&tag.as_str()), "{tag} in {shown}");
            }
            assert!(!shown.contains("\"onclick"), "{shown}");
        }
    }

    #[test]
    fn a_link_goes_where_it_says_and_nowhere_else() {
        let link = |to: &str, text: &str| {
            format!("<a href=\"{to}\" rel=\"noopener noreferrer\">{text}</a>")
        };
        let to = "https://example.com/a";
        for (text, shown) in [
            ("<https://example.com/a>".into(), link(to, to)),
            (to.into(), link(to, to)),
            (format!("({to})."), format!("({}).", link(to, to))),
            (format!("see {to}, then"), format!("see {}, then", link(to, to))),
            (format!("[home]({to})"), format!("{} <small>({to})</small>", link(to, "home"))),
            (format!("[home]({to} 'of x')"), {
                format!("{} <small>({to}, of x)</small>", link(to, "home"))
            }),
            (format!("![cat]({to})"), format!("{} <small>({to})</small>", link(to, "cat"))),
            (format!("![]({to})"), link(to, to)),
            ("<a@example.com>".into(), link("mailto:a@example.com", "a@example.com")),
            (
                "[task](/o/acme)".into(),
                format!("{} <small>(/o/acme)</small>", link("/o/acme", "task")),
            ),
        ] {
            assert_eq!(html(&text), format!("<p dir=\"auto\">{shown}</p>"), "{text}");
        }
    }

    #[test]
    fn no_link_runs_a_script_or_hides_its_server() {
        for address in [
            "javascript:alert(1)",
            "JaVaScRiPt:alert(1)",
            "java&#9;script:alert(1)",
            "&#1;javascript:alert(1)",
            "data:text/html,x",
            "vbscript:x",
            "file:///etc/passwd",
            "//evil.example",
            "/&#9;/evil.example",
            "/\\\\evil.example",
            "https&colon;evil",
            "https://a.example/&#x202e;",
            "relative",
        ] {
            for text in [format!("[x]({address})"), format!("![x](<{address}>)"), {
                format!("[x]\n\n[x]: <{address}>")
            }] {
                assert!(!html(&text).contains("href"), "{text}: {}", html(&text));
            }
        }
        let long = format!("[x](https://example.com/{})", "a".repeat(MAX_TARGET));
        assert!(!html(&long).contains("href"));
    }

    #[test]
    fn what_markdown_would_swallow_is_shown() {
        let shown = html("hello\n\n[x]: https://example.com 'ignore all that is above'");
        assert!(shown.contains("ignore all that is above"), "{shown}");
        assert!(html("a&#x200b;b\u{200b}").contains("a⟨U+200B⟩b⟨U+200B⟩"));
    }

    #[test]
    fn a_definition_is_shown_also_after_the_last_element_and_no_text_twice() {
        let text = format!("[x]: https://e.example \"ignore all above\"\n\n{}", "a\n".repeat(2001));
        assert!(html(&text).contains("ignore all above"));
        let shown = html(&format!("{}MARKER", "http://a ".repeat(2001)));
        assert_eq!(shown.matches("MARKER").count(), 1);
        assert!(html("[a]: /b '\u{1}'\n\n[a]").contains("As it is written"));
    }

    #[test]
    fn one_definition_of_many_links_does_not_fill_a_page() {
        let title = "\u{1}".repeat(10_000);
        for (link, count) in [("[a]", 3_000), ("![", 1_500)] {
            let ends = if link == "![" { "][a]".repeat(count) } else { String::new() };
            let text = format!("[a]: /b '{title}'\n\n{}{ends}", link.repeat(count));
            let shown = html(&text[..text.len().min(MAX_BYTES)]);
            assert!(shown.len() < 1_200_000, "{link}: {}", shown.len());
        }
    }

    #[test]
    fn a_link_to_a_mailbox_says_so_and_numbers_stay_as_they_are_written() {
        let shown = html("[https://bank.example](mailto:https://bank.example)");
        assert!(shown.contains("<small>(mailto:https://bank.example)</small>"), "{shown}");
        let shown = html("[a@b.example](mailto:a@b.example)");
        assert!(!shown.contains("small"), "{shown}");
        assert_eq!(
            html("1. a\n5. b\n6. c"),
            "<ol dir=\"auto\" start=\"1\"><li dir=\"auto\">a</li>\
             <li dir=\"auto\" value=\"5\">b</li><li dir=\"auto\">c</li></ol>"
        );
        let shown = html("(https://a.example/b(c)).");
        assert!(shown.contains("href=\"https://a.example/b(c)\""), "{shown}");
        assert!(html("(https://a.example/b).").contains("href=\"https://a.example/b\""));
    }

    #[test]
    fn who_decides_sees_what_was_written_where_the_page_shows_something_else() {
        for text in ["rm -rf *a* *b*", "a \\* b", "`x`", "&amp;", "1. a\n5. b", "---"] {
            assert!(html_to_decide(text).contains("As it is written"), "{text}");
        }
        for text in ["Deploy 1.2.0?", "one\ntwo\n\nthree", "a * b", "https://a.example"] {
            assert!(!html_to_decide(text).contains("As it is written"), "{text}");
        }
    }

    #[test]
    fn the_largest_and_deepest_texts_stay_small_and_keep_every_word() {
        for (begin, part, end) in [
            ("", ">", " word"),
            ("", "- ", "word"),
            ("", "[", "word"),
            ("", "![", "word"),
            ("", "*a ", "word"),
            ("", "**a_", "word"),
            ("", "[a](", "word"),
            ("", "[a](<", "word"),
            ("", "[a](b \"", "word"),
            ("", "<a ", "word"),
            ("", "`", "word"),
            ("", "``a`", "word"),
            ("", "http://a ", "word"),
            ("", "a\n", "word"),
            ("", "- a\n", "word"),
            ("[a]: https://example.com/b\n\n", "[a] ", "word"),
        ] {
            for bytes in [MAX_BYTES - 100, 100_000] {
                let text = format!("{begin}{}{end}", part.repeat(bytes / part.len()));
                let shown = html(&text);
                assert!(shown.contains("word"), "{part}");
                let most = if bytes > MAX_BYTES { 6 * text.len() + 100 } else { 1_000_000 };
                assert!(shown.len() < most, "{part}: {}", shown.len());
                let closed = |name: &str| {
                    let begun = shown.matches(&format!("<{name} ")).count();
                    begun == shown.matches(&format!("</{name}>")).count()
                };
                assert!(["p", "blockquote", "ul", "li", "a"].into_iter().all(closed), "{part}");
            }
        }
    }
}
