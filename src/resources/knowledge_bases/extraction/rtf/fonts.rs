//! What the bytes of text are: code pages by font.

use std::collections::HashMap;

use super::code_pages::{CodePage, DOS_CHARSET};

/// The code pages of a file.
pub struct Fonts {
    /// That of fonts that do not say theirs.
    default: CodePage,
    /// Those of fonts that do, and none for the one of DOS.
    declared: HashMap<i32, Option<CodePage>>,
    /// The number of the code page of Windows, and that of the language, where the file was written.
    windows: Option<i32>,
    language: Option<i32>,
    /// The font that is declared.
    current: i32,
    /// The font of text that names none.
    usual: i32,
}

impl Default for Fonts {
    fn default() -> Self {
        Fonts {
            default: CodePage::DEFAULT,
            declared: HashMap::new(),
            windows: None,
            language: None,
            current: 0,
            usual: 0,
        }
    }
}

impl Fonts {
    /// Returns the code page of a font, or of text that names none.
    pub fn code_page(&self, font: Option<i32>) -> CodePage {
        match self.declared.get(&font.unwrap_or(self.usual)) {
            Some(Some(own)) => *own,
            // The file may be in one of DOS itself.
            Some(None) if !matches!(self.default, CodePage::Dos(_)) => {
                CodePage::of_dos(self.windows, self.language)
            }
            _ => self.default,
        }
    }

    /// Reads a word of the table of fonts.
    pub fn declare(&mut self, word: &str, number: i32) {
        let code_page = match word {
            "f" => {
                self.current = number;
                return;
            }
            "fcharset" if number == DOS_CHARSET => Some(None),
            "fcharset" => CodePage::of_charset(number).map(Some),
            "cpg" => Some(Some(CodePage::numbered(number))),
            _ => None,
        };
        if let Some(code_page) = code_page {
            self.declared.insert(self.current, code_page);
        }
    }

    /// Reads a word of the beginning of the file. Returns the code page of the text that follows, if it says
    /// that; none also for a word that is of something else.
    pub fn set(&mut self, word: &str, number: Option<i32>) -> Option<CodePage> {
        self.default = match word {
            "ansicpg" => {
                self.windows = number;
                CodePage::numbered(number.unwrap_or(1252))
            }
            "mac" => CodePage::MAC,
            "pc" => CodePage::PC,
            "pca" => CodePage::PC_MULTILINGUAL,
            "deff" => {
                self.usual = number.unwrap_or(0);
                return None;
            }
            "deflang" => {
                self.language = number;
                return None;
            }
            _ => return None,
        };
        Some(self.default)
    }
}
