//! How texts get into pages: the escaper of all templates (`askama.toml`).
//!
//! Whatever a template shows has marks for what nobody would see ([`visible`]), so that no page can
//! forget it. Only the values of fields, which come back when a form is sent, are as they are
//! stored: `{{ value|e("field") }}`, in the attributes `value`, `name` and `data-copy` and in a
//! `textarea`, and nowhere else.

use std::fmt::{self, Write};

use askama::filters::{Escaper, Html};

use crate::base::visible::{self, Piece};

/// Escapes for HTML, with marks for what is not seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Visible;

impl Escaper for Visible {
    fn write_escaped_str<W: Write>(&self, mut dest: W, text: &str) -> fmt::Result {
        if visible::is_plain_ascii(text) {
            return Html.write_escaped_str(dest, text);
        }
        for piece in visible::pieces(text) {
            match piece {
                Piece::Plain(plain) => Html.write_escaped_str(&mut dest, plain)?,
                Piece::Mark(c) => dest.write_str(&visible::mark(c))?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use askama::Template;

    #[derive(Template)]
    #[template(
        source = r#"<p title="{{ text }}">{{ text }}</p><b>{{ c }}</b><input value="{{ text|e("field") }}">"#,
        ext = "html"
    )]
    struct Page {
        text: &'static str,
        c: char,
    }

    #[test]
    fn a_template_shows_what_is_not_seen_but_for_the_values_of_fields() {
        let page = Page { text: "a<b>\u{e0069}\u{202e}❤️\n", c: '\u{200b}' };
        let shown = "a&#60;b&#62;⟨U+E0069⟩⟨U+202E⟩❤️\n";
        let kept = "a&#60;b&#62;\u{e0069}\u{202e}❤️\n";
        assert_eq!(
            page.render().unwrap(),
            format!("<p title=\"{shown}\">{shown}</p><b>⟨U+200B⟩</b><input value=\"{kept}\">")
        );
    }

    /// What is wrong with a template: fields whose values would come back changed, and texts that
    /// are no such values and would hide something.
    fn problems(html: &str) -> Vec<String> {
        let mut problems = Vec::new();
        for (at, _) in html.match_indices("{{ ") {
            let before = &html[..at];
            let expression = html[at..].split(" }}").next().unwrap();
            let expression = expression.split(" -}}").next().unwrap();
            // The attribute that it is in, if it is in one, is what precedes the last quotation mark.
            let in_tag = before.rfind('<') > before.rfind('>');
            let attribute =
                before.rsplit_once("=\"").filter(|(_, rest)| in_tag && !rest.contains('"'));
            let attribute =
                attribute.map(|(name, _)| name.rsplit([' ', '\n']).next().unwrap_or(""));
            let is_field = match attribute {
                Some(name) => [
                    "value",
                    "name",
                    "data-at",
                    "data-copy",
                    "data-value",
                    "data-choose",
                    "data-more",
                ]
                .contains(&name),
                None => before
                    .rfind("<textarea")
                    .is_some_and(|at| !before[at..].contains("</") && before.ends_with(">\n")),
            };
            if is_field != expression.ends_with("|e(\"field\")") {
                problems.push(expression.to_string());
            }
        }
        for (at, _) in html.match_indices("|safe") {
            problems.push(html[..at].chars().rev().take(20).collect());
        }
        problems
    }

    #[test]
    fn in_every_template_fields_have_what_is_stored_and_all_else_is_shown() {
        for (html, is_good) in [
            (r#"<p>{{ a }}</p>"#, true),
            (r#"<p>{{ a|e("field") }}</p>"#, false),
            (r#"<input value="{{ a }}">"#, false),
            (r#"<input name="x.{{ a|e("field") }}" value="{{ b("c")|e("field") }}">"#, true),
            (r#"<p title="{{ a|e("field") }}">"#, false),
            ("<textarea name=\"a\">\n{{ a|e(\"field\") }}</textarea>{{ b }}", true),
            ("<textarea name=\"a\">\n{{ a }}</textarea>", false),
            (r#"<p>{{ a|safe }}</p>"#, false),
        ] {
            assert_eq!(problems(html).is_empty(), is_good, "{html}: {:?}", problems(html));
        }
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/console/templates");
        for file in fs::read_dir(dir).unwrap() {
            let path = file.unwrap().path();
            let found = problems(&fs::read_to_string(&path).unwrap());
            assert!(found.is_empty(), "{}: {found:?}", path.display());
        }
    }
}
