//! The crate's own sources as tokens, for the tests that read them. The lexer knows as much of Rust
//! as these tests need: comments, string literals, words and punctuation; it does not parse.

use std::path::Path;
use std::sync::LazyLock;

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

/// Takes a text apart.
pub fn tokens(text: &str) -> Vec<Token> {
    let mut reader = Reader { chars: text.chars().collect(), at: 0, line: 1 };
    let mut tokens = Vec::new();
    while reader.at < reader.chars.len() {
        let first_line = reader.line;
        if let Some((kind, text)) = reader.token() {
            tokens.push(Token { kind, text, first_line, last_line: reader.line });
        }
    }
    tokens
}

struct Reader {
    chars: Vec<char>,
    at: usize,
    line: usize,
}

impl Reader {
    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn next(&mut self) -> char {
        let char = self.peek(0);
        self.at += 1;
        self.line += usize::from(char == '\n');
        char
    }

    fn take_while(&mut self, keep: impl Fn(&Self) -> bool) -> String {
        let mut text = String::new();
        while self.at < self.chars.len() && keep(self) {
            text.push(self.next());
        }
        text
    }

    fn token(&mut self) -> Option<(Kind, String)> {
        match (self.peek(0), self.peek(1)) {
            ('/', '/') => {
                let line = self.take_while(|reader| reader.peek(0) != '\n');
                (line.starts_with("///") && !line.starts_with("////")).then_some((Kind::Doc, line))
            }
            ('/', '*') => {
                self.comment();
                None
            }
            ('"', _) => Some((Kind::Text, self.quoted())),
            ('\'', _) => {
                self.char_or_lifetime();
                None
            }
            (':', ':') => {
                self.at += 2;
                Some((Kind::Sign, "::".into()))
            }
            (char, _) if is_word(char) => {
                let word = self.take_while(|reader| is_word(reader.peek(0)));
                let hashes = (0..).take_while(|ahead| self.peek(*ahead) == '#').count();
                match word.as_str() {
                    "r" | "br" | "cr" if self.peek(hashes) == '"' => {
                        Some((Kind::Text, self.raw(hashes)))
                    }
                    _ => Some((Kind::Word, word)),
                }
            }
            (char, _) => {
                self.next();
                (!char.is_whitespace()).then(|| (Kind::Sign, char.into()))
            }
        }
    }

    fn comment(&mut self) {
        let mut depth = 0;
        while self.at < self.chars.len() {
            match (self.peek(0), self.peek(1)) {
                ('/', '*') => depth += 1,
                ('*', '/') => depth -= 1,
                _ => {
                    self.next();
                    continue;
                }
            }
            self.at += 2;
            if depth == 0 {
                return;
            }
        }
    }

    fn quoted(&mut self) -> String {
        self.next();
        let mut text = String::new();
        while self.at < self.chars.len() {
            match self.next() {
                '"' => break,
                '\\' => match self.next() {
                    // A line that goes on begins with its first word.
                    '\n' => drop(self.take_while(|reader| reader.peek(0).is_whitespace())),
                    'n' => text.push('\n'),
                    other => text.push(other),
                },
                other => text.push(other),
            }
        }
        text
    }

    fn raw(&mut self, hashes: usize) -> String {
        self.at += hashes + 1;
        let ends = |reader: &Self| {
            reader.peek(0) == '"' && (1..=hashes).all(|ahead| reader.peek(ahead) == '#')
        };
        let text = self.take_while(|reader| !ends(reader));
        self.at += hashes + 1;
        text
    }

    fn char_or_lifetime(&mut self) {
        self.next();
        match (self.peek(0), self.peek(1)) {
            ('\\', _) => {
                self.at += 2;
                self.take_while(|reader| reader.peek(0) != '\'');
                self.next();
            }
            (_, '\'') => {
                self.next();
                self.next();
            }
            _ => {
                self.take_while(|reader| is_word(reader.peek(0)));
            }
        }
    }
}

fn is_word(char: char) -> bool {
    char == '_' || char.is_alphanumeric()
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
        [":", "loop", "{", "b", "d \" e", "f \" // g", "h", "}", "/// k", "p", "!", "{", "}"]
    );
    let lines: Vec<usize> = source.tokens.iter().map(|token| token.first_line).collect();
    assert_eq!((lines[0], lines[8], lines[9]), (2, 3, 4));
}
