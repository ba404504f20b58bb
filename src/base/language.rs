//! The languages in which texts are searched, by their codes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Declares the languages, each with its code and its name in English.
macro_rules! languages {
    ($($language:ident $code:tt $name:tt,)+) => {
        /// The language of a knowledge base, by its code in BCP 47.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        pub enum Language {
            $(#[doc = $name] #[serde(rename = $code)] $language,)+
        }

        impl Language {
            const ALL: &[Language] = &[$(Language::$language,)+];

            /// Its code.
            pub fn code(self) -> &'static str {
                match self {
                    $(Language::$language => $code,)+
                }
            }

            /// Its name in English.
            pub fn name(self) -> &'static str {
                match self {
                    $(Language::$language => $name,)+
                }
            }
        }
    };
}

languages! {
    Cs "cs" "Czech",
    Da "da" "Danish",
    De "de" "German",
    En "en" "English",
    Es "es" "Spanish",
    Fi "fi" "Finnish",
    Fr "fr" "French",
    Hu "hu" "Hungarian",
    It "it" "Italian",
    Nl "nl" "Dutch",
    No "no" "Norwegian",
    Pl "pl" "Polish",
    Pt "pt" "Portuguese",
    Ro "ro" "Romanian",
    Ru "ru" "Russian",
    Sv "sv" "Swedish",
    Tr "tr" "Turkish",
    Uk "uk" "Ukrainian",
}

impl Language {
    /// All of them, in the order of their codes.
    pub fn all() -> impl Iterator<Item = Self> + Clone {
        Self::ALL.iter().copied()
    }

    /// Returns the language with this code.
    pub fn named(code: &str) -> Option<Self> {
        Self::all().find(|language| language.code() == code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_is_named_by_its_code() {
        for language in Language::all() {
            assert_eq!(Language::named(language.code()), Some(language));
            assert_eq!(serde_json::to_value(language).unwrap(), language.code());
            assert!(language.name().starts_with(|c: char| c.is_ascii_uppercase()));
        }
        assert_eq!(Language::named("xx"), None);
        assert_eq!(Language::all().count(), 18);
    }
}
