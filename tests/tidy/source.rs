//! The crate's own sources as tokens, for the tests that read them: words, signs, texts and doc comments,
//! in one list.

use std::path::Path;
use std::str::FromStr as _;
use std::sync::LazyLock;

use proc_macro2::{Delimiter, Group, Literal, Spacing, Span, TokenStream, TokenTree};
use syn::Lit;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A name, a keyword, a number.
    Word,
    /// `::`, or any other character by itself.
    Sign,
    /// A text in quotes; the token holds what is between them.
    Text,
    /// A line of a doc comment.
    Doc,
}

/// A token and its lines.
#[derive(Clone, Debug)]
pub struct Token {
    pub kind: Kind,
    pub text: String,
    pub first_line: usize,
    pub last_line: usize,
}

impl Token {
    /// Whether it is this word or sign.
    pub fn is(&self, code: &str) -> bool {
        matches!(self.kind, Kind::Word | Kind::Sign) && self.text == code
    }
}

/// A file of the crate.
pub struct Source {
    /// Below the crate's directory: `src/api/route.rs`.
    pub path: String,
    pub text: String,
    /// Without what only tests compile.
    pub tokens: Vec<Token>,
    /// Whether only tests compile it.
    pub is_test: bool,
    test_modules: Vec<String>,
}

impl Source {
    pub fn new(path: &str, text: &str) -> Self {
        let (tokens, test_modules) = without_tests(tokens(text));
        Source { path: path.into(), text: text.into(), tokens, is_test: false, test_modules }
    }

    /// The modules it is in, and is: `api`, `route`. None for `lib.rs` and `main.rs`.
    pub fn module(&self) -> Vec<String> {
        let path = self.path.trim_start_matches("src/").trim_end_matches(".rs");
        let path = path.trim_end_matches("/mod");
        match path {
            "lib" | "main" => vec![],
            _ => path.split('/').map(String::from).collect(),
        }
    }
}

/// Every file below `src`, those that only tests compile marked; read once.
pub fn all() -> &'static [Source] {
    static ALL: LazyLock<Vec<Source>> = LazyLock::new(read_all);
    &ALL
}

fn read_all() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = Vec::new();
    let mut open = vec![root.join("src")];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).unwrap();
            open.extend(entries.map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let path = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
            sources.push(Source::new(&path, &text));
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    let tests: Vec<Vec<String>> = sources
        .iter()
        .flat_map(|source| {
            source.test_modules.iter().map(|name| [source.module(), vec![name.clone()]].concat())
        })
        .collect();
    for source in &mut sources {
        source.is_test = tests.iter().any(|test| source.module().starts_with(test));
    }
    assert!(sources.len() > 20, "the sources were not found");
    sources
}

/// The tokens outside of items that only tests and fuzzing compile, and the names of modules among
/// them that are files of their own.
fn without_tests(tokens: Vec<Token>) -> (Vec<Token>, Vec<String>) {
    const MARKS: [&[&str]; 2] = [
        &["#", "[", "cfg", "(", "test", ")", "]"],
        &["#", "[", "cfg", "(", "any", "(", "test", ",", "fuzzing", ")", ")", "]"],
    ];
    let mut kept = Vec::new();
    let mut modules = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let Some(mark) = MARKS.iter().find(|mark| starts_with(&tokens[at..], mark)) else {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        };
        at += mark.len();
        while tokens.get(at).is_some_and(|token| token.is("#")) {
            at = after_group(&tokens, at + 1);
        }
        // The item ends with a semicolon, or with the first group in braces.
        while let Some(token) = tokens.get(at) {
            match token.text.as_str() {
                "mod" if tokens.get(at + 2).is_some_and(|token| token.is(";")) => {
                    modules.push(tokens[at + 1].text.clone());
                    at += 1;
                }
                "{" => {
                    at = after_group(&tokens, at);
                    // A `use` of several ends with both.
                    at += usize::from(tokens.get(at).is_some_and(|token| token.is(";")));
                    break;
                }
                ";" => {
                    at += 1;
                    break;
                }
                "(" | "[" => at = after_group(&tokens, at),
                _ => at += 1,
            }
        }
    }
    (kept, modules)
}

/// The index after the group that opens at `at`.
pub fn after_group(tokens: &[Token], mut at: usize) -> usize {
    let mut depth = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        if token.kind == Kind::Sign {
            match token.text.as_str() {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Whether `tokens` begin with the words and signs of `code`.
pub fn starts_with<S: AsRef<str>>(tokens: &[Token], code: &[S]) -> bool {
    tokens.len() >= code.len()
        && code.iter().zip(tokens).all(|(code, token)| token.is(code.as_ref()))
}

/// Takes a text apart: one of Rust, whose groups are closed.
pub fn tokens(text: &str) -> Vec<Token> {
    let stream = TokenStream::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let mut tokens = Vec::new();
    flatten(stream, &mut tokens);
    tokens
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    let trees: Vec<_> = stream.into_iter().collect();
    let mut at = 0;
    while let Some(tree) = trees.get(at) {
        let (read, token) = match &trees[at..] {
            [TokenTree::Punct(hash), TokenTree::Punct(inner), TokenTree::Group(group), ..]
                if hash.as_char() == '#' && inner.as_char() == '!' && doc(group).is_some() =>
            {
                (3, None)
            }
            [TokenTree::Punct(hash), TokenTree::Group(group), ..]
                if hash.as_char() == '#' && doc(group).is_some() =>
            {
                (2, doc(group).map(|doc| (Kind::Doc, format!("///{doc}"))))
            }
            [TokenTree::Punct(first), TokenTree::Punct(second), ..]
                if first.as_char() == ':'
                    && first.spacing() == Spacing::Joint
                    && second.as_char() == ':' =>
            {
                (2, Some((Kind::Sign, "::".into())))
            }
            // A lifetime.
            [TokenTree::Punct(quote), TokenTree::Ident(_), ..] if quote.as_char() == '\'' => {
                (2, None)
            }
            [TokenTree::Punct(sign), ..] => (1, Some((Kind::Sign, sign.as_char().into()))),
            [TokenTree::Ident(word), ..] => (1, Some((Kind::Word, word.to_string()))),
            [TokenTree::Literal(literal), ..] => (1, of_literal(literal)),
            [TokenTree::Group(group), ..] => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                tokens.push(token_at((Kind::Sign, open.into()), group.span_open()));
                flatten(group.stream(), tokens);
                tokens.push(token_at((Kind::Sign, close.into()), group.span_close()));
                (1, None)
            }
            [] => break,
        };
        tokens.extend(token.map(|token| token_at(token, tree.span())));
        at += read;
    }
}

fn token_at((kind, text): (Kind, String), span: Span) -> Token {
    Token { kind, text, first_line: span.start().line, last_line: span.end().line }
}

/// What a doc comment says, which is an attribute: `[doc = "…"]`.
fn doc(group: &Group) -> Option<String> {
    let inner: Vec<_> = group.stream().into_iter().collect();
    match &inner[..] {
        [TokenTree::Ident(doc), TokenTree::Punct(_), TokenTree::Literal(text)] if doc == "doc" => {
            of_literal(text).map(|(_, text)| text)
        }
        _ => None,
    }
}

/// Texts and numbers; none of a character.
fn of_literal(literal: &Literal) -> Option<(Kind, String)> {
    match Lit::new(literal.clone()) {
        Lit::Str(text) => Some((Kind::Text, text.value())),
        Lit::ByteStr(text) => {
            Some((Kind::Text, String::from_utf8_lossy(&text.value()).into_owned()))
        }
        Lit::Byte(_) | Lit::Char(_) => None,
        _ => Some((Kind::Word, literal.to_string())),
    }
}

#[test]
fn sources_are_tokenized_as_rust_does() {
    let text = r###"
        /* a /* b */ c */ 'x: loop { '"' '\'' b'a' r#"d " e"# "f \" // g" h'i } // j
        /// k
        #[cfg(test)] #[l] fn m(n: [u8; 2]) { o } p!{}
        #[cfg(any(test, fuzzing))] pub mod q; #[cfg(any(test, fuzzing))] use r::{s, t};
    "###;
    let source = Source::new("src/a.rs", text);
    let seen: Vec<&str> = source.tokens.iter().map(|token| token.text.as_str()).collect();
    assert_eq!(
        seen,
        [":", "loop", "{", "d \" e", "f \" // g", "h", "}", "/// k", "p", "!", "{", "}"]
    );
    let lines: Vec<usize> = source.tokens.iter().map(|token| token.first_line).collect();
    assert_eq!((lines[0], lines[7], lines[8]), (2, 3, 4));
}
