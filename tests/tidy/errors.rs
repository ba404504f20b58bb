//! `docs/errors.md` lists every error code. It is generated from the places in the sources that name
//! one.

use std::collections::BTreeMap;

use crate::golden;
use crate::source::{self, Kind, Source, Token, after_group, starts_with};

/// What names a code: how the call begins, the kind if the call says it, and the argument that is
/// the code. The message is the argument after it.
const CALLS: [(&[&str], Option<&str>, usize); 6] = [
    (&["Error", "::", "new", "("], None, 1),
    (&["Error", "::", "forbidden", "("], Some("Forbidden"), 0),
    (&["Error", "::", "conflict", "("], Some("Conflict"), 0),
    (&["Error", "::", "busy", "("], Some("Busy"), 0),
    (&["Index", "::", "unique", "("], Some("Conflict"), 1),
    (&["Reference", "::", "restrict", "("], Some("Conflict"), 1),
];

/// Where codes are handed on that are named elsewhere: the constructors themselves, and the
/// keepers of unique indexes and references.
const PASSING_ON: [&str; 3] = ["src/base/error.rs", "src/store/tx.rs", "src/store/reference.rs"];

/// A code where it is named.
#[derive(Debug, PartialEq)]
struct Named {
    code: String,
    kind: String,
    message: Option<String>,
}

/// The codes that a source names; an error for each place where the code is not a literal.
fn named(source: &Source) -> Vec<Result<Named, String>> {
    let mut found = Vec::new();
    for (at, token) in source.tokens.iter().enumerate() {
        let call = CALLS.iter().find(|call| starts_with(&source.tokens[at..], call.0));
        let Some((begin, kind, code)) = call else { continue };
        let arguments = arguments(&source.tokens, at + begin.len() - 1);
        let kind = match (kind, arguments.first()) {
            (Some(kind), _) => kind.to_string(),
            (None, Some(argument)) => argument.last().map_or("", |token| &token.text).into(),
            (None, None) => String::new(),
        };
        match arguments.get(*code).copied() {
            Some([text]) if text.kind == Kind::Text => found.push(Ok(Named {
                code: text.text.clone(),
                kind,
                message: arguments.get(code + 1).and_then(|message| literal(message)),
            })),
            _ if PASSING_ON.contains(&source.path.as_str()) => {}
            _ => {
                let place = format!("{}:{}", source.path, token.first_line);
                found.push(Err(format!("{place}: an error's code must be written out here")));
            }
        }
    }
    found
}

/// The arguments of the call whose bracket opens at `open`.
fn arguments(tokens: &[Token], open: usize) -> Vec<&[Token]> {
    let end = after_group(tokens, open) - 1;
    let mut arguments = Vec::new();
    let mut start = open + 1;
    let mut at = start;
    while at < end {
        if tokens[at].is(",") {
            arguments.push(&tokens[start..at]);
            start = at + 1;
        }
        let opens = ["(", "[", "{"].iter().any(|sign| tokens[at].is(sign));
        at = if opens { after_group(tokens, at) } else { at + 1 };
    }
    if start < end {
        arguments.push(&tokens[start..end]);
    }
    arguments
}

/// A message as far as it is the same each time: what is put in is shown as `…`.
fn literal(argument: &[Token]) -> Option<String> {
    let text = match argument {
        [text] => text,
        [format, bang, open, text, ..] if format.is("format") && bang.is("!") && open.is("(") => {
            text
        }
        _ => return None,
    };
    if text.kind != Kind::Text {
        return None;
    }
    let mut shown = String::new();
    let mut rest = text.text.as_str();
    while let Some((before, after)) = rest.split_once('{') {
        shown += before;
        shown.push('…');
        rest = after.split_once('}').map_or("", |(_, rest)| rest);
    }
    Some(shown + rest)
}

/// The status of each kind: the doc comments of `Kind` begin with it.
fn statuses(source: &Source) -> BTreeMap<String, String> {
    let tokens = &source.tokens;
    let start = (0..tokens.len())
        .find(|at| starts_with(&tokens[*at..], &["enum", "Kind", "{"]))
        .expect("there is an enum Kind");
    let kinds = &tokens[start + 3..after_group(tokens, start + 2)];
    kinds
        .windows(2)
        .filter(|pair| pair[0].kind == Kind::Doc && pair[1].kind == Kind::Word)
        .map(|pair| {
            let about = pair[0].text.trim_start_matches('/').trim();
            (pair[1].text.clone(), about.split(':').next().unwrap_or_default().to_string())
        })
        .collect()
}

/// The text of `docs/errors.md`, or what is wrong with the codes.
fn list(named: &[Named], statuses: &BTreeMap<String, String>) -> Result<String, Vec<String>> {
    let mut codes: BTreeMap<&str, (&str, Vec<&str>)> = BTreeMap::new();
    let mut wrong = Vec::new();
    for Named { code, kind, message } in named {
        let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if !code.chars().all(word) {
            wrong.push(format!("{code} is not a snake_case word"));
        }
        let Some(status) = statuses.get(kind) else {
            wrong.push(format!("{code} is of no kind that there is ({kind})"));
            continue;
        };
        let (known, messages) = codes.entry(code).or_insert((status, vec![]));
        if *known != status.as_str() {
            wrong.push(format!("{code} is {known} in one place and {status} in another"));
        }
        let message = message.as_deref().unwrap_or("*(says what is wrong)*");
        if !messages.contains(&message) {
            messages.push(message);
        }
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let mut text = String::from(
        "# Errors\n\n\
         Every failure is answered with a `code`, which programs may rely on, and a `message` for \
         a person; its wording may change. `…` stands for what depends on the request. This list is \
         made from the sources (`tests/tidy/errors.rs`).\n\n\
         | Code | Status | Message |\n|---|---|---|\n",
    );
    for (code, (status, messages)) in codes {
        let messages = messages.join("<br>").replace('|', "\\|");
        text += &format!("| `{code}` | {status} | {messages} |\n");
    }
    Ok(text)
}

#[test]
fn every_code_is_listed_once() {
    let sources = source::all();
    let sources = || sources.iter().filter(|source| !source.is_test);
    let errors = sources().find(|source| source.path == "src/base/error.rs").unwrap();
    let found: Result<Vec<Named>, String> = sources().flat_map(named).collect();
    let text = list(&found.unwrap(), &statuses(errors)).unwrap();
    golden::assert_kept("docs/errors.md", &text);
}

#[test]
fn codes_are_found_where_they_are_named() {
    let text = r#"
        static A: Index<B, C> = Index::unique("a.by_b", "b_taken", "there is one already", |a| b(a));
        fn c() {
            Error::new(Kind::Limited, "too_often", format!("at most {MAX} a {}", unit(a, b)));
            Err(Error::conflict(
                "is_full",
                match a { b => "c", d => "e" },
            ))
        }
        #[cfg(test)]
        mod tests { fn f() { Error::busy("g", "h", 1) } }
    "#;
    let found: Vec<_> = named(&Source::new("src/a.rs", text)).into_iter().flatten().collect();
    let one = |code: &str, kind: &str, message: Option<&str>| Named {
        code: code.into(),
        kind: kind.into(),
        message: message.map(String::from),
    };
    assert_eq!(
        found,
        [
            one("b_taken", "Conflict", Some("there is one already")),
            one("too_often", "Limited", Some("at most … a …")),
            one("is_full", "Conflict", None),
        ]
    );
    let hidden = "fn a() { Error::forbidden(code, \"b\") }";
    assert!(
        named(&Source::new("src/a.rs", hidden))[0].as_ref().unwrap_err().contains("src/a.rs:1")
    );
    assert!(named(&Source::new("src/base/error.rs", hidden)).is_empty());
}

#[test]
fn a_code_has_one_kind_and_one_line() {
    let kinds = "enum Kind {\n/// 409: a.\nConflict,\n/// 503: b.\nBusy,\n}";
    let statuses = statuses(&Source::new("src/base/error.rs", kinds));
    let one = |kind: &str, message: &str| Named {
        code: "a_b".into(),
        kind: kind.into(),
        message: Some(message.into()),
    };
    let text = list(&[one("Conflict", "c"), one("Conflict", "d"), one("Conflict", "c")], &statuses);
    assert!(text.unwrap().ends_with("|---|---|---|\n| `a_b` | 409 | c<br>d |\n"));
    let wrong = list(&[one("Conflict", "c"), one("Busy", "c")], &statuses).unwrap_err();
    assert_eq!(wrong, ["a_b is 409 in one place and 503 in another"]);
    assert!(list(&[one("Tired", "c")], &statuses).unwrap_err()[0].contains("no kind"));
    let loud = Named { code: "A-B".into(), ..one("Busy", "c") };
    assert!(list(&[loud], &statuses).unwrap_err()[0].contains("snake_case"));
}
